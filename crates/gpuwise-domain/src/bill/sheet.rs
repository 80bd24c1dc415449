//! The sheet of a bill: rows, cells and formulas over them.

use alloc::{boxed::Box, string::String, vec::Vec};
use gpuwise_units::Fraction;

/// Rows of inputs and lines, as a spreadsheet has them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sheet {
    /// In order; formulas refer to rows above, or to earlier cells of their own row.
    pub rows: Vec<SheetRow>,
}

/// A row: one figure, or one for each month.
#[derive(Debug, Clone, PartialEq)]
pub struct SheetRow {
    /// Its name for programs.
    pub key: String,
    pub what: String,
    pub unit: String,
    /// To how many decimals its figures are rounded.
    pub decimals: u32,
    pub origin: RowOrigin,
    /// Whether its cells are months.
    pub monthly: bool,
    pub cells: Vec<SheetCell>,
}

/// Where the figures of a row come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowOrigin {
    Input {
        range: Option<(Fraction, Fraction)>,
        date: String,
        source: String,
    },
    Line {
        words: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct SheetCell {
    /// The figure, rounded to the row's decimals.
    pub value: Fraction,
    /// What it is computed by; `None`: given.
    pub formula: Option<Formula>,
}

/// A formula over cells. It is evaluated exactly, and rounded once by its row.
#[derive(Debug, Clone, PartialEq)]
pub enum Formula {
    /// A cell: its row, and its place in it.
    Cell(usize, usize),
    Number(Fraction),
    /// The first cells of a row, so many, added up.
    Total(usize, usize),
    /// The first cells of two rows, so many, multiplied in pairs and added up.
    TotalProduct(usize, usize, usize),
    /// The largest of the cells of a row, from the second to before the third.
    Largest(usize, usize, usize),
    /// Left and right added.
    Sum(Box<Self>, Box<Self>),
    /// Right taken from left.
    Difference(Box<Self>, Box<Self>),
    /// Left and right multiplied.
    Product(Box<Self>, Box<Self>),
    /// Left divided by right.
    Quotient(Box<Self>, Box<Self>),
    Larger(Box<Self>, Box<Self>),
    Smaller(Box<Self>, Box<Self>),
    /// Rounded to nine decimals, then up to a whole number.
    Up(Box<Self>),
    /// Rounded to nine decimals, then down to a whole number.
    Down(Box<Self>),
    /// If the first is at most the second, the third, else the fourth.
    IfAtMost(Box<[Self; 4]>),
}

impl core::ops::Add for Formula {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::Sum(Box::new(self), Box::new(other))
    }
}

impl core::ops::Sub for Formula {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::Difference(Box::new(self), Box::new(other))
    }
}

impl core::ops::Mul for Formula {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self::Product(Box::new(self), Box::new(other))
    }
}

impl core::ops::Div for Formula {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        Self::Quotient(Box::new(self), Box::new(other))
    }
}

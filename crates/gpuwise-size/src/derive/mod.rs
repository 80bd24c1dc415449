//! Formulas that are written once and read two ways: as the number, and as how it came about.
//!
//! A formula is generic over [`Amount`]. With `f64` it is the computation and nothing else; with
//! [`Term`] the same operations leave a tree of named inputs, from which both the figure that is shown
//! and the formula beside it are made. An explanation can therefore not differ from what was computed.

mod term;

pub use term::Term;

use alloc::{borrow::Cow, string::String};
use core::{
    iter::Sum,
    ops::{Add, Div, Mul, Sub},
};
use gpuwise_domain::derivation::Unit;

/// What an input or a step is: its name, unit and source.
#[derive(Debug, Clone, PartialEq)]
pub struct TermLabel {
    /// What it is called in formulas.
    pub name: Cow<'static, str>,
    pub unit: Unit,
    /// With how many digits it is written.
    pub digits: usize,
    /// Empty where it follows from inputs.
    pub source: String,
    /// How it is written, where that is not the unit's own way.
    pub shown: Option<String>,
}

impl TermLabel {
    /// Something in a unit, written with three digits.
    pub fn new(name: impl Into<Cow<'static, str>>, unit: Unit) -> Self {
        Self {
            name: name.into(),
            unit,
            digits: 3,
            source: String::new(),
            shown: None,
        }
    }

    #[must_use]
    pub fn from(mut self, source: impl Into<String>) -> Self {
        self.source = source.into();
        self
    }

    /// Written with so many digits.
    #[must_use]
    pub fn digits(mut self, digits: usize) -> Self {
        self.digits = digits;
        self
    }

    /// Written in a way of its own.
    #[must_use]
    pub fn shown(mut self, text: impl Into<String>) -> Self {
        self.shown = Some(text.into());
        self
    }
}

/// A number that a formula is written over.
pub trait Amount:
    Clone
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Sum<Self>
{
    /// A number of the formula itself.
    fn number(value: f64) -> Self;
    /// An input; what it is, is asked for only where it is explained.
    fn input(value: f64, said: impl FnOnce() -> TermLabel) -> Self;
    /// Gives what was computed so far a name, so that it becomes a step of its own.
    #[must_use]
    fn called(self, said: impl FnOnce() -> TermLabel) -> Self;
    fn value(&self) -> f64;
    /// The larger of both.
    #[must_use]
    fn or_more(self, other: Self) -> Self;
    /// The smaller of both.
    #[must_use]
    fn or_less(self, other: Self) -> Self;
    #[must_use]
    fn to_power(self, exponent: Self) -> Self;
    /// The length of a diagonal: `(a^2 + b^2)^0.5`.
    #[must_use]
    fn with(self, other: Self) -> Self {
        let squares = self.to_power(Self::number(2.0)) + other.to_power(Self::number(2.0));
        squares.to_power(Self::number(0.5))
    }
    /// The largest whole number that is not larger.
    #[must_use]
    fn rounded_down(self) -> Self;
    /// The smallest whole number that is not smaller.
    #[must_use]
    fn rounded_up(self) -> Self;
    /// `(a^p + b^p)^(1 ÷ p)`: close to the larger, above it where both are alike.
    #[must_use]
    fn smooth_max(self, other: Self, power: Self) -> Self {
        let sum = self.to_power(power.clone()) + other.to_power(power.clone());
        sum.to_power(Self::number(1.0) / power)
    }
}

impl Amount for f64 {
    fn number(value: f64) -> Self {
        value
    }

    fn input(value: f64, _: impl FnOnce() -> TermLabel) -> Self {
        value
    }

    fn called(self, _: impl FnOnce() -> TermLabel) -> Self {
        self
    }

    fn value(&self) -> f64 {
        *self
    }

    fn or_more(self, other: Self) -> Self {
        self.max(other)
    }

    fn or_less(self, other: Self) -> Self {
        self.min(other)
    }

    fn to_power(self, exponent: Self) -> Self {
        libm::pow(self, exponent)
    }

    fn with(self, other: Self) -> Self {
        libm::hypot(self, other)
    }

    fn rounded_down(self) -> Self {
        libm::floor(self)
    }

    fn rounded_up(self) -> Self {
        libm::ceil(self)
    }

    fn smooth_max(self, other: Self, power: Self) -> Self {
        crate::speed::smooth_max(self, other, power)
    }
}

//! The sheet that a bill is computed on: each line is evaluated exactly, and rounded once.

use super::BillError;
use alloc::{boxed::Box, format, string::String, vec::Vec};
use gpuwise_domain::bill::{CostInput, CostUnit, Formula, RowOrigin, Sheet, SheetCell, SheetRow};
use gpuwise_units::{Currency, Fraction};

/// Decimals of money: µ-units.
pub(super) const MONEY: u32 = 6;
/// Decimals of factors that are multiplied many times.
pub(super) const FACTOR: u32 = 12;
/// Decimals of loads and of hosts in the mean.
pub(super) const LOAD: u32 = 9;

/// A row of a [`SheetBuilder`].
pub(super) type Row = usize;

#[derive(Debug)]
pub(super) struct SheetBuilder {
    pub(super) sheet: Sheet,
    pub(super) currency: Currency,
}

/// What a line is, besides its cells.
pub(super) struct Line<'a> {
    pub(super) key: &'a str,
    pub(super) what: &'a str,
    pub(super) unit: &'a str,
    pub(super) decimals: u32,
    pub(super) words: &'a str,
}

impl SheetBuilder {
    pub(super) fn new(currency: Currency) -> Self {
        Self {
            sheet: Sheet::default(),
            currency,
        }
    }

    /// `USD per kWh` of an assumption's unit.
    pub(super) fn unit_of(&self, unit: CostUnit) -> String {
        match unit {
            CostUnit::Money(per) => format!("{} per {per}", self.currency),
            CostUnit::Share => "share".into(),
            CostUnit::ShareOf(time) => format!("share a {time}"),
            CostUnit::Plain(unit) => unit.into(),
        }
    }

    pub(super) fn assumption(&mut self, input: &CostInput) -> Row {
        let row = SheetRow {
            key: input.key.name().into(),
            what: input.key.what().into(),
            unit: self.unit_of(input.key.unit()),
            decimals: FACTOR,
            origin: RowOrigin::Input {
                range: (input.low != input.high).then_some((input.low, input.high)),
                date: input.date.clone(),
                source: input.source.clone(),
            },
            monthly: false,
            cells: [given(input.value)].into(),
        };
        self.push(row)
    }

    /// Figures that are given, one or one for each month.
    pub(super) fn given(&mut self, line: &Line<'_>, values: &[Fraction], monthly: bool) -> Row {
        let row = SheetRow {
            origin: RowOrigin::Input {
                range: None,
                date: String::new(),
                source: line.words.into(),
            },
            cells: values.iter().map(|value| given(*value)).collect(),
            ..row_of(line, monthly)
        };
        self.push(row)
    }

    pub(super) fn line(&mut self, line: &Line<'_>, formula: Formula) -> Result<Row, BillError> {
        let row = self.push(row_of(line, false));
        self.cell(row, line, formula)?;
        Ok(row)
    }

    /// A figure for each of the first months; formulas may refer to earlier cells of the row, which is
    /// the second argument.
    pub(super) fn series(
        &mut self,
        line: &Line<'_>,
        months: usize,
        formula: impl Fn(usize, Row) -> Formula,
    ) -> Result<Row, BillError> {
        let row = self.push(row_of(line, true));
        for month in 0..months {
            self.cell(row, line, formula(month, row))?;
        }
        Ok(row)
    }

    fn push(&mut self, row: SheetRow) -> Row {
        self.sheet.rows.push(row);
        self.sheet.rows.len() - 1
    }

    fn cell(&mut self, row: Row, line: &Line<'_>, formula: Formula) -> Result<(), BillError> {
        let value = self
            .evaluate(&formula)
            .and_then(|value| value.rounded(line.decimals))
            .ok_or_else(|| BillError::TooLarge {
                line: line.what.into(),
            })?;
        if let Some(row) = self.sheet.rows.get_mut(row) {
            row.cells.push(SheetCell {
                value,
                formula: Some(formula),
            });
        }
        Ok(())
    }

    pub(super) fn value(&self, row: Row) -> Fraction {
        self.at(row, 0).unwrap_or(Fraction::ZERO)
    }

    pub(super) fn at(&self, row: Row, month: usize) -> Option<Fraction> {
        Some(self.sheet.rows.get(row)?.cells.get(month)?.value)
    }

    fn cells(&self, row: Row, from: usize, to: usize) -> Option<impl Iterator<Item = Fraction>> {
        let cells = self.sheet.rows.get(row)?.cells.get(from..to)?;
        Some(cells.iter().map(|cell| cell.value))
    }

    /// `None` beyond 128 bits, where something is divided by 0, or a cell is not there.
    fn evaluate(&self, formula: &Formula) -> Option<Fraction> {
        let both =
            |left: &Formula, right: &Formula| Some((self.evaluate(left)?, self.evaluate(right)?));
        match formula {
            Formula::Cell(row, place) => self.at(*row, *place),
            Formula::Number(number) => Some(*number),
            Formula::Total(row, count) => self
                .cells(*row, 0, *count)?
                .try_fold(Fraction::ZERO, Fraction::plus),
            Formula::TotalProduct(left, right, count) => {
                let right = self.cells(*right, 0, *count)?;
                let mut pairs = self.cells(*left, 0, *count)?.zip(right);
                pairs.try_fold(Fraction::ZERO, |sum, (left, right)| {
                    sum.plus(left.times(right)?)
                })
            }
            Formula::Largest(row, from, to) => self.cells(*row, *from, *to)?.max(),
            Formula::Sum(left, right) => both(left, right).and_then(|(l, r)| l.plus(r)),
            Formula::Difference(left, right) => both(left, right).and_then(|(l, r)| l.minus(r)),
            Formula::Product(left, right) => both(left, right).and_then(|(l, r)| l.times(r)),
            Formula::Quotient(left, right) => both(left, right).and_then(|(l, r)| l.over(r)),
            Formula::Larger(left, right) => both(left, right).map(|(l, r)| l.max(r)),
            Formula::Smaller(left, right) => both(left, right).map(|(l, r)| l.min(r)),
            Formula::Up(inner) => Some(self.evaluate(inner)?.rounded(LOAD)?.ceiling()),
            Formula::Down(inner) => Some(self.evaluate(inner)?.rounded(LOAD)?.floor()),
            Formula::IfAtMost(parts) => {
                let [left, right, then, otherwise] = parts.as_ref();
                let (left, right) = both(left, right)?;
                self.evaluate(if left <= right { then } else { otherwise })
            }
        }
    }
}

fn given(value: Fraction) -> SheetCell {
    SheetCell {
        value,
        formula: None,
    }
}

fn row_of(line: &Line<'_>, monthly: bool) -> SheetRow {
    SheetRow {
        key: line.key.into(),
        what: line.what.into(),
        unit: line.unit.into(),
        decimals: line.decimals,
        origin: RowOrigin::Line {
            words: line.words.into(),
        },
        monthly,
        cells: Vec::new(),
    }
}

/// The only figure of a row.
pub(super) fn one(row: Row) -> Formula {
    Formula::Cell(row, 0)
}

pub(super) fn whole(number: i64) -> Formula {
    Formula::Number(Fraction::whole(number))
}

pub(super) fn count(months: usize) -> Formula {
    whole(i64::try_from(months).unwrap_or(i64::MAX))
}

pub(super) fn larger(left: Formula, right: Formula) -> Formula {
    Formula::Larger(Box::new(left), Box::new(right))
}

pub(super) fn smaller(left: Formula, right: Formula) -> Formula {
    Formula::Smaller(Box::new(left), Box::new(right))
}

/// Up to a whole number.
pub(super) fn up(inner: Formula) -> Formula {
    Formula::Up(Box::new(inner))
}

/// Down to a whole number.
pub(super) fn down(inner: Formula) -> Formula {
    Formula::Down(Box::new(inner))
}

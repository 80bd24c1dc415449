//! The same figures from several sources side by side.

use crate::estimate::Estimate;
use alloc::{string::String, vec::Vec};

/// In what the figures of a row are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonUnit {
    Seconds,
    /// Something a second, as the name of the row says.
    PerSecond,
    /// A share of 1.
    Share,
    Number,
}

/// Sources side by side: predicted, simulated, measured; or two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub columns: Vec<String>,
    /// The one that the others are divided by, by its place; `None`: no ratios.
    pub reference: Option<usize>,
    pub rows: Vec<ComparisonRow>,
    /// What differs between the sources so that figures are not quite comparable, in sentences.
    pub notes: Vec<String>,
}

/// One figure from each source.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparisonRow {
    /// Its name, with its statistic: `TTFT p95`.
    pub name: String,
    pub unit: ComparisonUnit,
    /// A value for each column; a measured one is exact. `None` is not known.
    pub values: Vec<Option<Estimate>>,
}

impl ComparisonRow {
    /// A column's value over the reference's.
    pub fn ratio(&self, column: usize, reference: usize) -> Option<f64> {
        let value = self.values.get(column).copied().flatten()?.value;
        let against = self.values.get(reference).copied().flatten()?.value;
        (against != 0.0).then(|| value / against)
    }
}

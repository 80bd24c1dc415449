//! Thresholds of rules: data, with a source each.

use alloc::{collections::BTreeMap, string::String};

#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// The figure is held against this.
    pub value: f64,
    pub unit: String,
    /// What it decides, in words.
    pub meaning: String,
    pub source: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Thresholds {
    pub rows: BTreeMap<String, Threshold>,
}

impl Thresholds {
    /// The value of a threshold; rules whose threshold is not there are silent.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.rows.get(name).map(|row| row.value)
    }

    /// These rows over the ones that are here: same names are replaced, others added.
    #[must_use]
    pub fn with(mut self, over: Self) -> Self {
        self.rows.extend(over.rows);
        self
    }
}

//! Learning from rows of numbers: regression trees on binned features, grown into forests.
//!
//! Everything is a function of its rows, settings and seed, and the same to the byte on every machine.

pub mod forest;
mod table;
pub mod tree;

pub use table::{Binned, Table};

use gpuwise_units::math;

/// The value below which this share of the values lies, linear between neighbours; NaN of none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    math::quantile(&sorted, share).unwrap_or(f64::NAN)
}

/// The median; NaN of no values.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The mean; NaN of no values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

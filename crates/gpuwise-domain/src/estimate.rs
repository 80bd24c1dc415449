//! Numbers with a range, a basis and a derivation.

pub use crate::derivation::{Derivation, Figure, Unit};

/// A figure with its 80 % range: it should lie between `low` and `high` in 8 of 10 cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Estimate {
    /// A figure that arithmetic gives exactly.
    pub const fn exact(value: f64) -> Self {
        Self {
            value,
            low: value,
            high: value,
        }
    }

    /// A figure with a range given as factors below and above it.
    pub fn with_factors(value: f64, below: f64, above: f64) -> Self {
        Self {
            value,
            low: value * below,
            high: value * above,
        }
    }

    /// With a range whose ends lie within these limits, as far as the figure does.
    #[must_use]
    pub fn within(self, least: f64, most: f64) -> Self {
        Self {
            value: self.value,
            low: self.low.max(least).min(self.value),
            high: self.high.min(most).max(self.value),
        }
    }

    /// Scaled, with its range; a negative factor is not a scale.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }

    /// `numerator / self`: the range turns around.
    #[must_use]
    pub fn inverse(self, numerator: f64) -> Self {
        Self {
            value: numerator / self.value,
            low: numerator / self.high,
            high: numerator / self.low,
        }
    }
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Basis:
        name
    {
        /// Arithmetic on what the model and hardware state.
        Exact = "exact",
        /// Rows measured on this very deployment, given by the user.
        MeasuredNearby = "measured nearby",
        /// A formula whose constants were fitted on this GPU, engine, precision and kind of model together.
        Calibrated = "calibrated",
        /// The same, where another GPU of the generation, release of the engine, precision or kind of
        /// model was fitted and this one was not.
        Transferred = "transferred",
        /// A formula used where nothing like it was measured.
        Extrapolated = "extrapolated",
    }
}

//! What was learned from measured rows: constants, the spread of their errors, and a user's own
//! corrections.

mod feedback;
mod ranges;

pub use feedback::{Correction, Feedback, Observation};
pub use ranges::{MetricClass, Range, RangeRow, Ranges};

use crate::constants::Constants;

/// Everything learned that a prediction rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Knowledge {
    /// Fitted constants.
    pub constants: Constants,
    /// How far measured values lay from predictions that had not seen them.
    pub ranges: Ranges,
    /// Corrections by a user's own rows.
    pub feedback: Feedback,
}

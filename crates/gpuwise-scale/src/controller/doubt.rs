//! Samples that are beyond all that is known.

use serde::{Deserialize, Serialize};

/// So many times of what is known, or of what serves, nothing comes within a period: it is a counter that was reset, or
/// a unit that was changed.
pub const IMPLAUSIBLE: f64 = 100.0;

/// Holds one implausible sample back; where the next is so too, it is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Doubt {
    held: bool,
}

impl Doubt {
    pub const fn new() -> Self {
        Self { held: false }
    }

    /// Whether a sample is held back, where so much is known or can be served.
    pub fn holds(&mut self, sample: f64, known: f64) -> bool {
        self.held = !self.held && sample > IMPLAUSIBLE * known;
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_is_held_back_and_two_are_believed() {
        let mut doubt = Doubt::default();
        let samples = [1e9, 50.0, 1e9, 1e9, 999.0];
        assert_eq!(
            samples.map(|one| doubt.holds(one, 10.0)),
            [true, false, true, false, false]
        );
    }
}

//! Demand that is gone from one reading to the next is an outage, not demand.

use super::LEVELS;
use serde::{Deserialize, Serialize};

/// Readings in a row that must have been above nothing before: of what is often quiet, quiet is demand.
const STEADY: u32 = 12;
/// What is left of the usual level at most.
const GONE: f64 = 0.02;
/// What was there just before at least: what fades is demand.
const SUDDEN: f64 = 0.3;
/// What has come back when it is over.
const BACK: f64 = 0.1;
/// Readings after which it is believed: nobody comes any more.
const BELIEVED: u32 = 36;
/// That it is over within a reading, as far as is known beforehand.
const ENDS: f64 = 1.0 / 6.0;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Outage {
    steady: u32,
    last: f64,
    /// The level before it, and for how many readings it has lasted.
    since: Option<(f64, u32)>,
}

/// What a reading is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Seen {
    Demand(f64),
    Nothing,
}

impl Outage {
    pub(super) const fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// What is seen while it lasts: nothing, or next to it.
    pub(super) const fn still_gone(&self) -> Option<f64> {
        if self.is_on() { Some(self.last) } else { None }
    }

    /// Quantiles of demand that is what it was once it is back, and is gone until then.
    pub(super) fn until_back(
        &self,
        horizon: u32,
        usual: [f64; LEVELS.len()],
    ) -> [f64; LEVELS.len()] {
        let Some(gone) = self.still_gone() else {
            return usual;
        };
        let stays = (1.0 - ENDS).powi(horizon.cast_signed());
        let mut all = usual;
        for (to, level) in all.iter_mut().zip(LEVELS) {
            if level <= stays {
                *to = gone;
            }
        }
        all
    }

    pub(super) fn see(&mut self, reading: Option<f64>, level: f64) -> Seen {
        let Some(value) = reading else {
            return Seen::Nothing;
        };
        if let Some((before, lasted)) = self.since {
            if value < before * BACK && lasted < BELIEVED {
                self.since = Some((before, lasted + 1));
                self.last = value;
                return Seen::Nothing;
            }
            self.since = None;
            self.steady = 0;
        } else if self.steady >= STEADY && value <= level * GONE && self.last >= level * SUDDEN {
            self.since = Some((level, 1));
            self.last = value;
            return Seen::Nothing;
        }
        self.steady = if value > 0.0 { self.steady + 1 } else { 0 };
        self.last = value;
        Seen::Demand(value)
    }
}

//! Service levels: how fast an error budget burns, and when somebody is called. What counts as good is the broker's to say.

mod alert;
mod tally;

pub use alert::{Alert, Rule, Severity};
pub use tally::{CountedEvents, Tally};

use crate::period::DAY;
use gpuwise_units::{Fraction, Nanoseconds};

/// A share of good events that is promised over a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Objective {
    /// Millionths that are good at least, below 1,000,000: 999,000 is 99.9 %.
    pub good_ppm: u32,
    /// The time over which it is promised.
    pub over: Nanoseconds,
}

impl Objective {
    /// Over 30 days; `None` where nothing may fail, which no service keeps and whose budget is 0.
    pub const fn new(good_ppm: u32) -> Option<Self> {
        if good_ppm >= 1_000_000 {
            return None;
        }
        Some(Self {
            good_ppm,
            over: Nanoseconds(30 * DAY),
        })
    }

    /// Millionths that may fail.
    const fn budget_ppm(self) -> u32 {
        1_000_000 - self.good_ppm
    }

    /// How many times faster than allowed errors come: their share over what may fail.
    pub(crate) fn burn(self, bad: u64, all: u64) -> Fraction {
        if all == 0 {
            return Fraction::ZERO;
        }
        let rate = Fraction::new(
            i128::from(bad) * 1_000_000,
            i128::from(all) * i128::from(self.budget_ppm()),
        );
        rate.unwrap_or(Fraction::ZERO)
    }
}

/// How an error budget stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorBudget {
    pub events: u64,
    pub bad: u64,
    /// The part of the budget that is left: 1 is all, below 0 is overspent.
    pub left: Fraction,
}

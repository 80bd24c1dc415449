//! Service levels: what counts as good, how fast the error budget burns, when somebody is called.

mod alert;
mod tally;

pub use alert::{Alert, Rule, Severity};
pub use tally::Tally;

use crate::period::DAY;
use gpuwise_units::{Fraction, Nanoseconds};

/// What is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indicator {
    /// A request is good when its first token comes within one time and further ones, on average, within
    /// another.
    Goodput {
        ttft: Nanoseconds,
        tpot: Nanoseconds,
    },
    /// A lease is good when it is active within this time of being asked for.
    TimeToLease { within: Nanoseconds },
    /// A lease is good when it lasts as long as it was promised.
    LeaseSurvival,
}

/// Something that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// A request that was answered; a time is `None` where there was none: one token has no time between.
    Answered {
        ttft: Nanoseconds,
        tpot: Option<Nanoseconds>,
    },
    /// A request that failed by the service's fault.
    Failed,
    /// A lease that became active after so long.
    Started { waited: Nanoseconds },
    /// A lease that is still waited for.
    Waiting { waited: Nanoseconds },
    /// A lease that lasted as promised, or was given back.
    Kept,
    /// A lease that was taken away before its time, other than its class allows.
    Broken,
}

impl Indicator {
    /// Whether an observation is good; `None`: it says nothing about this indicator, or not yet.
    pub fn judge(self, seen: Observation) -> Option<bool> {
        match (self, seen) {
            (
                Self::Goodput { ttft, tpot },
                Observation::Answered {
                    ttft: first,
                    tpot: each,
                },
            ) => Some(first <= ttft && each.is_none_or(|each| each <= tpot)),
            (Self::TimeToLease { within }, Observation::Started { waited }) => {
                Some(waited <= within)
            }
            (Self::TimeToLease { within }, Observation::Waiting { waited }) => {
                (waited > within).then_some(false)
            }
            (Self::LeaseSurvival, Observation::Kept) => Some(true),
            (Self::Goodput { .. }, Observation::Failed)
            | (Self::LeaseSurvival, Observation::Broken) => Some(false),
            _ => None,
        }
    }
}

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

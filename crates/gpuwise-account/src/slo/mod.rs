//! Service levels: what counts as good, how fast the error budget burns, when somebody is called.

mod alert;
mod counter;
mod tally;

pub use alert::{Alert, Rule, Severity};
pub use counter::Counter;
pub use tally::Tally;

use crate::period::{DAY, Interval};
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

/// An objective with its counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceLevel {
    pub objective: Objective,
    /// Events that were good.
    pub good: Counter,
    /// All events.
    pub all: Counter,
}

/// How an error budget stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorBudget {
    pub events: u64,
    pub bad: u64,
    /// The part of the budget that is left: 1 is all, below 0 is overspent.
    pub left: Fraction,
}

impl ServiceLevel {
    pub fn new(objective: Objective) -> Self {
        let over = objective.over;
        Self {
            objective,
            good: Counter::new(over),
            all: Counter::new(over),
        }
    }

    /// Takes both counters as they stand; a time that is not after the last one is not taken.
    pub fn sample(&mut self, at: Nanoseconds, good: u64, all: u64) -> bool {
        self.good.sample(at, good) && self.all.sample(at, all)
    }

    /// Events of a window up to a moment: bad ones, all. Without traffic there is no error.
    pub fn events(&self, now: Nanoseconds, window: Nanoseconds) -> (u64, u64) {
        let start = Nanoseconds(now.0.saturating_sub(window.0));
        let window = Interval::new(start, now);
        let all = self.all.increase(window);
        (all.saturating_sub(self.good.increase(window)), all)
    }

    /// How many times faster than allowed errors come: the error rate over what may fail.
    pub fn burn_rate(&self, now: Nanoseconds, window: Nanoseconds) -> Fraction {
        let (bad, all) = self.events(now, window);
        self.objective.burn(bad, all)
    }

    /// What is left of the error budget of the objective's time up to a moment.
    pub fn error_budget(&self, now: Nanoseconds) -> ErrorBudget {
        let (bad, events) = self.events(now, self.objective.over);
        let spent = self.burn_rate(now, self.objective.over);
        ErrorBudget {
            events,
            bad,
            left: Fraction::ONE.minus(spent).unwrap_or(Fraction::ZERO),
        }
    }

    /// Rules that are broken now.
    pub fn alerts(&self, now: Nanoseconds) -> Vec<Alert> {
        let burns = Rule::ALL.into_iter().map(|rule| Alert {
            rule,
            long: self.burn_rate(now, rule.long()),
            short: self.burn_rate(now, rule.short()),
        });
        burns.filter(Alert::is_broken).collect()
    }
}

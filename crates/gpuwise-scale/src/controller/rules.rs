//! What a service is scaled by: a document.

use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};

/// What the controller goes by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Between two decisions.
    pub period: Nanoseconds,
    /// Requests a second that a replica serves within the SLO.
    pub rate: f64,
    /// Share of requests that are to be in time.
    pub objective: f64,
    /// How long a request may wait before it is late.
    pub wait: Nanoseconds,
    /// From nothing until a replica serves, and from warm.
    pub start: Nanoseconds,
    pub wake: Nanoseconds,
    /// What a warm replica costs beside one that serves, what it earns while it is lent taken off; `None`: replicas
    /// cannot be kept warm.
    pub warm_cost: Option<f64>,
    /// Replicas that serve at least, and at most.
    pub min: u32,
    pub max: u32,
    /// Without requests for so long it has none, where `min` is 0.
    pub idle: Nanoseconds,
    /// Tokens of a request of those that `rate` counts: demand in tokens is as many such requests as its prompts, or
    /// its answers, are worth, whichever is more. `None`: requests are counted, whatever their length.
    #[serde(default)]
    pub tokens: Option<RequestTokens>,
}

/// Tokens of a request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestTokens {
    pub prompt: f64,
    pub answer: f64,
}

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// The shortest and the longest time between two decisions.
const PERIODS: [Nanoseconds; 2] = [Nanoseconds(SECOND), Nanoseconds(DAY)];
/// The longest that a start, a wake or a wait takes.
pub const LONGEST_START: Nanoseconds = Nanoseconds(DAY);
/// The longest that replicas stay without requests.
pub const LONGEST_IDLE: Nanoseconds = Nanoseconds(366 * DAY);
/// Replicas of a service at most.
pub const MOST_REPLICAS: u32 = 10_000;
/// No replica serves more requests a second.
pub const MOST_RATE: f64 = 1e9;

/// A rule beyond its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{said}: expected {expected}")]
pub struct RuleProblem {
    /// The field of the rules.
    pub field: &'static str,
    said: String,
    expected: String,
}

impl Rules {
    /// The first rule that is beyond its bounds, and what is expected; `None`: all of them are within.
    pub fn problem(&self) -> Option<RuleProblem> {
        let problem = |field, said: String, expected: String| RuleProblem {
            field,
            said,
            expected,
        };
        let [shortest, longest] = PERIODS;
        let none = Nanoseconds(0);
        let times = [
            ("period", self.period, shortest, longest),
            ("wait", self.wait, none, LONGEST_START),
            ("start", self.start, none, LONGEST_START),
            ("wake", self.wake, none, LONGEST_START),
            ("idle", self.idle, none, LONGEST_IDLE),
        ];
        for (field, said, least, most) in times {
            if said < least || said > most {
                let least = if least == none {
                    "0 s".into()
                } else {
                    least.to_string()
                };
                return Some(problem(
                    field,
                    said.to_string(),
                    format!("{least} to {most}"),
                ));
            }
        }
        if !(self.rate > 0.0 && self.rate <= MOST_RATE) {
            let expected = format!("a number above 0, {MOST_RATE} at most");
            return Some(problem("rate", format!("{:?}", self.rate), expected));
        }
        let replicas = [("min", self.min, 0), ("max", self.max, self.min.max(1))];
        for (field, said, least) in replicas {
            if said < least || said > MOST_REPLICAS {
                let expected = format!("{least} to {MOST_REPLICAS} replicas");
                return Some(problem(field, said.to_string(), expected));
            }
        }
        None
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            period: Nanoseconds(15 * SECOND),
            rate: 1.0,
            objective: 0.99,
            wait: Nanoseconds(2 * SECOND),
            start: Nanoseconds(180 * SECOND),
            wake: Nanoseconds(5 * SECOND),
            warm_cost: None,
            min: 1,
            max: u32::MAX,
            idle: Nanoseconds(600 * SECOND),
            tokens: None,
        }
    }
}

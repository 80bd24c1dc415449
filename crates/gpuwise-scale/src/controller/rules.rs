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

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
        }
    }
}

/// Why nobody can be scaled by rules.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RulesError {
    #[error("{what} is {value}; it must be {must}")]
    Value {
        what: &'static str,
        value: f64,
        must: &'static str,
    },
    #[error("min is {min} and max is {max}: at least as many must be allowed as are demanded")]
    Bounds { min: u32, max: u32 },
}

impl Rules {
    /// # Errors
    /// When a value is none that anybody could go by.
    pub fn check(&self) -> Result<(), RulesError> {
        let fault = |what, value, must| Err(RulesError::Value { what, value, must });
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if !positive(self.rate) {
            return fault(
                "rate",
                self.rate,
                "requests a second that a replica serves, above 0",
            );
        }
        if !(self.objective > 0.0 && self.objective < 1.0) {
            return fault(
                "objective",
                self.objective,
                "a share between 0 and 1, both excluded",
            );
        }
        for (what, span) in [
            ("period", self.period),
            ("wait", self.wait),
            ("start", self.start),
        ] {
            if span.0 == 0 {
                return fault(what, 0.0, "a span above 0");
            }
        }
        if let Some(cost) = self.warm_cost
            && !(cost.is_finite() && (0.0..=1.0).contains(&cost))
        {
            return fault(
                "warm_cost",
                cost,
                "a share of a serving replica's cost, from 0 to 1",
            );
        }
        if self.min > self.max || self.max == 0 {
            return Err(RulesError::Bounds {
                min: self.min,
                max: self.max,
            });
        }
        Ok(())
    }
}

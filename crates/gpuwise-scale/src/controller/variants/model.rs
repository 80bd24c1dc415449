//! What a mix is decided by.

use crate::{
    controller::{Decision, Rules},
    variant::Variant,
};
use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};

/// What the controller of a mix goes by: a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixRules {
    /// Of the service; what a replica is, its variants say.
    pub rules: Rules,
    pub variants: Vec<Variant>,
    /// The most that all replicas may cost an hour; `None`: whatever it takes.
    pub per_hour: Option<f64>,
    /// Within this time a change has to pay for what starting and draining cost.
    pub pays_within: Nanoseconds,
}

/// Half an hour: demand seldom stays where it is for longer.
const PAYS_WITHIN: Nanoseconds = Nanoseconds(1_800_000_000_000);

impl MixRules {
    pub fn new(rules: Rules, variants: Vec<Variant>) -> Self {
        Self {
            rules,
            variants,
            per_hour: None,
            pays_within: PAYS_WITHIN,
        }
    }

    /// Requests a second of the smallest variant: amounts are counted in it.
    pub fn unit(&self) -> f64 {
        let rates = self.variants.iter().map(|one| one.rate);
        let unit = rates.fold(f64::INFINITY, f64::min);
        if unit.is_finite() { unit } else { 1.0 }
    }
}

/// What is to be served and covered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Need {
    /// Requests a second of one of those that the decision counts.
    pub unit: f64,
    pub decision: Decision,
}

impl Need {
    /// Requests a second that are to be served, and covered by warm replicas beside these.
    pub fn serve(&self) -> f64 {
        f64::from(self.decision.wanted.replicas) * self.unit
    }

    pub fn warm(&self) -> f64 {
        f64::from(self.decision.wanted.warm) * self.unit
    }
}

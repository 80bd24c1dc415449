//! Our controller for a service of several variants: how many replicas of each serve, and how many are warm.
//!
//! How much is to be served, and how much covered, [`Gpuwise`] says in requests a second. Which replicas do that is
//! the cheapest mix over the time in which a change is to pay for itself: what is there costs its price, what is new
//! its start as well, and what leaves runs on until its longest stream is over. Three things hold it: what serves now
//! serves until others are ready, the loss of a spot pool leaves enough, and there are only so many GPUs.

mod cheapest;
mod choose;
mod counts;
mod model;
mod offers;
mod parts;
mod seen;
mod single;
mod steady;
mod warm;

pub use model::{MixRules, Need};
pub use seen::{Limit, MixDecision, MixSeen, MixedBy, VariantSeen, VariantWanted};
pub use single::Single;

use crate::{
    cold::{ColdStart, Level},
    controller::{Because, Controller as _, Decision, Gpuwise, Observed, Rules},
};
use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};

/// Decides how many replicas of each variant a service has.
///
/// In two steps, since on a full fleet several services are asked before any is answered: what is needed, which
/// changes what the controller knows, and the choice, which does not and may be made again with fewer GPUs.
pub trait MixController {
    fn period(&self) -> Nanoseconds;

    fn need(&mut self, seen: &MixSeen) -> Need;

    /// Replicas of the first variant with which a run of it begins; `None`: as many as the first reading needs.
    fn begins(&self) -> Option<u32> {
        None
    }

    /// The choice where each pool has so many GPUs for this service; one that is not listed has as many as it asks.
    fn choose(&self, need: &Need, seen: &MixSeen, gpus: &[u32]) -> MixDecision;
}

/// Ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mixed {
    rules: MixRules,
    /// What is to be served and covered, in replicas of the smallest variant.
    amount: Gpuwise,
    /// How long a start of each variant takes.
    starts: Vec<ColdStart>,
}

impl Mixed {
    pub fn new(rules: MixRules) -> Self {
        let starts = rules
            .variants
            .iter()
            .map(|one| ColdStart::of_p90(one.start));
        Self {
            starts: starts.collect(),
            amount: Gpuwise::new(rules.amount()),
            rules,
        }
    }

    pub const fn rules(&self) -> &MixRules {
        &self.rules
    }

    /// What a start of a variant takes, nine times of ten.
    fn start(&self, at: usize) -> Nanoseconds {
        self.starts
            .get(at)
            .map_or(Nanoseconds(0), |one| one.at(Level::P90))
    }
}

impl MixController for Mixed {
    fn period(&self) -> Nanoseconds {
        self.rules.rules.period
    }

    fn need(&mut self, seen: &MixSeen) -> Need {
        for (start, one) in self.starts.iter_mut().zip(&seen.variants) {
            if let Some(took) = one.started {
                start.learn(took);
            }
        }
        let asked = self.rules.observed(seen);
        Need {
            unit: self.rules.unit(),
            decision: self.amount.decide(&asked),
        }
    }

    fn choose(&self, need: &Need, seen: &MixSeen, gpus: &[u32]) -> MixDecision {
        choose::choose(self, need, seen, gpus)
    }
}

/// What is there stays: nothing is known, or what was started does not get ready.
const fn holds(because: Because) -> bool {
    matches!(because, Because::NoMetrics | Because::Implausible)
}

impl MixRules {
    /// What [`Gpuwise`] goes by, in replicas of the smallest variant.
    fn amount(&self) -> Rules {
        let starts = self.variants.iter().map(|one| one.start);
        let wakes = self.variants.iter().map(|one| one.wake);
        let warm = self.variants.iter().filter_map(|one| one.warm_cost);
        Rules {
            rate: self.unit(),
            start: starts.max().unwrap_or(self.rules.start),
            wake: wakes.max().unwrap_or(self.rules.wake),
            warm_cost: warm.reduce(f64::min),
            ..self.rules.clone()
        }
    }

    /// What is there of all variants, in replicas of the smallest.
    fn observed(&self, seen: &MixSeen) -> Observed {
        let units = |count: &dyn Fn(&VariantSeen) -> u32| {
            let each = self.variants.iter().zip(&seen.variants);
            let rate: f64 = each
                .map(|(one, seen)| one.rate * f64::from(count(seen)))
                .sum();
            (rate / self.unit() + 1e-9).floor() as u32
        };
        let ready = units(&|one| one.ready);
        let warm = units(&|one| one.warm);
        Observed {
            ready,
            starting: units(&VariantSeen::serving).saturating_sub(ready),
            warm,
            warming: units(&VariantSeen::spares).saturating_sub(warm),
            started: seen.variants.iter().filter_map(|one| one.started).max(),
            ..seen.observed()
        }
    }
}

impl From<Decision> for Need {
    fn from(decision: Decision) -> Self {
        Self {
            unit: 1.0,
            decision,
        }
    }
}

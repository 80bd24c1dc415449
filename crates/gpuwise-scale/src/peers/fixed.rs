//! What needs no observation: a constant number, and one who knows what comes.

use crate::{
    controller::{Controller, Decision, Observed},
    fluid::Demand,
};
use gpuwise_units::Nanoseconds;

const PERIOD: Nanoseconds = Nanoseconds(15_000_000_000);

/// As many at all times.
#[derive(Debug, Clone)]
pub struct Static(pub u32);

impl Controller for Static {
    fn period(&self) -> Nanoseconds {
        Nanoseconds(600_000_000_000)
    }

    fn decide(&mut self, _: &Observed) -> Decision {
        Decision::replicas(self.0)
    }

    fn begins(&self) -> Option<u32> {
        Some(self.0)
    }
}

/// Knows the rate until a replica that is started now could serve; chance it does not know.
#[derive(Debug, Clone)]
pub struct Foreseeing {
    demand: Demand,
    /// Requests a second of a replica that are aimed at.
    target: f64,
    start: Nanoseconds,
}

impl Foreseeing {
    pub const fn new(demand: Demand, target: f64, start: Nanoseconds) -> Self {
        Self {
            demand,
            target,
            start,
        }
    }

    /// Replicas from now until one that is started now could serve.
    fn needs(&self, now: Nanoseconds) -> u32 {
        let now = now.seconds().get();
        let until = now + self.start.seconds().get() + PERIOD.seconds().get();
        let highest = self.demand.highest(now, until);
        (highest / self.target - 1e-9).ceil().max(1.0) as u32
    }
}

impl Controller for Foreseeing {
    fn period(&self) -> Nanoseconds {
        PERIOD
    }

    fn decide(&mut self, seen: &Observed) -> Decision {
        Decision::replicas(self.needs(seen.now))
    }

    fn begins(&self) -> Option<u32> {
        Some(self.needs(Nanoseconds(0)))
    }
}

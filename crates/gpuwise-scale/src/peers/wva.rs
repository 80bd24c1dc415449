//! llm-d's workload variant autoscaler, by saturation, for one variant.
//!
//! A replica is saturated from a KV cache use of 0.80 or a queue of 5. One more when what replicas have left below
//! that is on average less than 0.1 of the cache or 3 of the queue; one fewer when those that remain would still have
//! more; nothing while replicas start (llm-d documentation, "Workload Variant Autoscaling", percentages).

use crate::controller::{Controller, Decision, Observed};
use gpuwise_units::Nanoseconds;

const PERIOD: Nanoseconds = Nanoseconds(60_000_000_000);
const CACHE: f64 = 0.80;
const CACHE_LEFT: f64 = 0.1;
const QUEUE: f64 = 5.0;
const QUEUE_LEFT: f64 = 3.0;

#[derive(Debug, Clone)]
pub struct Wva {
    /// Requests that fill a replica's KV cache.
    fills: f64,
}

impl Wva {
    pub const fn new(fills: f64) -> Self {
        Self { fills }
    }

    /// What is wanted of so many replicas whose mean cache use and queue these are.
    pub fn desired(&self, replicas: u32, cache: f64, queue: f64) -> u32 {
        if CACHE - cache < CACHE_LEFT || QUEUE - queue < QUEUE_LEFT {
            return replicas + 1;
        }
        let count = f64::from(replicas);
        let after = |value: f64| value * count / (count - 1.0);
        let spare = replicas > 1
            && CACHE - after(cache) >= CACHE_LEFT
            && QUEUE - after(queue) >= QUEUE_LEFT;
        if spare { replicas - 1 } else { replicas }
    }
}

impl Controller for Wva {
    fn period(&self) -> Nanoseconds {
        PERIOD
    }

    fn decide(&mut self, seen: &Observed) -> Decision {
        if seen.starting > 0 || seen.arrived.is_none() {
            return Decision::replicas(seen.ready + seen.starting);
        }
        let ready = f64::from(seen.ready.max(1));
        let cache = (seen.running / ready / self.fills).min(1.0);
        Decision::replicas(self.desired(seen.ready.max(1), cache, seen.queued / ready))
    }
}

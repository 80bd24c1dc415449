//! NVIDIA Dynamo's planner, for workers that both prefill and decode.
//!
//! Every 180 s: `⌈predicted requests ÷ interval ÷ throughput of a worker⌉` as the least, predicted as the last
//! interval's; every 5 s by load: one worker more where workers are beyond what they may have, one fewer where the
//! others could take it and still be below a part of that (Dynamo documentation, "Planner design" and "Planner guide";
//! predictor `constant`, sensitivity 80 %).

use crate::controller::{Controller, Decision, Observed};
use gpuwise_units::Nanoseconds;

const SECOND: u64 = 1_000_000_000;
const LOAD: Nanoseconds = Nanoseconds(5 * SECOND);
const THROUGHPUT: u64 = 180 * SECOND;
const SENSITIVITY: f64 = 0.8;

#[derive(Debug, Clone)]
pub struct Dynamo {
    /// Requests a second that a worker is counted on for, and the seconds that one may wait.
    rate: f64,
    wait: f64,
    /// Requests of the interval, and when it began.
    open: (Nanoseconds, f64),
    least: u32,
}

impl Dynamo {
    pub const fn new(rate: f64, wait: f64) -> Self {
        Self {
            rate,
            wait,
            open: (Nanoseconds(0), 0.0),
            least: 1,
        }
    }

    /// Workers for so many requests within an interval.
    pub fn needed(&self, requests: f64, seconds: f64) -> u32 {
        (requests / seconds / self.rate - 1e-9).ceil().max(1.0) as u32
    }
}

impl Controller for Dynamo {
    fn period(&self) -> Nanoseconds {
        LOAD
    }

    fn decide(&mut self, seen: &Observed) -> Decision {
        let current = seen.ready + seen.starting;
        let Some(arrived) = seen.arrived else {
            return Decision::replicas(current);
        };
        self.open.1 += arrived;
        let span = seen.now.0.saturating_sub(self.open.0.0);
        if span >= THROUGHPUT {
            self.least = self.needed(self.open.1, span as f64 / 1e9);
            self.open = (seen.now, 0.0);
        }
        // While workers start or stop nothing is changed by load.
        if seen.starting > 0 {
            return Decision::replicas(current.max(self.least));
        }
        let ready = f64::from(seen.ready.max(1));
        let waits = seen.queued / (ready * self.rate);
        let used = arrived / LOAD.seconds().get() / (ready * self.rate);
        let fewer = (ready - 1.0).max(0.0) / ready;
        let by_load = if waits > self.wait || used > 1.0 {
            current + 1
        } else if waits < self.wait * fewer * SENSITIVITY && used < fewer * SENSITIVITY {
            current.saturating_sub(1)
        } else {
            current
        };
        Decision::replicas(by_load.max(self.least))
    }
}

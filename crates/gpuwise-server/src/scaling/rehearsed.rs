//! Requests that come to a simulated service by a trace: a queue that flows.

use gpuwise_broker::{Look, Scaling};
use gpuwise_scale::fluid::Demand;
use gpuwise_units::Nanoseconds;
use std::collections::BTreeSet;

/// A service between two looks.
#[derive(Debug, Default)]
pub(super) struct Rehearsed {
    at: Option<Nanoseconds>,
    queued: f64,
    requests: f64,
    late: f64,
}

impl Rehearsed {
    /// What came since it was looked at last, and what of it was served by as many as are ready; the trace begins when
    /// the service was asked for.
    pub(super) fn look(
        &mut self,
        (service, scaling): (u32, &Scaling),
        demand: &Demand,
        now: Nanoseconds,
        since: Nanoseconds,
        ready: u32,
    ) -> Look {
        let before = self.at.replace(now);
        let rules = scaling.rules();
        let from = before.unwrap_or(since).0.saturating_sub(since.0) as f64 / 1e9;
        let until = now.0.saturating_sub(since.0) as f64 / 1e9;
        let length = (until - from).max(0.0);
        // Rates go straight from one reading to the next.
        let arrived = length * f64::midpoint(demand.at(from), demand.at(until));
        let serves = f64::from(ready) * rules.rate;
        let all = self.queued + arrived;
        self.queued = (all - serves * length).max(0.0);
        let waits = if serves > 0.0 {
            self.queued / serves
        } else {
            f64::INFINITY
        };
        self.requests += arrived;
        if self.queued > 0.0 && waits > rules.wait.seconds().get() {
            self.late += arrived;
        }
        Look {
            service,
            arrived: before.map(|_| arrived),
            queued: self.queued,
            engine_queued: None,
            running: (all - self.queued).min(f64::from(ready)),
            requests: self.requests,
            late: self.late,
            // What a simulated replica has is answered at once.
            busy: BTreeSet::new(),
        }
    }
}

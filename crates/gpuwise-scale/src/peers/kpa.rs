//! Knative's pod autoscaler.
//!
//! The mean concurrency of a minute over a target; where that of the last six seconds is twice what is ready
//! can have, it panics: nothing goes down, and the six seconds count (Knative Serving, "Autoscaling").

use crate::controller::{Controller, Observed, Wanted};
use gpuwise_units::Nanoseconds;
use std::collections::VecDeque;

#[derive(Debug, Clone)]
pub struct Kpa {
    /// Concurrency of a replica that is aimed at.
    pub target: f64,
    pub tick: Nanoseconds,
    pub stable: Nanoseconds,
    pub panic: Nanoseconds,
    /// From this multiple of what is ready it panics.
    pub panics_at: f64,
    pub most_up: f64,
    pub most_down: f64,
    seen: VecDeque<(Nanoseconds, f64)>,
    since: Option<(Nanoseconds, u32)>,
}

impl Kpa {
    pub fn new(target: f64) -> Self {
        Self {
            target,
            tick: Nanoseconds(2_000_000_000),
            stable: Nanoseconds(60_000_000_000),
            panic: Nanoseconds(6_000_000_000),
            panics_at: 2.0,
            most_up: 1000.0,
            most_down: 2.0,
            seen: VecDeque::new(),
            since: None,
        }
    }

    fn mean(&self, now: Nanoseconds, window: Nanoseconds) -> f64 {
        let within = self.seen.iter().filter(|(at, _)| at.0 + window.0 > now.0);
        let (sum, count) = within.fold((0.0, 0.0), |(sum, count), (_, one)| (sum + one, count + 1.0));
        if count > 0.0 { sum / count } else { 0.0 }
    }

    /// What is wanted of a mean concurrency with so many that are ready.
    pub fn desired(&self, concurrency: f64, ready: u32) -> u32 {
        let ready = f64::from(ready.max(1));
        let raw = (concurrency / self.target - 1e-9).ceil();
        let up = (ready * self.most_up).ceil();
        let down = (ready / self.most_down).floor();
        raw.min(up).max(down).max(0.0) as u32
    }
}

impl Controller for Kpa {
    fn period(&self) -> Nanoseconds {
        self.tick
    }

    fn decide(&mut self, seen: &Observed) -> Wanted {
        let now = seen.now;
        self.seen.push_back((now, seen.queued + seen.running));
        while let Some((at, _)) = self.seen.front()
            && at.0 + self.stable.0 <= now.0
        {
            self.seen.pop_front();
        }
        let stable = self.desired(self.mean(now, self.stable), seen.ready);
        let panic = self.desired(self.mean(now, self.panic), seen.ready);
        if f64::from(panic) >= self.panics_at * f64::from(seen.ready.max(1)) {
            let most = self.since.map_or(0, |(_, most)| most);
            self.since = Some((now, most));
        }
        let wanted = match self.since {
            Some((since, _)) if since.0 + self.stable.0 <= now.0 => {
                self.since = None;
                stable
            }
            Some((since, most)) => {
                let most = most.max(panic).max(seen.ready);
                self.since = Some((since, most));
                most
            }
            None => stable,
        };
        Wanted { replicas: wanted.max(1), warm: 0 }
    }
}

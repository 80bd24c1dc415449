//! Knative's pod autoscaler.
//!
//! The mean concurrency of a minute over a target; where that of the last six seconds asks for twice what is ready,
//! it panics: nothing goes down, and the six seconds count (Knative Serving documentation, "Autoscaling", with its
//! defaults).

use crate::controller::{Controller, Decision, Observed};
use gpuwise_units::Nanoseconds;
use std::collections::VecDeque;

const SECOND: u64 = 1_000_000_000;
const TICK: Nanoseconds = Nanoseconds(2 * SECOND);
const STABLE: u64 = 60 * SECOND;
const PANIC: u64 = 6 * SECOND;
/// From this multiple of what is ready it panics.
const PANICS_AT: f64 = 2.0;
const MOST_UP: f64 = 1000.0;
const MOST_DOWN: f64 = 2.0;

#[derive(Debug, Clone)]
pub struct Kpa {
    /// Concurrency of a replica that is aimed at.
    target: f64,
    most_up: f64,
    seen: VecDeque<(Nanoseconds, f64)>,
    /// Since when it panics, and the most that was wanted since.
    panics: Option<(Nanoseconds, u32)>,
}

impl Kpa {
    pub const fn new(target: f64) -> Self {
        Self {
            target,
            most_up: MOST_UP,
            seen: VecDeque::new(),
            panics: None,
        }
    }

    /// At most so many times as many at once.
    #[must_use]
    pub fn with_most_up(self, most_up: f64) -> Self {
        Self { most_up, ..self }
    }

    fn mean(&self, now: Nanoseconds, window: u64) -> f64 {
        let within = self.seen.iter().filter(|(at, _)| at.0 + window > now.0);
        let (sum, count) = within.fold((0.0, 0.0), |(sum, count), (_, one)| {
            (sum + one, count + 1.0)
        });
        if count > 0.0 { sum / count } else { 0.0 }
    }

    /// What is wanted of a mean concurrency with so many that are ready.
    pub fn desired(&self, concurrency: f64, ready: u32) -> u32 {
        let ready = f64::from(ready.max(1));
        let raw = (concurrency / self.target - 1e-9).ceil();
        let up = (ready * self.most_up).ceil();
        let down = (ready / MOST_DOWN).floor();
        raw.min(up).max(down).max(0.0) as u32
    }
}

impl Controller for Kpa {
    fn period(&self) -> Nanoseconds {
        TICK
    }

    fn decide(&mut self, seen: &Observed) -> Decision {
        let now = seen.now;
        self.seen.push_back((now, seen.queued + seen.running));
        while self
            .seen
            .front()
            .is_some_and(|(at, _)| at.0 + STABLE <= now.0)
        {
            self.seen.pop_front();
        }
        let stable = self.desired(self.mean(now, STABLE), seen.ready);
        let panic = self.desired(self.mean(now, PANIC), seen.ready);
        if f64::from(panic) >= PANICS_AT * f64::from(seen.ready.max(1)) {
            let most = self.panics.map_or(0, |(_, most)| most);
            self.panics = Some((now, most));
        }
        let wanted = match self.panics {
            Some((since, _)) if since.0 + STABLE <= now.0 => {
                self.panics = None;
                stable
            }
            Some((since, most)) => {
                let most = most.max(panic).max(seen.ready);
                self.panics = Some((since, most));
                most
            }
            None => stable,
        };
        Decision::replicas(wanted.max(1))
    }
}

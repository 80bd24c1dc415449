//! Kubernetes' horizontal pod autoscaler, and KEDA before it.
//!
//! `desired = ⌈current × metric ÷ target⌉`, nothing within a tolerance; the highest recommendation of the last
//! five minutes holds when going down; going up at most doubles, or adds four, every fifteen seconds
//! (Kubernetes documentation, "Horizontal Pod Autoscaling"; defaults of the controller manager). KEDA makes such an
//! autoscaler, and moves between none and one by itself: polled every 30 s, none after 300 s without a request
//! (KEDA documentation, "ScaledObject specification").

use crate::controller::{Controller, Decision, Observed, Wanted};
use gpuwise_units::Nanoseconds;
use std::collections::VecDeque;

/// What a replica's load is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Requests a second.
    Rate,
    /// Requests that run or wait.
    Concurrency,
}

const SECOND: u64 = 1_000_000_000;
const TOLERANCE: f64 = 0.1;
const SYNC: Nanoseconds = Nanoseconds(15 * SECOND);
const STABILIZATION: u64 = 300 * SECOND;
/// Over how long a rate is a mean.
const WINDOW: u64 = 60 * SECOND;
/// How often KEDA polls, and how long after the last request it goes to none.
const POLLS: u64 = 30 * SECOND;
const COOLDOWN: u64 = 300 * SECOND;

#[derive(Debug, Clone)]
pub struct Hpa {
    metric: Metric,
    /// What of it a replica is to have.
    target: f64,
    /// Whether it may have none, as KEDA does.
    to_none: bool,
    recommended: VecDeque<(Nanoseconds, u32)>,
    counts: VecDeque<(Nanoseconds, f64)>,
    active: Nanoseconds,
    polled: Nanoseconds,
}

impl Hpa {
    pub const fn new(metric: Metric, target: f64) -> Self {
        Self {
            metric,
            target,
            to_none: false,
            recommended: VecDeque::new(),
            counts: VecDeque::new(),
            active: Nanoseconds(0),
            polled: Nanoseconds(0),
        }
    }

    /// KEDA: the same, to none and back.
    pub fn keda(metric: Metric, target: f64) -> Self {
        Self {
            to_none: true,
            ..Self::new(metric, target)
        }
    }

    /// What is wanted of so many replicas with so much in all.
    pub fn desired(&self, current: u32, total: f64) -> u32 {
        let current = current.max(1);
        let ratio = total / f64::from(current) / self.target;
        if (ratio - 1.0).abs() <= TOLERANCE {
            return current;
        }
        ((total / self.target) - 1e-9).ceil().max(1.0) as u32
    }

    fn total(&mut self, seen: &Observed, arrived: f64) -> f64 {
        self.counts.push_back((seen.now, arrived));
        while self
            .counts
            .front()
            .is_some_and(|(at, _)| at.0 + WINDOW <= seen.now.0)
        {
            self.counts.pop_front();
        }
        match self.metric {
            Metric::Rate => {
                let counted: f64 = self.counts.iter().map(|(_, count)| count).sum();
                counted / (self.counts.len() as f64 * SYNC.seconds().get())
            }
            Metric::Concurrency => seen.queued + seen.running,
        }
    }

    fn highest(&mut self, now: Nanoseconds, desired: u32) -> u32 {
        self.recommended.push_back((now, desired));
        while self
            .recommended
            .front()
            .is_some_and(|(at, _)| at.0 + STABILIZATION < now.0)
        {
            self.recommended.pop_front();
        }
        let recommended = self.recommended.iter().map(|(_, one)| *one);
        recommended.max().unwrap_or(desired)
    }

    /// Whether KEDA lets the autoscaler decide; it decides itself between none and one.
    fn is_active(&mut self, seen: &Observed, total: f64, current: u32) -> bool {
        if !self.to_none {
            return true;
        }
        if total > 0.0 || seen.queued > 0.0 {
            self.active = seen.now;
        }
        if current == 0 {
            let polls = seen.now.0 >= self.polled.0 + POLLS;
            if polls {
                self.polled = seen.now;
            }
            return polls && self.active == seen.now;
        }
        seen.now.0 < self.active.0 + COOLDOWN
    }
}

impl Controller for Hpa {
    fn period(&self) -> Nanoseconds {
        SYNC
    }

    fn decide(&mut self, seen: &Observed) -> Decision {
        let current = seen.ready + seen.starting;
        // A missing metric holds the count.
        let Some(arrived) = seen.arrived else {
            return Decision::replicas(current);
        };
        let total = self.total(seen, arrived);
        if !self.is_active(seen, total, current) {
            return Decision::from(Wanted::default());
        }
        let desired = self.desired(current, total);
        let highest = self.highest(seen.now, desired);
        let up = desired.min((2 * current).max(current + 4));
        let replicas = if desired > current {
            up
        } else {
            highest.min(current)
        };
        Decision::replicas(replicas.max(1))
    }
}

//! Kubernetes' horizontal pod autoscaler.
//!
//! `desired = ⌈current × metric ÷ target⌉`, nothing within a tolerance; the highest recommendation of the last
//! five minutes holds when going down; going up at most doubles, or adds four, every fifteen seconds
//! (Kubernetes documentation, "Horizontal Pod Autoscaling"; defaults of the controller manager).

use crate::controller::{Controller, Observed, Wanted};
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

#[derive(Debug, Clone)]
pub struct Hpa {
    pub metric: Metric,
    /// What of it a replica is to have.
    pub target: f64,
    pub tolerance: f64,
    pub sync: Nanoseconds,
    pub stabilization: Nanoseconds,
    /// Over how long the rate is a mean.
    pub window: Nanoseconds,
    recommended: VecDeque<(Nanoseconds, u32)>,
    counts: VecDeque<(Nanoseconds, f64)>,
}

impl Hpa {
    pub fn new(metric: Metric, target: f64) -> Self {
        Self {
            metric,
            target,
            tolerance: 0.1,
            sync: Nanoseconds(15_000_000_000),
            stabilization: Nanoseconds(300_000_000_000),
            window: Nanoseconds(60_000_000_000),
            recommended: VecDeque::new(),
            counts: VecDeque::new(),
        }
    }

    /// What is wanted of so many replicas with so much in all.
    pub fn desired(&self, current: u32, total: f64) -> u32 {
        let current = current.max(1);
        let ratio = total / f64::from(current) / self.target;
        if (ratio - 1.0).abs() <= self.tolerance {
            return current;
        }
        ((total / self.target) - 1e-9).ceil().max(1.0) as u32
    }
}

impl Controller for Hpa {
    fn period(&self) -> Nanoseconds {
        self.sync
    }

    fn decide(&mut self, seen: &Observed) -> Wanted {
        let current = seen.ready + seen.starting;
        let hold = Wanted { replicas: current, warm: 0 };
        let Some(arrived) = seen.arrived else {
            return hold;
        };
        self.counts.push_back((seen.now, arrived));
        while let Some((at, _)) = self.counts.front()
            && at.0 + self.window.0 <= seen.now.0
        {
            self.counts.pop_front();
        }
        let counted: f64 = self.counts.iter().map(|(_, count)| count).sum();
        let span = self.counts.len() as f64 * self.sync.seconds().get();
        let total = match self.metric {
            Metric::Rate => counted / span,
            Metric::Concurrency => seen.queued + seen.running,
        };
        let desired = self.desired(current, total);
        self.recommended.push_back((seen.now, desired));
        while let Some((at, _)) = self.recommended.front()
            && at.0 + self.stabilization.0 < seen.now.0
        {
            self.recommended.pop_front();
        }
        let highest = self.recommended.iter().map(|(_, one)| *one).max().unwrap_or(desired);
        let up = desired.min((2 * current).max(current + 4));
        let replicas = if desired > current { up } else { highest.min(current) };
        Wanted { replicas: replicas.max(1), warm: 0 }
    }
}

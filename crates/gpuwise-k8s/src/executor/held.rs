//! What is kept of a lease that has pods.

use super::ask::Ask;
use gpuwise_broker::{OrderId, Readiness};
use gpuwise_domain::placement::JobId;
use std::time::{Duration, Instant};

/// How far a lease is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its pods are made, or wait for their nodes and images.
    Starting,
    /// All run since then, and a service gets ready.
    Answering(Instant),
    Running,
    /// Its pods are told to end, within that time each.
    Stopping {
        order: OrderId,
        grace: Duration,
    },
    /// It has ended, and that was told.
    Over,
}

#[derive(Debug)]
pub(super) struct Part {
    pub(super) ask: Ask,
    pub(super) name: String,
    /// Whether it was made, so that it has ended where it is not there.
    pub(super) made: bool,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) job: JobId,
    pub(super) order: OrderId,
    pub(super) parts: Vec<Part>,
    /// Whether the broker knows that it runs.
    pub(super) known: bool,
    pub(super) phase: Phase,
    pub(super) since: Instant,
    /// Where the API server did not do what it was asked: when it is asked again.
    pub(super) again: Option<Instant>,
    /// Where the gateway was told that it answers.
    pub(super) answers: Vec<String>,
    /// What was said that it waits for: its pod and why.
    pub(super) waits: Option<(String, String)>,
}

impl Held {
    pub(super) fn readiness(&self) -> Option<&Readiness> {
        let service = self.parts.first()?.ask.service.as_ref();
        service.map(|(_, readiness)| readiness)
    }

    /// When it is to be looked at, if nothing happens before.
    pub(super) fn deadline(&self, patience: Duration) -> Option<Instant> {
        let own = match self.phase {
            Phase::Starting if !self.known => Some(self.since + patience),
            Phase::Answering(since) => {
                let readiness = self.readiness();
                readiness.map(|one| since + Duration::from_nanos(one.within.0))
            }
            _ => None,
        };
        own.into_iter().chain(self.again).min()
    }
}

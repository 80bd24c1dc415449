//! What is kept of a lease that has jobs at Slurm, and what of a listing means for it.

use super::{
    super::asking::Asking,
    jobs::{JobPhase, SlurmJob},
    script::Ask,
};
use gpuwise_broker::OrderId;
use gpuwise_wire::broker::QueuedAnswer;
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

/// How far a lease is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its jobs are submitted, or wait for their nodes.
    Starting,
    /// They run, and a service is asked whether it is ready.
    Answering,
    Running,
    /// They are told to end, and ended at that time.
    Stopping {
        order: OrderId,
        end: Instant,
        killed: bool,
    },
    /// They are being requeued, to be held.
    Requeueing(OrderId),
    /// They hold nothing, and wait for another place.
    Requeued,
    /// It has ended, and that was told.
    Over,
}

#[derive(Debug)]
pub(super) struct Part {
    pub(super) ask: Ask,
    /// Its job, as soon as Slurm has taken it.
    pub(super) job: Option<u64>,
    /// How often it was looked for since then and was not there.
    pub(super) missed: u32,
    /// Of a job that somebody requeued: when Slurm is told to start it.
    pub(super) hurry: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) order: OrderId,
    pub(super) parts: Vec<Part>,
    pub(super) asking: Option<Asking>,
    /// Whether the broker knows that it runs.
    pub(super) known: bool,
    pub(super) phase: Phase,
    pub(super) since: Instant,
    /// Since when Slurm says that all of it runs.
    pub(super) up: Option<Instant>,
    /// Whether a part of it has ended while a service was asked.
    pub(super) gone: Arc<AtomicBool>,
}

/// Jobs by lease, worker and order, and by number.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) named: BTreeMap<(u32, usize, u64), u64>,
    pub(super) jobs: BTreeMap<u64, SlurmJob>,
}

/// What of one part a listing says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen<'a> {
    /// It is not submitted, or was just now.
    New,
    Job(&'a SlurmJob),
    /// Slurm knows nothing of it any more.
    Missing,
}

impl Held {
    /// Whether it ran, and does not, and not by its own doing.
    pub(super) fn is_troubled(&self, listing: &Listing) -> bool {
        let taken = |part: &Part| {
            let job = part.job.and_then(|job| listing.jobs.get(&job));
            job.is_some_and(|job| matches!(job.state, JobPhase::Pending | JobPhase::Over(None)))
        };
        matches!(self.phase, Phase::Running | Phase::Answering) && self.parts.iter().any(taken)
    }

    /// What Slurm says of its first job that waits for its nodes; `None`: none does.
    pub(super) fn queued(&self, listing: &Listing) -> Option<QueuedAnswer> {
        if !matches!(
            self.phase,
            Phase::Starting | Phase::Answering | Phase::Running
        ) {
            return None;
        }
        let jobs = self.parts.iter().filter_map(|part| part.job);
        let mut jobs = jobs.filter_map(|job| listing.jobs.get(&job));
        let job = jobs.find(|job| job.state == JobPhase::Pending)?;
        Some(QueuedAnswer {
            system: "Slurm".into(),
            job: Some(job.id),
            pod: None,
            priority: job.priority,
            reason: job.reason.clone(),
            account: job.account.clone(),
            fair_share: None,
        })
    }

    /// What is said of each part.
    pub(super) fn seen<'a>(&mut self, listing: &'a Listing) -> Vec<Seen<'a>> {
        let known = self.known;
        let each = self.parts.iter_mut().map(|part| {
            let found = part.job.and_then(|job| listing.jobs.get(&job));
            match (part.job, found) {
                (_, Some(job)) => {
                    part.missed = 0;
                    Seen::Job(job)
                }
                (None, None) if !known => Seen::New,
                _ => {
                    // A listing may be older than the job.
                    part.missed += 1;
                    if part.missed > 1 || known && part.job.is_none() {
                        Seen::Missing
                    } else {
                        Seen::New
                    }
                }
            }
        });
        each.collect()
    }
}

impl Seen<'_> {
    pub(super) fn is(self, phase: JobPhase) -> bool {
        matches!(self, Seen::Job(job) if job.state == phase)
    }

    /// Whether nothing of it runs, or will.
    pub(super) fn is_over(self) -> bool {
        match self {
            Seen::New => false,
            Seen::Missing => true,
            Seen::Job(job) => matches!(job.state, JobPhase::Over(_)),
        }
    }
}

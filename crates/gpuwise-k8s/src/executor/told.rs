//! What the thread that watches the cluster is told, as what is held of leases.

use super::{
    ask::Ask,
    held::{Held, Part, Phase},
    work::Worker,
};
use gpuwise_broker::OrderId;
use gpuwise_domain::placement::JobId;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// What is to run of a lease.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) order: OrderId,
    pub(super) job: JobId,
    pub(super) asks: Vec<Ask>,
    /// Whether it was started before, and is only to be found.
    pub(super) known: bool,
}

/// What a broker that starts has of the cluster.
#[derive(Debug)]
pub(super) struct Adopted {
    /// Whose log this is.
    pub(super) log: String,
    /// All that is to be found of it.
    pub(super) starts: Vec<Start>,
    /// Starts that a broker before this one may have made pods for, and that are told again.
    pub(super) expected: BTreeSet<(JobId, OrderId)>,
    /// Its nodes, and whether the log has them up.
    pub(super) fleet: BTreeMap<String, bool>,
}

#[derive(Debug)]
pub(super) enum Told {
    /// What else there is of this log is ended.
    Adopt(Adopted),
    /// All orders that a broker before this one may have carried out are told again.
    All,
    Start(Start),
    Stop {
        order: OrderId,
        job: JobId,
        grace: Duration,
    },
    Forget(JobId),
}

impl Worker {
    pub(super) fn take(&mut self, told: Told) {
        match told {
            Told::Adopt(adopted) => {
                self.log = adopted.log;
                self.nodes.expect(adopted.fleet);
                self.expected = adopted.expected;
                for start in adopted.starts {
                    self.hold(start);
                }
            }
            Told::All => {
                let expected = std::mem::take(&mut self.expected);
                self.stirred
                    .extend(expected.into_iter().map(|(job, _)| job));
            }
            Told::Start(start) => {
                // What ran before is of another order, and swept.
                self.rests(start.job);
                self.hold(start);
            }
            Told::Stop { order, job, grace } => {
                self.rests(job);
                self.stirred.insert(job);
                let before = self.held.remove(&job);
                let held = Held {
                    job,
                    order,
                    // What never ran has nothing to save.
                    known: before.as_ref().is_none_or(|held| held.known),
                    parts: before.map_or_else(Vec::new, |held| held.parts),
                    phase: Phase::Stopping { order, grace },
                    since: Instant::now(),
                    again: None,
                    answers: Vec::new(),
                    waits: None,
                };
                self.held.insert(job, held);
            }
            Told::Forget(job) => {
                self.rests(job);
                self.stirred.insert(job);
                self.held.remove(&job);
            }
        }
    }

    /// Nothing is said of it any more.
    fn rests(&self, job: JobId) {
        self.host.answers(job.0, Vec::new());
        self.host.waits(job.0, None);
    }

    fn hold(&mut self, start: Start) {
        let log = &self.log;
        let part = |ask: Ask| Part {
            name: ask.name(log),
            made: start.known,
            ask,
        };
        let held = Held {
            job: start.job,
            order: start.order,
            parts: start.asks.into_iter().map(part).collect(),
            known: start.known,
            phase: Phase::Starting,
            since: Instant::now(),
            again: None,
            answers: Vec::new(),
            waits: None,
        };
        self.stirred.insert(start.job);
        self.held.insert(start.job, held);
    }
}

//! A fleet that is not there: actions take their time, and may fail.

use super::Executor;
use gpuwise_broker::{Broker, Observation, Order, OrderId, Work};
use gpuwise_domain::placement::{Action, Assignment, JobId};
use gpuwise_scale::cold::Machine;
use gpuwise_units::Nanoseconds;
use std::collections::{BTreeMap, BTreeSet};

/// What actions take, and how often they fail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delays {
    /// Starting a job, or moving it.
    pub start: Nanoseconds,
    /// The same where its weights lie in the memory of the node.
    pub warm_start: Nanoseconds,
    /// Waking what sleeps.
    pub wake: Nanoseconds,
    pub stop: Nanoseconds,
    /// MIG modes and instances, attaching and detaching.
    pub device: Nanoseconds,
    /// Thousandths of starts that fail.
    pub fails_milli: u32,
}

impl Delays {
    /// Containers that are pulled already, processes that end when told to.
    pub const USUAL: Self = Self {
        start: Nanoseconds(20_000_000_000),
        warm_start: Nanoseconds(10_000_000_000),
        wake: Nanoseconds(5_000_000_000),
        stop: Nanoseconds(5_000_000_000),
        device: Nanoseconds(3_000_000_000),
        fails_milli: 0,
    };
}

/// Simulated GPUs.
#[derive(Debug)]
pub struct Simulated {
    delays: Delays,
    /// By when they end.
    due: BTreeSet<(Nanoseconds, OrderId)>,
    /// What was taken on and is not told yet, and whether it fails.
    taken: BTreeMap<OrderId, bool>,
}

impl Simulated {
    pub const fn new(delays: Delays) -> Self {
        Self {
            delays,
            due: BTreeSet::new(),
            taken: BTreeMap::new(),
        }
    }

    fn delay(&self, work: &Work, broker: &Broker) -> Nanoseconds {
        match work {
            Work::Stop { .. } => self.delays.stop,
            Work::Restart { .. } => self.delays.start,
            Work::Keep { lease, .. } => reading(broker, *lease),
            Work::Drop { .. } => Nanoseconds(0),
            Work::Act { action, .. } => match action {
                Action::Restore { job, .. } if broker.sleeps(*job) => self.delays.wake,
                Action::Place { job, assignments } | Action::Restore { job, assignments }
                    if lies_there(broker, *job, assignments) =>
                {
                    self.delays.warm_start.min(self.delays.start)
                }
                Action::Place { .. }
                | Action::Move { .. }
                | Action::Resize { .. }
                | Action::Restore { .. } => self.delays.start,
                Action::Preempt { .. } | Action::Reclaim { .. } => self.delays.stop,
                Action::SetMig { .. }
                | Action::CreateInstance { .. }
                | Action::DestroyInstance { .. }
                | Action::Attach { .. }
                | Action::Detach { .. } => self.delays.device,
            },
        }
    }

    /// Whether an order fails: a matter of its number alone, so that a run can be repeated.
    fn fails(&self, id: OrderId, work: &Work) -> bool {
        let starts = matches!(
            work,
            Work::Act {
                action: Action::Place { .. },
                ..
            }
        );
        let drawn = id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        starts && drawn % 1000 < u64::from(self.delays.fails_milli)
    }
}

/// How long weights take from where they are stored into the memory of a node.
fn reading(broker: &Broker, lease: u32) -> Nanoseconds {
    let service = broker.lease(lease).and_then(|one| one.ask.service.as_ref());
    let bytes = service.and_then(|one| one.weights_bytes).unwrap_or(0);
    let seconds = bytes as f64 / Machine::default().stored;
    Nanoseconds((seconds * 1e9) as u64)
}

/// Whether the weights of a job lie in the memory of all nodes on which it starts.
fn lies_there(broker: &Broker, job: JobId, on: &[Assignment]) -> bool {
    let lease = broker.lease(job.0);
    lease.is_some_and(|lease| on.iter().all(|one| broker.weights_there(lease, one.node)))
}

impl Executor for Simulated {
    // Nothing runs in it.
    fn takes_images(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "simulated"
    }

    fn take(&mut self, now: Nanoseconds, order: &Order, broker: &Broker) {
        if self.taken.contains_key(&order.id) {
            return;
        }
        let fails = self.fails(order.id, &order.work);
        self.taken.insert(order.id, fails);
        self.due
            .insert((now + self.delay(&order.work, broker), order.id));
    }

    fn observe(&mut self, now: Nanoseconds) -> Vec<Observation> {
        let mut seen = Vec::new();
        while let Some((at, id)) = self.due.first().copied() {
            if at > now {
                break;
            }
            self.due.remove(&(at, id));
            seen.push(match self.taken.remove(&id) {
                Some(true) => Observation::failed(id, "the simulated start failed".into()),
                _ => Observation::Done(id),
            });
        }
        seen
    }

    fn wake_at(&self) -> Option<Nanoseconds> {
        self.due.first().map(|(at, _)| *at)
    }
}

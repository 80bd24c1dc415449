//! Orders as what is wanted of a lease, for executors that hand leases on to another system.

use crate::{Broker, Order, OrderId, Work};
use gpuwise_domain::placement::{Action, Assignment, JobId};
use gpuwise_units::Nanoseconds;
use std::collections::{BTreeMap, BTreeSet};

/// Something that is wanted now.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// The command of a lease runs on these and nowhere else.
    Start {
        order: OrderId,
        job: JobId,
        assignments: Vec<Assignment>,
    },
    /// Its GPUs are only held: nothing is to be started.
    Nothing(OrderId),
    /// Nothing of it runs any more.
    Stop {
        order: OrderId,
        job: JobId,
        grace: Nanoseconds,
    },
    /// It gives its GPUs up for others, and will start again.
    GiveUp { order: OrderId, job: JobId },
    /// Its end is in the log: nothing need be kept of it.
    Forget(JobId),
    /// A GPU is to be cut into instances, or instances to be removed.
    Cut(OrderId),
    /// A GPU is to come to a node, or to leave it.
    Compose(OrderId),
    /// Weights are to lie in the memory of a node.
    Keep(OrderId),
    /// They need no longer.
    Drop(OrderId),
}

/// A lease that runs already, as the log has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Running {
    pub order: OrderId,
    pub job: JobId,
    pub assignments: Vec<Assignment>,
}

/// What was wanted last of each lease: an order that comes late, or twice, wants nothing.
#[derive(Debug, Default)]
pub struct Wants {
    newest: BTreeMap<JobId, OrderId>,
    /// Leases that have had orders, until their end is in the log.
    known: BTreeSet<JobId>,
}

impl Wants {
    /// What is to be found running. What is still wanted is told again, and found then.
    pub fn adopt(&mut self, broker: &Broker) -> Vec<Running> {
        let mut found = Vec::new();
        for lease in broker.open() {
            let job = lease.job();
            self.known.insert(job);
            let order = broker.started_by(lease.number);
            let order = order.filter(|order| !broker.wants(*order));
            let holds = broker.state(lease).0.holds() && !lease.ask.command.is_empty();
            if let Some(order) = order.filter(|_| holds) {
                found.push(Running {
                    order,
                    job,
                    assignments: assigned(broker, job),
                });
            }
        }
        found
    }

    /// What an order wants that was not wanted before.
    pub fn take(&mut self, order: &Order, broker: &Broker) -> Vec<Wanted> {
        let mut wanted = self.over(broker);
        let id = order.id;
        let one = match &order.work {
            Work::Stop { job, grace } => self.is_new(*job, id).then_some(Wanted::Stop {
                order: id,
                job: *job,
                grace: *grace,
            }),
            Work::Restart { job, .. } => self.start(id, *job, assigned(broker, *job), broker),
            Work::Keep { .. } => Some(Wanted::Keep(id)),
            Work::Drop { .. } => Some(Wanted::Drop(id)),
            Work::Act { action, .. } => match action {
                Action::Place { job, assignments }
                | Action::Move {
                    job, assignments, ..
                }
                | Action::Resize { job, assignments }
                | Action::Restore { job, assignments } => {
                    self.start(id, *job, assignments.clone(), broker)
                }
                Action::Preempt { job, .. } | Action::Reclaim { job } => {
                    self.is_new(*job, id).then_some(Wanted::GiveUp {
                        order: id,
                        job: *job,
                    })
                }
                Action::SetMig { .. }
                | Action::CreateInstance { .. }
                | Action::DestroyInstance { .. } => Some(Wanted::Cut(id)),
                Action::Attach { .. } | Action::Detach { .. } => Some(Wanted::Compose(id)),
            },
        };
        wanted.extend(one);
        wanted
    }

    fn start(
        &mut self,
        order: OrderId,
        job: JobId,
        assignments: Vec<Assignment>,
        broker: &Broker,
    ) -> Option<Wanted> {
        if !self.is_new(job, order) {
            return None;
        }
        let lease = broker.lease(job.0)?;
        self.known.insert(job);
        if lease.ask.command.is_empty() {
            return Some(Wanted::Nothing(order));
        }
        Some(Wanted::Start {
            order,
            job,
            assignments,
        })
    }

    fn is_new(&mut self, job: JobId, order: OrderId) -> bool {
        let newest = self.newest.entry(job).or_insert(OrderId(0));
        let new = order > *newest;
        *newest = order.max(*newest);
        new
    }

    fn over(&mut self, broker: &Broker) -> Vec<Wanted> {
        let is_over = |job: &JobId| broker.lease(job.0).is_none_or(|lease| lease.over.is_some());
        let over: Vec<JobId> = self.known.iter().copied().filter(is_over).collect();
        self.known.retain(|job| !over.contains(job));
        over.into_iter().map(Wanted::Forget).collect()
    }
}

fn assigned(broker: &Broker, job: JobId) -> Vec<Assignment> {
    let state = broker.world().job(job);
    state.map_or_else(Vec::new, |state| state.assignments.clone())
}

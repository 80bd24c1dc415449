//! Events change the world, or are refused and change nothing.

use super::World;
use gpuwise_domain::placement::{Event, GpuId, JobId, NodeId, Plan, QueueId, TimestampedEvent};
use gpuwise_units::Nanoseconds;

/// Why an event cannot have happened in this world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("there is no node {0}")]
    NoSuchNode(NodeId),
    #[error("there is no GPU {0}")]
    NoSuchGpu(GpuId),
    /// There is no such job, or it has ended.
    #[error("there is no job {0}")]
    NoSuchJob(JobId),
    /// There is a job of this number.
    #[error("there is a job {0} already")]
    SecondJob(JobId),
    #[error("node {0} takes no work")]
    NodeClosed(NodeId),
    #[error("node {0} lacks processor time or memory")]
    NodeFull(NodeId),
    #[error("GPU {0} takes no work")]
    GpuClosed(GpuId),
    /// The GPU lacks what is asked of it, or is shared in another way.
    #[error("GPU {0} is held, or has too little left")]
    GpuBusy(GpuId),
    #[error("GPU {0} is not attached to node {1}")]
    NotThere(GpuId, NodeId),
    #[error("job {0} is in no phase for this")]
    WrongPhase(JobId),
    /// The GPU's geometry forbids this instance here and now.
    #[error("GPU {0} has no room for this instance at this place")]
    Geometry(GpuId),
    /// The node has no free slot for a pooled GPU, or is not on its fabric.
    #[error("GPU {0} cannot be attached to node {1}")]
    NoSlot(GpuId, NodeId),
    /// The node would be composed anew, and jobs are on it.
    #[error("GPU {0} cannot come to or leave node {1}, on which jobs are")]
    InUse(GpuId, NodeId),
    /// Something that the action needs is still being made ready.
    #[error("what job {0} starts on is not ready")]
    NotReady(JobId),
    #[error("there is no queue {0}")]
    NoSuchQueue(QueueId),
    /// The parent of a queue does not come before it.
    #[error("the parent of queue {0} does not come before it")]
    WrongParent(QueueId),
    /// An event is older than what has happened.
    #[error("the event is older than the last one")]
    Past,
    /// The thing named is not in a state for this.
    #[error("GPU {0} is in no state for this")]
    WrongState(GpuId),
    /// Somebody is still on the GPU, an instance is still there, or its mode or link is changing.
    #[error("GPU {0} is not ready")]
    GpuNotReady(GpuId),
    /// A job cannot run nowhere.
    #[error("job {0} was given no assignment")]
    NoSeats(JobId),
    /// The action has not begun, or is no longer under way: what it held was lost in between.
    #[error("the action is not under way")]
    NotUnderway,
    /// There is something of this name that is not the same, or the list is full.
    #[error("there is another {0} of this name, or there are too many")]
    Second(&'static str),
    /// What is added names something that is not there: a kind, a domain, an island, a pool.
    #[error("what is added names a {0} that is not there")]
    Dangling(&'static str),
}

impl World {
    /// Applies an event. One that comes late or twice is counted ([`World::ignored`]) and changes nothing
    /// else.
    ///
    /// # Errors
    /// When it cannot have happened in this world; then nothing has changed.
    pub fn apply(&mut self, stamped: &TimestampedEvent) -> Result<(), Refused> {
        self.change(stamped)?;
        self.now = stamped.at;
        self.watch_idle(stamped.at);
        Ok(())
    }

    /// Applies an event without the time going on: for worlds on which actions are only tried.
    pub(crate) fn change(&mut self, stamped: &TimestampedEvent) -> Result<(), Refused> {
        let at = stamped.at;
        if at < self.now {
            return Err(Refused::Past);
        }
        self.reopen(at);
        match &stamped.event {
            Event::Begun { action, attempt } => self.begun(at, action, *attempt),
            Event::Done { action, attempt } => self.done(at, action, *attempt),
            Event::Failed {
                action,
                attempt,
                failure,
            } => self.failed(at, action, *attempt, Some(failure)),
            Event::Withdrawn { action, attempt } => self.failed(at, action, *attempt, None),
            other => self.happened(at, other),
        }
    }

    /// What is no outcome of an action.
    fn happened(&mut self, at: Nanoseconds, event: &Event) -> Result<(), Refused> {
        match event {
            Event::NodeJoined { .. }
            | Event::NodeLeft { .. }
            | Event::GpuJoined(_)
            | Event::GpuLeft { .. }
            | Event::KindAdded(_)
            | Event::DomainAdded(_)
            | Event::IslandAdded { .. }
            | Event::PoolAdded(_) => self.churn(at, event)?,
            Event::NodeSuspected { node, by } => self.node_suspected(at, *node, by)?,
            Event::NodeFenced { node, by } => self.node_fenced(at, *node, by)?,
            Event::Observed {
                node,
                seen_at,
                seen,
            } => self.observed(at, *node, *seen_at, seen)?,
            Event::NodeHealth { node, health } => self.node_health(at, *node, *health)?,
            Event::GpuHealth { gpu, health } => self.gpu_health(at, *gpu, *health)?,
            Event::QueueSet(queue) => self.queue_set(at, queue)?,
            Event::SharingSet(sharing) => {
                self.shares.sharing = *sharing;
                self.rebook(at);
            }
            Event::Reserved(reservation) => self.reservations.push(reservation.clone()),
            Event::ReservationEnded { name } => self.reservations.retain(|one| one.name != *name),
            Event::PriceSet { kind, price } => {
                if let Some(kind) = self.kinds.get_mut(kind.index()) {
                    kind.price = Some(*price);
                    self.rebook(at);
                }
            }
            of_job => self.happened_to_job(at, of_job)?,
        }
        Ok(())
    }

    /// The events that were ignored so far, by why.
    pub const fn ignored(&self) -> &super::Ignored {
        &self.ignored
    }

    /// Makes a plan the target: all its actions have begun, in their order under the numbers that follow
    /// [`World::attempts`]. Nothing changes if its parent is not the target, or an action cannot begin.
    ///
    /// # Errors
    /// When an action cannot begin in this world.
    pub fn accept(&mut self, plan: &Plan) -> Result<(), Refused> {
        if plan.parent != self.target {
            return Err(Refused::Past);
        }
        let before = (plan.actions.len() > 1).then(|| self.clone());
        for action in &plan.actions {
            let event = TimestampedEvent {
                at: plan.made,
                event: Event::begun(action.clone()),
            };
            if let Err(refused) = self.apply(&event) {
                if let Some(before) = before {
                    *self = before;
                }
                return Err(refused);
            }
        }
        self.target = plan.number;
        Ok(())
    }
}

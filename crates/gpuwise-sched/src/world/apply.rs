//! Events change the world, or are refused and change nothing.

use super::{JobState, Link, Phase, World};
use gpuwise_domain::placement::{
    Action, Assignment, Cause, Event, GpuId, Job, JobId, NodeId, Queue, QueueId, TimestampedEvent,
};
use gpuwise_units::Nanoseconds;
use std::sync::Arc;

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
}

impl World {
    /// Applies an event.
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
        match &stamped.event {
            Event::Begun(action) => self.begin(at, action)?,
            Event::Done(action) => self.done(at, action)?,
            Event::Failed(action) => self.failed(at, action)?,
            Event::Submitted(job) => self.submit(at, job)?,
            Event::Ended { job, .. } => self.end(at, *job)?,
            Event::NodeJoined { node, gpus } => {
                self.join(node, gpus);
                self.rebook(at);
            }
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
            Event::Measured { job, busy_milli } => {
                let state = self.jobs.get_mut(*job).ok_or(Refused::NoSuchJob(*job))?;
                state.busy_milli = Some(*busy_milli);
                state.idle.note(at, *busy_milli);
            }
            Event::Wanted { job } => {
                let state = self.jobs.get_mut(*job).ok_or(Refused::NoSuchJob(*job))?;
                if matches!(state.phase, Phase::Reclaimed { .. }) {
                    state.wanted = state.wanted.or(Some(at));
                }
            }
        }
        Ok(())
    }

    /// Makes a plan the target: all its actions have begun. Nothing changes if its parent is not the
    /// target, or an action cannot begin.
    ///
    /// # Errors
    /// When an action cannot begin in this world.
    pub fn accept(&mut self, plan: &gpuwise_domain::placement::Plan) -> Result<(), Refused> {
        if plan.parent != self.target {
            return Err(Refused::Past);
        }
        let before = (plan.actions.len() > 1).then(|| self.clone());
        for action in &plan.actions {
            let event = TimestampedEvent {
                at: plan.made,
                event: Event::Begun(action.clone()),
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

    fn submit(&mut self, at: Nanoseconds, job: &Job) -> Result<(), Refused> {
        if self.jobs.contains_key(job.id) {
            return Err(Refused::SecondJob(job.id));
        }
        if let Some(queue) = job.queue.filter(|queue| queue.index() >= self.queues.len()) {
            return Err(Refused::NoSuchQueue(queue));
        }
        self.arrivals.count(job);
        self.jobs.insert(job.id, JobState::new(job, at));
        Ok(())
    }

    fn queue_set(&mut self, at: Nanoseconds, queue: &Queue) -> Result<(), Refused> {
        let known = self.queues.iter().position(|old| old.name == queue.name);
        let id = QueueId(known.unwrap_or(self.queues.len()) as u32);
        if queue.parent.is_some_and(|parent| parent >= id) {
            return Err(Refused::WrongParent(id));
        }
        match self.queues.get_mut(id.index()) {
            Some(old) => *old = queue.clone(),
            None => self.queues.push(queue.clone()),
        }
        self.rebook(at);
        Ok(())
    }

    fn end(&mut self, at: Nanoseconds, id: JobId) -> Result<(), Refused> {
        self.left(id);
        let assignments = self
            .job(id)
            .map_or_else(Vec::new, |state| state.assignments.clone());
        self.book(at, id, &assignments, false);
        let state = self.jobs.remove(id).ok_or(Refused::NoSuchJob(id))?;
        self.give(id, &state.job.worker, &state.assignments);
        Ok(())
    }

    fn begin(&mut self, at: Nanoseconds, action: &Action) -> Result<(), Refused> {
        match action {
            Action::Place { job, assignments } | Action::Restore { job, assignments } => {
                let state = self.job(*job).ok_or(Refused::NoSuchJob(*job))?;
                let right = match action {
                    Action::Restore { .. } => matches!(state.phase, Phase::Reclaimed { .. }),
                    _ => state.phase.waits(),
                };
                if !right {
                    return Err(Refused::WrongPhase(*job));
                }
                self.assignment(at, *job, assignments)
            }
            Action::Move {
                job, assignments, ..
            }
            | Action::Resize { job, assignments } => {
                let state = self.job(*job).ok_or(Refused::NoSuchJob(*job))?;
                if !state.phase.holds_gpus() {
                    return Err(Refused::WrongPhase(*job));
                }
                let before = Arc::clone(&self.upkeep);
                if let Action::Move {
                    cause: Cause::Defragmentation,
                    ..
                } = action
                {
                    self.note_migration(at, *job);
                }
                self.assignment(at, *job, assignments)
                    .inspect_err(|_| self.upkeep = before)
            }
            Action::Preempt { job, .. } | Action::Reclaim { job } => {
                let state = self.job(*job).ok_or(Refused::NoSuchJob(*job))?;
                let reclaims = matches!(action, Action::Reclaim { .. });
                let nothing = state
                    .assignments
                    .iter()
                    .all(|assignment| assignment.gpus.is_empty());
                if state.assignments.is_empty() || state.stopping || reclaims && nothing {
                    return Err(Refused::WrongPhase(*job));
                }
                self.tell_to_stop(at, *job, reclaims);
                Ok(())
            }
            Action::SetMig { gpu, on } => self.set_mig(*gpu, *on),
            Action::CreateInstance { gpu, shape, start } => {
                self.create_instance(*gpu, *shape, *start)
            }
            Action::DestroyInstance { gpu, start } => self.destroy_instance(*gpu, *start),
            Action::Attach { gpu, node } => self.attach(*gpu, *node),
            Action::Detach { gpu } => self.detach(*gpu),
        }
    }

    fn done(&mut self, at: Nanoseconds, action: &Action) -> Result<(), Refused> {
        self.ready_for(action)?;
        if !self.is_under_way(action) {
            // Only with what it holds can it be told whether there is room beside those who leave.
            let before = self.is_being_left(action).then(|| self.clone());
            self.begin(at, action)?;
            if let Some(before) = before
                && let Err(refused) = self.ready_for(action)
            {
                *self = before;
                return Err(refused);
            }
        }
        match action {
            Action::Place { job, .. }
            | Action::Restore { job, .. }
            | Action::Move { job, .. }
            | Action::Resize { job, .. } => {
                self.left(*job);
                let state = self.jobs.get_mut(*job).ok_or(Refused::NoSuchJob(*job))?;
                state.phase = Phase::Running { since: at };
            }
            Action::Preempt { job, .. } | Action::Reclaim { job } => self.left(*job),
            Action::CreateInstance { gpu, start, .. } => {
                if let Some(instance) = self.instance(*gpu, *start) {
                    instance.ready = true;
                }
            }
            Action::DestroyInstance { gpu, start } => self.instance_destroyed(*gpu, *start),
            Action::SetMig { gpu, .. } => self.switched(*gpu),
            Action::Attach { gpu, .. } => self.linked(*gpu),
            Action::Detach { gpu } => self.return_to_pool(*gpu),
        }
        Ok(())
    }

    /// Whether an action has begun, and what it took is still held for it.
    pub fn is_under_way(&self, action: &Action) -> bool {
        let starting = |job: &JobId, assignments: &[Assignment]| {
            self.job(*job).is_some_and(|state| {
                matches!(state.phase, Phase::Starting { .. }) && state.assignments == assignments
            })
        };
        let linked = |gpu: &GpuId, link| self.gpu(*gpu).is_some_and(|state| state.link == link);
        match action {
            Action::Place { job, assignments }
            | Action::Restore { job, assignments }
            | Action::Move {
                job, assignments, ..
            }
            | Action::Resize { job, assignments } => starting(job, assignments),
            Action::Preempt { job, .. } | Action::Reclaim { job } => {
                self.job(*job).is_some_and(|state| state.stopping)
            }
            Action::SetMig { gpu, on } => self
                .gpu(*gpu)
                .is_some_and(|state| state.switching && state.gpu.mig_on == *on),
            Action::CreateInstance { gpu, shape, start } => self
                .instances(*gpu)
                .iter()
                .any(|one| one.start == *start && one.shape == *shape && !one.ready),
            Action::DestroyInstance { gpu, start } => self
                .gpu(*gpu)
                .is_some_and(|state| state.going.iter().any(|one| one.start == *start)),
            Action::Attach { gpu, node } => {
                linked(gpu, Link::Attaching)
                    && self.gpu(*gpu).and_then(|state| state.node) == Some(*node)
            }
            Action::Detach { gpu } => linked(gpu, Link::Detaching),
        }
    }

    /// Whether an action that has begun can be carried out now: what it needs is there and free.
    pub fn can_start(&self, action: &Action) -> bool {
        self.is_under_way(action) && self.ready_for(action).is_ok()
    }

    fn failed(&mut self, at: Nanoseconds, action: &Action) -> Result<(), Refused> {
        if !self.is_under_way(action) {
            return Err(Refused::NotUnderway);
        }
        match action {
            Action::Place { job, .. }
            | Action::Restore { job, .. }
            | Action::Move { job, .. }
            | Action::Resize { job, .. } => self.stop(at, *job),
            // A stop is enforced: who did not stop when told to is ended.
            Action::Preempt { job, .. } | Action::Reclaim { job } => self.left(*job),
            Action::CreateInstance { gpu, start, .. } => self.creation_failed(at, *gpu, *start),
            Action::DestroyInstance { gpu, start } => self.destruction_failed(at, *gpu, *start),
            Action::Attach { gpu, .. } => self.unattach(at, *gpu),
            Action::Detach { gpu } => self.linked(*gpu),
            Action::SetMig { gpu, .. } => {
                self.stop_all_on(at, *gpu);
                self.switch_back(*gpu);
                self.recount_around(*gpu);
            }
        }
        Ok(())
    }
}

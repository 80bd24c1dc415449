//! What a disruption costs: GPU-time that is lost.

use super::Disruptions;
use crate::{
    queues::milli_of,
    world::{JobState, Phase, StoredJob, World},
};
use gpuwise_domain::placement::{JobId, Preemption, QueueId};
use gpuwise_units::Nanoseconds;

/// How somebody is disrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DisruptionKind {
    /// It goes on without this worker, by its place in the list of assignments.
    Shrink(u32),
    /// It is idle and loses its GPUs.
    Reclaim,
    /// It saves its state and goes on elsewhere.
    Migrate,
    /// It stops and waits, from its last checkpoint.
    Preempt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disruption {
    pub job: JobId,
    pub kind: DisruptionKind,
    /// What is lost, in thousandths of a GPU times nanoseconds, made dearer by priority; at least 1.
    pub cost: u128,
}

/// From starting a job again until it goes on where it was; `None`: it may not be stopped.
pub(crate) fn restart_of(job: &StoredJob) -> Option<Nanoseconds> {
    match job.preemption {
        Preemption::Allowed { restart, .. } => Some(restart),
        Preemption::Never => None,
    }
}

/// Work that is lost when a job stops now: half the time between its checkpoints, or all that it has
/// done since it started where that is less.
pub fn lost_work(state: &JobState, now: Nanoseconds) -> Nanoseconds {
    let (
        Phase::Running { since },
        Preemption::Allowed {
            checkpoint_every, ..
        },
    ) = (state.phase, state.job.preemption)
    else {
        return Nanoseconds(0);
    };
    let ran = now.0.saturating_sub(since.0);
    Nanoseconds(ran.min(checkpoint_every.0 / 2))
}

/// Whom a job may disrupt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Preemptor<'a> {
    pub(super) job: &'a StoredJob,
    /// Whether it takes back what it had lent while it was idle.
    pub(super) returns: bool,
    pub(super) disruptions: &'a Disruptions,
    pub(super) now: Nanoseconds,
}

impl Preemptor<'_> {
    /// In which ways somebody may be disrupted, and what each costs.
    pub(super) fn ways(&self, world: &World, id: JobId, found: &mut Vec<Disruption>) {
        let Some(state) = world.job(id) else { return };
        if id == self.job.id || !world.may_disrupt(state, self.now) {
            return;
        }
        // Whose queue has GPUs reserved there makes way for nobody else: what is lent comes back for good.
        if state.job.queue != self.job.queue && self.is_reserved_for(world, state.job.queue, state)
        {
            return;
        }
        let victim = &state.job;
        let milli = u128::from(milli_of(world, &state.assignments).max(1));
        let weight = self.weight(victim.priority);
        let cost = |lost: u64| (u128::from(lost) * milli * weight / 1000).max(1);
        let mut push = |kind, cost| {
            found.push(Disruption {
                job: id,
                kind,
                cost,
            });
        };
        if let Some(idle) = self.disruptions.reclaim
            && self.may_borrow(victim)
            && state
                .idle_since(idle.busy_milli)
                .is_some_and(|since| self.now.0.saturating_sub(since.0) >= idle.after.0)
        {
            push(DisruptionKind::Reclaim, cost(idle.reload.0));
        }
        let Preemption::Allowed { restart, .. } = victim.preemption else {
            return;
        };
        let below = victim.priority < self.job.priority;
        let not_above = victim.priority <= self.job.priority;
        let running = matches!(state.phase, Phase::Running { .. });
        let spare = (state.assignments.len() as u32).saturating_sub(victim.gang.least.max(1));
        let wanted = victim.gang.preferred.max(victim.gang.least);
        let beyond = state.assignments.len() as u32 > wanted;
        if self.disruptions.elastic && running && spare > 0 && (not_above || beyond) {
            for assignment in 0..state.assignments.len() as u32 {
                push(DisruptionKind::Shrink(assignment), cost(restart.0));
            }
        }
        if self.disruptions.migrate && running && not_above {
            push(DisruptionKind::Migrate, cost(restart.0));
        }
        let others = state.job.queue != self.job.queue;
        let lent =
            self.disruptions.lend && others && self.is_reserved_for(world, self.job.queue, state);
        if lent || self.disruptions.preempt && (below || self.returns && not_above) {
            let lost = lost_work(state, self.now).0.saturating_add(restart.0);
            push(DisruptionKind::Preempt, cost(lost));
        }
    }

    /// Whether a job sits on a node where GPUs are reserved now for a queue.
    fn is_reserved_for(&self, world: &World, queue: Option<QueueId>, state: &JobState) -> bool {
        queue.is_some()
            && world.reservations().iter().any(|reserved| {
                Some(reserved.queue) == queue
                    && reserved.from <= self.now
                    && self.now < reserved.until
                    && state
                        .assignments
                        .iter()
                        .any(|assignment| assignment.node == reserved.node)
            })
    }

    /// How many workers an elastic job can be without.
    pub(super) fn spare(&self, state: &JobState) -> usize {
        let victim = &state.job;
        let floor = if victim.priority <= self.job.priority {
            victim.gang.least
        } else {
            victim.gang.preferred.max(victim.gang.least)
        };
        state
            .assignments
            .len()
            .saturating_sub(floor.max(1) as usize)
    }

    /// What an idle holder gives up comes back to it on demand: the job can be stopped for it, or it
    /// stands above it anyway.
    fn may_borrow(&self, holder: &StoredJob) -> bool {
        let stoppable = matches!(self.job.preemption, Preemption::Allowed { .. });
        stoppable || self.job.priority > holder.priority
    }

    /// Thousandths by which a victim of this priority is dearer; a tenth to a hundred times.
    fn weight(&self, priority: i32) -> u128 {
        let dearer = i64::from(priority) * i64::from(self.disruptions.priority_milli);
        let weight = dearer.saturating_add(1000).clamp(100, 100_000);
        u128::from(weight.unsigned_abs())
    }
}

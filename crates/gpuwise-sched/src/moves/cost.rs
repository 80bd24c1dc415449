//! What a disturbance costs: GPU-time that is lost.

use super::Moves;
use crate::{
    queues::milli_of,
    world::{JobState, Phase, World},
};
use gpuwise_domain::placement::{Job, JobId, Preemption, QueueId};
use gpuwise_units::Nanoseconds;

/// How somebody is disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// It goes on without this worker, by its place in the list of seats.
    Shrink(u32),
    /// It is idle and loses its GPUs.
    Reclaim,
    /// It saves its state and goes on elsewhere.
    Move,
    /// It stops and waits, from its last checkpoint.
    Stop,
}

/// One disturbance and its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disturbance {
    /// Who.
    pub job: JobId,
    /// How.
    pub way: Way,
    /// What is lost, in thousandths of a GPU times nanoseconds, made dearer by priority; at least 1.
    pub cost: u128,
}

/// From starting a job again until it goes on where it was; `None`: it may not be stopped.
pub(super) const fn restart_of(job: &Job) -> Option<Nanoseconds> {
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

/// Whom a job may disturb.
#[derive(Debug, Clone, Copy)]
pub(super) struct For<'a> {
    pub(super) job: &'a Job,
    /// Whether it takes back what it had lent while it was idle.
    pub(super) returns: bool,
    pub(super) moves: &'a Moves,
    pub(super) now: Nanoseconds,
}

impl For<'_> {
    /// In which ways somebody may be disturbed, and what each costs.
    pub(super) fn ways(&self, world: &World, id: JobId, found: &mut Vec<Disturbance>) {
        let Some(state) = world.job(id) else { return };
        if id == self.job.id || !state.phase.holds_gpus() || state.stopping {
            return;
        }
        // Whose queue has GPUs kept there makes way for nobody else: what is lent comes back for good.
        if state.job.queue != self.job.queue && self.is_kept_for(world, state.job.queue, state) {
            return;
        }
        let victim = &state.job;
        let milli = u128::from(milli_of(world, &state.seats).max(1));
        let weight = self.weight(victim.priority);
        let cost = |lost: u64| (u128::from(lost) * milli * weight / 1000).max(1);
        let mut push = |way, cost| {
            found.push(Disturbance { job: id, way, cost });
        };
        if let Some(idle) = self.moves.reclaim
            && self.may_borrow(victim)
            && state
                .quiet_since(idle.busy_milli)
                .is_some_and(|since| self.now.0.saturating_sub(since.0) >= idle.after.0)
        {
            push(Way::Reclaim, cost(idle.reload.0));
        }
        let Preemption::Allowed { restart, .. } = victim.preemption else {
            return;
        };
        let below = victim.priority < self.job.priority;
        let not_above = victim.priority <= self.job.priority;
        let running = matches!(state.phase, Phase::Running { .. });
        let spare = (state.seats.len() as u32).saturating_sub(victim.gang.least.max(1));
        let wanted = victim.gang.preferred.max(victim.gang.least);
        let beyond = state.seats.len() as u32 > wanted;
        if self.moves.elastic && running && spare > 0 && (not_above || beyond) {
            for seat in 0..state.seats.len() as u32 {
                push(Way::Shrink(seat), cost(restart.0));
            }
        }
        if self.moves.migrate && running && not_above {
            push(Way::Move, cost(restart.0));
        }
        let others = state.job.queue != self.job.queue;
        let lent = self.moves.lend && others && self.is_kept_for(world, self.job.queue, state);
        if lent || self.moves.preempt && (below || self.returns && not_above) {
            let lost = lost_work(state, self.now).0.saturating_add(restart.0);
            push(Way::Stop, cost(lost));
        }
    }

    /// Whether a job sits on a node where GPUs are kept now for a queue.
    fn is_kept_for(&self, world: &World, queue: Option<QueueId>, state: &JobState) -> bool {
        queue.is_some()
            && world.reservations().iter().any(|kept| {
                Some(kept.queue) == queue
                    && kept.from <= self.now
                    && self.now < kept.until
                    && state.seats.iter().any(|seat| seat.node == kept.node)
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
        state.seats.len().saturating_sub(floor.max(1) as usize)
    }

    /// What an idle holder gives up comes back to it on demand: the job can be stopped for it, or it
    /// stands above it anyway.
    fn may_borrow(&self, holder: &Job) -> bool {
        let stoppable = matches!(self.job.preemption, Preemption::Allowed { .. });
        stoppable || self.job.priority > holder.priority
    }

    /// Thousandths by which a victim of this priority is dearer; a tenth to a hundred times.
    fn weight(&self, priority: i32) -> u128 {
        let dearer = i64::from(priority) * i64::from(self.moves.priority_milli);
        let weight = dearer.saturating_add(1000).clamp(100, 100_000);
        u128::from(weight.unsigned_abs())
    }
}

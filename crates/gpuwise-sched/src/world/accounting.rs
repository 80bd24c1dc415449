//! What jobs and queues have used, booked whenever assignments change.

use super::{JobState, Phase, World, stints};
use crate::{queues::milli_of, rounds::pairs};
use gpuwise_domain::placement::{Assignment, JobId, Preemption};
use gpuwise_units::Nanoseconds;

impl JobState {
    /// What of its work is kept when it stops: what its last checkpoint has. Who is only idle keeps all.
    pub(super) fn kept(&self, done: Nanoseconds, idle: bool) -> Nanoseconds {
        match self.job.preemption {
            _ if idle => done,
            // What it says itself goes before what is planned.
            _ if self.rare.checkpoint.is_some() => {
                self.rare.checkpoint.unwrap_or_default().min(done)
            }
            Preemption::Never => Nanoseconds(0),
            Preemption::Allowed {
                checkpoint_every, ..
            } => Nanoseconds(done.0 - done.0.checked_rem(checkpoint_every.0).unwrap_or(0)),
        }
    }

    /// Thousandths of GPUs that its workers hold, times nanoseconds, until now.
    pub fn served_until(&self, world: &World, at: Nanoseconds) -> u128 {
        let held: u64 = milli_of(world, &self.assignments);
        let span = at.0.saturating_sub(self.seated.0);
        self.served() + u128::from(held) * u128::from(span)
    }
}

impl World {
    /// Work that a job does in a second now, in thousandths of what it does at speed 1000 with its
    /// preferred number of workers: of the slowest of its GPUs, by how many workers it has.
    pub fn pace_milli(&self, state: &JobState, assignments: &[Assignment]) -> u64 {
        let kinds = assignments
            .iter()
            .flat_map(|assignment| &assignment.gpus)
            .filter_map(|share| self.gpu(share.gpu));
        let slowest = kinds.map(|gpu| state.job.speed(gpu.gpu.kind)).min();
        let preferred = u64::from(state.job.gang.preferred.max(1));
        let pace = u64::from(slowest.unwrap_or(1000)) * assignments.len() as u64 / preferred;
        // Who shares its GPU with another is as fast as was measured beside it.
        let first = assignments.first().and_then(|one| one.gpus.first());
        first.map_or(pace, |share| pace * pairs::speed_milli(share.part) / 1000)
    }

    /// What a job has done until now: time at speed 1000 with its preferred number of workers.
    pub fn done_by(&self, at: Nanoseconds, job: JobId) -> Nanoseconds {
        let assignments = self.job(job).map_or(&[][..], |state| &state.assignments);
        self.progress(at, job, assignments)
    }

    fn progress(&self, at: Nanoseconds, job: JobId, assignments: &[Assignment]) -> Nanoseconds {
        let Some(state) = self.job(job) else {
            return Nanoseconds(0);
        };
        let Phase::Running { since } = state.phase else {
            return state.done;
        };
        let pace = u128::from(self.pace_milli(state, assignments));
        let span = u128::from(at.0.saturating_sub(since.0));
        let more = u64::try_from(span * pace / 1000).unwrap_or(u64::MAX);
        state.done + Nanoseconds(more)
    }

    /// Books that a job's assignments have changed; called before its phase does.
    pub(super) fn rebook_job(
        &mut self,
        at: Nanoseconds,
        job: JobId,
        old: &[Assignment],
        new: &[Assignment],
    ) {
        self.book(at, job, old, false);
        self.book(at, job, new, true);
        let held = milli_of(self, old);
        let done = self.progress(at, job, old);
        let kind = self.kind_of(old);
        let part = stints::part_milli(old);
        if let Some(state) = self.jobs.get_mut(job) {
            let span = at.0.saturating_sub(state.seated.0);
            state.serve(u128::from(held) * u128::from(span));
            state.note_stint(kind, part, at);
            state.seated = at;
            state.done = done;
        }
    }

    /// Books that a job stops; called before its phase changes. One that is only idle keeps its
    /// processor time and memory, and all that it has done.
    pub(super) fn stopped(&mut self, at: Nanoseconds, job: JobId, old: &[Assignment], idle: bool) {
        let bare = |assignment: &Assignment| Assignment {
            node: assignment.node,
            gpus: Vec::new(),
        };
        let kept: Vec<Assignment> = old.iter().filter(|_| idle).map(bare).collect();
        self.rebook_job(at, job, old, &kept);
        if let Some(state) = self.jobs.get_mut(job) {
            state.done = state.kept(state.done, idle);
        }
    }
}

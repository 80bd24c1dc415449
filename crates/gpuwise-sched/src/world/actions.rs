//! Actions begin, are done, or do not succeed.

use super::{
    Phase, Refused, World,
    underway::{Standing, Underway, subject},
};
use gpuwise_domain::placement::{Action, Assignment, Attempt, Cause, Failure, FailureCause, JobId};
use gpuwise_units::Nanoseconds;
use std::sync::Arc;

impl World {
    /// An action has begun, as is told; one that was heard of before changes nothing.
    pub(super) fn begun(
        &mut self,
        at: Nanoseconds,
        action: &Action,
        attempt: Attempt,
    ) -> Result<(), Refused> {
        if !attempt.is_numbered() {
            return self.begin(at, action, attempt);
        }
        match self.standing(action, attempt) {
            Standing::Ahead => return self.begin(at, action, attempt),
            Standing::Underway | Standing::Over => self.ignored.repeated += 1,
            Standing::Late => self.ignored.late += 1,
            Standing::Gone => self.ignored.unknown += 1,
        }
        Ok(())
    }

    pub(super) fn begin(
        &mut self,
        at: Nanoseconds,
        action: &Action,
        attempt: Attempt,
    ) -> Result<(), Refused> {
        let last = (self.attempts, self.last_of(action));
        let number = self.number(action, attempt);
        self.begin_numbered(at, action, number).inspect_err(|_| {
            self.attempts = last.0;
            self.set_last(action, last.1);
        })
    }

    fn last_of(&self, action: &Action) -> Attempt {
        let last = match subject(action) {
            Ok(job) => self.job(job).map(|state| state.attempt),
            Err(gpu) => self.gpu(gpu).map(|state| state.attempt),
        };
        last.unwrap_or_default()
    }

    fn set_last(&mut self, action: &Action, attempt: Attempt) {
        match subject(action) {
            Ok(job) => {
                if let Some(state) = self.jobs.get_mut(job) {
                    state.attempt = attempt;
                }
            }
            Err(gpu) => {
                if let Some(state) = self.gpus.get_mut(gpu.index()) {
                    state.attempt = attempt;
                }
            }
        }
    }

    fn begin_numbered(
        &mut self,
        at: Nanoseconds,
        action: &Action,
        attempt: Attempt,
    ) -> Result<(), Refused> {
        match action {
            Action::Place { job, assignments } | Action::Restore { job, assignments } => {
                let state = self.job(*job).ok_or(Refused::NoSuchJob(*job))?;
                let right = match action {
                    Action::Restore { .. } => matches!(state.phase, Phase::Reclaimed { .. }),
                    _ => state.phase.waits() && !state.hold,
                };
                if !right {
                    return Err(Refused::WrongPhase(*job));
                }
                self.assignment(at, *job, assignments, Underway::new(action, attempt, at))
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
                self.assignment(at, *job, assignments, Underway::new(action, attempt, at))
                    .inspect_err(|_| self.upkeep = before)
            }
            Action::Preempt { job, .. } | Action::Reclaim { job } => {
                self.begin_stop(at, *job, action, attempt)
            }
            device => self.begin_on_device(at, device, attempt),
        }
    }

    fn begin_stop(
        &mut self,
        at: Nanoseconds,
        job: JobId,
        action: &Action,
        attempt: Attempt,
    ) -> Result<(), Refused> {
        let state = self.job(job).ok_or(Refused::NoSuchJob(job))?;
        let reclaims = matches!(action, Action::Reclaim { .. });
        let mut told = Underway::new(action, attempt, at);
        if let Some(told) = &mut told {
            told.ready = true;
            told.deadline = Some(at + state.job.grace);
        }
        // It is where nobody wants it to be, and was not told yet.
        if state.stopping && state.stop().is_none() && state.assignments.is_empty() && !reclaims {
            if let Some(state) = self.jobs.get_mut(job) {
                state.rare.change(|rare| rare.stop = told.map(Box::new));
            }
            return Ok(());
        }
        let nothing = state
            .assignments
            .iter()
            .all(|assignment| assignment.gpus.is_empty());
        if state.assignments.is_empty() || state.stopping || reclaims && nothing {
            return Err(Refused::WrongPhase(job));
        }
        self.tell_to_stop(at, job, reclaims, told);
        Ok(())
    }

    /// An action is done, as is told.
    pub(super) fn done(
        &mut self,
        at: Nanoseconds,
        action: &Action,
        attempt: Attempt,
    ) -> Result<(), Refused> {
        if !attempt.is_numbered() {
            return self.done_here(at, action);
        }
        match self.standing(action, attempt) {
            Standing::Underway => {
                if self.ready_for(action).is_err() {
                    self.ignored.early += 1;
                }
                self.finish(at, action)?;
            }
            // Its beginning is still to be heard of: what is done has begun.
            Standing::Ahead => {
                if self.begin(at, action, attempt).is_ok() {
                    self.finish(at, action)?;
                } else {
                    self.heard_of(action, attempt);
                    self.ignored.unexpected += 1;
                }
            }
            Standing::Over if self.stops_after_all(at, action, attempt) => {}
            Standing::Over => self.ignored.repeated += 1,
            Standing::Late => self.ignored.late += 1,
            Standing::Gone => self.ignored.unknown += 1,
        }
        Ok(())
    }

    /// Notes that an attempt is over of which nothing was heard before, so that nothing of it counts any
    /// more.
    fn heard_of(&mut self, action: &Action, attempt: Attempt) {
        self.attempts = self.attempts.max(attempt.0);
        self.set_last(action, attempt);
    }

    /// A stop that had failed is done: the job is gone after all.
    fn stops_after_all(&mut self, at: Nanoseconds, action: &Action, attempt: Attempt) -> bool {
        let (Action::Preempt { job, .. } | Action::Reclaim { job }) = action else {
            return false;
        };
        let failed = |trouble: &super::Trouble| trouble.stop_failed == Some(attempt);
        let Some(state) = self.job(*job) else {
            return false;
        };
        let still = matches!(state.phase, Phase::Running { .. }) && state.stop().is_none();
        if !still || !state.trouble().is_some_and(failed) {
            return false;
        }
        self.tell_to_stop(at, *job, matches!(action, Action::Reclaim { .. }), None);
        self.left(*job);
        true
    }

    /// An action is done by whoever planned it, so that nothing comes late.
    fn done_here(&mut self, at: Nanoseconds, action: &Action) -> Result<(), Refused> {
        self.ready_for(action)?;
        if !self.is_under_way(action) {
            // Only with what it holds can it be told whether there is room beside those who leave.
            let before = self.is_being_left(action).then(|| self.clone());
            self.begin(at, action, Attempt::UNNUMBERED)?;
            if let Some(before) = before
                && let Err(refused) = self.ready_for(action)
            {
                *self = before;
                return Err(refused);
            }
        }
        self.finish(at, action)
    }

    /// What is under way is done.
    fn finish(&mut self, at: Nanoseconds, action: &Action) -> Result<(), Refused> {
        self.note_tempo(at, action);
        match action {
            Action::Place { job, .. }
            | Action::Restore { job, .. }
            | Action::Move { job, .. }
            | Action::Resize { job, .. } => {
                self.left(*job);
                let state = self.jobs.get_mut(*job).ok_or(Refused::NoSuchJob(*job))?;
                state.phase = Phase::Running { since: at };
                state.start = None;
                self.succeeded(*job);
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

    fn note_tempo(&mut self, at: Nanoseconds, action: &Action) {
        let begun = match subject(action) {
            Ok(job) => {
                let Some(state) = self.job(job) else { return };
                let stops = matches!(action, Action::Preempt { .. } | Action::Reclaim { .. });
                let one = if stops { state.stop() } else { state.start() };
                let ready = one.filter(|one| one.ready);
                ready.map(|one| one.begun)
            }
            Err(gpu) => self.gpu(gpu).map(|gpu| gpu.begun),
        };
        if let Some(begun) = begun
            && at > begun
        {
            let pool = subject(action).err().and_then(|gpu| self.pool_of(gpu));
            self.tempo.note(action, pool, Nanoseconds(at.0 - begun.0));
        }
    }

    /// An action did not succeed, or was called off (`failure` is `None`).
    pub(super) fn failed(
        &mut self,
        at: Nanoseconds,
        action: &Action,
        attempt: Attempt,
        failure: Option<&Failure>,
    ) -> Result<(), Refused> {
        match self.standing(action, attempt) {
            Standing::Underway => self.gives_up(at, action, failure),
            Standing::Ahead if !attempt.is_numbered() => return Err(Refused::NotUnderway),
            // Its beginning is still to be heard of, and will be late then.
            Standing::Ahead => {
                self.heard_of(action, attempt);
                self.blame(at, action, attempt, failure);
            }
            Standing::Over => self.ignored.repeated += 1,
            Standing::Late => self.ignored.late += 1,
            Standing::Gone => self.ignored.unknown += 1,
        }
        Ok(())
    }

    fn blame(
        &mut self,
        at: Nanoseconds,
        action: &Action,
        attempt: Attempt,
        failure: Option<&Failure>,
    ) {
        let Some(failure) = failure.filter(|one| {
            // Who carries out what it planned itself, and does not say why, tries again as it likes.
            attempt.is_numbered() || one.cause != FailureCause::Unknown
        }) else {
            return;
        };
        match action {
            Action::Place { job, assignments } | Action::Restore { job, assignments } => {
                self.blame_start(at, *job, assignments, failure);
            }
            Action::Move { job, .. } | Action::Resize { job, .. } => {
                self.blame_stay(at, *job, None, failure);
            }
            Action::Preempt { job, .. } | Action::Reclaim { job } => {
                self.blame_stay(at, *job, Some(attempt), failure);
            }
            _ => {}
        }
    }

    fn gives_up(&mut self, at: Nanoseconds, action: &Action, failure: Option<&Failure>) {
        let attempt = self.attempt_of(action).unwrap_or_default();
        let seated = self.seated_by(action);
        match action {
            Action::Place { job, .. }
            | Action::Restore { job, .. }
            | Action::Move { job, .. }
            | Action::Resize { job, .. } => self.unseat(at, *job),
            Action::Preempt { job, .. } | Action::Reclaim { job } => self.stays(at, *job),
            Action::CreateInstance { gpu, start, .. } => self.creation_failed(at, *gpu, *start),
            Action::DestroyInstance { gpu, start } => self.destruction_failed(at, *gpu, *start),
            Action::Attach { gpu, .. } => self.unattach(at, *gpu),
            Action::Detach { gpu } => self.linked(*gpu),
            Action::SetMig { gpu, .. } => {
                self.unseat_all_on(at, *gpu);
                self.switch_back(*gpu);
                self.recount_around(*gpu);
            }
        }
        self.blame(at, action, attempt, failure);
        // Who lost his place because a device did not do what it was told is not sent there again at once.
        if let Some(failure) = failure {
            for (job, before) in seated {
                if self
                    .job(job)
                    .is_some_and(|state| state.assignments != before)
                {
                    self.blame_start(at, job, &before, failure);
                }
            }
        }
    }

    /// Who is on the GPU that an action cuts or brings, and where.
    fn seated_by(&self, action: &Action) -> Vec<(JobId, Vec<Assignment>)> {
        let prepares = matches!(
            action,
            Action::CreateInstance { .. } | Action::SetMig { .. } | Action::Attach { .. }
        );
        let Some(gpu) = subject(action).err().filter(|_| prepares) else {
            return Vec::new();
        };
        let holders = self.holders_of(gpu).into_iter();
        holders
            .filter_map(|job| Some((job, self.job(job)?.assignments.clone())))
            .collect()
    }
}

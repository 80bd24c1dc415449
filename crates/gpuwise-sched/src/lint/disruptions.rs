//! Who is disrupted, for whom, and whether that is allowed.

use super::{Check, Limits, Rule, account::JobActivity};
use gpuwise_domain::placement::{Action, Assignment, Cause, JobId, Plan, Preemption};
use std::collections::BTreeSet;

impl Check<'_> {
    pub(super) fn preempt(&mut self, id: JobId, cause: Cause) {
        // Who is where nobody wants it to be is told to leave, whatever it was promised.
        let stray = self.world.job(id).is_some_and(|state| {
            let nowhere = state.assignments.is_empty() && state.leaving_hosts().is_empty();
            cause == Cause::Drift && state.stop().is_none() && state.stopping && !nowhere
        });
        if stray
            && self
                .account
                .job(id)
                .is_some_and(|used| used.doing == JobActivity::Waits)
        {
            return;
        }
        let reclaimed = self.account.job(id).is_some_and(|used| {
            // It still has processor time and memory.
            used.doing == JobActivity::Reclaimed && !used.assignments.is_empty()
        });
        if reclaimed || self.expect(id, JobActivity::Runs, "preempted, but it does not run") {
            self.may_stop(id, cause);
            self.may_be_told(id);
            self.account.give_back(id);
            if let Some(used) = self.account.job(id) {
                used.doing = JobActivity::Waits;
            }
        }
    }

    pub(super) fn moved(&mut self, id: JobId, assignments: &[Assignment], cause: Cause) {
        if self.expect(id, JobActivity::Runs, "moved, but it does not run") {
            self.may_stop(id, cause);
            self.may_be_told(id);
            let kept = self.account.give_back(id);
            self.take(id, assignments, &kept);
        }
    }

    pub(super) fn reclaim(&mut self, id: JobId) {
        if self.expect(id, JobActivity::Runs, "reclaimed, but it has nothing") {
            self.may_be_told(id);
            let assignments = self.account.give_gpus_back(id);
            if assignments
                .iter()
                .all(|assignment| assignment.gpus.is_empty())
            {
                let what = format!("{} is reclaimed, but it has no GPU", self.job_name(id));
                self.error(Rule::Phase, what);
            }
            if let Some(used) = self.account.job(id) {
                used.doing = JobActivity::Reclaimed;
            }
        }
    }

    fn may_stop(&mut self, id: JobId, cause: Cause) {
        let Some(victim) = self.world.job(id).map(|state| &state.job) else {
            return;
        };
        if victim.preemption == Preemption::Never {
            let what = format!("job {} may not be stopped", victim.name);
            // A node that is drained empties itself of everybody in the end.
            match cause {
                Cause::Drain => self.warn(Rule::Disruption, what),
                _ => self.error(Rule::Disruption, what),
            }
        }
        let Cause::For(other) = cause else { return };
        let Some(preemptor) = self.world.job(other).map(|state| &state.job) else {
            let what = format!(
                "job {} is stopped for job {other}, which is not",
                victim.name
            );
            self.error(Rule::Unknown, what);
            return;
        };
        // On what is reserved for its queue a job goes before all others.
        let lent = self.world.reservations().iter().any(|reservation| {
            let on = self.world.job(id).is_some_and(|state| {
                let mut assignments = state.assignments.iter();
                assignments.any(|assignment| assignment.node == reservation.node)
            });
            let mine =
                preemptor.queue == Some(reservation.queue) && victim.queue != preemptor.queue;
            on && mine && reservation.from <= self.now && self.now < reservation.until
        });
        if victim.priority > preemptor.priority && !lent {
            let what = format!(
                "job {} of priority {} is stopped for job {} of priority {}",
                victim.name, victim.priority, preemptor.name, preemptor.priority
            );
            self.error(Rule::Disruption, what);
        }
    }

    /// What the whole plan disrupts.
    pub(super) fn disruptions(&mut self, plan: &Plan, limits: Limits) {
        let mut disrupted: BTreeSet<JobId> = BTreeSet::new();
        let mut lost: u128 = 0;
        for (at, action) in plan.actions.iter().enumerate() {
            let (job, cause) = match action {
                Action::Preempt { job, cause } | Action::Move { job, cause, .. } => (*job, *cause),
                Action::Reclaim { job } => {
                    disrupted.insert(*job);
                    continue;
                }
                _ => continue,
            };
            if disrupted.insert(job) {
                lost += self.loses(job);
            }
            if let Cause::For(other) = cause {
                let later = plan.actions.get(at + 1..).unwrap_or_default();
                if !later.iter().any(|action| gives(action, other)) {
                    let (victim, name) = (self.job_name(job), self.job_name(other));
                    let what = format!("{victim} is disrupted for {name}, which gets nothing");
                    self.at = u32::try_from(at).ok();
                    self.error(Rule::Disruption, what);
                    self.at = None;
                }
            }
        }
        if let Some(most) = limits.disrupted
            && disrupted.len() > most as usize
        {
            let what = format!("{} jobs are disrupted; {most} may be", disrupted.len());
            self.error(Rule::Disruption, what);
        }
        if let Some(most) = limits.lost
            && lost > u128::from(most.0)
        {
            let seconds = |nanoseconds: u128| nanoseconds / 1_000_000_000;
            let what = format!(
                "{} GPU-seconds of work are lost; {} may be",
                seconds(lost),
                seconds(u128::from(most.0))
            );
            self.error(Rule::Disruption, what);
        }
    }

    /// GPU-time that stopping a job loses, in nanoseconds: half an interval between checkpoints and a
    /// restart, on each of the GPUs that it has in the world.
    fn loses(&self, id: JobId) -> u128 {
        let Some(state) = self.world.job(id) else {
            return 0;
        };
        let Preemption::Allowed {
            checkpoint_every,
            restart,
        } = state.job.preemption
        else {
            return 0;
        };
        let shares: usize = state
            .assignments
            .iter()
            .map(|assignment| assignment.gpus.len())
            .sum();
        let each = u128::from(checkpoint_every.0 / 2) + u128::from(restart.0);
        each * shares as u128
    }
}

/// Whether an action gives a job assignments.
fn gives(action: &Action, id: JobId) -> bool {
    match action {
        Action::Place { job, .. }
        | Action::Restore { job, .. }
        | Action::Resize { job, .. }
        | Action::Move { job, .. } => *job == id,
        _ => false,
    }
}

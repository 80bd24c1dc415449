//! Preemption by class of service: jobs of a lower class run, and those of a higher one are preempted for
//! them.
//!
//! Classes are steps of GPU time, each four times as long as the one before: what a job has held (least
//! attained service; in steps, so that equals do not preempt each other in turn), or what it has left
//! (shortest remaining service first).

use super::{
    Discipline,
    run::{Failure, Replay, What},
};
use gpuwise_domain::placement::{Action, Cause, Event, JobId, Plan, TimestampedEvent};
use gpuwise_sched::{
    decide::{Effort, decide},
    world::World,
};
use gpuwise_units::Nanoseconds;

/// GPU time of the first class: a GPU for a quarter of an hour, in thousandths of GPUs times nanoseconds.
const FIRST: u128 = 900_000_000_000_000;
/// How many times longer each class is than the one before.
const STEP: u128 = 4;

impl<W: FnMut(&World, &Plan)> Replay<'_, W> {
    fn class(&self, now: Nanoseconds, id: JobId) -> u32 {
        let Some(state) = self.world.job(id) else {
            return u32::MAX;
        };
        let measure = if self.discipline == Discipline::LeastServed {
            state.served_until(&self.world, now)
        } else {
            // What is left.
            self.cluster.jobs.get(id.index()).map_or(0, |job| {
                let done = self.world.done_by(now, id).0;
                u128::from(job.duration.0.saturating_sub(done)) * u128::from(job.gpus) * 1000
            })
        };
        let mut class = 0;
        let mut edge = FIRST;
        while measure >= edge && class < 32 {
            edge = edge.saturating_mul(STEP);
            class += 1;
        }
        class
    }

    /// When a job that runs from now on has held so much that it goes up a step.
    pub(super) fn next_class(&mut self, now: Nanoseconds, id: JobId, start: u32) {
        if self.discipline != Discipline::LeastServed {
            return;
        }
        let (Some(state), Some(traced)) = (self.world.job(id), self.cluster.jobs.get(id.index()))
        else {
            return;
        };
        let served = state.served_until(&self.world, now);
        let mut edge = FIRST;
        while edge <= served {
            edge = edge.saturating_mul(STEP);
        }
        let pace = u128::from(traced.gpus) * 1000;
        let after = (edge - served).div_ceil(pace);
        if let Ok(after) = u64::try_from(after) {
            self.at(now + Nanoseconds(after), What::Class, id, start);
        }
    }

    /// Who waits gets a place, by class and as it came; those of higher class are stopped for it.
    pub(super) fn schedule_by_class(&mut self, now: Nanoseconds) -> Result<(), Failure> {
        let mut line: Vec<(u32, JobId)> = self
            .waiting
            .iter()
            .map(|id| (self.class(now, *id), *id))
            .collect();
        line.sort_unstable();
        // Of those who found no place: as many GPUs and no lower class find none either.
        let mut failed: Vec<(u32, u32)> = Vec::new();
        for (class, id) in line {
            let gpus = self.cluster.jobs.get(id.index()).map_or(0, |job| job.gpus);
            if failed
                .iter()
                .any(|(least, of)| *of == gpus && *least <= class)
            {
                continue;
            }
            self.looked();
            let (plan, _) = decide(now, &self.world, &[id], &mut self.policy, Effort::BARE);
            let plan = if plan.actions.is_empty() {
                self.stops_for(now, class, id)
            } else {
                Some(plan)
            };
            match plan {
                Some(plan) => self.carry_out(now, &plan)?,
                None => failed.push((class, gpus)),
            }
        }
        Ok(())
    }

    /// A plan that stops as few as it must of those of higher class; the last of the highest first.
    fn stops_for(&mut self, now: Nanoseconds, class: u32, id: JobId) -> Option<Plan> {
        let mut others: Vec<(u32, JobId)> = self
            .world
            .jobs()
            .filter(|(_, state)| state.phase.holds_gpus())
            .map(|(other, _)| (self.class(now, other), other))
            .filter(|(other, _)| *other > class)
            .collect();
        others.sort_unstable_by(|a, b| b.cmp(a));
        let others: Vec<JobId> = others.into_iter().map(|(_, id)| id).collect();
        let mut tries = |victims: &[JobId]| self.placed_without(now, victims, id);
        tries(&others)?;
        // More stopped never fits less, so the least number is found by halving.
        let (mut few, mut enough) = (0, others.len());
        while few < enough {
            let middle = usize::midpoint(few, enough);
            if tries(others.get(..middle).unwrap_or_default()).is_some() {
                enough = middle;
            } else {
                few = middle + 1;
            }
        }
        let mut chosen = others.get(..enough).unwrap_or_default().to_vec();
        let mut at = 0;
        while at < chosen.len() {
            let mut fewer = chosen.clone();
            fewer.remove(at);
            if tries(&fewer).is_some() {
                chosen = fewer;
            } else {
                at += 1;
            }
        }
        tries(&chosen)
    }

    /// The plan that stops these and places a job.
    fn placed_without(&mut self, now: Nanoseconds, victims: &[JobId], id: JobId) -> Option<Plan> {
        let mut world = self.world.clone();
        let mut actions: Vec<Action> = Vec::with_capacity(victims.len() + 1);
        for job in victims {
            let cause = Cause::RoundEnd;
            let action = Action::Preempt { job: *job, cause };
            let event = Event::begun(action.clone());
            world.apply(&TimestampedEvent { at: now, event }).ok()?;
            actions.push(action);
        }
        let (mut plan, _) = decide(now, &world, &[id], &mut self.policy, Effort::BARE);
        if plan.actions.is_empty() {
            return None;
        }
        actions.append(&mut plan.actions);
        Some(Plan { actions, ..plan })
    }
}

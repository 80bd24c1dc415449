//! One job after the other: it is placed, others are disrupted for it, or it waits and is told why.

use super::{Effort, Policy, gang};
use crate::{
    disruption::{self, Victims},
    policy::FirstFit,
    queues::{self, AdmissionGate},
    world::World,
};
use gpuwise_domain::placement::{
    Action, Cause, Decision as Decided, Event, Gang, Job, JobId, NodeId, Outcome, Plan, Report,
    Shortage, Spread, TimestampedEvent, TopologyWish, WorkerAsk,
};
use gpuwise_units::Nanoseconds;
use std::borrow::Cow;

/// A decision that is being made.
pub(super) struct Decision<'a> {
    pub(super) now: Nanoseconds,
    /// Copied only if somebody is placed while others are still to be looked at.
    pub(super) world: Cow<'a, World>,
    pub(super) plan: Plan,
    pub(super) report: Report,
    pub(super) gate: AdmissionGate,
    pub(super) policy: &'a mut Policy,
    pub(super) effort: Effort,
    /// Asks that found no place: what is alike finds none either, as long as nobody was disrupted.
    pub(super) failed: Vec<Shape>,
}

/// What decides where a job of no queue finds a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    worker: WorkerAsk,
    gang: Gang,
    topology: Option<TopologyWish>,
    spread: Option<Spread>,
}

impl Shape {
    const fn of(job: &Job) -> Self {
        Self {
            worker: job.worker,
            gang: job.gang,
            topology: job.topology,
            spread: job.spread,
        }
    }
}

impl Decision<'_> {
    /// Decides on one job; whether those behind it are looked at.
    pub(super) fn look_at(&mut self, id: JobId, aged: bool, more: bool) -> bool {
        let Some(state) = self.world.job(id) else {
            return true;
        };
        // Who takes back GPUs keeps what it has of its node, which only disruptions know of.
        let returns = state.wanted.is_some();
        let job = &state.job;
        // Who avoids nodes is like nobody else.
        let plain = job.queue.is_none() && state.avoids(self.now).next().is_none();
        let shape = plain.then(|| Shape::of(job));
        let known = shape.is_some_and(|shape| self.failed.contains(&shape));
        let found = if returns || known {
            Err(None)
        } else {
            place(&self.world, job, self.policy, &mut self.gate, self.now)
        };
        match found {
            Ok(found) => {
                self.placed(id, found, more);
                true
            }
            Err(short) => {
                if let Some(shape) = shape.filter(|_| !returns && !known && short.is_none()) {
                    self.failed.push(shape);
                }
                if self.preempts(id, returns, short) {
                    self.failed.clear();
                    return true;
                }
                let strict = !self.policy.skips && self.policy.limits.reservations == 0;
                let Some(shortage) = short else {
                    self.finds_no_place(id, aged && !returns, None);
                    return !strict;
                };
                let job = self.world.job(id).map(|state| &state.job);
                let closed = job.and_then(|job| self.gate.behind(&self.world, job));
                let ahead = matches!(
                    shortage,
                    Shortage::BehindHead { .. }
                        | Shortage::Reserved { .. }
                        | Shortage::Avoided { .. }
                );
                if ahead && closed.is_none() {
                    self.finds_no_place(id, aged, Some(shortage));
                    return true;
                }
                // Who has waited too long for its queue's quota is not passed by others of the queue.
                if aged || strict {
                    self.gate.close(shortage, id);
                }
                self.waits(id, shortage, None);
                true
            }
        }
    }

    fn placed(&mut self, job: JobId, found: gang::GangPlacement, more: bool) {
        let first = self.plan.actions.len();
        self.plan.actions.extend(found.prepare);
        self.plan.actions.push(Action::Place {
            job,
            assignments: found.assignments,
        });
        self.report.decisions.push(Decided {
            job,
            outcome: Outcome::Placed,
            candidates: found.candidates,
            weighed: found.weighed,
        });
        if more {
            let taken = self.plan.actions.get(first..).unwrap_or_default();
            hold(self.world.to_mut(), self.now, taken);
        }
    }

    /// Disrupts others for a job where that is allowed; whether it has a place now.
    ///
    /// Only one who delays nobody with a reserved start, and whose queue may take all that it asks for,
    /// has others disrupted; or one whose queue reclaims what it lent.
    fn preempts(&mut self, id: JobId, returns: bool, short: Option<Shortage>) -> bool {
        let disrupts = returns || self.policy.disruptions.any();
        let job = self.world.job(id).map(|state| &state.job);
        let Some(job) = job.filter(|job| disrupts || job.queue.is_some()) else {
            return false;
        };
        let job = job.clone();
        let free = self.gate.reservations() == 0 && short.is_none();
        let whole = free
            && queues::admit(&self.world, &job, self.now).is_ok_and(|admitted| {
                matches!(
                    queues::narrowed(&self.world, &job, admitted),
                    Cow::Borrowed(_)
                )
            });
        let disruptions = self.policy.disruptions;
        if returns || disruptions.any() && whole {
            let world = self.world.to_mut();
            if let Some(victims) =
                disruption::select_victims(world, id, &disruptions, self.effort, self.now)
            {
                hold(world, self.now, &victims.actions);
                self.report.decisions.push(preempted_for(id, &victims));
                self.plan.actions.extend(victims.actions);
                return true;
            }
        }
        let quota = matches!(short, None | Some(Shortage::Quota(_)));
        !returns && quota && self.reclaims(&job)
    }

    /// A queue reclaims what it lent: stops no more jobs of others than it must to place one of its own.
    fn reclaims(&mut self, job: &Job) -> bool {
        let victims = queues::reclaimable(&self.world, job, self.now);
        let stops = |victims: &[JobId]| -> Vec<Action> {
            let cause = Cause::Reclaim;
            let stop = |victim: &JobId| Action::Preempt {
                job: *victim,
                cause,
            };
            victims.iter().map(stop).collect()
        };
        let tries = |victims: &[JobId], one: &mut Self| {
            let mut world = one.world.clone().into_owned();
            hold(&mut world, one.now, &stops(victims));
            let mut plain = Policy::new(Box::new(FirstFit));
            plain.limits = one.policy.limits;
            let mut gate = one.gate.clone();
            place(&world, job, &mut plain, &mut gate, one.now).ok()
        };
        let most = self.effort.steps.min(victims.len() as u64) as usize;
        let enough = (1..=most).find(|count| {
            let some = victims.get(..*count).unwrap_or_default();
            tries(some, self).is_some()
        });
        let Some(enough) = enough else {
            return false;
        };
        let mut chosen: Vec<JobId> = victims.into_iter().take(enough).collect();
        // Whoever is not needed after all is left alone, the dearest first.
        let mut at = 0;
        while at < chosen.len() {
            let mut fewer = chosen.clone();
            fewer.remove(at);
            if tries(&fewer, self).is_some() {
                chosen = fewer;
            } else {
                at += 1;
            }
        }
        let Some(found) = tries(&chosen, self) else {
            return false;
        };
        let stops = stops(&chosen);
        hold(self.world.to_mut(), self.now, &stops);
        self.plan.actions.extend(stops);
        self.placed(job.id, found, true);
        true
    }

    /// A job that finds no place waits; its start is reserved where it is its turn for that.
    /// What is short is looked for where nothing is said of it.
    fn finds_no_place(&mut self, id: JobId, aged: bool, told: Option<Shortage>) {
        let limits = self.policy.limits;
        let most = limits.reservations.max(u32::from(aged)) as usize;
        let Some(job) = self.world.job(id).map(|state| &state.job) else {
            return;
        };
        let cuts = self.world.kinds().iter().any(|kind| kind.mig.is_some());
        if self.gate.reservations() >= most && !self.effort.explains && !cuts {
            return self.waits(id, told.unwrap_or(Shortage::Untold), None);
        }
        let job = job.clone();
        let start = if self.gate.reservations() < most {
            // Futures are looked at without what the policy remembers of the present.
            let mut plain = Policy::new(Box::new(FirstFit));
            let mut assignments = |future: &World, closed: &[NodeId]| {
                let found = gang::assignments(future, &job, &mut plain, closed)?;
                Some((found.assignments, found.prepare))
            };
            let world = &self.world;
            self.gate.reserve(
                world,
                &job,
                self.now,
                limits.padding_sigmas,
                &mut assignments,
            )
        } else {
            None
        };
        let short = match told {
            Some(told) => told,
            None if self.effort.explains => self.policy.shortages.shortage(&self.world, &job),
            None => Shortage::Untold,
        };
        self.waits(id, short, start);
        let room = crate::mig::select_victims(&self.world, &job.worker.gpu);
        if !room.is_empty() {
            self.failed.clear();
            hold(self.world.to_mut(), self.now, &room);
            self.plan.actions.extend(room);
        }
    }

    /// All of these wait behind one who goes first.
    pub(super) fn behind(&mut self, head: JobId, jobs: impl Iterator<Item = JobId>) {
        for job in jobs {
            self.waits(job, Shortage::BehindHead { head }, None);
        }
    }

    /// Says of those who seek a place and get none wherever there is room why that is so.
    pub(super) fn barred(&mut self, demand: &[JobId]) {
        for id in demand {
            let state = self.world.job(*id).filter(|state| state.seeks());
            let why = state.and_then(|state| super::barred(&self.world, state, self.now));
            if let Some(why) = why {
                let start = match why {
                    Shortage::BackOff { until } => Some(until),
                    _ => None,
                };
                self.waits(*id, why, start);
            }
        }
    }

    fn waits(&mut self, job: JobId, shortage: Shortage, start: Option<Nanoseconds>) {
        self.report.decisions.push(Decided {
            job,
            outcome: Outcome::Waits {
                shortage,
                start,
                fixes: Vec::new(),
            },
            candidates: 0,
            weighed: Vec::new(),
        });
    }
}

/// Assignments for a job within what its queue may take, beside backfill reservations and reserved GPUs for others.
fn place(
    world: &World,
    job: &Job,
    policy: &mut Policy,
    gate: &mut AdmissionGate,
    now: Nanoseconds,
) -> Result<gang::GangPlacement, Option<Shortage>> {
    if let Some(head) = gate.behind(world, job) {
        return Err(Some(Shortage::BehindHead { head }));
    }
    let admitted = queues::admit(world, job, now)?;
    let narrowed = queues::narrowed(world, job, admitted);
    let avoided: Vec<(NodeId, Nanoseconds)> = world
        .job(job.id)
        .map_or_else(Vec::new, |state| state.avoids(now).collect());
    let mut closed: Vec<NodeId> = avoided.iter().map(|(node, _)| *node).collect();
    loop {
        let Some(found) = gang::assignments(world, &narrowed, policy, &closed) else {
            if let Some((node, until)) = avoided.first().copied()
                && gang::assignments(world, &narrowed, policy, &[]).is_some()
            {
                return Err(Some(Shortage::Avoided { node, until }));
            }
            let others = |node: &&NodeId| avoided.iter().all(|(other, _)| other != *node);
            let forbidden = closed.iter().find(others).map(|node| match gate.first() {
                Some(head) => Shortage::BehindHead { head },
                None => Shortage::Reserved { node: *node },
            });
            return Err(forbidden);
        };
        queues::within_quota(world, job, &found.assignments)?;
        let held = queues::Tentative {
            job: job.id,
            assignments: &found.assignments,
            prepare: &found.prepare,
        };
        let nodes = gate.offends(world, &held, now, policy.limits.padding_sigmas);
        let before = closed.len();
        closed.extend(&nodes);
        closed.sort_unstable();
        closed.dedup();
        if nodes.is_empty() {
            return Ok(found);
        }
        if closed.len() == before {
            return Err(gate.first().map(|head| Shortage::BehindHead { head }));
        }
    }
}

/// A decision for which somebody was disrupted, or something made ready.
fn preempted_for(job: JobId, victims: &Victims) -> Decided {
    // Thousandths of a GPU times nanoseconds are not for people.
    let lost = i64::try_from(victims.cost / 1_000_000_000_000).unwrap_or(i64::MAX);
    let disrupted = i64::try_from(victims.disrupted.len()).unwrap_or(i64::MAX);
    Decided {
        job,
        outcome: Outcome::Placed,
        candidates: 1,
        weighed: vec![
            ("disruptions".into(), disrupted),
            ("lost GPU-seconds".into(), lost),
        ],
    }
}

/// Begins actions in a copy of the world, so that those who are looked at next see them.
fn hold(world: &mut World, now: Nanoseconds, actions: &[Action]) {
    for action in actions {
        let event = Event::begun(action.clone());
        // What was just found free can be taken.
        let _ = world.apply(&TimestampedEvent { at: now, event });
    }
}

//! One job after the other: it is placed, others are disrupted for it, or it waits and is told why.

use super::{
    Effort, Policy, backlog, gang,
    verdicts::{ClassId, Verdicts},
};
use crate::{
    disruption::{self, Victims},
    policy::FirstFit,
    queues::{self, AdmissionGate},
    world::{StoredJob, World},
};
use gpuwise_domain::placement::{
    Action, Cause, Decision as Decided, Event, JobId, Kinds, NodeId, Outcome, Plan, QueueId,
    Report, Shortage, TimestampedEvent,
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
    /// What is known of those who ask alike.
    pub(super) verdicts: Verdicts,
    /// Steps that are left for what is reclaimed, reserved and said.
    pub(super) left: u64,
}

/// What came of a look at a job.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Whether those behind it are not looked at.
    pub(super) stops: bool,
    /// Whether nobody who is equal in all that counts gets anything now either.
    pub(super) closes: bool,
    /// The class that found no place, and the kinds of GPU on which that is so.
    pub(super) no_place: Option<(ClassId, Kinds)>,
}

/// What must be as it was, so that who got nothing gets nothing still: how often something was freed, how often
/// somebody came who may be stopped, and on a fleet with instances how often anything changed.
pub(super) type Generation = (u64, u64, u64);

impl<'a> Decision<'a> {
    pub(super) fn new(
        now: Nanoseconds,
        world: &'a World,
        policy: &'a mut Policy,
        effort: Effort,
    ) -> Self {
        let mut one = Self {
            now,
            world: Cow::Borrowed(world),
            plan: Plan {
                number: world.target() + 1,
                parent: world.target(),
                made: now,
                actions: Vec::new(),
            },
            report: Report::default(),
            gate: AdmissionGate::new(policy.disruptions.lend),
            policy,
            effort,
            verdicts: Verdicts::default(),
            left: effort.of_all(),
        };
        let due = |(until, _): &(Nanoseconds, NodeId)| *until <= now;
        if world.closed().first().is_some_and(due) {
            one.world.to_mut().reopen(now);
        }
        one
    }

    pub(super) fn generation(&self) -> Generation {
        let came = if self.policy.disruptions.of_jobs() {
            self.verdicts.came()
        } else {
            0
        };
        let changes = if self.world.cut() > 0 {
            self.world.changes().count()
        } else {
            0
        };
        (self.verdicts.freed(), came, changes)
    }

    /// Whether nobody who behind one that goes first goes ahead.
    const fn strict(&self) -> bool {
        !self.policy.skips && self.policy.limits.reservations == 0
    }

    /// Whether the start of one who finds no place would be reserved now.
    fn reserves(&self, aged: bool) -> bool {
        let most = self.policy.limits.reservations.max(u32::from(aged)) as usize;
        self.gate.reservations() < most && self.left > 0
    }

    /// Whether a look at those who are known to find no place changes nothing, but for what their queues may
    /// reclaim.
    pub(super) fn passes_blocked(&self, aged: bool) -> bool {
        let allowed = &self.policy.disruptions;
        let attaches = allowed.attach && !self.world.pools().is_empty();
        self.verdicts.freed() == 0
            && !self.strict()
            && !allowed.of_jobs()
            && !attaches
            && self.world.cut() == 0
            && !self.reserves(aged)
    }

    /// Whether a look at a job changes nothing that is known to find no place on some kinds of GPU.
    pub(super) fn passes(&self, id: JobId, blocked: Kinds, aged: bool) -> bool {
        if !self.passes_blocked(aged) {
            return false;
        }
        let Some(job) = self.world.job(id).map(|state| &state.job) else {
            return true;
        };
        if job.queue.is_none() {
            return true;
        }
        if self.has_budget(job) || !queues::borrowers(&self.world, job).is_empty() {
            return false;
        }
        queues::admit(&self.world, job, self.now).is_ok_and(|admitted| {
            let kinds = job.worker.gpu.kinds().and(admitted.kinds);
            kinds.and(blocked) == kinds
        })
    }

    /// Whether what a job costs counts: that differs between equals.
    fn has_budget(&self, job: &StoredJob) -> bool {
        let budget = |id: QueueId| self.world.queues().get(id.index())?.budget;
        queues::upwards(self.world.queues(), job.queue).any(|id| budget(id).is_some())
    }

    /// Decides on one job.
    pub(super) fn look_at(&mut self, id: JobId, aged: bool, more: bool) -> Looked {
        self.verdicts.asked = None;
        let Some(state) = self.world.job(id) else {
            return Looked::default();
        };
        // Who takes back GPUs keeps what it has of its node, which only disruptions know of.
        let returns = state.rare.wanted.is_some();
        let found = if returns {
            Err(None)
        } else {
            let known = Some(&mut self.verdicts);
            let job = &state.job;
            place(
                &self.world,
                job,
                self.policy,
                &mut self.gate,
                self.now,
                known,
                &mut self.left,
            )
        };
        match found {
            Ok(found) => {
                self.placed(id, found, more);
                Looked::default()
            }
            Err(short) => self.not_placed(id, aged, returns, short),
        }
    }

    /// Others are disrupted for a job that found no place, or it waits.
    fn not_placed(
        &mut self,
        id: JobId,
        aged: bool,
        returns: bool,
        short: Option<Shortage>,
    ) -> Looked {
        let asked = self.verdicts.asked;
        if self.preempts(id, returns, short) {
            self.verdicts.forget();
            return Looked::default();
        }
        let strict = self.strict();
        let budget = self.world.job(id).map(|state| self.has_budget(&state.job));
        let equal = !returns && budget == Some(false);
        let Some(shortage) = short else {
            self.finds_no_place(id, aged && !returns, None);
            let starves = self.policy.limits.starvation_timeout.is_some();
            return Looked {
                stops: strict,
                closes: equal && !self.reserves(starves),
                no_place: asked.filter(|_| !returns),
            };
        };
        let job = self.world.job(id).map(|state| &state.job);
        let head = job.and_then(|job| self.gate.behind(&self.world, job));
        let ahead = matches!(
            shortage,
            Shortage::BehindHead { .. } | Shortage::Reserved { .. } | Shortage::Avoided { .. }
        );
        // What an instance counts is known only where it is.
        let slice = job.is_some_and(backlog::asks_slice);
        let quota = matches!(shortage, Shortage::Quota(_)) && !slice;
        let closes = head.is_some() || equal && quota;
        if ahead && head.is_none() {
            self.finds_no_place(id, aged, Some(shortage));
            return Looked::default();
        }
        // Who has waited too long for its queue's quota is not passed by others of the queue.
        if aged || strict {
            self.gate.close(shortage, id);
        }
        self.waits(id, shortage, None);
        Looked {
            closes,
            ..Looked::default()
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
            if let Some(state) = self.world.job(job) {
                self.verdicts.placed(&state.job);
            }
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
        let class = self.verdicts.class(&self.world, job);
        let moves = self.policy.disruptions.migrate;
        let open = self.gate.reservations() == 0
            && short.is_none()
            && !self.verdicts.has_no_victims(class, job, moves);
        if open && !returns && !self.could_help(job) {
            let job = job.clone();
            self.verdicts.had_no_victims(class, &job, moves);
            return self.reclaims(id, class);
        }
        let asks = returns || open;
        if asks {
            let job = job.clone();
            let whole = queues::admit(&self.world, &job, self.now).is_ok_and(|admitted| {
                let narrowed = queues::narrowed(&self.world, &job, admitted);
                matches!(narrowed, Cow::Borrowed(_))
            });
            if (returns || whole) && self.disrupts(id) {
                return true;
            }
            if whole && !returns {
                self.verdicts.had_no_victims(class, &job, moves);
            }
        }
        let quota = matches!(short, None | Some(Shortage::Quota(_)));
        !returns && quota && self.reclaims(id, class)
    }

    /// Whether disruptions could make a place at all: somebody may be disrupted, or something made ready.
    fn could_help(&self, job: &StoredJob) -> bool {
        let allowed = &self.policy.disruptions;
        allowed.of_jobs() || disruption::could_prepare(&self.world, &job.worker, allowed)
    }

    fn disrupts(&mut self, id: JobId) -> bool {
        let disruptions = self.policy.disruptions;
        let mut steps = self.effort.steps.min(self.left);
        let before = steps;
        let world = self.world.to_mut();
        let found = disruption::victims_within(world, id, &disruptions, &mut steps, self.now);
        self.left -= before - steps;
        let Some(victims) = found else {
            return false;
        };
        hold(world, self.now, &victims.actions);
        self.report.decisions.push(preempted_for(id, &victims));
        self.plan.actions.extend(victims.actions);
        true
    }

    /// A queue reclaims what it lent: stops no more jobs of others than it must to place one of its own.
    fn reclaims(&mut self, id: JobId, class: ClassId) -> bool {
        let Some(job) = self.world.job(id).map(|state| &state.job) else {
            return false;
        };
        let borrowers = queues::borrowers(&self.world, job);
        let (Some(queue), false) = (job.queue, borrowers.is_empty()) else {
            return false;
        };
        if self.verdicts.reclaims_nothing(class, queue, &borrowers) {
            return false;
        }
        let job = job.clone();
        let Some((stops, found)) = self.least_reclaimed(&job) else {
            self.verdicts.reclaimed_nothing(class, queue, borrowers);
            return false;
        };
        hold(self.world.to_mut(), self.now, &stops);
        self.plan.actions.extend(stops);
        self.placed(job.id, found, true);
        true
    }

    /// The fewest stops by which a job finds a place: as many as it takes of those who go first, and of these
    /// none who is not needed after all.
    fn least_reclaimed(&mut self, job: &StoredJob) -> Option<(Vec<Action>, gang::GangPlacement)> {
        let victims = queues::reclaimable(&self.world, job, self.now);
        let mut left = self.effort.steps.min(self.left);
        let before = left;
        let price = 1 + self.world.nodes().len() as u64 / 16;
        let mut tries = |victims: &[JobId]| {
            left = left.checked_sub(price)?;
            let mut world = self.world.clone().into_owned();
            hold(&mut world, self.now, &stops_of(victims));
            let mut plain = Policy::new(Box::new(FirstFit));
            plain.limits = self.policy.limits;
            let mut gate = self.gate.clone();
            place(
                &world, job, &mut plain, &mut gate, self.now, None, &mut left,
            )
            .ok()
        };
        // The more of them stop, the more is free.
        let mut enough = 1;
        let mut found = None;
        while !victims.is_empty() {
            found = tries(victims.get(..enough).unwrap_or(&victims));
            if found.is_some() || enough >= victims.len() {
                break;
            }
            enough = (2 * enough).min(victims.len());
        }
        let mut found = found?;
        let mut chosen = victims;
        chosen.truncate(enough);
        let mut low = enough / 2;
        while low + 1 < chosen.len() {
            let middle = usize::midpoint(low, chosen.len());
            match tries(chosen.get(..middle).unwrap_or_default()) {
                Some(fewer) => {
                    chosen.truncate(middle);
                    found = fewer;
                }
                None => low = middle,
            }
        }
        // Whoever is not needed after all is left alone, the dearest first.
        let mut at = 0;
        while at < chosen.len() {
            let mut fewer = chosen.clone();
            fewer.remove(at);
            match tries(&fewer) {
                Some(without) => (chosen, found) = (fewer, without),
                None => at += 1,
            }
        }
        self.left = self.left.saturating_sub(before - left);
        Some((stops_of(&chosen), found))
    }

    /// A job that finds no place waits; its start is reserved where it is its turn for that.
    /// What is short is looked for where nothing is said of it.
    fn finds_no_place(&mut self, id: JobId, aged: bool, told: Option<Shortage>) {
        let limits = self.policy.limits;
        let most = limits.reservations.max(u32::from(aged)) as usize;
        let Some(job) = self.world.job(id).map(|state| &state.job) else {
            return;
        };
        let cuts =
            self.world.cut() > 0 && !self.verdicts.makes_no_room(&self.world, &job.worker.gpu);
        let reserves = self.gate.reservations() < most && self.left > 0;
        if !reserves && !self.effort.explains && !cuts {
            return self.waits(id, told.unwrap_or(Shortage::Untold), None);
        }
        let job = job.clone();
        let start = if reserves {
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
                &mut self.left,
            )
        } else {
            None
        };
        let short = match told {
            Some(told) => told,
            None if self.effort.explains && self.left > 0 => {
                let (world, index) = (&self.world, &mut self.policy.shortages);
                let left = &mut self.left;
                self.verdicts.short(world, &job, || {
                    *left = left.saturating_sub(1 + world.nodes().len() as u64 / 16);
                    index.shortage(world, &job)
                })
            }
            None => Shortage::Untold,
        };
        self.waits(id, short, start);
        if !cuts {
            return;
        }
        let room = crate::mig::select_victims(&self.world, &job.worker.gpu);
        if room.is_empty() {
            self.verdicts.made_no_room(&self.world, &job.worker.gpu);
        } else {
            self.verdicts.forget();
            hold(self.world.to_mut(), self.now, &room);
            self.plan.actions.extend(room);
        }
    }

    /// All of these wait behind one who goes first.
    pub(super) fn behind(&mut self, head: JobId, jobs: impl IntoIterator<Item = JobId>) {
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

/// Steps that another search costs which some nodes are closed to.
const TURN: u64 = 16;

/// Assignments for a job within what its queue may take, beside backfill reservations and reserved GPUs for others.
pub(super) fn place(
    world: &World,
    job: &StoredJob,
    policy: &mut Policy,
    gate: &mut AdmissionGate,
    now: Nanoseconds,
    mut verdicts: Option<&mut Verdicts>,
    left: &mut u64,
) -> Result<gang::GangPlacement, Option<Shortage>> {
    if let Some(head) = gate.behind(world, job) {
        return Err(Some(Shortage::BehindHead { head }));
    }
    let admitted = queues::admit(world, job, now)?;
    let narrowed = queues::narrowed(world, job, admitted);
    let padding = policy.limits.padding_sigmas;
    let class = verdicts.as_mut().map(|known| {
        let class = known.class(world, &narrowed);
        known.asked = Some((class, narrowed.worker.gpu.kinds()));
        class
    });
    let state = world.job(job.id);
    if let (Some(class), Some(known)) = (class, &verdicts) {
        known.leave_open(class, state, padding)?;
    }
    let mut none = |told: Option<Shortage>, avoids: bool| {
        if let (Some(class), Some(known)) = (class, verdicts.as_mut()) {
            match (told, state) {
                (None, _) => known.found_none(class),
                (Some(told), Some(state)) if !avoids => known.delayed(class, state, padding, told),
                _ => {}
            }
        }
        Err(told)
    };
    let avoided: Vec<(NodeId, Nanoseconds)> =
        state.map_or_else(Vec::new, |state| state.avoids(now).collect());
    let mut closed: Vec<NodeId> = avoided.iter().map(|(node, _)| *node).collect();
    loop {
        let Some(found) = gang::assignments(world, &narrowed, policy, &closed) else {
            if let Some((node, until)) = avoided.first().copied()
                && gang::assignments(world, &narrowed, policy, &[]).is_some()
            {
                return Err(Some(Shortage::Avoided { node, until }));
            }
            return none(forbidden(gate, &closed, &avoided), !avoided.is_empty());
        };
        queues::within_quota(world, job, &found.assignments)?;
        let held = queues::Tentative {
            job: job.id,
            assignments: &found.assignments,
            prepare: &found.prepare,
        };
        let nodes = gate.offends(world, &held, now, padding);
        if nodes.is_empty() {
            return Ok(found);
        }
        let before = closed.len();
        closed.extend(&nodes);
        closed.sort_unstable();
        closed.dedup();
        // Each turn closes a node, and there may be many.
        *left = left.saturating_sub(TURN);
        if closed.len() == before || *left == 0 {
            let told = gate.first().map(|head| Shortage::BehindHead { head });
            return told.map_or(Err(None), |told| none(Some(told), !avoided.is_empty()));
        }
    }
}

/// Why a place on a node that is closed may not be taken; `None`: where it only failed before nothing is closed.
fn forbidden(
    gate: &AdmissionGate,
    closed: &[NodeId],
    avoided: &[(NodeId, Nanoseconds)],
) -> Option<Shortage> {
    let others = |node: &&NodeId| avoided.iter().all(|(other, _)| other != *node);
    closed.iter().find(others).map(|node| match gate.first() {
        Some(head) => Shortage::BehindHead { head },
        None => Shortage::Reserved { node: *node },
    })
}

fn stops_of(victims: &[JobId]) -> Vec<Action> {
    let cause = Cause::Reclaim;
    let stop = |victim: &JobId| Action::Preempt {
        job: *victim,
        cause,
    };
    victims.iter().map(stop).collect()
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

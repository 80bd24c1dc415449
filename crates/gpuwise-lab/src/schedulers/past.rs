//! What ran on somebody's cluster, put to the scheduler on a fleet: which policy for my fleet?
//!
//! Every job comes when it was submitted, asks for what it had, and runs for as long as it did; how long is
//! known to policies that look at it. Actions take no time. Decided is when a job comes or ends, when a round begins, and
//! when time alone changes something: a reservation begins or ends, a budget's period is over, somebody has waited for
//! as long as the policy lets wait.

use gpuwise_domain::placement::{
    Action, Assignment, Ended, Event, Job, JobId, Plan, TimestampedEvent,
};
use gpuwise_sched::{
    decide::{Effort, Policy, Tells, decide_pending, moment_at, tidy_wake_at},
    disruption::tidy,
    queues::milli_of,
    world::{Refused, World},
};
use gpuwise_sim::fleet::PlansHash;
use gpuwise_units::Nanoseconds;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
};

/// What a past came to under a policy. GPU time is in thousandths of GPUs times nanoseconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PastRun {
    pub placed: u64,
    /// Jobs that never found a place.
    pub pending: u64,
    /// From being submitted to the first start, of those who got a place, in order.
    pub waits: Vec<Nanoseconds>,
    /// From being submitted to the end, over those who ended.
    pub completion: u128,
    pub ended: u64,
    pub makespan: Nanoseconds,
    pub held: u128,
    pub stops: u64,
    /// How often a job was moved.
    pub moves: u64,
    /// Work that was lost by stops.
    pub lost: u128,
    pub decisions: u64,
    pub plans: PlansHash,
}

/// Replays jobs on a world in which nothing of them is; each ends when it has done its duration.
///
/// # Errors
/// When an event cannot be applied: the plan was wrong.
pub fn replay_past(
    world: World,
    jobs: &[Job],
    policy: &mut Policy,
    doing: &mut dyn FnMut(u64),
) -> Result<PastRun, Refused> {
    let mut replay = Replay {
        world,
        jobs: jobs.iter().map(|job| (job.id, job)).collect(),
        waiting: BTreeSet::new(),
        ends: BinaryHeap::new(),
        starts: BTreeMap::new(),
        first: BTreeMap::new(),
        idle: 0,
        run: PastRun::default(),
    };
    let mut coming = jobs.iter().peekable();
    let mut last = Nanoseconds(0);
    loop {
        let end = replay.ends.peek().map(|Reverse((at, ..))| *at);
        let come = coming.peek().map(|job| job.submitted);
        // Rounds end only while somebody runs.
        let rounds = policy.rounds.filter(|_| end.is_some());
        let round = rounds.map(|rounds| rounds.next(last));
        let going = end.is_some() || !replay.waiting.is_empty();
        let tidied = going.then(|| tidy_wake_at(&replay.world, policy, last));
        let woken = replay.wakes(policy, last, end.is_none() && come.is_none());
        let moments = [end, come, round, tidied.flatten(), woken];
        let Some(now) = moments.into_iter().flatten().min() else {
            break;
        };
        last = now;
        while let Some(Reverse((at, id, start))) = replay.ends.peek().copied()
            && at <= now
        {
            replay.ends.pop();
            if replay.starts.get(&id) == Some(&start) {
                replay.end(now, id)?;
            }
        }
        while let Some(job) = coming.next_if(|job| job.submitted <= now) {
            replay.apply(now, Event::Submitted(job.clone()))?;
            replay.waiting.insert(job.id);
        }
        doing(replay.run.ended);
        replay.schedule(now, policy)?;
    }
    let mut run = replay.run;
    run.pending = replay.waiting.len() as u64;
    run.placed = replay.first.len() as u64;
    run.waits.sort_unstable();
    Ok(run)
}

struct Replay<'j> {
    world: World,
    jobs: BTreeMap<JobId, &'j Job>,
    waiting: BTreeSet<JobId>,
    /// When who ends, by which of its starts.
    ends: BinaryHeap<Reverse<(Nanoseconds, JobId, u32)>>,
    starts: BTreeMap<JobId, u32>,
    first: BTreeMap<JobId, Nanoseconds>,
    /// Moments in a row for which nothing ran and nobody was to come.
    idle: usize,
    run: PastRun,
}

impl Replay<'_> {
    fn apply(&mut self, at: Nanoseconds, event: Event) -> Result<(), Refused> {
        self.world.apply(&TimestampedEvent { at, event })
    }

    /// When time alone next changes something for those who wait. Where nothing runs and nobody comes, periods of
    /// budgets go on for ever: who finds no place once all other moments are over, and a period is, waits in vain.
    fn wakes(&mut self, policy: &mut Policy, last: Nanoseconds, idle: bool) -> Option<Nanoseconds> {
        self.idle = if idle { self.idle + 1 } else { 0 };
        let most = 2 * self.world.reservations().len() + self.waiting.len() + 2;
        let waits = !self.waiting.is_empty() && self.idle <= most;
        waits.then(|| moment_at(&self.world, policy, last))?
    }

    /// A job has done its work.
    fn end(&mut self, now: Nanoseconds, id: JobId) -> Result<(), Refused> {
        let served = self
            .world
            .job(id)
            .map_or(0, |state| state.served_until(&self.world, now));
        if let Some(job) = self.jobs.get(&id) {
            self.run.completion += u128::from(now.0.saturating_sub(job.submitted.0));
        }
        self.run.ended += 1;
        self.run.held += served;
        self.run.makespan = self.run.makespan.max(now);
        self.starts.remove(&id);
        let how = Ended::Finished;
        self.apply(now, Event::Ended { job: id, how })
    }

    fn schedule(&mut self, now: Nanoseconds, policy: &mut Policy) -> Result<(), Refused> {
        self.decide(now, policy)?;
        let Some(what) = policy.upkeep else {
            return Ok(());
        };
        let (plan, _) = tidy(now, &self.world, &what, Effort::BARE);
        self.carry_out(now, &plan)?;
        // What was given back may be what somebody waits for.
        if plan.actions.is_empty() {
            return Ok(());
        }
        self.decide(now, policy)
    }

    fn decide(&mut self, now: Nanoseconds, policy: &mut Policy) -> Result<(), Refused> {
        if self.waiting.is_empty() && policy.rounds.is_none() {
            return Ok(());
        }
        let (effort, tells) = (Effort::BARE, Tells::Changes);
        let left_out = |job: JobId| !self.waiting.contains(&job);
        let (plan, report) = decide_pending(now, &self.world, &left_out, policy, effort, tells);
        self.run.decisions += report.decisions.len() as u64;
        self.carry_out(now, &plan)
    }

    fn carry_out(&mut self, now: Nanoseconds, plan: &Plan) -> Result<(), Refused> {
        if plan.actions.is_empty() {
            return Ok(());
        }
        self.run.plans.add(plan);
        self.world.accept(plan)?;
        for action in &plan.actions {
            if let Action::Preempt { job, .. } = action {
                self.stops(now, *job);
            }
            self.apply(now, Event::done(action.clone()))?;
            match action {
                Action::Place { job, assignments } => {
                    self.waiting.remove(job);
                    if !self.first.contains_key(job) {
                        self.first.insert(*job, now);
                        let come = self.jobs.get(job).map_or(now, |job| job.submitted);
                        self.run
                            .waits
                            .push(Nanoseconds(now.0.saturating_sub(come.0)));
                    }
                    self.runs(now, *job, assignments);
                }
                Action::Move {
                    job, assignments, ..
                } => {
                    self.run.moves += 1;
                    self.runs(now, *job, assignments);
                }
                Action::Resize { job, assignments } | Action::Restore { job, assignments } => {
                    self.runs(now, *job, assignments);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A job is stopped and waits again; what it had done since its last checkpoint is lost.
    fn stops(&mut self, now: Nanoseconds, id: JobId) {
        self.run.stops += 1;
        // When it would have ended no longer holds.
        *self.starts.entry(id).or_default() += 1;
        self.waiting.insert(id);
        if let Some(state) = self.world.job(id) {
            let done = self.world.done_by(now, id).0.saturating_sub(state.done.0);
            let milli = milli_of(&self.world, &state.assignments);
            self.run.lost += u128::from(done) * u128::from(milli);
        }
    }

    /// Says when a job that runs from now on ends.
    fn runs(&mut self, now: Nanoseconds, id: JobId, assignments: &[Assignment]) {
        let Some(state) = self.world.job(id) else {
            return;
        };
        let length = state.job.duration.map_or(0, |belief| belief.expected.0);
        let left = length.saturating_sub(self.world.done_by(now, id).0);
        let pace = self.world.pace_milli(state, assignments).max(1);
        let time = (u128::from(left) * 1000).div_ceil(u128::from(pace));
        let end = now
            .0
            .saturating_add(u64::try_from(time).unwrap_or(u64::MAX));
        let start = self.starts.entry(id).or_default();
        *start += 1;
        self.ends.push(Reverse((Nanoseconds(end), id, *start)));
    }
}

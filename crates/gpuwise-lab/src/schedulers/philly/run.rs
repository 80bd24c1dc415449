//! Events of a cluster in their order: jobs come, start, go on and end.

use super::{Discipline, RESTART, fleet, job};
use gpuwise_domain::{
    fleet::VirtualCluster,
    placement::{Action, Ended, Event, JobId, Plan, TimestampedEvent},
};
use gpuwise_sched::{
    decide::{Effort, Policy, decide},
    world::{Refused, World},
};
use gpuwise_sim::fleet::PlansHash;
use gpuwise_units::Nanoseconds;
use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

/// What a cluster's replay came to. GPU time is in GPUs times nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Run {
    pub gpus: u32,
    /// Jobs that ran to their end.
    pub placed: u64,
    /// Jobs that never found a place: larger than the cluster.
    pub pending: u64,
    /// From coming to its end, over all jobs that ended.
    pub completion: u128,
    /// From coming to its first start, over the same.
    pub waited: u128,
    /// From the first job's coming until the last one's end.
    pub makespan: Nanoseconds,
    /// The longest that one waited for its first start.
    pub longest_wait: Nanoseconds,
    /// GPU time that jobs which ended had asked for.
    pub asked: u128,
    /// GPU time in which they worked.
    pub served: u128,
    /// GPU time in which they held GPUs to start again.
    pub restarting: u128,
    /// How often a job was stopped for another.
    pub stops: u64,
    /// Jobs that were looked at.
    pub decisions: u64,
    pub plans: PlansHash,
}

/// Why a replay is not to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// An event could not be applied.
    #[error("an event could not be applied: {0}")]
    Refused(#[from] Refused),
    /// GPU time that was asked for is not what was served.
    #[error(
        "job {job} asked for {asked} GPU-nanoseconds and held its GPUs for {served}, {restarting} of them to start again"
    )]
    NotConserved {
        job: JobId,
        asked: u128,
        served: u128,
        /// What of that it needed to start again.
        restarting: u128,
    },
}

/// What is to happen to a job; of one moment ends come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    End,
    /// It has started again.
    Ready,
    /// Its place among others may have changed.
    Class,
    Come,
}

/// A job beside what the world knows of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Track {
    /// Which of its starts what is to happen belongs to.
    pub(super) start: u32,
    first: Option<Nanoseconds>,
    /// Since when it starts again.
    restarts: Option<Nanoseconds>,
    restarting: u128,
}

/// A replay under way.
pub(super) struct Replay<'c, W> {
    pub(super) cluster: &'c VirtualCluster,
    pub(super) discipline: Discipline,
    pub(super) policy: Policy,
    pub(super) world: World,
    pub(super) waiting: BTreeSet<JobId>,
    pub(super) tracks: Vec<Track>,
    agenda: BinaryHeap<Reverse<(Nanoseconds, What, JobId, u32)>>,
    run: Run,
    watch: W,
}

/// Replays a cluster. `watch` sees each plan beside the world that it was made for.
///
/// # Errors
/// When an event cannot be applied, or GPU time is not conserved: what jobs held must be, to the
/// nanosecond, what they asked for and what they needed to start again.
pub fn replay(
    cluster: &VirtualCluster,
    discipline: Discipline,
    watch: impl FnMut(&World, &Plan),
) -> Result<Run, Failure> {
    let fleet = fleet(cluster);
    let run = Run {
        gpus: fleet.gpus.len() as u32,
        ..Run::default()
    };
    let mut replay = Replay {
        cluster,
        discipline,
        policy: discipline.policy(),
        world: World::new(&fleet),
        waiting: BTreeSet::new(),
        tracks: vec![Track::default(); cluster.jobs.len()],
        agenda: BinaryHeap::new(),
        run,
        watch,
    };
    for (traced, id) in cluster.jobs.iter().zip((0..).map(JobId)) {
        replay.at(traced.submitted, What::Come, id, 0);
    }
    while let Some(Reverse((now, ..))) = replay.agenda.peek().copied() {
        replay.moment(now)?;
    }
    replay.run.pending = replay.waiting.len() as u64;
    Ok(replay.run)
}

impl<W: FnMut(&World, &Plan)> Replay<'_, W> {
    pub(super) fn at(&mut self, at: Nanoseconds, what: What, job: JobId, start: u32) {
        self.agenda.push(Reverse((at, what, job, start)));
    }

    /// All that happens at a moment, then who runs from then on.
    fn moment(&mut self, now: Nanoseconds) -> Result<(), Failure> {
        let mut came = Vec::new();
        let mut freed = false;
        while let Some(Reverse((at, what, id, start))) = self.agenda.peek().copied() {
            if at > now {
                break;
            }
            self.agenda.pop();
            let stale = what != What::Come && self.track(id).start != start;
            if stale {
                continue;
            }
            match what {
                What::Come => {
                    let Some(traced) = self.cluster.jobs.get(id.index()) else {
                        continue;
                    };
                    self.apply(now, Event::Submitted(job(traced, id.0)))?;
                    self.waiting.insert(id);
                    came.push(id);
                }
                What::End => {
                    self.end(now, id)?;
                    freed = true;
                }
                What::Ready => self.ready(now, id)?,
                What::Class => self.next_class(now, id, start),
            }
        }
        self.schedule(now, &came, freed)
    }

    fn schedule(&mut self, now: Nanoseconds, came: &[JobId], freed: bool) -> Result<(), Failure> {
        if self.discipline.stops_others() {
            return self.schedule_by_class(now);
        }
        // Whoever came before found no place when there was as much room as now.
        let only_new = !freed && self.discipline == Discipline::Shortest;
        let demand: Vec<JobId> = if only_new {
            came.to_vec()
        } else {
            self.waiting.iter().copied().collect()
        };
        if demand.is_empty() {
            return Ok(());
        }
        let (plan, report) = decide(now, &self.world, &demand, &mut self.policy, Effort::BARE);
        self.run.decisions += report.decisions.len() as u64;
        self.carry_out(now, &plan)
    }

    /// Carries a plan out at once; who was stopped before needs its time to start again.
    pub(super) fn carry_out(&mut self, now: Nanoseconds, plan: &Plan) -> Result<(), Failure> {
        if plan.actions.is_empty() {
            return Ok(());
        }
        self.run.plans.add(plan);
        (self.watch)(&self.world, plan);
        self.world.accept(plan)?;
        for action in &plan.actions {
            match action {
                Action::Place { job, .. } => self.placed(now, *job, action)?,
                Action::Preempt { job, .. } => {
                    self.apply(now, Event::done(action.clone()))?;
                    self.stopped(now, *job);
                }
                _ => self.apply(now, Event::done(action.clone()))?,
            }
        }
        Ok(())
    }

    fn placed(&mut self, now: Nanoseconds, id: JobId, action: &Action) -> Result<(), Failure> {
        self.waiting.remove(&id);
        let again = self.track(id).first.is_some();
        let Some(track) = self.tracks.get_mut(id.index()) else {
            return Ok(());
        };
        track.start += 1;
        let start = track.start;
        if again {
            track.restarts = Some(now);
            self.at(now + RESTART, What::Ready, id, start);
            return Ok(());
        }
        track.first = Some(now);
        self.apply(now, Event::done(action.clone()))?;
        self.goes_on(now, id);
        Ok(())
    }

    fn ready(&mut self, now: Nanoseconds, id: JobId) -> Result<(), Failure> {
        let Some(state) = self.world.job(id) else {
            return Ok(());
        };
        let action = Action::Place {
            job: id,
            assignments: state.assignments.clone(),
        };
        self.apply(now, Event::done(action))?;
        self.restarted(now, id);
        self.goes_on(now, id);
        Ok(())
    }

    /// Says when a job that runs from now on ends.
    fn goes_on(&mut self, now: Nanoseconds, id: JobId) {
        let length = self
            .cluster
            .jobs
            .get(id.index())
            .map_or(0, |job| job.duration.0);
        let done = self.world.done_by(now, id).0;
        let start = self.track(id).start;
        let left = Nanoseconds(length.saturating_sub(done));
        self.at(now + left, What::End, id, start);
        self.next_class(now, id, start);
    }

    fn stopped(&mut self, now: Nanoseconds, id: JobId) {
        self.restarted(now, id);
        if let Some(track) = self.tracks.get_mut(id.index()) {
            track.start += 1;
        }
        self.waiting.insert(id);
        self.run.stops += 1;
    }

    /// Counts the time that a job needed to start again, to its end or until it was stopped once more.
    fn restarted(&mut self, now: Nanoseconds, id: JobId) {
        let gpus = self.cluster.jobs.get(id.index()).map_or(0, |job| job.gpus);
        if let Some(track) = self.tracks.get_mut(id.index())
            && let Some(since) = track.restarts.take()
        {
            track.restarting += u128::from(gpus) * u128::from(now.0 - since.0);
        }
    }

    fn end(&mut self, now: Nanoseconds, id: JobId) -> Result<(), Failure> {
        let (Some(traced), Some(state)) = (self.cluster.jobs.get(id.index()), self.world.job(id))
        else {
            return Ok(());
        };
        let held = state.served_until(&self.world, now) / 1000;
        let asked = u128::from(traced.gpus) * u128::from(traced.duration.0);
        let track = self.track(id);
        let (first, restarting) = (track.first.unwrap_or(now), track.restarting);
        if held != asked + restarting || self.world.done_by(now, id) != traced.duration {
            return Err(Failure::NotConserved {
                job: id,
                asked,
                served: held,
                restarting,
            });
        }
        let come = traced.submitted;
        let origin = self.cluster.jobs.first().map_or(come, |job| job.submitted);
        let wait = Nanoseconds(first.0 - come.0);
        let run = &mut self.run;
        run.placed += 1;
        run.completion += u128::from(now.0 - come.0);
        run.waited += u128::from(wait.0);
        run.longest_wait = run.longest_wait.max(wait);
        run.makespan = run.makespan.max(Nanoseconds(now.0 - origin.0));
        run.asked += asked;
        run.served += held - restarting;
        run.restarting += restarting;
        let how = Ended::Finished;
        self.apply(now, Event::Ended { job: id, how })
    }

    fn apply(&mut self, at: Nanoseconds, event: Event) -> Result<(), Failure> {
        Ok(self.world.apply(&TimestampedEvent { at, event })?)
    }

    pub(super) fn looked(&mut self) {
        self.run.decisions += 1;
    }

    pub(super) fn track(&self, id: JobId) -> Track {
        self.tracks.get(id.index()).cloned().unwrap_or_default()
    }
}

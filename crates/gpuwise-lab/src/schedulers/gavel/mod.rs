//! Traces of training jobs over GPUs of several kinds, round by round (Gavel's form).
//!
//! A round lasts at most so long; in it a job does as many whole steps as fit, at the speed of its kind
//! of GPU. It ends when the last of its jobs has done its steps; who ends early leaves its GPUs idle
//! until then. Jobs that come during a round are seen at its end. Stopping and starting cost nothing, as
//! in the published simulator. What is decided goes as plans through the kernel's world.

mod assignments;
mod jobs;

use super::rounds::{Allocation, Ground, Ran, RoundJob, RoundPolicy, Speeds};
use assignments::Placements;
use gpuwise_domain::placement::Plan;
use gpuwise_sched::world::{Refused, World};
use gpuwise_sim::fleet::PlansHash;
use std::ops::Range;

/// Longest time of a round in the published runs, in seconds.
pub const ROUND_S: f64 = 360.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TraceJob {
    /// When it comes, in seconds.
    pub came_s: f64,
    /// Its class in [`Trace::speeds`].
    pub class: usize,
    pub steps: u64,
    /// Its weight among others.
    pub weight: f64,
}

/// Jobs and what they run on.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// In the order of their coming.
    pub jobs: Vec<TraceJob>,
    pub speeds: Speeds,
    /// Kinds of GPU, by name, and how many there are of each.
    pub supply: Vec<(String, u32)>,
    /// Longest time of a round, in seconds.
    pub round_s: f64,
    /// Jobs that are measured; the run is over when these have ended. `None`: all.
    pub measured: Option<Range<usize>>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// For each job the time from its coming to its end, in seconds; `None`: it did not end.
    pub took_s: Vec<Option<f64>>,
    /// Steps that each did.
    pub done: Vec<u64>,
    /// From the first coming to the end of the last round, in seconds.
    pub makespan_s: f64,
    pub rounds: u64,
    /// Starts, those after a stop or on other GPUs among them.
    pub starts: u64,
    /// Time of GPUs on which somebody ran, in seconds.
    pub busy_gpu_s: f64,
    pub plans: PlansHash,
}

/// Why a run cannot go on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GavelError {
    /// A policy gave allocations that do not fit.
    #[error(
        "round {round}: the policy gave more GPUs of kind {kind} than there are, or a job two allocations"
    )]
    Allocations {
        /// Counted from 1.
        round: u64,
        kind: usize,
    },
    /// A plan could not be applied.
    #[error("a plan could not be applied: {0}")]
    Refused(#[from] Refused),
}

/// A allocation under way.
struct Running {
    allocation: Allocation,
    jobs: (u32, Option<u32>),
    steps: (u64, u64),
    ends_s: (f64, f64),
}

impl Running {
    fn end_s(&self) -> f64 {
        self.ends_s.0.max(self.ends_s.1)
    }
}

/// A run as it goes.
struct State<'a> {
    trace: &'a Trace,
    supply: Vec<u32>,
    now_s: f64,
    jobs: Vec<RoundJob>,
    outcome: Outcome,
    assignments: Placements,
}

impl Trace {
    /// Replays the trace. `watch` sees each plan beside the world that it was made for, before it is
    /// applied.
    ///
    /// # Errors
    /// When a policy gives allocations that do not fit, or a plan cannot be applied.
    pub fn replay(
        &self,
        policy: &mut dyn RoundPolicy,
        watch: impl FnMut(&World, &Plan),
    ) -> Result<Outcome, GavelError> {
        let mut state = State::new(self, policy.shares_gpus());
        state.run(policy, watch)?;
        Ok(state.outcome)
    }

    pub fn measured(&self) -> Range<usize> {
        self.measured.clone().unwrap_or(0..self.jobs.len())
    }

    /// Whether a job can run on some kind.
    fn can_run(&self, job: &TraceJob) -> bool {
        let gpus = self.speeds.gpus(job.class);
        let mut kinds = self.supply.iter().enumerate();
        kinds.any(|(kind, (_, count))| *count >= gpus && self.speeds.alone(job.class, kind) > 0.0)
    }
}

impl<'a> State<'a> {
    fn new(trace: &'a Trace, shared: bool) -> Self {
        let first = trace.jobs.first().map_or(0.0, |job| job.came_s);
        Self {
            trace,
            supply: trace.supply.iter().map(|(_, count)| *count).collect(),
            now_s: first,
            jobs: Vec::new(),
            outcome: Outcome {
                took_s: vec![None; trace.jobs.len()],
                done: vec![0; trace.jobs.len()],
                ..Outcome::default()
            },
            assignments: Placements::new(&trace.supply, shared),
        }
    }

    fn run(
        &mut self,
        policy: &mut dyn RoundPolicy,
        mut watch: impl FnMut(&World, &Plan),
    ) -> Result<(), GavelError> {
        let trace = self.trace;
        let measured = trace.measured();
        let able = |at: &usize| trace.jobs.get(*at).is_some_and(|job| trace.can_run(job));
        let mut left = measured.clone().filter(able).count();
        let mut next = 0;
        let mut running: Vec<Running> = Vec::new();
        let mut idled = false;
        while left > 0 {
            if !running.is_empty() {
                idled = false;
                let ended = self.end_round(&mut running, policy)?;
                left -= (ended.iter())
                    .filter(|number| measured.contains(&(**number as usize)))
                    .count();
            } else if let Some(job) = trace.jobs.get(next) {
                self.now_s = self.now_s.max(job.came_s);
            } else if idled {
                break;
            } else {
                policy.idle();
                idled = true;
            }
            while let Some(job) = trace.jobs.get(next).filter(|job| job.came_s <= self.now_s) {
                if trace.can_run(job) {
                    self.come(next, job)?;
                }
                next += 1;
            }
            if left > 0 {
                running = self.begin_round(policy, &mut watch)?;
            }
        }
        let first = trace.jobs.first().map_or(0.0, |job| job.came_s);
        self.outcome.makespan_s = self.now_s - first;
        self.outcome.plans = self.assignments.plans;
        self.outcome.starts = self.assignments.starts;
        Ok(())
    }

    fn come(&mut self, at: usize, job: &TraceJob) -> Result<(), GavelError> {
        let number = at as u32;
        self.jobs.push(RoundJob {
            number,
            class: job.class,
            weight: job.weight,
            came: job.came_s,
            done: 0.0,
            left: Some(job.steps as f64),
            on: None,
            served: job.came_s,
        });
        let gpus = self.trace.speeds.gpus(job.class);
        Ok(self.assignments.come(number, gpus, self.now_s)?)
    }

    fn begin_round(
        &mut self,
        policy: &mut dyn RoundPolicy,
        watch: &mut impl FnMut(&World, &Plan),
    ) -> Result<Vec<Running>, GavelError> {
        let ground = Ground {
            speeds: &self.trace.speeds,
            supply: &self.supply,
            round_s: self.trace.round_s,
        };
        let allocations = policy.allocate(self.now_s, &self.jobs, &ground);
        self.check(&allocations)?;
        for job in &mut self.jobs {
            job.on = None;
        }
        let mut running = Vec::with_capacity(allocations.len());
        for allocation in allocations {
            running.push(self.start(allocation));
        }
        self.outcome.rounds += u64::from(!running.is_empty());
        let parties: Vec<(u32, Option<u32>, usize)> = (running.iter())
            .map(|one| (one.jobs.0, one.jobs.1, one.allocation.kind))
            .collect();
        self.assignments.assignment(&parties, self.now_s, watch)?;
        Ok(running)
    }

    /// No kind gives more than it has, nobody has two allocations or no speed.
    fn check(&self, allocations: &[Allocation]) -> Result<(), GavelError> {
        let round = self.outcome.rounds + 1;
        let mut free = self.supply.clone();
        let mut busy = vec![false; self.jobs.len()];
        for allocation in allocations {
            let kind = allocation.kind;
            let wrong = || GavelError::Allocations { round, kind };
            let mut claim = |at: usize| -> Result<usize, GavelError> {
                let class = self.jobs.get(at).ok_or_else(wrong)?.class;
                let first = busy.get_mut(at).ok_or_else(wrong)?;
                if std::mem::replace(first, true) {
                    return Err(wrong());
                }
                Ok(class)
            };
            let class = claim(allocation.job)?;
            let speeds = &self.trace.speeds;
            let runs = match allocation.partner {
                None => speeds.alone(class, kind) > 0.0,
                Some(partner) => speeds.beside(kind, class, claim(partner)?).is_some(),
            };
            let left = free.get_mut(kind).ok_or_else(wrong)?;
            *left = (left.checked_sub(speeds.gpus(class)).filter(|_| runs)).ok_or_else(wrong)?;
        }
        Ok(())
    }

    fn start(&mut self, allocation: Allocation) -> Running {
        let speeds = &self.trace.speeds;
        let class = |at: usize| self.jobs.get(at).map_or(0, |job| job.class);
        let kind = allocation.kind;
        let (one, other) = match allocation.partner {
            None => (speeds.alone(class(allocation.job), kind), 0.0),
            Some(partner) => {
                let both = speeds.beside(kind, class(allocation.job), class(partner));
                both.unwrap_or((0.0, 0.0))
            }
        };
        let (number, steps, end) = self.allocation_of(allocation.job, one, kind);
        let partner = allocation
            .partner
            .map(|partner| self.allocation_of(partner, other, kind));
        Running {
            allocation,
            jobs: (number, partner.map(|(number, _, _)| number)),
            steps: (steps, partner.map_or(0, |(_, steps, _)| steps)),
            ends_s: (end, partner.map_or(end, |(_, _, end)| end)),
        }
    }

    /// A job's number, its steps in this round and when they are done.
    fn allocation_of(&mut self, at: usize, speed: f64, kind: usize) -> (u32, u64, f64) {
        let (now, round) = (self.now_s, self.trace.round_s);
        let Some(job) = self.jobs.get_mut(at) else {
            return (0, 0, now);
        };
        job.on = Some(kind);
        let left = job.left.unwrap_or(0.0) as u64;
        // At least one, so that who is slower than a step a round ends, too.
        let steps = ((speed * round) as u64).max(1).min(left);
        (job.number, steps, now + steps as f64 / speed.max(1e-12))
    }

    /// Takes the round's work in; gives the numbers of jobs that have ended.
    fn end_round(
        &mut self,
        running: &mut Vec<Running>,
        policy: &mut dyn RoundPolicy,
    ) -> Result<Vec<u32>, GavelError> {
        let began = self.now_s;
        let end = running.iter().map(Running::end_s).fold(began, f64::max);
        running.sort_by(|a, b| b.end_s().total_cmp(&a.end_s()));
        let mut taken = Vec::with_capacity(running.len());
        let mut ended: Vec<(f64, u32)> = Vec::new();
        for one in running.drain(..) {
            let ran_s = one.end_s() - began;
            taken.push(Ran {
                job: one.jobs.0,
                partner: one.jobs.1,
                kind: one.allocation.kind,
                ran_s,
            });
            let class = self.jobs.get(one.allocation.job).map_or(0, |job| job.class);
            self.outcome.busy_gpu_s += ran_s * f64::from(self.trace.speeds.gpus(class));
            let both = [
                Some((one.allocation.job, one.steps.0, one.end_s())),
                one.allocation
                    .partner
                    .map(|partner| (partner, one.steps.1, one.end_s())),
            ];
            for (at, steps, end_s) in both.into_iter().flatten() {
                if let Some(number) = self.work(at, steps, end) {
                    ended.push((end_s, number));
                }
            }
        }
        ended.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (end_s, number) in &ended {
            self.assignments.end(*number, *end_s)?;
            let at = *number as usize;
            let came = self.trace.jobs.get(at).map_or(0.0, |job| job.came_s);
            if let Some(slot) = self.outcome.took_s.get_mut(at) {
                *slot = Some(end_s - came);
            }
        }
        let ended: Vec<u32> = ended.into_iter().map(|(_, number)| number).collect();
        self.jobs.retain(|job| !ended.contains(&job.number));
        policy.round_ended(&taken, &ended);
        self.now_s = end;
        Ok(ended)
    }

    /// Books steps; the number if nothing is left.
    fn work(&mut self, at: usize, steps: u64, end: f64) -> Option<u32> {
        let job = self.jobs.get_mut(at)?;
        let done = self.outcome.done.get_mut(job.number as usize)?;
        *done += steps;
        let total = self.trace.jobs.get(job.number as usize)?.steps;
        job.done = *done as f64;
        job.left = Some(total.saturating_sub(*done) as f64);
        job.served = end;
        (*done >= total).then_some(job.number)
    }
}

impl Outcome {
    /// Mean time from coming to end over some jobs that ended, in seconds.
    pub fn mean_s(&self, of: Range<usize>) -> Option<f64> {
        let ended: Vec<f64> = self.took_s.get(of)?.iter().flatten().copied().collect();
        let sum: f64 = ended.iter().sum();
        (!ended.is_empty()).then(|| sum / ended.len() as f64)
    }

    /// How many of some jobs ended.
    pub fn ended(&self, of: Range<usize>) -> u64 {
        let took = self.took_s.get(of).unwrap_or(&[]);
        took.iter().flatten().count() as u64
    }
}

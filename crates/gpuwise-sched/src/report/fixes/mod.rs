//! What would help a job that waits. Each fix was tried: on a copy of the world where it was taken,
//! the same policy places the job.

mod disrupt;
mod request;
mod running;
pub(in crate::report) mod supply;
mod wait;

use super::words::span;
use crate::{
    decide::{Effort, Policy, decide},
    disruption::Disruptions,
    world::{StoredJob, World},
};
use gpuwise_domain::placement::{Action, Event, Fix, JobId, Preemption, Remedy, TimestampedEvent};
use gpuwise_units::Nanoseconds;
pub(super) use running::Running;

/// How long a job is taken to run where nothing is known of it, so that fixes can be compared.
const UNKNOWN_DURATION: Nanoseconds = Nanoseconds(3_600_000_000_000);

/// Fixes for a job that waits, cheapest first: whom to preempt or move, how long to wait, what to buy,
/// which wish to relax. `effort` bounds how many are tried, in nodes looked at.
///
/// Costs are in GPU-time, so that they can be compared: work of others that is lost (half an interval
/// between checkpoints and a restart, on each of their GPUs); the GPUs asked for, for as long as the
/// job waits or runs longer; GPUs bought, for as long as it runs. Where its duration is unknown an hour
/// is taken.
pub fn fixes(world: &World, job: JobId, policy: &mut Policy, effort: Effort) -> Vec<Fix> {
    fixes_beside(world, job, policy, effort, &mut Running::of(world))
}

/// The same, where it is known who runs.
pub(super) fn fixes_beside(
    world: &World,
    job: JobId,
    policy: &mut Policy,
    effort: Effort,
    running: &mut Running,
) -> Vec<Fix> {
    let Some(state) = world.job(job) else {
        return Vec::new();
    };
    let nodes = world.nodes().len().max(1) as u64;
    let mut trial = Trial {
        world,
        id: job,
        job: &state.job,
        policy,
        running,
        left: (effort.steps / nodes).clamp(8, 4096),
        found: Vec::new(),
    };
    trial.wishes();
    trial.repartition();
    trial.repair();
    trial.preempt();
    trial.migrate();
    trial.wait();
    trial.buy();
    let mut found = trial.found;
    found.sort_by(|one, other| {
        let key = |fix: &Fix| (fix.cost, fix.after, rank(&fix.remedy));
        key(one)
            .cmp(&key(other))
            .then_with(|| one.what.cmp(&other.what))
    });
    found
}

/// Of equal cost, who disrupts least goes first.
const fn rank(remedy: &Remedy) -> u8 {
    match remedy {
        Remedy::Repartition(_) => 0,
        Remedy::Accept(_) => 1,
        Remedy::Relax { .. } => 2,
        Remedy::Repair(_) => 3,
        Remedy::Move(_) => 4,
        Remedy::Preempt(_) => 5,
        Remedy::Shrink { .. } => 6,
        Remedy::Wait(_) => 7,
        Remedy::Raise { .. } => 8,
        Remedy::Buy { .. } => 9,
    }
}

/// A job that waits, and what was tried for it.
struct Trial<'a> {
    world: &'a World,
    id: JobId,
    job: &'a StoredJob,
    policy: &'a mut Policy,
    running: &'a mut Running,
    /// Decisions that may still be tried.
    left: u64,
    found: Vec<Fix>,
}

impl Trial<'_> {
    /// Whether the job is placed once this was done. Counts as one try.
    fn holds(&mut self, remedy: &Remedy) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        is_fixed_by(self.world, self.id, remedy, self.policy)
    }

    /// Whether the job is placed in such a fleet. Counts as one try.
    fn holds_in(&mut self, mut after: World) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        place(&mut after, self.id, self.policy)
    }

    fn add(&mut self, remedy: Remedy, what: String, costs: Costs) {
        self.found.push(Fix {
            remedy,
            what,
            after: costs.after,
            lost: costs.lost,
            price: costs.price,
            cost: costs.all,
        });
    }

    /// GPUs that the job asks for, in thousandths; an instance as one GPU.
    fn asked_milli(&self) -> u64 {
        let each = match self.job.worker.gpu.milli() {
            0 => 1000,
            milli => milli,
        };
        each * u64::from(self.job.gang.least.max(1))
    }

    /// How long it is expected to run, or an hour.
    fn lasts(&self) -> Nanoseconds {
        self.job
            .duration
            .map_or(UNKNOWN_DURATION, |belief| belief.expected)
    }

    /// What it costs that the job waits, or runs longer, by so much.
    fn delay(&self, by: Nanoseconds) -> Nanoseconds {
        share(by, self.asked_milli(), 1000)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Costs {
    after: Nanoseconds,
    lost: Nanoseconds,
    price: Option<gpuwise_units::Money>,
    all: Nanoseconds,
}

/// A time multiplied by a share, rounded down.
fn share(time: Nanoseconds, part: u64, whole: u64) -> Nanoseconds {
    let product = u128::from(time.0) * u128::from(part) / u128::from(whole.max(1));
    Nanoseconds(u64::try_from(product).unwrap_or(u64::MAX))
}

/// GPU-time that stopping a job loses: half an interval between checkpoints and a restart, on each GPU
/// that it has. `None`: it may not be stopped, or has nothing.
fn lost(world: &World, job: JobId) -> Option<Nanoseconds> {
    let state = world.job(job)?;
    let Preemption::Allowed {
        checkpoint_every,
        restart,
    } = state.job.preemption
    else {
        return None;
    };
    if !state.phase.holds_gpus() {
        return None;
    }
    let each = Nanoseconds((checkpoint_every.0 / 2).saturating_add(restart.0));
    let milli = match state.job.worker.gpu.milli() {
        0 => 1000,
        milli => milli,
    };
    Some(share(each, milli * state.assignments.len() as u64, 1000))
}

/// Whether a job that waits is placed once a remedy was taken, by this policy and without disrupting
/// anybody else. A remedy that moves jobs must find them new places, too.
pub fn is_fixed_by(world: &World, job: JobId, remedy: &Remedy, policy: &mut Policy) -> bool {
    let Some(mut after) = taken(world, job, remedy) else {
        return false;
    };
    if !place(&mut after, job, policy) {
        return false;
    }
    match remedy {
        Remedy::Move(moved) => moved.iter().all(|moved| place(&mut after, *moved, policy)),
        _ => true,
    }
}

/// Places a job, if it finds a place.
fn place(world: &mut World, job: JobId, policy: &mut Policy) -> bool {
    let effort = Effort {
        explains: false,
        ..Effort::ORDINARY
    };
    let disruptions = policy.disruptions;
    policy.disruptions = Disruptions {
        preempt: false,
        migrate: false,
        elastic: false,
        reclaim: None,
        ..disruptions
    };
    let (plan, _) = decide(world.now(), world, &[job], policy, effort);
    policy.disruptions = disruptions;
    let placed = |action: &Action| matches!(action, Action::Place { job: one, .. } if *one == job);
    plan.actions.iter().any(placed)
        && plan
            .actions
            .iter()
            .all(|action| done(world, action.clone()))
}

fn done(world: &mut World, action: Action) -> bool {
    event(world, Event::done(action))
}

fn event(world: &mut World, event: Event) -> bool {
    let at = world.now();
    world.apply(&TimestampedEvent { at, event }).is_ok()
}

/// A copy of the world in which a remedy was taken; `None`: it cannot be.
fn taken(world: &World, job: JobId, remedy: &Remedy) -> Option<World> {
    let mut after = world.clone();
    let good = match remedy {
        Remedy::Preempt(victims) | Remedy::Move(victims) => {
            disrupt::stopped(&mut after, job, victims)
        }
        Remedy::Wait(others) => wait::ended(&mut after, others),
        Remedy::Buy { like, nodes } => supply::joined(&mut after, *like, *nodes),
        Remedy::Repartition(actions) => actions
            .iter()
            .all(|action| done(&mut after, action.clone())),
        Remedy::Repair(node) => supply::repaired(&mut after, *node),
        Remedy::Shrink { .. } | Remedy::Relax { .. } | Remedy::Accept(_) => {
            request::changed(&mut after, job, remedy)
        }
        Remedy::Raise { queue, by_milli } => supply::raised(&mut after, *queue, *by_milli),
    };
    good.then_some(after)
}

/// "2 h of work lost" or nothing.
fn loses(lost: Nanoseconds) -> String {
    if lost.0 == 0 {
        return String::new();
    }
    format!("; {} of GPU time lost", span(lost))
}

/// Names of jobs, the first few.
fn names(world: &World, jobs: &[JobId]) -> String {
    const SHOWN: usize = 3;
    let name = |id: &JobId| world.job(*id).map(|state| state.job.name.to_string());
    let shown: Vec<String> = jobs.iter().take(SHOWN).filter_map(name).collect();
    let more = jobs.len().saturating_sub(SHOWN);
    let list = shown.join(", ");
    if more == 0 {
        return list;
    }
    format!("{list} and {more} more")
}

//! Fewer pieces: single workers move where that makes more of what is free usable to typical jobs than
//! the move loses.

use super::{
    scratch::Scratch,
    tidy::{Budget, Gain, migration_loss},
};
use crate::{
    decide::Effort,
    fit::{self, Scope},
    queues,
    report::{Typical, typical},
    world::{NodeState, Phase, Tenancy, World},
};
use gpuwise_domain::placement::{Action, Cause, GpuAsk, JobId, NodeId, WorkerAsk};
use gpuwise_units::Nanoseconds;

/// Typical asks are those of so many thousandths of the jobs.
const COVERED_MILLI: u32 = 950;

/// Thousandths of GPUs of a node that are free and of which a typical job can use nothing, on average
/// over typical jobs, times their number. An ask for whole GPUs or fractions can use as many times of
/// what it needs as fit; asks for instances are not looked at.
pub fn unusable(world: &World, node: NodeId, asks: &[Typical]) -> u64 {
    let Some(state) = world.node(node).filter(|state| state.takes_work()) else {
        return 0;
    };
    let free = u64::from(state.milli_free);
    let asks = asks.iter();
    asks.map(|ask| {
        usable(world, state, &ask.job.worker)
            .map_or(0, |usable| ask.count * free.saturating_sub(usable))
    })
    .sum()
}

fn usable(world: &World, node: &NodeState, ask: &WorkerAsk) -> Option<u64> {
    let most = |free: u64, each: u64| free.checked_div(each).unwrap_or(u64::MAX);
    let hosts = most(node.cpu_free, ask.cpu_milli).min(most(node.memory_free, ask.memory_mib));
    let gpus = node.gpus.iter().filter_map(|gpu| world.gpu(*gpu));
    let gpus = gpus.filter(|gpu| gpu.takes_work() && ask.gpu.kinds().has(gpu.gpu.kind));
    match ask.gpu {
        GpuAsk::Whole { count, .. } => {
            let whole = gpus.filter(|gpu| gpu.held == Tenancy::Free).count() as u64;
            let workers = most(whole, u64::from(count)).min(hosts);
            Some(workers.saturating_mul(u64::from(count) * 1000))
        }
        GpuAsk::Fraction { milli, .. } => {
            let workers: u64 = gpus
                .map(|gpu| most(u64::from(gpu.milli_free()), u64::from(milli)))
                .sum();
            Some(workers.min(hosts).saturating_mul(u64::from(milli)))
        }
        GpuAsk::Slice { .. } | GpuAsk::None => None,
    }
}

/// Disruptions within the budget, the one that gains most beyond what it loses first; each as it is begun.
pub(super) fn join(
    scratch: &mut Scratch<'_>,
    now: Nanoseconds,
    budget: &Budget,
    effort: Effort,
) -> Vec<(Gain, Action)> {
    let asks = typical(scratch.world(), COVERED_MILLI);
    let all: u64 = asks.iter().map(|ask| ask.count).sum();
    let mut steps = effort.steps;
    let mut found: Vec<(Gain, Action)> = Vec::new();
    loop {
        let (disruptions, lost) = budget.left(now, scratch.world());
        if disruptions == 0 || all == 0 {
            break;
        }
        let mut best: Option<(u128, Gain, Action)> = None;
        for (job, from) in movable(scratch.world(), now) {
            let costs = migration_loss(scratch.world(), job).filter(|costs| *costs <= lost);
            let Some(costs) = costs else { continue };
            for to in (0..scratch.world().nodes().len() as u32).map(NodeId) {
                if steps == 0 {
                    break;
                }
                steps -= 1;
                let Some((freed, action)) = gain(scratch, job, (from, to), &asks, now) else {
                    continue;
                };
                let usable_milli = freed / all;
                let worth = u128::from(usable_milli) * u128::from(budget.horizon.0);
                let Some(beyond) = worth.checked_sub(costs).filter(|beyond| *beyond > 0) else {
                    continue;
                };
                if best.as_ref().is_none_or(|(most, ..)| beyond > *most) {
                    let gain = Gain {
                        job,
                        usable_milli,
                        lost: costs,
                    };
                    best = Some((beyond, gain, action));
                }
            }
        }
        let Some((_, gain, action)) = best else { break };
        if !scratch.begin(&action) {
            break;
        }
        found.push((gain, action));
    }
    found
}

/// Jobs of one worker that run and may be moved, and where they are.
fn movable(world: &World, now: Nanoseconds) -> Vec<(JobId, NodeId)> {
    let jobs = world.jobs().filter(|(_, state)| {
        matches!(state.phase, Phase::Running { .. })
            && world.may_disrupt(state, now)
            && state.assignments.len() == 1
    });
    jobs.filter_map(|(id, state)| Some((id, state.assignments.first()?.node)))
        .collect()
}

/// What a move makes usable, times the number of typical jobs.
fn gain(
    scratch: &mut Scratch<'_>,
    job: JobId,
    (from, to): (NodeId, NodeId),
    asks: &[Typical],
    now: Nanoseconds,
) -> Option<(u64, Action)> {
    let mark = scratch.mark();
    let cause = Cause::Defragmentation;
    let ask = scratch.world().job(job)?.job.worker;
    let candidate = if scratch.begin(&Action::Preempt { job, cause }) {
        fit::assignment(scratch.world(), to, &ask, Scope::Fleet)
    } else {
        None
    };
    scratch.undo(mark);
    let candidate = candidate.filter(|candidate| candidate.prepare.is_empty())?;
    let assignments = vec![candidate.assignment];
    if !queues::taken_from(scratch.world(), job, &assignments, now, 1.0, false).is_empty() {
        return None;
    }
    let both = |world: &World| {
        let there = if from == to {
            0
        } else {
            unusable(world, to, asks)
        };
        unusable(world, from, asks) + there
    };
    let before = both(scratch.world());
    let action = Action::Move {
        job,
        assignments,
        cause,
    };
    let after = scratch.begin(&action).then(|| both(scratch.world()));
    scratch.undo(mark);
    let freed = before.checked_sub(after?).filter(|freed| *freed > 0)?;
    Some((freed, action))
}

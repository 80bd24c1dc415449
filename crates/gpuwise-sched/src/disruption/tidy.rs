//! What is tidied up beside the placing of jobs: nodes that are drained are left, idle pooled GPUs go
//! back, elastic jobs grow into what nobody wants, and a few jobs move so that more of what is free can
//! be used. A decision of its own, with a plan like any other.

use super::{
    Disruptions,
    cost::{Preemptor, restart_of},
    defragment, grow,
    scratch::Scratch,
    search::{Site, assignments},
};
use crate::{
    decide::{Effort, barred},
    fit::Scope,
    queues::milli_of,
    world::{Phase, World},
};
use gpuwise_domain::placement::{Action, Cause, GpuId, Health, JobId, NodeId, Plan};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tidy {
    /// Whether jobs that may be stopped leave nodes that are drained.
    pub evacuate: bool,
    /// Pooled GPUs that have been idle for so long go back; `None`: none do.
    pub detach_after: Option<Nanoseconds>,
    /// Whether elastic jobs grow while nobody waits.
    pub grow: bool,
    /// How much may be disrupted to have fewer pieces; `None`: nothing.
    pub defragment: Option<Budget>,
}

/// How much disruption a fleet allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    pub disruptions: u32,
    /// and so much GPU-time lost by them,
    pub lost: Nanoseconds,
    /// at most 31 days.
    pub per: Nanoseconds,
    /// For how long what a move frees is counted: it must be worth more GPU-time than the move loses.
    pub horizon: Nanoseconds,
}

/// A move and what it is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gain {
    pub job: JobId,
    /// Thousandths of GPUs that typical jobs can use then and could not before.
    pub usable_milli: u64,
    /// What the move loses, in thousandths of a GPU times nanoseconds.
    pub lost: u128,
}

impl Budget {
    /// Disruptions and GPU-time that are left of it.
    pub(super) fn left(&self, now: Nanoseconds, world: &World) -> (u32, u128) {
        let from = Nanoseconds(now.0.saturating_sub(self.per.0));
        let (disruptions, lost) = world.upkeep().migrations_after(from);
        let most = u128::from(self.lost.0) * 1000;
        (
            self.disruptions.saturating_sub(disruptions),
            most.saturating_sub(lost),
        )
    }
}

/// Decides what is tidied up now; each move to have fewer pieces comes with what it is good for.
pub fn tidy(now: Nanoseconds, world: &World, what: &Tidy, effort: Effort) -> (Plan, Vec<Gain>) {
    let mut plan = Plan {
        number: world.target() + 1,
        parent: world.target(),
        made: now,
        actions: Vec::new(),
    };
    let waiting =
        (world.jobs()).any(|(_, state)| state.seeks() && barred(world, state, now).is_none());
    let mut copy = world.clone();
    copy.reopen(now);
    let mut scratch = Scratch::new(&mut copy, now);
    if what.evacuate {
        evacuate(&mut scratch, now, effort, &mut plan.actions);
    }
    if let Some(after) = what.detach_after {
        let idle = world.upkeep().idle();
        let long = idle.filter(|(_, since)| now.0.saturating_sub(since.0) >= after.0);
        for (gpu, _) in long {
            let action = Action::Detach { gpu };
            if scratch.begin(&action) {
                plan.actions.push(action);
            }
        }
    }
    if what.grow && !waiting {
        grow::grow(&mut scratch, now, effort, &mut plan.actions);
    }
    let mut gains = Vec::new();
    if let Some(budget) = what.defragment {
        gains = defragment::join(&mut scratch, now, &budget, effort);
        plan.actions
            .extend(gains.iter().map(|(_, action)| action.clone()));
    }
    (plan, gains.into_iter().map(|(gain, _)| gain).collect())
}

/// Disruptions those who may be stopped off nodes and GPUs that are drained, where they find a place.
/// Each job that is moved looks at every node: as many are as the effort is enough for.
fn evacuate(
    scratch: &mut Scratch<'_>,
    now: Nanoseconds,
    effort: Effort,
    actions: &mut Vec<Action>,
) {
    let world = scratch.world();
    let jobs = on_drained(world, now);
    let everywhere: Vec<NodeId> = (0..world.nodes().len() as u32).map(NodeId).collect();
    let mut steps = effort.steps;
    for (id, workers) in jobs {
        let price = everywhere.len() as u64 * u64::from(workers.max(1));
        let Some(left) = steps.checked_sub(price.min(effort.steps)) else {
            break;
        };
        steps = left;
        let Some(job) = scratch.world().job(id).map(|state| state.job.clone()) else {
            continue;
        };
        let who = Preemptor {
            job: &job,
            returns: false,
            disruptions: &Disruptions::NONE,
            now,
        };
        let site = Site {
            scope: Scope::Fleet,
            nodes: &everywhere,
            holders: &BTreeMap::new(),
        };
        let cause = Cause::Drain;
        let mark = scratch.mark();
        let found = if scratch.begin(&Action::Preempt { job: id, cause }) {
            assignments(scratch, &who, id, &site, workers)
        } else {
            None
        };
        scratch.undo(mark);
        let Some((prepare, assignments)) = found else {
            continue;
        };
        let moved = Action::Move {
            job: id,
            assignments,
            cause,
        };
        let steps: Vec<Action> = prepare.into_iter().chain([moved]).collect();
        if steps.iter().all(|action| scratch.begin(action)) {
            actions.extend(steps);
        } else {
            scratch.undo(mark);
        }
    }
}

/// Jobs on nodes and GPUs that are drained, which may be moved, and how many workers each has.
fn on_drained(world: &World, now: Nanoseconds) -> Vec<(JobId, u32)> {
    let drained = |node: NodeId, gpus: &[GpuId]| {
        let node = world.node(node);
        node.is_some_and(|node| node.node.health == Health::Draining)
            || gpus.iter().any(|gpu| {
                let gpu = world.gpu(*gpu);
                gpu.is_some_and(|gpu| gpu.gpu.health == Health::Draining)
            })
    };
    world
        .jobs()
        .filter(|(_, state)| {
            restart_of(&state.job).is_some()
                && matches!(state.phase, Phase::Running { .. })
                && world.may_disrupt(state, now)
                && state.job.topology.is_none_or(|wish| !wish.required)
                && state.assignments.iter().any(|assignment| {
                    let gpus: Vec<GpuId> = assignment.gpus.iter().map(|share| share.gpu).collect();
                    drained(assignment.node, &gpus)
                })
        })
        .map(|(id, state)| (id, state.assignments.len() as u32))
        .collect()
}

/// What moving a job loses, in thousandths of a GPU times nanoseconds; `None`: it may not be moved.
pub(crate) fn migration_loss(world: &World, id: JobId) -> Option<u128> {
    let state = world.job(id)?;
    let restart = restart_of(&state.job)?;
    let milli = milli_of(world, &state.assignments).max(1);
    Some(u128::from(restart.0) * u128::from(milli))
}

//! Elastic jobs grow into GPUs that nobody wants: the one that gains most by another worker first.

use super::{cost::restart_of, scratch::Scratch};
use crate::{
    decide::Effort,
    fit::{self, Scope},
    queues,
    world::{JobState, Phase, World},
};
use gpuwise_domain::placement::{Action, Assignment, JobId, Level, NodeId};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// Adds workers one by one; of a job with w workers another one is worth 1/w of its speed, and it must
/// save more time than starting again takes.
pub(super) fn grow(
    scratch: &mut Scratch<'_>,
    now: Nanoseconds,
    effort: Effort,
    actions: &mut Vec<Action>,
) {
    let world = scratch.world();
    let mut open: Vec<JobId> = world
        .jobs()
        .filter(|(id, state)| may_grow(world, *id, state, now))
        .map(|(id, _)| id)
        .collect();
    let mut grown: BTreeMap<JobId, Vec<Assignment>> = BTreeMap::new();
    let mut steps = effort.steps;
    loop {
        let workers = |id: &JobId| {
            scratch
                .world()
                .job(*id)
                .map_or(0, |state| state.assignments.len())
        };
        let Some(next) = open.iter().copied().min_by_key(|id| (workers(id), *id)) else {
            break;
        };
        let nodes = scratch.world().nodes().len() as u64;
        if steps < nodes {
            break;
        }
        steps -= nodes;
        let assignments = one_more(scratch, next, now).filter(|assignments| {
            let job = next;
            let assignments = assignments.clone();
            scratch.begin(&Action::Resize { job, assignments })
        });
        match assignments {
            Some(assignments) => {
                let most = scratch
                    .world()
                    .job(next)
                    .map_or(0, |state| state.job.gang.most);
                if assignments.len() >= most as usize {
                    open.retain(|id| *id != next);
                }
                grown.insert(next, assignments);
            }
            None => open.retain(|id| *id != next),
        }
    }
    actions.extend(
        grown
            .into_iter()
            .map(|(job, assignments)| Action::Resize { job, assignments }),
    );
}

fn may_grow(world: &World, id: JobId, state: &JobState, now: Nanoseconds) -> bool {
    let Some(restart) = restart_of(&state.job) else {
        return false;
    };
    let workers = state.assignments.len() as u64;
    let running = matches!(state.phase, Phase::Running { .. }) && world.may_disrupt(state, now);
    let done = world.done_by(now, id);
    let left = queues::left(world, state, &state.assignments, done, 0.0);
    // Of the time that is left, one worker more saves one part in so many as there are then.
    let saves = left.is_none_or(|left| left.0 / (workers + 1) > restart.0);
    running && workers < u64::from(state.job.gang.most) && saves
}

/// A job's assignments with one more, on the fullest node that has room.
fn one_more(scratch: &Scratch<'_>, id: JobId, now: Nanoseconds) -> Option<Vec<Assignment>> {
    let world = scratch.world();
    let state = world.job(id)?;
    let scope = scope_of(world, state)?;
    let mut best: Option<(u32, Vec<Assignment>)> = None;
    for node in (0..world.nodes().len() as u32).map(NodeId) {
        if !scope.has_node(world, node) {
            continue;
        }
        if let Some(spread) = state.job.spread {
            let place = |node| super::victims::place_of(world, node, spread.over);
            let there = state.assignments.iter();
            let there = there.filter(|assignment| place(assignment.node) == place(node));
            if there.count() >= spread.most as usize {
                continue;
            }
        }
        let free = world.node(node)?.milli_free;
        let Some(candidate) = fit::assignment(world, node, &state.job.worker, scope) else {
            continue;
        };
        if !candidate.prepare.is_empty() || best.as_ref().is_some_and(|(least, _)| *least <= free) {
            continue;
        }
        let added = std::slice::from_ref(&candidate.assignment);
        let mut assignments = state.assignments.clone();
        assignments.push(candidate.assignment.clone());
        if in_quota(world, state, added)
            && queues::taken_from(world, id, &assignments, now, 1.0, false).is_empty()
        {
            best = Some((free, assignments));
        }
    }
    best.map(|(_, assignments)| assignments)
}

fn in_quota(world: &World, state: &JobState, added: &[Assignment]) -> bool {
    let Some(queue) = state.job.queue else {
        return true;
    };
    queues::held_by(world, added)
        .into_iter()
        .all(|(kind, milli)| {
            let kind = gpuwise_domain::placement::KindId(kind);
            queues::room(world, queue, kind).is_none_or(|limit| limit.room_milli >= milli)
        })
}

/// Where another worker may be; `None`: that cannot be told from where the others are.
fn scope_of(world: &World, state: &JobState) -> Option<Scope> {
    let Some(wish) = state.job.topology.filter(|wish| wish.required) else {
        return Some(Scope::Fleet);
    };
    let first = state.assignments.first()?;
    match wish.within {
        Level::Node => Some(Scope::Node(first.node)),
        Level::Island => {
            let gpu = world.gpu(first.gpus.first()?.gpu)?;
            gpu.gpu.island.map(Scope::Island)
        }
        Level::Rack | Level::Block | Level::Zone => world
            .domain_of(first.node, wish.within)
            .map(|domain| Scope::Domain(wish.within, domain)),
        Level::Switch | Level::Numa => None,
    }
}

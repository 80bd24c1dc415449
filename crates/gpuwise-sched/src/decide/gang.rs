//! Seats for all workers of a job, or for none.

use super::{Policy, eligible, in_time, rails};
use crate::{
    fit::Scope,
    policy::Search,
    world::{Free, StoredJob, World},
};
use gpuwise_domain::placement::{
    Action, Assignment, DomainId, Event, GpuAsk, IslandId, Level, NodeId, TimestampedEvent, Weighed,
};
use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

pub(super) struct GangPlacement {
    pub(super) assignments: Vec<Assignment>,
    pub(super) prepare: Vec<Action>,
    pub(super) candidates: u32,
    pub(super) weighed: Vec<Weighed>,
}

/// Assignments for as many workers as are preferred, at least for as many as it needs; within one domain
/// where it wishes so; on kinds of GPU on which it ends by its deadline where those have room; never on
/// the closed nodes, which are sorted.
pub(super) fn assignments(
    world: &World,
    job: &StoredJob,
    policy: &mut Policy,
    closed: &[NodeId],
) -> Option<GangPlacement> {
    let fast = in_time::narrowed(world, job);
    let fast = fast.and_then(|job| on_kinds(world, &job, policy, closed));
    fast.or_else(|| on_kinds(world, job, policy, closed))
}

fn on_kinds(
    world: &World,
    job: &StoredJob,
    policy: &mut Policy,
    closed: &[NodeId],
) -> Option<GangPlacement> {
    let Some(wish) = job.topology else {
        return within(world, job, policy, (Scope::Fleet, closed));
    };
    // The narrowest domain first: what is wide stays free for those who need it.
    let each = job.worker.gpu;
    let needed = Free {
        milli: u64::from(job.gang.least) * each.milli(),
        whole: match each {
            GpuAsk::Whole { count, .. } => u64::from(job.gang.least) * u64::from(count),
            _ => 0,
        },
    };
    let scopes = scopes_with(world, wish.within, needed);
    let mut try_in = |scope| within(world, job, policy, (scope, closed));
    let found = if job.near.is_empty() {
        least_first(scopes).find_map(&mut try_in)
    } else {
        let mut scopes: Vec<Scope> = least_first(scopes).collect();
        eligible::near_first(world, job, &mut scopes);
        scopes.into_iter().find_map(&mut try_in)
    };
    if found.is_some() {
        return found;
    }
    if wish.required {
        return None;
    }
    within(world, job, policy, (Scope::Fleet, closed))
}

/// Every domain of a level, the one with the least free first.
pub(crate) fn scopes(world: &World, level: Level) -> Vec<Scope> {
    least_first(scopes_with(world, level, Free::default())).collect()
}

/// The one with the least free first, of equals the first: mostly few are looked at, so they are not sorted.
fn least_first(scopes: Vec<(u64, Scope)>) -> impl Iterator<Item = Scope> {
    let keys = scopes.iter().zip(0_usize..);
    let keys: Vec<Reverse<(u64, usize)>> =
        keys.map(|((free, _), at)| Reverse((*free, at))).collect();
    let mut heap = BinaryHeap::from(keys);
    std::iter::from_fn(move || {
        let Reverse((_, at)) = heap.pop()?;
        scopes.get(at).map(|(_, scope)| *scope)
    })
}

/// Every domain of a level with so much free, and how many thousandths of GPUs.
fn scopes_with(world: &World, level: Level, needed: Free) -> Vec<(u64, Scope)> {
    let free = |id: &NodeId| world.node(*id).map_or_else(Free::default, Free::of);
    let found: Vec<(Free, Scope)> = match level {
        Level::Node => (0..world.nodes().len() as u32)
            .map(NodeId)
            .map(|id| (free(&id), Scope::Node(id)))
            .collect(),
        Level::Switch | Level::Numa => (0..world.nodes().len() as u32)
            .map(NodeId)
            .filter(|id| free(id).covers(needed))
            .flat_map(|id| parts(world, id, level))
            .collect(),
        Level::Island => (0..world.islands().len() as u32)
            .map(IslandId)
            .map(|id| (world.island_free(id), Scope::Island(id)))
            .collect(),
        Level::Rack | Level::Block | Level::Zone => world
            .domains()
            .iter()
            .zip(0..)
            .filter(|(domain, _)| domain.level == level)
            .map(|(_, id)| DomainId(id))
            .filter(|id| !world.domain_nodes(*id).is_empty())
            .map(|id| (world.domain_free(id), Scope::Domain(level, id)))
            .collect(),
    };
    let enough = found.into_iter().filter(|(free, _)| free.covers(needed));
    enough.map(|(free, scope)| (free.milli, scope)).collect()
}

/// NUMA nodes or PCIe switches of a node that have GPUs, with what is free of these.
fn parts(world: &World, id: NodeId, level: Level) -> Vec<(Free, Scope)> {
    let mut free: BTreeMap<u32, Free> = BTreeMap::new();
    let gpus = world.node(id).map_or(&[][..], |node| node.gpus.as_slice());
    for gpu in gpus.iter().filter_map(|gpu| world.gpu(*gpu)) {
        let part = if level == Level::Numa {
            gpu.gpu.numa
        } else {
            gpu.gpu.switch
        };
        if let Some(part) = part.filter(|_| gpu.takes_work()) {
            free.entry(part).or_default().add(gpu);
        }
    }
    let scope = |(part, free)| (free, Scope::Part(id, level, part));
    free.into_iter().map(scope).collect()
}

fn within(
    world: &World,
    job: &StoredJob,
    policy: &mut Policy,
    (scope, closed): (Scope, &[NodeId]),
) -> Option<GangPlacement> {
    let wanted = job.gang.preferred.max(job.gang.least);
    let mut found = GangPlacement {
        assignments: Vec::with_capacity(wanted as usize),
        prepare: Vec::new(),
        candidates: 0,
        weighed: Vec::new(),
    };
    let mut world = Cow::Borrowed(world);
    let mut without: Vec<NodeId> = closed.to_vec();
    for worker in 0..wanted {
        let search = Search {
            scope,
            without: &without,
        };
        let Some(choice) = eligible::select(&world, job, policy, search) else {
            break;
        };
        if worker == 0 {
            found.candidates = choice.candidates;
            found.weighed = choice.weighed;
        }
        let mut assignment = choice.candidate.assignment;
        if let Some(first) = found.assignments.first() {
            rails::align(&world, scope, first, &mut assignment);
        }
        if let Some(spread) = job.spread {
            close(
                &world,
                &mut without,
                &found.assignments,
                &assignment,
                spread.over,
                spread.most,
            );
        }
        if worker + 1 < wanted {
            hold(world.to_mut(), job, &choice.candidate.prepare, &assignment);
        }
        found.prepare.extend(choice.candidate.prepare);
        found.assignments.push(assignment);
    }
    let enough =
        found.assignments.len() >= job.gang.least as usize && !found.assignments.is_empty();
    enough.then_some(found)
}

/// Takes an assignment in a copy of the world, so that the next worker sees it taken.
fn hold(world: &mut World, job: &StoredJob, prepare: &[Action], assignment: &Assignment) {
    let at = world.now();
    for action in prepare {
        let event = Event::begun(action.clone());
        let _ = world.apply(&TimestampedEvent { at, event });
    }
    let _ = world.take(job.id, &job.worker, std::slice::from_ref(assignment), false);
}

/// Closes the domain of an assignment to further workers when it has as many as it may.
fn close(
    world: &World,
    without: &mut Vec<NodeId>,
    before: &[Assignment],
    assignment: &Assignment,
    over: Level,
    most: u32,
) {
    let place = |node: NodeId| match over {
        Level::Rack | Level::Block | Level::Zone => world
            .domain_of(node, over)
            .map_or((1, node.0), |domain| (0, domain.0)),
        _ => (1, node.0),
    };
    let here = place(assignment.node);
    let there = before
        .iter()
        .filter(|other| place(other.node) == here)
        .count() as u32
        + 1;
    if there >= most {
        let closed = (0..world.nodes().len() as u32).map(NodeId);
        without.extend(closed.filter(|node| place(*node) == here));
        without.sort_unstable();
        without.dedup();
    }
}

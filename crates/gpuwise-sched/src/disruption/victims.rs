//! Victims for a job that found none.

use super::{
    Disruptions,
    cost::{Disruption, Preemptor},
    scratch::Scratch,
    search,
};
use crate::{
    decide::{Effort, scopes},
    fit::Scope,
    world::{StoredJob, World},
};
use gpuwise_domain::placement::{Action, JobId, Level, NodeId};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// Nodes that are looked at in one step where nothing is tried on them.
pub(super) const PER_STEP: u64 = 16;

/// Victims that can be made for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victims {
    /// What is done, in this order; the last places the job.
    pub actions: Vec<Action>,
    /// Who is disrupted, and how.
    pub disrupted: Vec<Disruption>,
    /// What is lost, in thousandths of a GPU times nanoseconds, made dearer by priority.
    pub cost: u128,
}

/// Makes room for a job at the least cost that is found within the effort; for as many workers as it
/// needs at least. The world is left as it was. `None`: none was found.
///
/// All sets of disruptions are weighed where a worker's node is all that matters, or few could be
/// disrupted; otherwise room is made worker by worker, and whom it turns out not to need is left alone.
pub fn select_victims(
    world: &mut World,
    id: JobId,
    disruptions: &Disruptions,
    effort: Effort,
    now: Nanoseconds,
) -> Option<Victims> {
    let mut steps = effort.steps;
    victims_within(world, id, disruptions, &mut steps, now)
}

/// The same, of so many steps that are left; none where none are.
pub(crate) fn victims_within(
    world: &mut World,
    id: JobId,
    disruptions: &Disruptions,
    steps: &mut u64,
    now: Nanoseconds,
) -> Option<Victims> {
    let state = world.job(id).filter(|_| *steps > 0)?;
    let returns = state.rare.wanted.is_some();
    if !state.seeks() || !(disruptions.any() || returns) {
        return None;
    }
    let job = state.job.clone();
    let who = Preemptor {
        job: &job,
        returns,
        disruptions,
        now,
    };
    let scopes = wanted_scopes(world, &job);
    let holders = if returns || disruptions.of_jobs() {
        holders(world)
    } else {
        BTreeMap::new()
    };
    let mut scratch = Scratch::new(world, now);
    let mut best: Option<Victims> = None;
    for scope in scopes {
        let nodes: Vec<NodeId> = nodes_of(scratch.world(), &job, scope, now);
        // Every node is looked at once at least.
        *steps = steps.saturating_sub(1 + nodes.len() as u64 / PER_STEP);
        let bound = best.as_ref().map(|room| room.cost);
        let site = search::Site {
            scope,
            nodes: &nodes,
            holders: &holders,
        };
        if let Some(room) = search::room(&mut scratch, &who, &site, bound, steps)
            && best.as_ref().is_none_or(|best| room.cost < best.cost)
        {
            best = Some(room);
        }
        scratch.undo(0);
        if *steps == 0 || best.as_ref().is_some_and(|room| room.cost == 0) {
            break;
        }
    }
    best
}

/// Where to look: each domain of a level that is required, or everywhere.
fn wanted_scopes(world: &World, job: &StoredJob) -> Vec<Scope> {
    match job.topology {
        Some(wish) if wish.required => scopes(world, wish.within),
        _ => vec![Scope::Fleet],
    }
}

/// Nodes of a scope that could hold a worker if they were empty, as far as can be told at a glance.
fn nodes_of(world: &World, job: &StoredJob, scope: Scope, now: Nanoseconds) -> Vec<NodeId> {
    let ask = &job.worker;
    let avoided: Vec<NodeId> = world.job(job.id).map_or_else(Vec::new, |state| {
        state.avoids(now).map(|(node, _)| node).collect()
    });
    let (all, some) = scope.among(world);
    let all = (0..all).map(NodeId).chain(some.iter().copied());
    all.filter(|id| {
        scope.has_node(world, *id)
            && !avoided.contains(id)
            && world.node(*id).is_some_and(|node| {
                node.takes_work()
                    && node.node.cpu_milli >= ask.cpu_milli
                    && node.node.memory_mib >= ask.memory_mib
            })
    })
    .collect()
}

fn holders(world: &World) -> BTreeMap<NodeId, Vec<JobId>> {
    let mut found: BTreeMap<NodeId, Vec<JobId>> = BTreeMap::new();
    for (id, state) in world.jobs() {
        for assignment in &state.assignments {
            let here = found.entry(assignment.node).or_default();
            if here.last() != Some(&id) {
                here.push(id);
            }
        }
    }
    found
}

/// How far workers must be apart, as the place of a node in that.
pub(super) fn place_of(world: &World, node: NodeId, over: Level) -> (u8, u32) {
    match over {
        Level::Rack | Level::Block | Level::Zone => world
            .domain_of(node, over)
            .map_or((1, node.0), |domain| (0, domain.0)),
        _ => (1, node.0),
    }
}

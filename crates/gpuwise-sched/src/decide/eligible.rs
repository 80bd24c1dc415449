//! Among which nodes the policy chooses: those that have a job's data before others, and of those that
//! give an instance the ones where it costs the fleet least.

use super::Policy;
use crate::{
    fit::{self, Scope},
    mig,
    policy::{Choice, Search},
    world::{StoredJob, World},
};
use gpuwise_domain::placement::{GpuAsk, NodeId};

/// An assignment for one worker; never on the nodes of `search` that are closed.
pub(super) fn select(
    world: &World,
    job: &StoredJob,
    policy: &mut Policy,
    search: Search<'_>,
) -> Option<Choice> {
    if !job.near.is_empty() {
        let far = |id: &NodeId| !job.near.contains(id);
        let closed = closed(world, search.without, far);
        let near = Search {
            without: &closed,
            ..search
        };
        if let Some(mut choice) = cheapest(world, job, policy, near) {
            choice.weighed.push(("has its data".into(), 1));
            return Some(choice);
        }
    }
    let mut choice = cheapest(world, job, policy, search)?;
    if !job.near.is_empty() {
        choice.weighed.push(("has its data".into(), 0));
    }
    Some(choice)
}

/// Idle instances of the whole fleet come before one that is cut on a node that the policy likes better.
fn cheapest(
    world: &World,
    job: &StoredJob,
    policy: &mut Policy,
    search: Search<'_>,
) -> Option<Choice> {
    let ask = &job.worker;
    let GpuAsk::Slice { slice, kinds } = ask.gpu else {
        return policy.selector.select(world, job, search);
    };
    let tier = |id: NodeId| {
        let node = world.node(id).filter(|node| fit::fits_host(node, ask))?;
        if !search.allows(world, id) {
            return None;
        }
        mig::tier(world, node, slice, kinds, search.scope)
    };
    let tiers: Vec<Option<mig::Tier>> = (0..world.nodes().len() as u32)
        .map(|id| tier(NodeId(id)))
        .collect();
    let least = tiers.iter().flatten().min().copied()?;
    let dearer = |id: &NodeId| tiers.get(id.index()).copied().flatten() != Some(least);
    let closed = closed(world, search.without, dearer);
    let among = Search {
        without: &closed,
        ..search
    };
    policy.selector.select(world, job, among)
}

/// Nodes that are closed and those that are left out, sorted.
fn closed(world: &World, without: &[NodeId], out: impl Fn(&NodeId) -> bool) -> Vec<NodeId> {
    let nodes = (0..world.nodes().len() as u32).map(NodeId);
    nodes
        .filter(|id| out(id) || without.binary_search(id).is_ok())
        .collect()
}

/// Domains with a node that has the job's data come before others, which stay in their order.
pub(super) fn near_first(world: &World, job: &StoredJob, scopes: &mut [Scope]) {
    if !job.near.is_empty() {
        scopes.sort_by_key(|scope| !job.near.iter().any(|id| scope.has_node(world, *id)));
    }
}

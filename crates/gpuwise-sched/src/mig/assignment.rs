//! An instance for one worker: an idle one, or one that is cut for it.

use super::{ProfileDemand, by_cost, gives};
use crate::{
    fit::Scope,
    world::{GpuState, Instance, NodeState, Tenancy, World},
};
use gpuwise_domain::placement::{
    Action, GpuAsk, GpuId, GpuShare, Kinds, MigGeometry, Occupancy, Part, SliceAsk,
};

/// What a way of getting an instance costs, least first: switching MIG on takes a whole GPU from those
/// who need one, a larger profile wastes slices, cutting takes seconds, and a start can spoil others.
type Rank = (bool, (u8, u8), bool, i64);

/// What a node costs the fleet that gives an instance, least first: MIG must be switched on, the instance
/// is larger than the smallest of its board that would do, it must be cut. An idle instance that is there
/// comes before one that is cut anywhere.
pub(crate) type Tier = (bool, bool, bool);

/// An instance of a node that gives what is asked: an idle one, or one that is cut now. A GPU on which
/// MIG is off is switched only if it is free and no other has room.
pub(crate) fn assignment(
    world: &World,
    node: &NodeState,
    ask: SliceAsk,
    kinds: Kinds,
    scope: Scope,
) -> Option<(Vec<GpuShare>, Vec<Action>)> {
    best(world, node, ask, kinds, scope).map(|(_, share, actions)| (vec![share], actions))
}

/// What it costs to have an instance of this node; `None`: it gives none.
pub(crate) fn tier(
    world: &World,
    node: &NodeState,
    ask: SliceAsk,
    kinds: Kinds,
    scope: Scope,
) -> Option<Tier> {
    let ((switch, weight, cut, _), share, _) = best(world, node, ask, kinds, scope)?;
    let (_, geometry) = cuttable(world, share.gpu, kinds)?;
    let smallest = by_cost(geometry, &ask).into_iter().next();
    let smallest = smallest.and_then(|shape| geometry.shape(shape));
    let larger = smallest.is_none_or(|row| weight > (row.compute, row.size));
    Some((switch, larger, cut))
}

fn best(
    world: &World,
    node: &NodeState,
    ask: SliceAsk,
    kinds: Kinds,
    scope: Scope,
) -> Option<(Rank, GpuShare, Vec<Action>)> {
    let mut best: Option<(Rank, GpuShare, Vec<Action>)> = None;
    for id in &node.gpus {
        let Some((gpu, geometry)) = cuttable(world, *id, kinds) else {
            continue;
        };
        if !gpu.takes_work() || !scope.has_gpu(gpu) {
            continue;
        }
        let found = match &gpu.held {
            Tenancy::Sliced(instances) => on_cut(geometry, *id, instances, &ask),
            // Its mode cannot be switched again before it is.
            Tenancy::Free if gpu.switching => None,
            Tenancy::Free => {
                let switch = Action::SetMig { gpu: *id, on: true };
                new_one(geometry, *id, Occupancy::default(), &ask).map(
                    |((_, weight, cut, score), share, mut actions)| {
                        actions.insert(0, switch);
                        ((true, weight, cut, score), share, actions)
                    },
                )
            }
            Tenancy::Whole(_) | Tenancy::Shared { .. } => None,
        };
        if let Some(found) = found
            && best.as_ref().is_none_or(|(least, ..)| found.0 < *least)
        {
            best = Some(found);
        }
    }
    best
}

/// What the instances of a GPU take together; `None` where the geometry forbids them.
pub fn taken(geometry: &MigGeometry, instances: &[Instance]) -> Option<Occupancy> {
    geometry.together(instances.iter().map(|one| (one.shape, one.start)))
}

/// What must be done first so that somebody who found no room would find some: idle instances that are
/// in the way are destroyed, and MIG is switched off where whole GPUs are asked and nothing is cut.
/// Nobody is disrupted. Empty: nothing would help, or what was begun is to be waited for. The room is
/// there once these are done: who waits is placed by a later decision.
pub fn select_victims(world: &World, ask: &GpuAsk) -> Vec<Action> {
    if world.cut() == 0 {
        return Vec::new();
    }
    let cut = || world.nodes().iter().filter(|node| node.counted.cut > 0);
    let mut gpus: Vec<GpuId> = cut().flat_map(|node| node.gpus.iter().copied()).collect();
    gpus.sort_unstable();
    let changing = |gpu: &GpuState| match &gpu.held {
        Tenancy::Sliced(instances) => instances
            .iter()
            .any(|one| !one.ready && one.holder.is_none()),
        _ => false,
    };
    if gpus.iter().filter_map(|gpu| world.gpu(*gpu)).any(changing) {
        return Vec::new();
    }
    let found = match *ask {
        GpuAsk::Slice { slice, kinds } => {
            let ways = gpus
                .into_iter()
                .filter_map(|id| merges(world, id, &slice, kinds));
            ways.min_by_key(Vec::len)
        }
        GpuAsk::Whole { kinds, count, .. } => {
            let nodes = cut().filter(|node| node.takes_work());
            let ways = nodes.filter_map(|node| uncut_node(world, node, kinds, count));
            ways.min_by_key(Vec::len)
        }
        GpuAsk::None | GpuAsk::Fraction { .. } => None,
    };
    found.unwrap_or_default()
}

fn cuttable(world: &World, id: GpuId, kinds: Kinds) -> Option<(&GpuState, &MigGeometry)> {
    let gpu = world.gpu(id)?;
    let geometry = world.kind(gpu.gpu.kind)?.mig.as_ref()?;
    kinds.has(gpu.gpu.kind).then_some((gpu, geometry))
}

fn on_cut(
    geometry: &MigGeometry,
    gpu: GpuId,
    instances: &[Instance],
    ask: &SliceAsk,
) -> Option<(Rank, GpuShare, Vec<Action>)> {
    let idle = instances
        .iter()
        .filter(|one| one.ready && one.holder.is_none());
    let idle = idle.filter_map(|one| {
        let row = geometry.shape(one.shape)?;
        let part = Part::Slice {
            shape: one.shape,
            start: one.start,
        };
        let rank = (false, (row.compute, row.size), false, 0);
        gives(row, ask).then_some((rank, GpuShare { gpu, part }, Vec::new()))
    });
    let new = new_one(geometry, gpu, taken(geometry, instances)?, ask);
    idle.chain(new).min_by_key(|(rank, ..)| *rank)
}

fn new_one(
    geometry: &MigGeometry,
    gpu: GpuId,
    taken: Occupancy,
    ask: &SliceAsk,
) -> Option<(Rank, GpuShare, Vec<Action>)> {
    let worth = ProfileDemand::even(geometry);
    by_cost(geometry, ask).into_iter().find_map(|shape| {
        let row = geometry.shape(shape)?;
        let spot = worth.best([taken], shape)?;
        let start = spot.start;
        let rank = (false, (row.compute, row.size), true, spot.score);
        let part = Part::Slice { shape, start };
        Some((
            rank,
            GpuShare { gpu, part },
            vec![Action::CreateInstance { gpu, shape, start }],
        ))
    })
}

/// The fewest idle instances of a GPU whose end makes room.
pub(crate) fn merges(
    world: &World,
    id: GpuId,
    ask: &SliceAsk,
    kinds: Kinds,
) -> Option<Vec<Action>> {
    let (gpu, geometry) = cuttable(world, id, kinds)?;
    let Tenancy::Sliced(instances) = &gpu.held else {
        return None;
    };
    if !gpu.takes_work() {
        return None;
    }
    let present: Vec<super::Present> = instances
        .iter()
        .map(|one| super::Present {
            shape: one.shape,
            start: one.start,
            cost: (one.ready && one.holder.is_none()).then_some(1),
        })
        .collect();
    let ways = by_cost(geometry, ask).into_iter();
    let ways = ways.filter_map(|shape| super::repartition(geometry, &present, &[shape]));
    let way = ways.min_by_key(|way| way.cost)?;
    let ends = way.destroy.iter().filter_map(|at| present.get(*at));
    Some(
        ends.map(|one| Action::DestroyInstance {
            gpu: id,
            start: one.start,
        })
        .collect(),
    )
}

/// What makes as many GPUs of a node whole as are asked beside those that are: the fewest steps.
fn uncut_node(world: &World, node: &NodeState, kinds: Kinds, count: u32) -> Option<Vec<Action>> {
    let missing = count
        .checked_sub(node.whole_free)
        .filter(|missing| *missing > 0)?;
    let mut ways: Vec<Vec<Action>> = node
        .gpus
        .iter()
        .filter_map(|id| uncut(world, *id, kinds))
        .collect();
    ways.sort_by_key(Vec::len);
    let enough = ways.len() >= missing as usize;
    enough.then(|| ways.into_iter().take(missing as usize).flatten().collect())
}

/// What makes a GPU whole on which nobody holds an instance.
fn uncut(world: &World, id: GpuId, kinds: Kinds) -> Option<Vec<Action>> {
    let (gpu, _) = cuttable(world, id, kinds)?;
    let Tenancy::Sliced(instances) = &gpu.held else {
        return None;
    };
    let idle = instances
        .iter()
        .all(|one| one.ready && one.holder.is_none());
    if !idle || !gpu.takes_work() || gpu.switching {
        return None;
    }
    if instances.is_empty() {
        return Some(vec![Action::SetMig { gpu: id, on: false }]);
    }
    let ends = instances.iter().map(|one| Action::DestroyInstance {
        gpu: id,
        start: one.start,
    });
    Some(ends.collect())
}

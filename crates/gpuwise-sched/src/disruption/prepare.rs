//! Victims on a node that must first be made ready without disrupting anybody: pooled GPUs attached, idle
//! instances joined.

use super::{Disruptions, scratch::Scratch};
use crate::{
    fit::{self, Candidate, Scope},
    world::{Link, Tenancy, World},
};
use gpuwise_domain::placement::{Action, GpuAsk, GpuId, Home, Kinds, NodeId, WorkerAsk};
use gpuwise_units::Nanoseconds;

/// Where a worker would run on a node, with what must be done first. Nothing is left changed.
pub(super) fn room_on(
    scratch: &mut Scratch<'_>,
    node: NodeId,
    ask: &WorkerAsk,
    scope: Scope,
    disruptions: &Disruptions,
) -> Option<Candidate> {
    if let Some(candidate) = fit::assignment(scratch.world(), node, ask, scope) {
        return Some(candidate);
    }
    let state = scratch.world().node(node)?;
    if !fit::fits_host(state, ask) || ask.gpu == GpuAsk::None {
        return None;
    }
    let joins = if disruptions.repartition {
        joinable(scratch.world(), node, ask, scope)
    } else {
        Vec::new()
    };
    let mut chosen = None;
    if !joins.is_empty() {
        chosen = with_steps(scratch, node, ask, scope, &joins);
    }
    if chosen.is_none() && disruptions.attach {
        // Whole GPUs of a worker are of one kind, so each kind is tried for itself.
        for kind in ask.gpu.kinds().iter().take(scratch.world().kinds().len()) {
            let steps = attachable(scratch.world(), node, ask, scope, Kinds::one(kind));
            if steps.is_empty() {
                continue;
            }
            chosen = with_steps(scratch, node, ask, scope, &steps);
            if chosen.is_some() {
                break;
            }
        }
    }
    let (mut prepare, mut candidate) = chosen?;
    let seated = |gpu: &GpuId| {
        candidate
            .assignment
            .gpus
            .iter()
            .any(|share| share.gpu == *gpu)
    };
    // What was made ready and is not used is left as it is.
    prepare.retain(|action| match action {
        Action::Attach { gpu, .. }
        | Action::DestroyInstance { gpu, .. }
        | Action::SetMig { gpu, .. } => seated(gpu),
        _ => true,
    });
    prepare.append(&mut candidate.prepare);
    candidate.prepare = prepare;
    Some(candidate)
}

/// Whether anything could be made ready anywhere for a worker: instances destroyed, modes switched, pooled GPUs
/// attached.
pub(crate) fn could_prepare(world: &World, ask: &WorkerAsk, disruptions: &Disruptions) -> bool {
    if ask.gpu == GpuAsk::None {
        return false;
    }
    if disruptions.attach && !world.pools().is_empty() {
        return true;
    }
    if !disruptions.repartition || world.cut() == 0 {
        return false;
    }
    let nodes = world.nodes().iter().zip((0..).map(NodeId));
    let cut = nodes.filter(|(node, _)| node.counted.cut > 0 && fit::fits_host(node, ask));
    let mut cut = cut.map(|(_, id)| id);
    cut.any(|id| !joinable(world, id, ask, Scope::Fleet).is_empty())
}

/// Takes as few of the steps as are enough. Nothing is left changed.
fn with_steps(
    scratch: &mut Scratch<'_>,
    node: NodeId,
    ask: &WorkerAsk,
    scope: Scope,
    steps: &[Vec<Action>],
) -> Option<(Vec<Action>, Candidate)> {
    let mark = scratch.mark();
    let mut prepare = Vec::new();
    let mut found = None;
    for step in steps {
        let before = scratch.mark();
        if !step.iter().all(|action| scratch.begin(action)) {
            scratch.undo(before);
            continue;
        }
        prepare.extend(step.iter().cloned());
        found = fit::assignment(scratch.world(), node, ask, scope);
        if found.is_some() {
            break;
        }
    }
    scratch.undo(mark);
    Some((prepare, found?))
}

/// For each GPU of a node that is cut: what makes room on it without disrupting anybody, the shortest
/// first. For a whole GPU all its instances must be idle; for an instance those in the way.
fn joinable(world: &World, node: NodeId, ask: &WorkerAsk, scope: Scope) -> Vec<Vec<Action>> {
    let kinds = ask.gpu.kinds();
    let mut found: Vec<Vec<Action>> = Vec::new();
    let Some(node) = world.node(node) else {
        return found;
    };
    for id in &node.gpus {
        let Some(gpu) = world.gpu(*id) else { continue };
        let right = kinds.has(gpu.gpu.kind) && scope.has_gpu(gpu) && gpu.takes_work();
        if !right || gpu.switching || gpu.link != Link::Here {
            continue;
        }
        match (ask.gpu, &gpu.held) {
            (GpuAsk::Slice { slice, kinds }, Tenancy::Sliced(_)) => {
                let merges = crate::mig::merges(world, *id, &slice, kinds);
                found.extend(merges.filter(|merges| !merges.is_empty()));
            }
            (GpuAsk::Whole { .. } | GpuAsk::Fraction { .. }, Tenancy::Sliced(instances))
                if instances
                    .iter()
                    .all(|one| one.holder.is_none() && one.ready) =>
            {
                let merges = instances.iter().map(|one| Action::DestroyInstance {
                    gpu: *id,
                    start: one.start,
                });
                let off = Action::SetMig {
                    gpu: *id,
                    on: false,
                };
                found.push(merges.chain([off]).collect());
            }
            _ => {}
        }
    }
    found.sort_by_key(Vec::len);
    found
}

/// Free GPUs of the node's pools of the kinds that are asked for, those soonest there first.
fn attachable(
    world: &World,
    node: NodeId,
    ask: &WorkerAsk,
    scope: Scope,
    of: Kinds,
) -> Vec<Vec<Action>> {
    let Some(state) = world.node(node) else {
        return Vec::new();
    };
    let attached = state.gpus.len().saturating_sub(state.node.gpus.len());
    let slots = (state.node.slots as usize).saturating_sub(attached);
    if slots == 0 || state.node.pools.is_empty() {
        return Vec::new();
    }
    let kinds = match ask.gpu {
        GpuAsk::Whole { kinds, need, .. } => fit::kinds_with(world, kinds, need),
        other => other.kinds(),
    }
    .and(of);
    let mut found: Vec<(Nanoseconds, GpuId)> = Vec::new();
    for (gpu, id) in world.gpus().iter().zip(0..) {
        let Home::Pool(pool) = gpu.gpu.home else {
            continue;
        };
        if gpu.link == Link::InPool
            && gpu.gpu.health.takes_work()
            && kinds.has(gpu.gpu.kind)
            && scope.has_gpu(gpu)
            && state.node.pools.contains(&pool)
            && world.may_recompose(node, pool)
        {
            let gpu = GpuId(id);
            let delay = world.expected(&Action::Attach { gpu, node });
            found.push((delay.unwrap_or_default(), gpu));
        }
    }
    found.sort_unstable();
    found.truncate(slots);
    let attach = |(_, gpu)| vec![Action::Attach { gpu, node }];
    found.into_iter().map(attach).collect()
}

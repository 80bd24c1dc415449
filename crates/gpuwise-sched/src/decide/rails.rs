//! GPUs of a gang's workers on several nodes on the same rails, so that their collectives stay on one leaf
//! switch for each rail.

use crate::{
    fit::Scope,
    world::{Tenancy, World},
};
use gpuwise_domain::placement::{Assignment, GpuId, GpuShare, Part};

/// Changes an assignment to the GPUs of its node that are on the rails of the first worker's, in their order,
/// where those are free and alike; else it stays as it is.
pub(super) fn align(world: &World, scope: Scope, first: &Assignment, assignment: &mut Assignment) {
    if assignment.node == first.node || assignment.gpus.len() != first.gpus.len() {
        return;
    }
    let rail = |id: GpuId| world.gpu(id).and_then(|gpu| gpu.gpu.rail);
    let whole = |share: &GpuShare| share.part == Part::Whole;
    if !assignment.gpus.iter().chain(&first.gpus).all(whole) {
        return;
    }
    let Some(node) = world.node(assignment.node) else {
        return;
    };
    let kind = assignment
        .gpus
        .first()
        .and_then(|share| world.gpu(share.gpu));
    let Some(kind) = kind.map(|gpu| gpu.gpu.kind) else {
        return;
    };
    let mut free: Vec<GpuId> = node.gpus.clone();
    free.retain(|id| {
        world.gpu(*id).is_some_and(|gpu| {
            gpu.takes_work()
                && gpu.held == Tenancy::Free
                && gpu.gpu.kind == kind
                && scope.has_gpu(gpu)
        })
    });
    let mut aligned = Vec::with_capacity(first.gpus.len());
    for share in &first.gpus {
        let wanted = rail(share.gpu);
        let found = free
            .iter()
            .position(|id| wanted.is_some() && rail(*id) == wanted);
        let Some(at) = found else { return };
        aligned.push(GpuShare {
            gpu: free.remove(at),
            part: Part::Whole,
        });
    }
    assignment.gpus = aligned;
}

//! Cutting GPUs into MIG instances: layouts, where to start one, packing mixes of requests.
//!
//! [`layouts`] lists every way in which a board can be cut, [`Worth`] chooses where one instance starts
//! while requests come one by one, [`fill`] and [`fewest`] pack a mix that is known, [`recut`] cuts a
//! board anew around instances that are held. The rules of boards are those of
//! [`MigGeometry`](gpuwise_domain::placement::MigGeometry); nothing here knows a board.

pub mod layouts;
mod pack;
mod recut;
mod simplex;
mod worth;

pub use pack::{Boards, Cut, Packed, fewest, fill};
pub use recut::{Present, Recut, arrange, recut};
pub use worth::{Spot, Worth, first_fit, most};

use crate::{
    fit::Scope,
    world::{Held, NodeState, World},
};
use gpuwise_domain::placement::{Action, GpuShare, Kinds, MigShape, Part, SliceAsk};

/// Whether a profile gives what is asked. One whose memory or multiprocessors are not known does not
/// give what is asked of these.
pub fn gives(shape: &MigShape, ask: &SliceAsk) -> bool {
    let enough = |has: Option<u32>, asked: u32| asked == 0 || has.is_some_and(|has| has >= asked);
    enough(shape.memory_mib, ask.memory_mib)
        && enough(shape.units, ask.units)
        && (ask.compute == 0 || shape.compute == ask.compute)
        && (ask.memory_slices == 0 || shape.size == ask.memory_slices)
        && (shape.media || !ask.media)
}

/// An idle instance of a node that gives what is asked, the smallest first.
pub(crate) fn seat(
    world: &World,
    node: &NodeState,
    ask: SliceAsk,
    kinds: Kinds,
    scope: Scope,
) -> Option<(Vec<GpuShare>, Vec<Action>)> {
    let mut best: Option<((u8, u8), GpuShare)> = None;
    for id in &node.gpus {
        let Some(gpu) = world.gpu(*id) else { continue };
        let geometry = world.kind(gpu.gpu.kind).and_then(|kind| kind.mig.as_ref());
        let (Some(geometry), Held::Sliced(instances)) = (geometry, &gpu.held) else {
            continue;
        };
        if !gpu.takes_work() || !kinds.has(gpu.gpu.kind) || !scope.has_gpu(gpu) {
            continue;
        }
        for instance in instances
            .iter()
            .filter(|one| one.ready && one.holder.is_none())
        {
            let Some(shape) = geometry.shapes.get(usize::from(instance.shape)) else {
                continue;
            };
            let weight = (shape.compute, shape.size);
            if gives(shape, &ask) && best.is_none_or(|(least, _)| weight < least) {
                let part = Part::Slice {
                    shape: instance.shape,
                    start: instance.start,
                };
                best = Some((weight, GpuShare { gpu: *id, part }));
            }
        }
    }
    best.map(|(_, share)| (vec![share], Vec::new()))
}

//! What it costs to put a worker on a node, in each way that it fits.

use super::{
    classes::Class,
    mix::{Mix, WIDTHS},
    room::{GPUS, Room, WHOLE},
    value::Values,
};
use crate::{
    fit::{self, Scope},
    world::World,
};
use gpuwise_domain::placement::{GpuAsk, Kinds, NodeId, WorkerAsk};

/// One way to place a worker on a node of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FitOption {
    /// Placement score: capacity lost, in millionths of a GPU.
    pub(super) loss: i32,
    /// Places that are lost, in thousandths.
    pub(super) places: [i16; WIDTHS],
    /// For a fraction: so much is free on the GPU that it goes to; 0: the usual GPUs are taken.
    pub(super) free: u16,
}

/// The ways that can be best: for a fraction the best shared GPU and an idle one, else one at most.
pub(super) type FitOptions = [Option<FitOption>; 2];

/// The ways in which a worker fits the nodes of a class, of which one is told.
pub(super) fn ways(
    world: &World,
    ask: &WorkerAsk,
    kinds: Kinds,
    (class, id): (&Class, NodeId),
    mix: &Mix,
    values: &mut Values,
) -> FitOptions {
    let mut found: FitOptions = [None; 2];
    let idle = match ask.gpu {
        GpuAsk::Whole { count, .. } => count.min(GPUS as u32),
        _ => 0,
    };
    let room = &class.room;
    if room.cpu < ask.cpu_milli || room.memory < ask.memory_mib || room.whole() < idle {
        return found;
    }
    let after = class.room.without(ask.cpu_milli, ask.memory_mib);
    let mut way = |room: Room, free: u16| {
        let worth = values.worth(mix, room);
        let mut places = [0; WIDTHS];
        let both = class.worth.places.iter().zip(worth.places);
        for (lost, (before, after)) in places.iter_mut().zip(both) {
            *lost = (before - after).clamp(i16::MIN.into(), i16::MAX.into()) as i16;
        }
        let loss = class.worth.micro - worth.micro;
        FitOption {
            loss: loss.clamp(i32::MIN.into(), i64::from(i32::MAX) - 1) as i32,
            places,
            free,
        }
    };
    if let GpuAsk::Fraction { milli, .. } = ask.gpu {
        for free in rooms(world, id, ask, kinds) {
            let one = way(after.without_part(free, milli.min(1000) as u16), free);
            let [shared, idle] = &mut found;
            let best = if free == WHOLE { idle } else { shared };
            if best.is_none_or(|best| one.loss < best.loss) {
                *best = Some(one);
            }
        }
        return found;
    }
    if fit::assignment(world, id, ask, Scope::Fleet).is_some() {
        let room = match ask.gpu {
            GpuAsk::Whole { count, .. } => after.without_whole(count),
            _ => after,
        };
        found[0] = Some(way(room, 0));
    }
    found
}

/// How much is free on GPUs of a node that have room for a fraction: each amount once, the least first.
fn rooms(world: &World, id: NodeId, ask: &WorkerAsk, kinds: Kinds) -> Vec<u16> {
    let (
        Some(node),
        GpuAsk::Fraction {
            milli,
            memory_mib,
            isolation,
            ..
        },
    ) = (world.node(id), ask.gpu)
    else {
        return Vec::new();
    };
    if !fit::fits_host(node, ask) {
        return Vec::new();
    }
    let found = fit::fraction_rooms(
        world,
        node,
        milli,
        memory_mib,
        isolation,
        kinds,
        Scope::Fleet,
    );
    let mut rooms: Vec<u16> = found.map(|(free, _)| free.min(1000) as u16).collect();
    rooms.sort_unstable();
    rooms.dedup();
    rooms
}

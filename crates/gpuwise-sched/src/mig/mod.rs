//! Cutting GPUs into MIG instances: layouts, where to start one, packing mixes of requests.
//!
//! [`layouts`] lists every way in which a board can be cut, [`ProfileDemand`] chooses where one instance starts
//! while requests come one by one, [`fill`] and [`fewest`] pack a mix that is known, [`repartition`] cuts a
//! board anew around instances that are held. The rules of boards are those of
//! [`MigGeometry`]; nothing here knows a board.

mod assignment;
pub mod layouts;
mod pack;
mod profile_demand;
mod repartition;

pub(crate) use assignment::{Tier, assignment, merges, tier};
pub use assignment::{select_victims, taken};
pub use pack::{Boards, Cut, Packed, fewest, fill};
pub use profile_demand::{ProfileDemand, Spot, first_fit, most};
pub use repartition::{Present, Repartition, arrange, repartition};

use gpuwise_domain::placement::{MigGeometry, MigShape, SliceAsk};

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

/// The profiles that give what is asked, the one that takes least of the board first: compute slices,
/// then memory slices, then multiprocessors. Media engines are given only to those who ask for them.
pub fn by_cost(geometry: &MigGeometry, ask: &SliceAsk) -> Vec<u8> {
    let shapes = geometry.shapes.iter().zip(0_u8..);
    let mut found: Vec<(&MigShape, u8)> = shapes
        .filter(|(shape, _)| gives(shape, ask) && (ask.media || !shape.media))
        .collect();
    found.sort_by_key(|(shape, at)| (shape.compute, shape.size, shape.units, *at));
    found.into_iter().map(|(_, at)| at).collect()
}

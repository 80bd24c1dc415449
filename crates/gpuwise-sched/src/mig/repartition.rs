//! Cutting a board anew while some of its instances are held.
//!
//! An instance cannot move and two cannot be joined while either is held: what is in the way must be
//! destroyed, and before that its holder must end or be moved.

use super::layouts::Layout;
use gpuwise_domain::placement::{MigGeometry, Occupancy};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    /// Its profile's place in the geometry.
    pub shape: u8,
    pub start: u8,
    /// What destroying it costs: draining its holder, or next to nothing where it is idle. `None`: it
    /// must stay.
    pub cost: Option<u64>,
}

/// How a board is cut anew.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repartition {
    /// Which of those present are destroyed, by their place in the list.
    pub destroy: Vec<usize>,
    /// What is created, each a profile and its start, in an order in which the driver takes them.
    pub create: Layout,
    /// What destroying costs together.
    pub cost: u64,
}

/// Instances of one board that are looked at: there are no more memory slices.
const MOST_PRESENT: usize = 16;

/// Starts that are tried before giving up; boards in use need a few dozen.
const MOST_STEPS: u32 = 1_000_000;

/// The cheapest way to have these profiles beside what stays; of equals the one that destroys fewest.
/// `None`: there is none, whatever is destroyed.
pub fn repartition(
    geometry: &MigGeometry,
    present: &[Present],
    wanted: &[u8],
) -> Option<Repartition> {
    if present.len() > MOST_PRESENT {
        return None;
    }
    let movable: Vec<(usize, u64)> = present
        .iter()
        .enumerate()
        .filter_map(|(at, one)| Some((at, one.cost?)))
        .collect();
    let mut sets: Vec<(u64, u32, u32)> = (0..1_u32 << movable.len())
        .map(|set| {
            let chosen = movable.iter().enumerate();
            let chosen = chosen.filter(|(bit, _)| set & (1 << bit) != 0);
            let cost = chosen.fold(0_u64, |sum, (_, (_, cost))| sum.saturating_add(*cost));
            (cost, set.count_ones(), set)
        })
        .collect();
    sets.sort_unstable();
    let mut steps = MOST_STEPS;
    sets.into_iter().find_map(|(cost, _, set)| {
        let chosen = movable.iter().enumerate();
        let chosen = chosen.filter(|(bit, _)| set & (1 << bit) != 0);
        let destroy: Vec<usize> = chosen.map(|(_, (at, _))| *at).collect();
        let stays = present.iter().enumerate();
        let stays = stays.filter(|(at, _)| !destroy.contains(at));
        let taken = geometry.together(stays.map(|(_, one)| (one.shape, one.start)))?;
        let create = arrange_within(geometry, taken, wanted, &mut steps)?;
        Some(Repartition {
            destroy,
            create,
            cost,
        })
    })
}

/// Starts at which these profiles can be together beside what is taken; longest first. `None`: there
/// are none.
pub fn arrange(geometry: &MigGeometry, taken: Occupancy, wanted: &[u8]) -> Option<Layout> {
    arrange_within(geometry, taken, wanted, &mut { MOST_STEPS })
}

fn arrange_within(
    geometry: &MigGeometry,
    taken: Occupancy,
    wanted: &[u8],
    steps: &mut u32,
) -> Option<Layout> {
    let length = |shape: &u8| {
        geometry
            .shape(*shape)
            .map_or((0, 0), |row| (row.size, row.compute))
    };
    let needed = wanted
        .iter()
        .map(length)
        .fold((0_u32, 0_u32), |sum, (size, compute)| {
            (sum.0 + u32::from(size), sum.1 + u32::from(compute))
        });
    let memory = u32::from(geometry.memory_slices).saturating_sub(taken.memory.count_ones());
    let compute = geometry.compute_slices.saturating_sub(taken.compute);
    if wanted.len() > MOST_PRESENT || needed.0 > memory || needed.1 > u32::from(compute) {
        return None;
    }
    let mut order = wanted.to_vec();
    order.sort_by_key(|shape| (core::cmp::Reverse(length(shape)), *shape));
    let mut layout = Layout::new();
    put(geometry, taken, &order, &mut layout, steps).then_some(layout)
}

fn put(
    geometry: &MigGeometry,
    taken: Occupancy,
    left: &[u8],
    layout: &mut Layout,
    steps: &mut u32,
) -> bool {
    let Some((shape, rest)) = left.split_first() else {
        return true;
    };
    // Equal profiles start one behind the other: each arrangement is met once.
    let behind = layout
        .last()
        .filter(|(last, _)| last == shape)
        .map(|(_, start)| *start);
    for (start, after) in geometry.starts(taken, *shape) {
        if behind.is_some_and(|behind| start < behind) {
            continue;
        }
        let Some(left) = steps.checked_sub(1) else {
            return false;
        };
        *steps = left;
        layout.push((*shape, start));
        if put(geometry, after, rest, layout, steps) {
            return true;
        }
        layout.pop();
    }
    false
}

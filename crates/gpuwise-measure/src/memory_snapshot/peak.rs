//! Live bytes over the recorded history, walked back from the total at its end.
//!
//! The history is a ring: its beginning is lost, so no sum from the front is right. The total at the
//! end is known from the segments; undoing each event gives the total before it.

use gpuwise_domain::profile::memory_snapshot::{
    AllocatorAction, AllocatorEvent, BlockState, MemorySnapshot,
};
use gpuwise_domain::profile::sources::{AllocationSite, LivePoint, OutOfMemory, TraceFigures};
use gpuwise_domain::profile::timeline::Index;
use std::collections::BTreeMap;

/// What an event adds to (live, reserved).
fn change(event: &AllocatorEvent) -> (i64, i64) {
    let bytes = i64::try_from(event.bytes).unwrap_or(i64::MAX);
    match event.action {
        AllocatorAction::Alloc => (bytes, 0),
        AllocatorAction::FreeCompleted => (-bytes, 0),
        AllocatorAction::SegmentAlloc | AllocatorAction::SegmentMap => (0, bytes),
        AllocatorAction::SegmentFree | AllocatorAction::SegmentUnmap => (0, -bytes),
        AllocatorAction::FreeRequested
        | AllocatorAction::OutOfMemory
        | AllocatorAction::Snapshot
        | AllocatorAction::Other(_) => (0, 0),
    }
}

/// Live bytes of a device over its history: one point before the first event and one after each.
pub fn live_timeline(snapshot: &MemorySnapshot, device: usize) -> Vec<LivePoint> {
    let events = snapshot.traces.get(device).map_or(&[][..], |events| events);
    let number = i64::try_from(device).unwrap_or(i64::MAX);
    let of_device = || snapshot.segments.iter().filter(|s| s.device == number);
    let sum = |bytes: &mut dyn Iterator<Item = u64>| {
        i64::try_from(bytes.fold(0, u64::saturating_add)).unwrap_or(i64::MAX)
    };
    let mut live = sum(&mut of_device().map(|segment| segment.allocated_bytes));
    let mut reserved = sum(&mut of_device().map(|segment| segment.total_bytes));
    let mut points = Vec::with_capacity(events.len() + 1);
    for event in events.iter().rev() {
        points.push(LivePoint {
            at_us: event.at_us,
            live,
            reserved,
        });
        let (more, taken) = change(event);
        live = live.saturating_sub(more);
        reserved = reserved.saturating_sub(taken);
    }
    points.push(LivePoint {
        at_us: events.first().and_then(|event| event.at_us),
        live,
        reserved,
    });
    points.reverse();
    points
}

pub(super) fn trace_figures(
    snapshot: &MemorySnapshot,
    device: usize,
    events: &[AllocatorEvent],
) -> TraceFigures {
    let points = live_timeline(snapshot, device);
    let mut figures = TraceFigures {
        device: device as u64,
        event_count: events.len() as u64,
        time_span_us: time_span(events),
        mean_live: mean_live(&points),
        end_live: points.last().map_or(0, |point| point.live),
        start_live: points.first().map_or(0, |point| point.live),
        peak_reserved: points.iter().map(|point| point.reserved).max().unwrap_or(0),
        ..TraceFigures::default()
    };
    for event in events {
        *figures
            .actions
            .entry(event.action.name().into())
            .or_default() += 1;
        if event.action == AllocatorAction::OutOfMemory {
            figures.out_of_memory.push(OutOfMemory {
                at_us: event.at_us,
                asked: event.bytes,
                device_free: event.device_free,
                stack: event.stack,
            });
        }
    }
    // The first of the largest: `max_by_key` would take the last.
    let peak = points.iter().enumerate().rev();
    if let Some((index, point)) = peak.max_by_key(|(_, point)| point.live) {
        figures.peak_live = point.live;
        figures.peak_at_event = index;
        figures.peak_at_us = point.at_us;
        figures.reserved_at_peak = point.reserved;
    }
    let held = held_at(snapshot, device, events, figures.peak_at_event);
    let known = held.iter().map(|site| site.bytes).sum::<u64>();
    figures.unattributed_at_peak = figures
        .peak_live
        .saturating_sub(i64::try_from(known).unwrap_or(i64::MAX));
    figures.sites_at_peak = held;
    figures
}

fn time_span(events: &[AllocatorEvent]) -> i64 {
    let time = |event: Option<&AllocatorEvent>| event.and_then(|e| e.at_us).unwrap_or(0);
    time(events.last()).saturating_sub(time(events.first()))
}

/// Time-weighted mean; each point holds until the next.
fn mean_live(points: &[LivePoint]) -> Option<f64> {
    let mut weighted = 0.0;
    let mut total = 0.0;
    for pair in points.windows(2) {
        let [from, to] = pair else { continue };
        let length = to.at_us?.checked_sub(from.at_us?)?.max(0) as f64;
        weighted += from.live as f64 * length;
        total += length;
    }
    (total > 0.0).then(|| weighted / total)
}

/// Who holds what after the first `count` events: allocations that were not freed by then. What was
/// there before the recording and still is at its end is known by the blocks of the segments.
fn held_at(
    snapshot: &MemorySnapshot,
    device: usize,
    events: &[AllocatorEvent],
    count: usize,
) -> Vec<AllocationSite> {
    let (before, after) = events.split_at(count.min(events.len()));
    let live = walked_back(snapshot, device, after);
    let mut allocated: BTreeMap<u64, Index> = BTreeMap::new();
    for event in before {
        if event.action == AllocatorAction::Alloc {
            allocated.insert(event.address, event.stack);
        }
    }
    let mut sites: BTreeMap<Index, (u64, u64)> = BTreeMap::new();
    for (address, (bytes, stack)) in live {
        let stack = allocated.get(&address).copied().unwrap_or(stack);
        if stack != Index::NONE {
            let (allocations, sum) = sites.entry(stack).or_default();
            *allocations += 1;
            *sum = sum.saturating_add(bytes);
        }
    }
    let sites = sites.into_iter();
    let mut sites: Vec<AllocationSite> = sites
        .map(|(stack, (count, bytes))| AllocationSite {
            stack,
            count,
            bytes,
        })
        .collect();
    sites.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.stack.cmp(&b.stack)));
    sites
}

/// What was there before the first event: address, bytes and who asked for it, where known.
pub(super) fn live_before(
    snapshot: &MemorySnapshot,
    device: usize,
    events: &[AllocatorEvent],
) -> impl Iterator<Item = (u64, i64, Index)> {
    let live = walked_back(snapshot, device, events).into_iter();
    live.map(|(address, (bytes, stack))| (address, i64::try_from(bytes).unwrap_or(i64::MAX), stack))
}

/// Blocks in use before events that end the history, by address: bytes, and who asked for them.
fn walked_back(
    snapshot: &MemorySnapshot,
    device: usize,
    after: &[AllocatorEvent],
) -> BTreeMap<u64, (u64, Index)> {
    let mut live: BTreeMap<u64, (u64, Index)> = BTreeMap::new();
    let number = i64::try_from(device).unwrap_or(i64::MAX);
    for segment in snapshot.segments.iter().filter(|s| s.device == number) {
        for block in &segment.blocks {
            if let (BlockState::Allocated, Some(address)) = (&block.state, block.address) {
                let bytes = block.requested_bytes.unwrap_or(block.bytes);
                live.insert(address, (bytes, block.stack));
            }
        }
    }
    // Back from the end: what was allocated later was not there; what was freed later was, but by whom
    // it was allocated only an earlier event tells.
    for event in after.iter().rev() {
        match event.action {
            AllocatorAction::Alloc => drop(live.remove(&event.address)),
            AllocatorAction::FreeCompleted => {
                live.insert(event.address, (event.bytes, Index::NONE));
            }
            _ => {}
        }
    }
    live
}

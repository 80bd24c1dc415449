//! Memory over time by the allocator's events.

use gpuwise_domain::profile::{
    figures::MemoryFigures,
    timeline::{MemoryEvent, Timeline},
};
use std::collections::BTreeMap;

/// Figures of each device that has events.
pub(super) fn figures(timeline: &Timeline) -> Vec<MemoryFigures> {
    let mut by_device: BTreeMap<Option<i64>, Vec<&MemoryEvent>> = BTreeMap::new();
    for event in &timeline.memory {
        by_device.entry(event.device).or_default().push(event);
    }
    by_device
        .into_iter()
        .map(|(device, mut events)| {
            events.sort_by_key(|event| event.at_ns);
            MemoryFigures {
                // The allocator numbers devices as the file describes them; on ROCm work is under
                // the numbers of agents.
                capacity: timeline
                    .described_devices
                    .iter()
                    .chain(&timeline.devices)
                    .find(|known| Some(known.number) == device)
                    .and_then(|known| known.total_memory),
                device,
                ..of_device(&events)
            }
        })
        .collect()
}

/// Figures of events in order of time. Where the file states totals they count; else they are
/// summed from the first event on, and what was taken before is not in them.
fn of_device(events: &[&MemoryEvent]) -> MemoryFigures {
    let mut found = MemoryFigures {
        events: events.len() as u64,
        ..MemoryFigures::default()
    };
    let mut taken = 0_i64;
    let mut lowest = 0_i64;
    let stated = events.iter().any(|event| event.allocated.is_some());
    // What was given back without having been taken must have been there before.
    if !stated {
        for event in events {
            taken = taken.saturating_add(event.bytes);
            lowest = lowest.min(taken);
        }
    }
    taken = -lowest;
    let mut area = 0.0;
    let mut last: Option<(i64, u64)> = None;
    for event in events {
        taken = taken.saturating_add(event.bytes);
        let allocated = match event.allocated {
            Some(allocated) => allocated,
            None if stated => last.map_or(0, |(_, bytes)| bytes),
            None => u64::try_from(taken).unwrap_or(0),
        };
        if let Some((at, bytes)) = last {
            area += bytes as f64 * event.at_ns.saturating_sub(at) as f64;
        }
        if found.peak_allocated.is_none_or(|peak| allocated > peak) {
            found.peak_allocated = Some(allocated);
            found.peak_at_ns = event.at_ns;
            found.slack_at_peak = event.reserved.map(|all| all.saturating_sub(allocated));
        }
        found.peak_reserved = found.peak_reserved.max(event.reserved);
        last = Some((event.at_ns, allocated));
    }
    let length = match (events.first(), last) {
        (Some(first), Some((end, _))) => end.saturating_sub(first.at_ns),
        _ => 0,
    };
    found.mean_allocated = (length > 0).then(|| area / length as f64);
    found
}

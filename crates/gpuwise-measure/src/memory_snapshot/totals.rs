//! What an allocator held when its snapshot was written.

use gpuwise_domain::profile::memory_snapshot::{BlockState, MemorySnapshot};
use gpuwise_domain::profile::sources::MemoryFigures;

pub(super) fn totals(snapshot: &MemorySnapshot) -> MemoryFigures {
    let segments = &snapshot.segments;
    let sum = |bytes: fn(&_) -> u64| segments.iter().map(bytes).fold(0, u64::saturating_add);
    let mut figures = MemoryFigures {
        segment_count: segments.len() as u64,
        reserved: sum(|segment| segment.total_bytes),
        allocated: sum(|segment| segment.allocated_bytes),
        active: sum(|segment| segment.active_bytes),
        requested: segments.iter().try_fold(0_u64, |sum, segment| {
            sum.checked_add(segment.requested_bytes?)
        }),
        ..MemoryFigures::default()
    };
    figures.internal_fragmentation = figures.requested.and_then(|requested| {
        i64::try_from(i128::from(figures.allocated) - i128::from(requested)).ok()
    });
    for block in segments.iter().flat_map(|segment| &segment.blocks) {
        let (count, bytes) = figures.blocks.entry(block.state.name().into()).or_default();
        *count += 1;
        *bytes = bytes.saturating_add(block.bytes);
        if block.state == BlockState::Inactive {
            figures.free = figures.free.saturating_add(block.bytes);
            figures.largest_free_block = figures.largest_free_block.max(block.bytes);
        }
    }
    figures
}

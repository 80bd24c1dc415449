//! What an allocator held when its snapshot was written.

use super::TraceFigures;
use gpuwise_domain::profile::memory_snapshot::{BlockState, MemorySnapshot};
use std::collections::BTreeMap;

/// Figures of a snapshot; bytes unless said.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MemoryFigures {
    /// Segments taken from the driver.
    pub segment_count: u64,
    /// Bytes of them.
    pub reserved: u64,
    /// In blocks that are in use.
    pub allocated: u64,
    /// In blocks that are in use, or freed while the device still works on them.
    pub active: u64,
    /// What was asked for in blocks in use; absent where the file does not tell it of every segment.
    pub requested: Option<u64>,
    /// Blocks by state, as the file spells it: how many, and their bytes.
    pub blocks: BTreeMap<String, (u64, u64)>,
    /// Bytes of free blocks.
    pub free: u64,
    /// The largest free block; 0 where there is none.
    pub largest_free_block: u64,
    /// Lost to rounding: allocated − requested. Absent as `requested` is.
    pub internal_fragmentation: Option<i64>,
    /// Recorded history, by device; devices that recorded nothing are left out.
    pub traces: Vec<TraceFigures>,
}

impl MemoryFigures {
    /// External fragmentation: 1 − largest free block ÷ free bytes. Absent where nothing is free.
    pub fn external_fragmentation(&self) -> Option<f64> {
        (self.free > 0).then(|| 1.0 - self.largest_free_block as f64 / self.free as f64)
    }

    /// Most live bytes over all devices, each at its own peak; absent where nothing was recorded.
    pub fn peak_live(&self) -> Option<u64> {
        let peaks = self.traces.iter().map(|trace| trace.peak_live);
        let sum = peaks.fold(0_u64, |sum, peak| {
            sum.saturating_add(u64::try_from(peak).unwrap_or(0))
        });
        (!self.traces.is_empty()).then_some(sum)
    }
}

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

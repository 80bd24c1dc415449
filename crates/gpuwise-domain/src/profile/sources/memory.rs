//! Figures of snapshots of a memory allocator.

use crate::profile::memory_snapshot::{MemoryCategory, Stacks};
use crate::profile::timeline::{Index, Loss};
use alloc::{collections::BTreeMap, string::String, vec::Vec};

/// A snapshot of an allocator, measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MemorySource {
    /// What the file holds, by its own keys in alphabetical order.
    pub keys: Vec<String>,
    pub figures: MemoryFigures,
    /// Live bytes over the history of each of the figures' traces, in the same order.
    pub live: Vec<Vec<LivePoint>>,
    /// The same by who asked for it, in the same order.
    pub owned: Vec<OwnedMemory>,
    /// Call stacks that allocation sites refer to.
    pub stacks: Stacks,
    /// Settings of the allocator, as the file writes them.
    pub settings: Vec<(String, String)>,
    pub losses: Vec<Loss>,
}

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

/// Figures of the recorded history of one device; bytes unless said. Counts of bytes are signed: a
/// history that does not fit its end may go below zero, and that must be seen.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TraceFigures {
    pub device: u64,
    pub event_count: u64,
    /// Events by action, as the file spells it.
    pub actions: BTreeMap<String, u64>,
    /// Live at the end: the sum over its segments.
    pub end_live: i64,
    /// Live before the first event.
    pub start_live: i64,
    pub peak_live: i64,
    /// How many events had happened when the peak was first reached.
    pub peak_at_event: usize,
    /// When that was, in microseconds since 1970, where stated; at the peak's last event.
    pub peak_at_us: Option<i64>,
    /// Taken from the driver at that time, walked back likewise.
    pub reserved_at_peak: i64,
    /// Most that was taken from the driver.
    pub peak_reserved: i64,
    /// Time-weighted mean of live bytes; absent without times.
    pub mean_live: Option<f64>,
    /// From the first event to the last, in microseconds.
    pub time_span_us: i64,
    /// Who holds the memory at the peak, the largest first.
    pub sites_at_peak: Vec<AllocationSite>,
    /// Live at the peak, but allocated before the recording began: nobody is known to hold it.
    pub unattributed_at_peak: i64,
    pub out_of_memory: Vec<OutOfMemory>,
}

impl TraceFigures {
    /// Taken from the driver but not in use at the peak.
    pub fn slack_at_peak(&self) -> i64 {
        self.reserved_at_peak - self.peak_live
    }
}

/// Memory that one place in the code holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocationSite {
    /// The call stack, in the snapshot's stacks.
    pub stack: Index,
    pub count: u64,
    pub bytes: u64,
}

/// A request that found no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory {
    /// When, in microseconds since 1970, where stated.
    pub at_us: Option<i64>,
    /// Bytes asked for.
    pub asked: u64,
    /// Bytes that the device still had, where stated.
    pub device_free: Option<u64>,
    pub stack: Index,
}

/// Live bytes of a device over its history, by who asked for them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnedMemory {
    /// Those who held most at the peak, the largest first.
    pub owners: Vec<String>,
    /// What each held, at the fullest moment of each stretch of the history.
    pub moments: Vec<OwnedMoment>,
}

/// Live bytes at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedMoment {
    /// When, in microseconds since 1970, where stated.
    pub at_us: Option<i64>,
    /// How many events had happened.
    pub event: usize,
    pub live: i64,
    /// Taken from the driver.
    pub reserved: i64,
    /// Of `live`, in the order of the owners.
    pub held: Vec<i64>,
    /// Of `live`, by others who are known; the rest was there before the recording began.
    pub others: i64,
}

/// Live bytes after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LivePoint {
    /// When, in microseconds since 1970, where stated.
    pub at_us: Option<i64>,
    /// In blocks in use.
    pub live: i64,
    /// Taken from the driver.
    pub reserved: i64,
}

/// Figures of a timeline by category; bytes. Signed: a recording that misses what was there before it
/// may go below zero, and that must be seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CategoryFigures {
    pub event_count: u64,
    /// What was there before the recording.
    pub start_live: i64,
    pub end_live: i64,
    pub peak_live: i64,
    /// When that was, in nanoseconds since 1970; absent where it was before the recording.
    pub peak_at_ns: Option<i64>,
    /// What it was used for at the peak, the largest first; nothing of unused ones.
    pub categories_at_peak: Vec<(MemoryCategory, i64)>,
    /// The most that each category held at any time, in the order of [`MemoryCategory::ALL`].
    pub peak_by_category: Vec<(MemoryCategory, i64)>,
    /// From the first dated event to the last, in nanoseconds.
    pub time_span_ns: i64,
    /// When, in nanoseconds since 1970, and what each category held then, in the order of
    /// [`MemoryCategory::ALL`]: the fullest moment of each stretch of the recording.
    pub moments: Vec<(i64, [i64; MemoryCategory::ALL.len()])>,
}

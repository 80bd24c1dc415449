//! Snapshots of an allocator, and memory by category.

use super::FRAMES;
use crate::mirror::{forms, written};
use gpuwise_domain::profile::{
    memory_snapshot::{MemoryCategory, Stacks},
    sources::{
        AllocationSite, CategoryFigures, LivePoint, MemorySource, OutOfMemory, TraceFigures,
    },
    timeline::Index,
};
use std::collections::BTreeMap;

/// Points of a history that are listed.
const POINTS: usize = 500;
/// Places that hold memory that are listed.
const HOLDERS: usize = 20;

written! {
    /// A snapshot of PyTorch's allocator; bytes unless said.
    pub(super) MemorySnapshotDocument = |memory: &MemorySource| {
        /// What the file holds.
        keys: Vec<String> = memory.keys.clone(),
        n_segments: u64 = memory.figures.segment_count,
        /// Taken from the driver.
        reserved: u64 = memory.figures.reserved,
        /// In blocks that are in use.
        allocated: u64 = memory.figures.allocated,
        /// In use, or freed while the device still works on it.
        active: u64 = memory.figures.active,
        /// Asked for in blocks in use.
        requested: Option<u64> = memory.figures.requested,
        /// Count and bytes of blocks by state.
        #[schema(value_type = Object)]
        blocks: BTreeMap<String, (u64, u64)> = memory.figures.blocks.clone(),
        /// In free blocks.
        free: u64 = memory.figures.free,
        largest_free_block: u64 = memory.figures.largest_free_block,
        /// 1 − largest free block / free.
        external_fragmentation: Option<f64> = memory.figures.external_fragmentation(),
        /// allocated − requested.
        internal_frag_bytes: Option<i64> = memory.figures.internal_fragmentation,
        /// Recorded history by device.
        traces: Vec<TraceDocument> = traces(memory),
        /// Settings of the allocator.
        settings: BTreeMap<String, String> = memory.settings.iter().cloned().collect(),
    }
}

written! {
    TraceDocument = |(trace, live, stacks): (&TraceFigures, &[LivePoint], &Stacks)| {
        device: u64 = trace.device,
        /// Events.
        n: u64 = trace.event_count,
        /// Events by action.
        actions: BTreeMap<String, u64> = trace.actions.clone(),
        end_live: i64 = trace.end_live,
        start_live: i64 = trace.start_live,
        /// Most that was live, walked back from the end.
        peak_live_allocated: i64 = trace.peak_live,
        /// When that was, in microseconds since 1970.
        peak_at_us: Option<i64> = trace.peak_at_us,
        /// Taken from the driver at that time.
        reserved_at_peak: i64 = trace.reserved_at_peak,
        /// Taken from the driver and not in use at that time.
        slack_at_peak: i64 = trace.slack_at_peak(),
        peak_reserved: i64 = trace.peak_reserved,
        /// Mean over time.
        mean_live: Option<f64> = trace.mean_live,
        time_span_us: i64 = trace.time_span_us,
        /// Live at the peak and allocated before the recording.
        unattributed_at_peak: i64 = trace.unattributed_at_peak,
        /// Who holds memory at the peak, the largest first.
        holders: Vec<HolderDocument> = forms(trace.sites_at_peak.iter().take(HOLDERS).map(|site| (stacks, site))),
        /// Requests that found no memory.
        out_of_memory: Vec<OutOfMemoryDocument> = forms(trace.out_of_memory.iter().map(|failed| (stacks, failed))),
        /// Microseconds since the first event, live and reserved bytes; of a long history the highest points.
        #[schema(value_type = Vec<Object>)]
        live: Vec<(Option<i64>, i64, i64)> = points(live),
    }
}

written! {
    HolderDocument = |(stacks, site): (&Stacks, &AllocationSite)| {
        bytes: u64 = site.bytes,
        /// Allocations.
        count: u64 = site.count,
        /// The innermost first.
        frames: Vec<String> = frames(stacks, site.stack),
    }
}

written! {
    OutOfMemoryDocument = |(stacks, failed): (&Stacks, &OutOfMemory)| {
        at_us: Option<i64> = failed.at_us,
        asked: u64 = failed.asked,
        device_free: Option<u64> = failed.device_free,
        frames: Vec<String> = frames(stacks, failed.stack),
    }
}

fn frames(stacks: &Stacks, stack: Index) -> Vec<String> {
    let frames = stacks.frames_of(stack).take(FRAMES);
    frames
        .map(|frame| format!("{} ({}:{})", frame.function, frame.file, frame.line))
        .collect()
}

/// Of a long history the highest point of each of equal parts, and its two ends.
fn points(live: &[LivePoint]) -> Vec<(Option<i64>, i64, i64)> {
    let first = live.first().and_then(|point| point.at_us);
    let step = live.len().div_ceil(POINTS).max(1);
    let point = |point: &LivePoint| {
        let since = point
            .at_us
            .zip(first)
            .map(|(at, first)| at.saturating_sub(first));
        (since, point.live, point.reserved)
    };
    let highest = live.chunks(step).filter_map(|part| {
        let mut part = part.iter().rev();
        // The first of the highest.
        part.by_ref().max_by_key(|point| point.live)
    });
    let mut points: Vec<_> = highest.map(point).collect();
    if step > 1 {
        points.extend(live.last().map(point));
    }
    points
}

written! {
    /// Memory by category over time; bytes unless said.
    pub(super) CategoriesDocument = |figures: &CategoryFigures| {
        /// Events.
        n: u64 = figures.event_count,
        start_live: i64 = figures.start_live,
        end_live: i64 = figures.end_live,
        peak_live: i64 = figures.peak_live,
        /// When that was, in nanoseconds since 1970; null where it was before the recording.
        peak_at_ns: Option<i64> = figures.peak_at_ns,
        /// By category, at the peak.
        categories_at_peak: BTreeMap<&'static str, i64> = named(&figures.categories_at_peak),
        /// The most that each category held at any time.
        peak_by_category: BTreeMap<&'static str, i64> = named(&figures.peak_by_category),
        time_span_ns: i64 = figures.time_span_ns,
    }
}

fn traces(memory: &MemorySource) -> Vec<TraceDocument> {
    let traces = memory.figures.traces.iter().enumerate();
    forms(traces.map(|(place, trace)| {
        let live = memory.live.get(place).map_or(&[][..], |live| live);
        (trace, live, &memory.stacks)
    }))
}

fn named(list: &[(MemoryCategory, i64)]) -> BTreeMap<&'static str, i64> {
    list.iter()
        .map(|(category, bytes)| (category.name(), *bytes))
        .collect()
}

//! Snapshots of an allocator, and memory by category.

use super::FRAMES;
use gpuwise_domain::profile::{
    memory_snapshot::{MemoryCategory, Stacks},
    sources::{
        AllocationSite, CategoryFigures, LivePoint, MemorySource, OutOfMemory, TraceFigures,
    },
    timeline::Index,
};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Points of a history that are listed.
const POINTS: usize = 500;
/// Places that hold memory that are listed.
const HOLDERS: usize = 20;

/// A snapshot of PyTorch's allocator; bytes unless said.
#[derive(Serialize, ToSchema)]
pub(super) struct MemorySnapshotDocument {
    /// What the file holds.
    keys: Vec<String>,
    n_segments: u64,
    /// Taken from the driver.
    reserved: u64,
    /// In blocks that are in use.
    allocated: u64,
    /// In use, or freed while the device still works on it.
    active: u64,
    /// Asked for in blocks in use.
    requested: Option<u64>,
    /// Count and bytes of blocks by state.
    #[schema(value_type = Object)]
    blocks: BTreeMap<String, (u64, u64)>,
    /// In free blocks.
    free: u64,
    largest_free_block: u64,
    /// 1 − largest free block / free.
    external_fragmentation: Option<f64>,
    /// allocated − requested.
    internal_frag_bytes: Option<i64>,
    /// Recorded history by device.
    traces: Vec<TraceDocument>,
    /// Settings of the allocator.
    settings: BTreeMap<String, String>,
}

#[derive(Serialize, ToSchema)]
struct TraceDocument {
    device: u64,
    /// Events.
    n: u64,
    /// Events by action.
    actions: BTreeMap<String, u64>,
    end_live: i64,
    start_live: i64,
    /// Most that was live, walked back from the end.
    peak_live_allocated: i64,
    /// When that was, in microseconds since 1970.
    peak_at_us: Option<i64>,
    /// Taken from the driver at that time.
    reserved_at_peak: i64,
    /// Taken from the driver and not in use at that time.
    slack_at_peak: i64,
    peak_reserved: i64,
    /// Mean over time.
    mean_live: Option<f64>,
    time_span_us: i64,
    /// Live at the peak and allocated before the recording.
    unattributed_at_peak: i64,
    /// Who holds memory at the peak, the largest first.
    holders: Vec<HolderDocument>,
    /// Requests that found no memory.
    out_of_memory: Vec<OutOfMemoryDocument>,
    /// Microseconds since the first event, live and reserved bytes; of a long history the highest points.
    #[schema(value_type = Vec<Object>)]
    live: Vec<(Option<i64>, i64, i64)>,
}

#[derive(Serialize, ToSchema)]
struct HolderDocument {
    bytes: u64,
    /// Allocations.
    count: u64,
    /// The innermost first.
    frames: Vec<String>,
}

#[derive(Serialize, ToSchema)]
struct OutOfMemoryDocument {
    at_us: Option<i64>,
    asked: u64,
    device_free: Option<u64>,
    frames: Vec<String>,
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

impl TraceDocument {
    fn of(trace: &TraceFigures, live: &[LivePoint], stacks: &Stacks) -> Self {
        let holder = |site: &AllocationSite| HolderDocument {
            bytes: site.bytes,
            count: site.count,
            frames: frames(stacks, site.stack),
        };
        let failed = |oom: &OutOfMemory| OutOfMemoryDocument {
            at_us: oom.at_us,
            asked: oom.asked,
            device_free: oom.device_free,
            frames: frames(stacks, oom.stack),
        };
        Self {
            device: trace.device,
            n: trace.event_count,
            actions: trace.actions.clone(),
            end_live: trace.end_live,
            start_live: trace.start_live,
            peak_live_allocated: trace.peak_live,
            peak_at_us: trace.peak_at_us,
            reserved_at_peak: trace.reserved_at_peak,
            slack_at_peak: trace.slack_at_peak(),
            peak_reserved: trace.peak_reserved,
            mean_live: trace.mean_live,
            time_span_us: trace.time_span_us,
            unattributed_at_peak: trace.unattributed_at_peak,
            holders: trace
                .sites_at_peak
                .iter()
                .take(HOLDERS)
                .map(holder)
                .collect(),
            out_of_memory: trace.out_of_memory.iter().map(failed).collect(),
            live: points(live),
        }
    }
}

impl From<&MemorySource> for MemorySnapshotDocument {
    fn from(memory: &MemorySource) -> Self {
        let figures = &memory.figures;
        let traces = figures.traces.iter().enumerate();
        Self {
            keys: memory.keys.clone(),
            n_segments: figures.segment_count,
            reserved: figures.reserved,
            allocated: figures.allocated,
            active: figures.active,
            requested: figures.requested,
            blocks: figures.blocks.clone(),
            free: figures.free,
            largest_free_block: figures.largest_free_block,
            external_fragmentation: figures.external_fragmentation(),
            internal_frag_bytes: figures.internal_fragmentation,
            traces: traces
                .map(|(place, trace)| {
                    let live = memory.live.get(place).map_or(&[][..], |live| live);
                    TraceDocument::of(trace, live, &memory.stacks)
                })
                .collect(),
            settings: memory.settings.iter().cloned().collect(),
        }
    }
}

/// Memory by category over time; bytes unless said.
#[derive(Serialize, ToSchema)]
pub(super) struct CategoriesDocument {
    /// Events.
    n: u64,
    start_live: i64,
    end_live: i64,
    peak_live: i64,
    /// When that was, in nanoseconds since 1970; null where it was before the recording.
    peak_at_ns: Option<i64>,
    /// By category, at the peak.
    categories_at_peak: BTreeMap<&'static str, i64>,
    /// The most that each category held at any time.
    peak_by_category: BTreeMap<&'static str, i64>,
    time_span_ns: i64,
}

impl From<&CategoryFigures> for CategoriesDocument {
    fn from(figures: &CategoryFigures) -> Self {
        let named = |list: &[(MemoryCategory, i64)]| {
            list.iter()
                .map(|(category, bytes)| (category.name(), *bytes))
                .collect()
        };
        Self {
            n: figures.event_count,
            start_live: figures.start_live,
            end_live: figures.end_live,
            peak_live: figures.peak_live,
            peak_at_ns: figures.peak_at_ns,
            categories_at_peak: named(&figures.categories_at_peak),
            peak_by_category: named(&figures.peak_by_category),
            time_span_ns: figures.time_span_ns,
        }
    }
}

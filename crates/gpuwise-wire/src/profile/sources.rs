//! What files other than traces say, under the names that their formats and `exact` scripts use.

use gpuwise_domain::profile::{
    kernel_counters::{CountedLaunch, CountedValue, KernelCounters},
    memory_snapshot::Stacks,
    sources::{
        AllocationSite, CategoryFigures, CountedFigures, CountersSource, Hang, HangSource,
        LivePoint, MemorySource, NsightDevice, NsightSource, OutOfMemory, PlaneFigures,
        PlaneSummary, PlanesSource, Source, SourceContent, TraceFigures,
    },
    timeline::Index,
};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Kernels of a device that are listed.
const TOP_KERNELS: usize = 5;
/// Calls that are listed.
const TOP_CALLS: usize = 6;
/// Points of a history that are listed.
const POINTS: usize = 500;
/// Places that hold memory that are listed.
const HOLDERS: usize = 20;
/// Frames of a call stack that are listed.
const FRAMES: usize = 64;

/// A file, and what it says beyond a timeline.
#[derive(Serialize, ToSchema)]
pub(crate) struct SourceDocument {
    /// The file as the user named it.
    file: String,
    /// `nsight_systems`, `xplane`, `memory_snapshot`, `memory_timeline`, `nsight_compute`
    /// or `flight_recorder`.
    format: &'static str,
    #[serde(flatten)]
    content: ContentDocument,
}

/// What it says, by its format.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum ContentDocument {
    Nsight(NsightDocument),
    Planes(PlanesDocument),
    Memory(MemorySnapshotDocument),
    Categories(CategoriesDocument),
    Counters(CountersDocument),
    Hangs(HangsDocument),
}

impl SourceDocument {
    pub(super) fn of(source: &Source) -> Self {
        Self {
            file: source.file.clone(),
            format: source.content.format(),
            content: match &source.content {
                SourceContent::Nsight(nsight) => ContentDocument::Nsight(nsight.into()),
                SourceContent::Planes(planes) => ContentDocument::Planes(planes.into()),
                SourceContent::Memory(memory) => ContentDocument::Memory((&**memory).into()),
                SourceContent::Categories(figures) => ContentDocument::Categories(figures.into()),
                SourceContent::Counters(counters) => ContentDocument::Counters(counters.into()),
                SourceContent::Hangs(hangs) => ContentDocument::Hangs(hangs.into()),
            },
        }
    }
}

/// An SQLite export of Nsight Systems, over all its processes.
#[derive(Serialize, ToSchema)]
struct NsightDocument {
    /// Rows of each table that has some; tables of constants are left out.
    tables_nonempty: BTreeMap<String, u64>,
    /// Versions that the export states.
    export: BTreeMap<&'static str, String>,
    /// Devices by their number that ran a kernel.
    devices: BTreeMap<String, NsightDeviceDocument>,
    /// Calls of the runtime: name, count, summed nanoseconds; the longest six.
    #[schema(value_type = Vec<Object>)]
    runtime_top: Vec<(String, u64, i64)>,
}

#[derive(Serialize, ToSchema)]
struct NsightDeviceDocument {
    n_kernels: u64,
    /// Copies and fills.
    n_mem: u64,
    span_ns: i64,
    busy_ns: i64,
    idle_pct: Option<f64>,
    kernel_sum_ns: i64,
    comp_union_ns: i64,
    nccl_union_ns: i64,
    n_nccl: u64,
    /// Kernels by short name: name, summed nanoseconds, count; the longest five.
    #[schema(value_type = Vec<Object>)]
    top5: Vec<(String, i64, u64)>,
}

impl From<&NsightSource> for NsightDocument {
    fn from(nsight: &NsightSource) -> Self {
        let stated = [
            ("EXPORT_PRODUCT_VERSION", &nsight.product_version),
            ("EXPORT_SCHEMA_VERSION", &nsight.schema_version),
        ];
        let stated = stated.into_iter();
        let devices = nsight.devices.iter();
        Self {
            tables_nonempty: nsight.tables.clone(),
            export: stated
                .filter_map(|(name, version)| Some((name, version.clone()?)))
                .collect(),
            devices: devices
                .map(|(number, device)| (number.to_string(), device.into()))
                .collect(),
            runtime_top: nsight.runtime.iter().take(TOP_CALLS).cloned().collect(),
        }
    }
}

impl From<&NsightDevice> for NsightDeviceDocument {
    fn from(device: &NsightDevice) -> Self {
        Self {
            n_kernels: device.kernel_count,
            n_mem: device.memory_count,
            span_ns: device.span_ns,
            busy_ns: device.busy_ns,
            idle_pct: super::device::percent(device.span_ns - device.busy_ns, device.span_ns),
            kernel_sum_ns: device.kernel_sum_ns,
            comp_union_ns: device.computation_ns,
            nccl_union_ns: device.nccl_ns,
            n_nccl: device.nccl_count,
            top5: device.kernels.iter().take(TOP_KERNELS).cloned().collect(),
        }
    }
}

/// Planes of TensorFlow or JAX, in picoseconds.
#[derive(Serialize, ToSchema)]
struct PlanesDocument {
    /// Bytes of the file.
    bytes: u64,
    n_planes: usize,
    device_planes: Vec<PlaneDocument>,
    other_planes: Vec<PlaneDocument>,
}

#[derive(Serialize, ToSchema)]
struct PlaneDocument {
    id: i64,
    name: String,
    n_lines: u64,
    n_event_metadata: u64,
    #[serde(flatten)]
    figures: PlaneFiguresDocument,
    /// Of devices alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Vec<LineDocument>>,
    /// Names of work of devices: name, count, summed picoseconds; the longest five.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    top5: Option<Vec<(String, u64, i128)>>,
}

#[derive(Serialize, ToSchema)]
struct LineDocument {
    id: i64,
    name: String,
    timestamp_ns: i64,
    #[serde(flatten)]
    figures: PlaneFiguresDocument,
}

#[derive(Serialize, ToSchema)]
struct PlaneFiguresDocument {
    events: u64,
    zero_duration: u64,
    /// Aggregates of several occurrences.
    without_start: u64,
    #[schema(value_type = i64)]
    sum_ps: i128,
    #[schema(value_type = i64)]
    busy_union_ps: i128,
    #[schema(value_type = i64)]
    span_ps: i128,
    #[schema(value_type = Option<i64>)]
    first_start_ps: Option<i128>,
}

impl From<&PlaneFigures> for PlaneFiguresDocument {
    fn from(figures: &PlaneFigures) -> Self {
        Self {
            events: figures.event_count,
            zero_duration: figures.zero_duration_count,
            without_start: figures.without_start_count,
            sum_ps: figures.sum_ps,
            busy_union_ps: figures.busy_ps,
            span_ps: figures.span_ps,
            first_start_ps: figures.first_start_ps,
        }
    }
}

impl From<&PlaneSummary> for PlaneDocument {
    fn from(plane: &PlaneSummary) -> Self {
        let line = |line: &gpuwise_domain::profile::sources::LineSummary| LineDocument {
            id: line.id,
            name: line.name.clone(),
            timestamp_ns: line.timestamp_ns,
            figures: (&line.figures).into(),
        };
        Self {
            id: plane.id,
            name: plane.name.clone(),
            n_lines: plane.line_count,
            n_event_metadata: plane.event_name_count,
            figures: (&plane.figures).into(),
            lines: plane
                .is_device
                .then(|| plane.lines.iter().map(line).collect()),
            top5: plane.is_device.then(|| plane.top.clone()),
        }
    }
}

impl From<&PlanesSource> for PlanesDocument {
    fn from(planes: &PlanesSource) -> Self {
        let of = |device: bool| {
            let planes = planes.planes.iter();
            let planes = planes.filter(|plane| plane.is_device == device);
            planes.map(PlaneDocument::from).collect()
        };
        Self {
            bytes: planes.byte_count,
            n_planes: planes.planes.len(),
            device_planes: of(true),
            other_planes: of(false),
        }
    }
}

/// A snapshot of PyTorch's allocator; bytes unless said.
#[derive(Serialize, ToSchema)]
struct MemorySnapshotDocument {
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
struct CategoriesDocument {
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
        let named = |list: &[(
            gpuwise_domain::profile::memory_snapshot::MemoryCategory,
            i64,
        )]| {
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

/// Counters of kernels.
#[derive(Serialize, ToSchema)]
struct CountersDocument {
    launches: Vec<LaunchDocument>,
    /// What the profiler and the program printed around the table.
    printed: Vec<String>,
}

#[derive(Serialize, ToSchema)]
struct LaunchDocument {
    id: String,
    kernel: String,
    process: Option<u64>,
    process_name: Option<String>,
    device: Option<i64>,
    stream: Option<u64>,
    grid: Option<[u32; 3]>,
    block: Option<[u32; 3]>,
    /// Such as `9.0`.
    compute_capability: Option<String>,
    duration_ns: Option<f64>,
    /// Throughput of the multiprocessors, in percent of peak.
    compute_pct: Option<f64>,
    /// Throughput of the busiest part of caches and memory, in percent of peak.
    memory_pct: Option<f64>,
    /// Throughput of device memory, in percent of peak.
    dram_pct: Option<f64>,
    /// Activity of tensor cores, in percent of peak.
    tensor_pct: Option<f64>,
    /// Achieved occupancy.
    occupancy_pct: Option<f64>,
    /// Occupancy that the launch allows.
    occupancy_limit_pct: Option<f64>,
    waves: Option<f64>,
    /// Bytes to and from device memory.
    memory_bytes: Option<f64>,
    bytes_per_second: Option<f64>,
    /// Operations by precision.
    operations: BTreeMap<String, f64>,
    operations_per_second: Option<f64>,
    /// Operations per byte of device memory.
    arithmetic_intensity: Option<f64>,
    /// `compute`, `memory`, `balanced`, `latency` or `small_grid`.
    bound: Option<&'static str>,
    /// Whether compute or memory is near its peak.
    near_peak: Option<bool>,
    /// Metrics without which `bound` cannot be told.
    needed: Vec<String>,
    metrics: Vec<MetricDocument>,
    /// What the profiler's own rules say.
    advice: Vec<AdviceDocument>,
}

#[derive(Serialize, ToSchema)]
struct MetricDocument {
    /// Canonical where known.
    name: String,
    /// As the file has it.
    label: String,
    section: Option<String>,
    unit: String,
    /// A number, or a text where the file has one.
    #[schema(value_type = Object)]
    value: Value,
}

#[derive(Serialize, ToSchema)]
struct AdviceDocument {
    rule: String,
    kind: String,
    text: String,
    speedup_pct: Option<f64>,
    speedup_of: Option<String>,
}

impl LaunchDocument {
    fn of(counters: &KernelCounters, launch: &CountedLaunch, figures: &CountedFigures) -> Self {
        Self {
            id: launch.id.clone(),
            kernel: launch.kernel.clone(),
            process: launch.process,
            process_name: launch.process_name.clone(),
            device: launch.device,
            stream: launch.stream,
            grid: launch.grid,
            block: launch.block,
            compute_capability: launch.compute_capability.map(|(a, b)| format!("{a}.{b}")),
            duration_ns: figures.duration_ns,
            compute_pct: figures.compute_percent,
            memory_pct: figures.memory_percent,
            dram_pct: figures.dram_percent,
            tensor_pct: figures.tensor_percent,
            occupancy_pct: figures.occupancy_percent,
            occupancy_limit_pct: figures.occupancy_limit_percent,
            waves: figures.waves,
            memory_bytes: figures.memory_bytes,
            bytes_per_second: figures.bytes_per_second(),
            operations: figures.operations.clone(),
            operations_per_second: figures.operations_per_second(),
            arithmetic_intensity: figures.arithmetic_intensity(),
            bound: figures
                .bound
                .map(gpuwise_domain::profile::kernel_counters::Bound::name),
            near_peak: figures.near_peak,
            needed: figures.needed.clone(),
            metrics: metrics(counters, launch),
            advice: advice(launch),
        }
    }
}

fn metrics(counters: &KernelCounters, launch: &CountedLaunch) -> Vec<MetricDocument> {
    let text = |name| counters.names.text(name).to_owned();
    let metrics = launch.metrics.iter();
    metrics
        .map(|metric| MetricDocument {
            name: text(metric.name),
            label: text(metric.label),
            section: metric.section.map(text),
            unit: text(metric.unit),
            value: match &metric.value {
                CountedValue::Number(number) => (*number).into(),
                CountedValue::Text(text) => text.clone().into(),
            },
        })
        .collect()
}

fn advice(launch: &CountedLaunch) -> Vec<AdviceDocument> {
    let advice = launch.advice.iter().cloned();
    advice
        .map(|advice| AdviceDocument {
            rule: advice.rule,
            kind: advice.kind,
            text: advice.text,
            speedup_pct: advice.speedup_percent,
            speedup_of: advice.speedup_scope,
        })
        .collect()
}

impl From<&CountersSource> for CountersDocument {
    fn from(source: &CountersSource) -> Self {
        let launches = source.counters.launches.iter().zip(&source.figures);
        Self {
            launches: launches
                .map(|(launch, figures)| LaunchDocument::of(&source.counters, launch, figures))
                .collect(),
            printed: source.counters.printed.clone(),
        }
    }
}

/// Dumps of flight recorders of one job, held against one another.
#[derive(Serialize, ToSchema)]
struct HangsDocument {
    /// Ranks of which there is a dump.
    ranks: Vec<u32>,
    /// Dumps.
    n_dumps: u64,
    /// Collectives in which ranks wait, the cause before what it causes.
    hangs: Vec<HangDocument>,
}

#[derive(Serialize, ToSchema)]
struct HangDocument {
    group: String,
    description: Option<String>,
    sequence: u64,
    operation: String,
    /// The ranks to look at.
    suspects: Vec<u32>,
    waiting: Vec<u32>,
    scheduled: Vec<u32>,
    completed: Vec<u32>,
    late: Vec<LateDocument>,
    /// Ranks without a dump.
    missing: Vec<u32>,
    /// Ranks that called something else under this number.
    astray: BTreeMap<String, String>,
    /// Where the waiting ranks called it, the innermost first.
    frames: Vec<String>,
    /// The place in this list of the hang in which the late ranks wait themselves.
    caused_by: Option<usize>,
}

#[derive(Serialize, ToSchema)]
struct LateDocument {
    rank: u32,
    last_sequence: Option<u64>,
    last_operation: Option<String>,
    frames: Vec<String>,
}

fn places(frames: &[gpuwise_domain::profile::flight_recorder::Frame]) -> Vec<String> {
    let frames = frames.iter().take(FRAMES);
    frames
        .map(|frame| format!("{} ({}:{})", frame.function, frame.file, frame.line))
        .collect()
}

impl From<&Hang> for HangDocument {
    fn from(hang: &Hang) -> Self {
        let late = hang.late.iter().map(|late| LateDocument {
            rank: late.rank,
            last_sequence: late.last.as_ref().map(|(sequence, _)| *sequence),
            last_operation: late.last.as_ref().map(|(_, operation)| operation.clone()),
            frames: places(&late.frames),
        });
        let astray = hang.astray.iter();
        Self {
            group: hang.group.clone(),
            description: hang.description.clone(),
            sequence: hang.sequence,
            operation: hang.operation.clone(),
            suspects: hang.suspects(),
            waiting: hang.waiting.clone(),
            scheduled: hang.scheduled.clone(),
            completed: hang.completed.clone(),
            late: late.collect(),
            missing: hang.missing.clone(),
            astray: astray
                .map(|(rank, what)| (rank.to_string(), what.clone()))
                .collect(),
            frames: places(&hang.frames),
            caused_by: hang.caused_by,
        }
    }
}

impl From<&HangSource> for HangsDocument {
    fn from(source: &HangSource) -> Self {
        Self {
            ranks: source.ranks.clone(),
            n_dumps: source.dump_count,
            hangs: source.hangs.iter().map(HangDocument::from).collect(),
        }
    }
}

//! Figures of one file: one process, one rank.

use super::device::{DeviceDocument, WorkDocument, percent};
use gpuwise_domain::profile::{
    figures::{
        CallGroup, CollectiveKind, FlopFigures, MemoryFigures, PathCause, RankFigures, StepFigures,
        StepSource,
    },
    timeline::Format,
};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Categories that are listed, as `exact.py` of the sample data lists them.
const CATEGORIES: usize = 12;
/// Calls that are listed by name.
const CALLS: usize = 20;

/// Figures of one file, over all its devices; each device below.
#[derive(Serialize, ToSchema)]
pub(crate) struct FileDocument {
    /// The file as the user named it.
    file: String,
    /// `kineto`, `nsight_systems`, `xplane` or `trace_viewer`.
    format: &'static str,
    /// Its rank, where known.
    rank: Option<u32>,
    /// Bytes, unpacked.
    json_bytes: u64,
    /// Events in all.
    n_trace_events: u64,
    /// Complete events by category, the most frequent dozen.
    #[schema(value_type = Object)]
    categories: Map<String, Value>,
    /// Numbers of the devices that had work.
    devices: Vec<String>,
    #[serde(flatten)]
    figures: WorkDocument,
    /// Each device that had work.
    devices_figures: Vec<DeviceDocument>,
    /// The host side.
    host: HostDocument,
    /// Steps, where the file marks them.
    steps: Option<StepsDocument>,
    /// Floating-point work.
    flops: FlopsDocument,
    /// Memory by the allocator's events.
    memory: Vec<MemoryDocument>,
    /// Collectives by kind.
    collectives: Vec<CollectiveDocument>,
    /// The critical path by cause, the longest first; the parts sum to the span.
    critical_path: Vec<PathDocument>,
}

/// Time of the critical path that went into one cause.
#[derive(Serialize, ToSchema)]
pub(crate) struct PathDocument {
    cause: &'static str,
    ns: i64,
}

/// The host side.
#[derive(Serialize, ToSchema)]
pub(crate) struct HostDocument {
    launch_calls: u64,
    launch_call_ns: i64,
    /// Calls that wait for the device.
    synchronisations: Vec<CallDocument>,
    /// Calls of runtime and driver, the longest sum first.
    calls: Vec<CallDocument>,
    /// Time under data loaders' ranges; null where the file has none.
    loader_wait_ns: Option<i64>,
    /// Of the steps' time.
    loader_wait_pct: Option<f64>,
    /// Time of the profiler's own overhead.
    overhead_ns: i64,
}

/// Calls of one name.
#[derive(Serialize, ToSchema)]
pub(crate) struct CallDocument {
    name: String,
    count: u64,
    sum_ns: i64,
    max_ns: i64,
    in_steps: u64,
}

/// Steps.
#[derive(Serialize, ToSchema)]
pub(crate) struct StepsDocument {
    /// `profiler_step` or `annotation`.
    source: &'static str,
    median_ns: i64,
    /// Interquartile range over the median; null under 4 steps.
    spread: Option<f64>,
    /// Places in `steps` of those much longer than the others.
    outliers: Vec<u32>,
    steps: Vec<StepDocument>,
}

/// One step.
#[derive(Serialize, ToSchema)]
pub(crate) struct StepDocument {
    number: Option<u64>,
    start_ns: i64,
    duration_ns: i64,
    busy_ns: i64,
    loader_ns: i64,
    synchronisation_ns: i64,
    exposed_communication_ns: i64,
}

/// Floating-point work.
#[derive(Serialize, ToSchema)]
pub(crate) struct FlopsDocument {
    /// Kernel time of operators that are counted, of all that computes.
    counted_pct: Option<f64>,
    /// The same of the kernel time that could have countable work.
    covered_pct: Option<f64>,
    by_precision: Vec<PrecisionDocument>,
    /// What utilisation is at least: by what was counted.
    at_least_pct: Option<f64>,
    hfu_pct: Option<f64>,
    mfu_pct: Option<f64>,
    /// Why one of them is null.
    reason: Option<String>,
}

/// Work of one precision.
#[derive(Serialize, ToSchema)]
pub(crate) struct PrecisionDocument {
    precision: String,
    flops: f64,
    /// Dense peak of a device in operations a second.
    peak: Option<f64>,
    kernel_ns: i64,
}

/// Memory of one device.
#[derive(Serialize, ToSchema)]
pub(crate) struct MemoryDocument {
    /// Null is host memory.
    device: Option<i64>,
    events: u64,
    peak_bytes: Option<u64>,
    peak_at_ns: i64,
    mean_bytes: Option<f64>,
    reserved_peak_bytes: Option<u64>,
    slack_bytes: Option<u64>,
    capacity_bytes: Option<u64>,
}

/// Collectives of one kind.
#[derive(Serialize, ToSchema)]
pub(crate) struct CollectiveDocument {
    name: String,
    group_size: Option<u32>,
    count: u64,
    sum_ns: i64,
    bytes: Option<u64>,
    bus_bytes_per_s: Option<f64>,
}

impl FileDocument {
    pub(super) fn of(rank: &RankFigures) -> Self {
        Self {
            file: rank.file.clone(),
            format: match rank.format {
                Format::Kineto => "kineto",
                Format::NsightSystems => "nsight_systems",
                Format::XPlane => "xplane",
                Format::TraceViewer => "trace_viewer",
            },
            rank: rank.rank,
            json_bytes: rank.file_bytes,
            n_trace_events: rank.event_count,
            categories: rank
                .categories
                .iter()
                .take(CATEGORIES)
                .map(|(name, count)| (name.clone(), (*count).into()))
                .collect(),
            devices: rank
                .devices
                .iter()
                .filter_map(|device| device.device)
                .map(|number| number.to_string())
                .collect(),
            figures: WorkDocument::of(&rank.whole),
            devices_figures: rank.devices.iter().map(DeviceDocument::of).collect(),
            host: HostDocument::of(rank),
            steps: rank.steps.as_ref().map(StepsDocument::of),
            flops: FlopsDocument::of(&rank.flops),
            memory: rank.memory.iter().map(MemoryDocument::of).collect(),
            critical_path: rank
                .critical_path
                .iter()
                .flat_map(|path| &path.by_cause)
                .map(|(cause, ns)| PathDocument {
                    cause: cause_word(*cause),
                    ns: *ns,
                })
                .collect(),
            collectives: rank
                .collectives
                .iter()
                .map(CollectiveDocument::of)
                .collect(),
        }
    }
}

fn cause_word(cause: PathCause) -> &'static str {
    match cause {
        PathCause::Computation => "computation",
        PathCause::Communication => "communication",
        PathCause::Memory => "copies",
        PathCause::Loader => "loader",
        PathCause::Synchronisation => "synchronisation",
        PathCause::Call => "calls",
        PathCause::Framework => "framework",
        PathCause::Launch => "launch",
        PathCause::Unknown => "unknown",
    }
}

impl HostDocument {
    fn of(rank: &RankFigures) -> Self {
        let host = &rank.host;
        let steps = rank.steps.as_ref().map_or(0, |steps| {
            let steps = steps.steps.iter();
            steps.map(|step| step.end_ns - step.start_ns).sum()
        });
        let within = host.loader.and_then(|loader| loader.in_steps_ns);
        Self {
            launch_calls: host.launches.count,
            launch_call_ns: host.launches.sum_ns,
            synchronisations: host.synchronisations.iter().map(CallDocument::of).collect(),
            calls: host
                .calls
                .iter()
                .take(CALLS)
                .map(CallDocument::of)
                .collect(),
            loader_wait_ns: host.loader.map(|loader| loader.wait_ns),
            loader_wait_pct: within.and_then(|within| percent(within, steps)),
            overhead_ns: host.overhead_ns,
        }
    }
}

impl CallDocument {
    fn of(calls: &CallGroup) -> Self {
        Self {
            name: calls.name.clone(),
            count: calls.count,
            sum_ns: calls.sum_ns,
            max_ns: calls.max_ns,
            in_steps: calls.in_steps,
        }
    }
}

impl StepsDocument {
    fn of(steps: &StepFigures) -> Self {
        Self {
            source: match steps.source {
                StepSource::ProfilerStep => "profiler_step",
                StepSource::Annotation => "annotation",
            },
            median_ns: steps.median_ns,
            spread: steps.spread,
            outliers: steps.outliers.clone(),
            steps: steps
                .steps
                .iter()
                .map(|step| StepDocument {
                    number: step.number,
                    start_ns: step.start_ns,
                    duration_ns: step.end_ns - step.start_ns,
                    busy_ns: step.busy_ns,
                    loader_ns: step.loader_ns,
                    synchronisation_ns: step.synchronisation_ns,
                    exposed_communication_ns: step.exposed_communication_ns,
                })
                .collect(),
        }
    }
}

impl FlopsDocument {
    fn of(flops: &FlopFigures) -> Self {
        Self {
            counted_pct: percent(flops.counted_kernel_ns, flops.kernel_ns),
            covered_pct: percent(flops.counted_kernel_ns, flops.eligible_ns),
            at_least_pct: flops.at_least.map(|share| share * 100.0),
            by_precision: flops
                .by_precision
                .iter()
                .map(|work| PrecisionDocument {
                    precision: work.precision.clone(),
                    flops: work.flops,
                    peak: work.peak,
                    kernel_ns: work.kernel_ns,
                })
                .collect(),
            hfu_pct: flops.hfu.map(|share| share * 100.0),
            mfu_pct: flops.mfu.map(|share| share * 100.0),
            reason: flops.reason.clone(),
        }
    }
}

impl MemoryDocument {
    fn of(memory: &MemoryFigures) -> Self {
        Self {
            device: memory.device,
            events: memory.events,
            peak_bytes: memory.peak_allocated,
            peak_at_ns: memory.peak_at_ns,
            mean_bytes: memory.mean_allocated,
            reserved_peak_bytes: memory.peak_reserved,
            slack_bytes: memory.slack_at_peak,
            capacity_bytes: memory.capacity,
        }
    }
}

impl CollectiveDocument {
    fn of(kind: &CollectiveKind) -> Self {
        Self {
            name: kind.name.clone(),
            group_size: kind.group_size,
            count: kind.count,
            sum_ns: kind.sum_ns,
            bytes: (kind.bytes > 0).then_some(kind.bytes),
            bus_bytes_per_s: kind.bus_bandwidth,
        }
    }
}

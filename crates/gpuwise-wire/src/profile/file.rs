//! Figures of one file: one process, one rank.

use super::device::{DeviceDocument, WorkDocument, percent};
use crate::mirror::{forms, written};
use gpuwise_domain::profile::{
    figures::{
        CallGroup, CollectiveKind, FlopFigures, FlopsOfPrecision, MemoryFigures, PathCause,
        RankFigures, Step, StepFigures, StepSource,
    },
    timeline::Format,
};
use serde_json::{Map, Value};

/// Categories that are listed, as `exact.py` of the sample data lists them.
const CATEGORIES: usize = 12;
/// Calls that are listed by name.
const CALLS: usize = 20;

written! {
    /// Figures of one file, over all its devices; each device below.
    pub(crate) FileDocument = |rank: &RankFigures| {
        /// The file as the user named it.
        file: String = rank.file.clone(),
        /// `kineto`, `nsight_systems`, `xplane` or `trace_viewer`.
        format: &'static str = format(rank.format),
        /// Its rank, where known.
        rank: Option<u32> = rank.rank,
        /// Bytes, unpacked.
        json_bytes: u64 = rank.file_bytes,
        /// Events in all.
        n_trace_events: u64 = rank.event_count,
        /// Complete events by category, the most frequent dozen.
        #[schema(value_type = Object)]
        categories: Map<String, Value> = categories(rank),
        /// Numbers of the devices that had work.
        devices: Vec<String> = numbers(rank),
        #[serde(flatten)]
        figures: WorkDocument = (&rank.whole).into(),
        /// Each device that had work.
        devices_figures: Vec<DeviceDocument> = forms(&rank.devices),
        /// The host side.
        host: HostDocument = rank.into(),
        /// Steps, where the file marks them.
        steps: Option<StepsDocument> = rank.steps.as_ref().map(StepsDocument::from),
        /// Floating-point work.
        flops: FlopsDocument = (&rank.flops).into(),
        /// Memory by the allocator's events.
        memory: Vec<MemoryDocument> = forms(&rank.memory),
        /// Collectives by kind.
        collectives: Vec<CollectiveDocument> = forms(&rank.collectives),
        /// The critical path by cause, the longest first; the parts sum to the span.
        critical_path: Vec<PathDocument> = forms(rank.critical_path.iter().flat_map(|path| &path.by_cause)),
    }
}

fn categories(rank: &RankFigures) -> Map<String, Value> {
    let categories = rank.categories.iter().take(CATEGORIES);
    categories
        .map(|(name, count)| (name.clone(), (*count).into()))
        .collect()
}

fn numbers(rank: &RankFigures) -> Vec<String> {
    let numbers = rank.devices.iter().filter_map(|device| device.device);
    numbers.map(|number| number.to_string()).collect()
}

fn format(format: Format) -> &'static str {
    match format {
        Format::Kineto => "kineto",
        Format::NsightSystems => "nsight_systems",
        Format::XPlane => "xplane",
        Format::TraceViewer => "trace_viewer",
    }
}

written! {
    /// Time of the critical path that went into one cause.
    pub(crate) PathDocument = |part: &(PathCause, i64)| {
        cause: &'static str = cause_word(part.0),
        ns: i64 = part.1,
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

written! {
    /// The host side.
    pub(crate) HostDocument = |rank: &RankFigures| {
        launch_calls: u64 = rank.host.launches.count,
        launch_call_ns: i64 = rank.host.launches.sum_ns,
        /// Calls that wait for the device.
        synchronisations: Vec<CallDocument> = forms(&rank.host.synchronisations),
        /// Calls of runtime and driver, the longest sum first.
        calls: Vec<CallDocument> = forms(rank.host.calls.iter().take(CALLS)),
        /// Time under data loaders' ranges; null where the file has none.
        loader_wait_ns: Option<i64> = rank.host.loader.map(|loader| loader.wait_ns),
        /// Of the steps' time.
        loader_wait_pct: Option<f64> = loader_share(rank),
        /// Time of the profiler's own overhead.
        overhead_ns: i64 = rank.host.overhead_ns,
    }
}

fn loader_share(rank: &RankFigures) -> Option<f64> {
    let steps = rank.steps.iter().flat_map(|steps| &steps.steps);
    let steps = steps.map(|step| step.end_ns - step.start_ns).sum();
    percent(rank.host.loader?.in_steps_ns?, steps)
}

written! {
    /// Calls of one name.
    pub(crate) CallDocument = |calls: &CallGroup| {
        name: String = calls.name.clone(),
        count: u64 = calls.count,
        sum_ns: i64 = calls.sum_ns,
        max_ns: i64 = calls.max_ns,
        in_steps: u64 = calls.in_steps,
    }
}

written! {
    /// Steps.
    pub(crate) StepsDocument = |steps: &StepFigures| {
        /// `profiler_step` or `annotation`.
        source: &'static str = source(steps.source),
        median_ns: i64 = steps.median_ns,
        /// Interquartile range over the median; null under 4 steps.
        spread: Option<f64> = steps.spread,
        /// Places in `steps` of those much longer than the others.
        outliers: Vec<u32> = steps.outliers.clone(),
        steps: Vec<StepDocument> = forms(&steps.steps),
    }
}

fn source(source: StepSource) -> &'static str {
    match source {
        StepSource::ProfilerStep => "profiler_step",
        StepSource::Annotation => "annotation",
    }
}

written! {
    /// One step.
    pub(crate) StepDocument = |step: &Step| {
        number: Option<u64> = step.number,
        start_ns: i64 = step.start_ns,
        duration_ns: i64 = step.end_ns - step.start_ns,
        busy_ns: i64 = step.busy_ns,
        loader_ns: i64 = step.loader_ns,
        synchronisation_ns: i64 = step.synchronisation_ns,
        exposed_communication_ns: i64 = step.exposed_communication_ns,
    }
}

written! {
    /// Floating-point work.
    pub(crate) FlopsDocument = |flops: &FlopFigures| {
        /// Kernel time of operators that are counted, of all that computes.
        counted_pct: Option<f64> = percent(flops.counted_kernel_ns, flops.kernel_ns),
        /// The same of the kernel time that could have countable work.
        covered_pct: Option<f64> = percent(flops.counted_kernel_ns, flops.eligible_ns),
        by_precision: Vec<PrecisionDocument> = forms(&flops.by_precision),
        /// What utilisation is at least: by what was counted.
        at_least_pct: Option<f64> = flops.at_least.map(|share| share * 100.0),
        hfu_pct: Option<f64> = flops.hfu.map(|share| share * 100.0),
        mfu_pct: Option<f64> = flops.mfu.map(|share| share * 100.0),
        /// Why one of them is null.
        reason: Option<String> = flops.reason.clone(),
    }
}

written! {
    /// Work of one precision.
    pub(crate) PrecisionDocument = |work: &FlopsOfPrecision| {
        precision: String = work.precision.clone(),
        flops: f64 = work.flops,
        /// Dense peak of a device in operations a second.
        peak: Option<f64> = work.peak,
        kernel_ns: i64 = work.kernel_ns,
    }
}

written! {
    /// Memory of one device.
    pub(crate) MemoryDocument = |memory: &MemoryFigures| {
        /// Null is host memory.
        device: Option<i64> = memory.device,
        events: u64 = memory.events,
        peak_bytes: Option<u64> = memory.peak_allocated,
        peak_at_ns: i64 = memory.peak_at_ns,
        mean_bytes: Option<f64> = memory.mean_allocated,
        reserved_peak_bytes: Option<u64> = memory.peak_reserved,
        slack_bytes: Option<u64> = memory.slack_at_peak,
        capacity_bytes: Option<u64> = memory.capacity,
    }
}

written! {
    /// Collectives of one kind.
    pub(crate) CollectiveDocument = |kind: &CollectiveKind| {
        name: String = kind.name.clone(),
        group_size: Option<u32> = kind.group_size,
        count: u64 = kind.count,
        sum_ns: i64 = kind.sum_ns,
        bytes: Option<u64> = (kind.bytes > 0).then_some(kind.bytes),
        bus_bytes_per_s: Option<f64> = kind.bus_bandwidth,
    }
}

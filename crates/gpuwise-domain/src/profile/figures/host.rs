//! Figures of the host side of one rank: calls, data loading, steps, memory, critical path.

use alloc::{string::String, vec::Vec};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostFigures {
    /// Calls of runtime and driver by name, the longest sum first.
    pub calls: Vec<CallGroup>,
    pub launches: CallGroup,
    /// Calls that wait for the device, by name, the longest sum first.
    pub synchronisations: Vec<CallGroup>,
    /// Data loading, where the file has its ranges.
    pub loader: Option<LoaderFigures>,
    /// Time of the profiler's own overhead; what the driver does without a profiler as well is left out.
    pub overhead_ns: i64,
}

/// Calls of one name, or of one purpose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallGroup {
    /// The name or purpose.
    pub name: String,
    pub count: u64,
    pub sum_ns: i64,
    pub max_ns: i64,
    /// How many began within a step.
    pub in_steps: u64,
}

/// Data loading: `enumerate(DataLoader)` ranges and the like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoaderFigures {
    pub count: u64,
    pub wait_ns: i64,
    /// Time under one within steps, where there are steps.
    pub in_steps_ns: Option<i64>,
}

/// Steps of a training or inference loop.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepFigures {
    pub source: StepSource,
    /// Each step, in order of time.
    pub steps: Vec<Step>,
    /// Median duration.
    pub median_ns: i64,
    /// Interquartile range of durations over their median; absent under 4 steps.
    pub spread: Option<f64>,
    /// Indices of steps longer than the third quartile by over 1.5 interquartile ranges and 5 %.
    pub outliers: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StepSource {
    /// `ProfilerStep#n` ranges.
    #[default]
    ProfilerStep,
    /// Other ranges that the user named, such as NVTX `step 12`.
    Annotation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// Its number, where its name has one.
    pub number: Option<u64>,
    /// From, on the host.
    pub start_ns: i64,
    /// To, on the host.
    pub end_ns: i64,
    /// Time within it in which some device worked.
    pub busy_ns: i64,
    /// Time within it under a data loader's range.
    pub loader_ns: i64,
    /// Idle time within it while the host waited in a `*Synchronize` call.
    pub synchronisation_ns: i64,
    /// Time within it of communication under which nothing was computed.
    pub exposed_communication_ns: i64,
}

/// Floating-point work that operators' shapes tell, against the peak of the device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FlopFigures {
    /// Work by precision, the most first.
    pub by_precision: Vec<FlopsOfPrecision>,
    /// Time of kernels of the operators that were counted.
    pub counted_kernel_ns: i64,
    /// Time of kernels in all, communication excluded.
    pub kernel_ns: i64,
    /// Of this, kernels that could have such work: all but those that only move, add or normalise.
    pub eligible_ns: i64,
    /// Executed work that was counted over span × devices × dense peak: what utilisation is at least.
    pub at_least: Option<f64>,
    /// Hardware FLOPs utilisation: the same where nearly all work could be counted.
    pub hfu: Option<f64>,
    /// Model FLOPs utilisation: the same without recomputed work; absent where work is recomputed.
    pub mfu: Option<f64>,
    /// Why a utilisation is absent.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FlopsOfPrecision {
    /// The precision as the catalogue names it (`bf16`, `tf32`).
    pub precision: String,
    /// Floating-point operations.
    pub flops: f64,
    /// Dense peak of one device in operations a second, where known.
    pub peak: Option<f64>,
    pub kernel_ns: i64,
}

/// Memory of one device by the allocator's events.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MemoryFigures {
    /// The device's number in the file; host memory when absent.
    pub device: Option<i64>,
    pub events: u64,
    /// The most bytes in tensors.
    pub peak_allocated: Option<u64>,
    pub peak_at_ns: i64,
    /// Bytes in tensors, averaged over time.
    pub mean_allocated: Option<f64>,
    /// The most bytes taken from the driver.
    pub peak_reserved: Option<u64>,
    /// Bytes taken from the driver and in no tensor, when tensors were at their peak.
    pub slack_at_peak: Option<u64>,
    /// Bytes of the device, where stated.
    pub capacity: Option<u64>,
}

/// The chain of work and waiting that the length of a profile is made of.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CriticalPath {
    /// Its pieces in order of time, without gaps between them.
    pub segments: Vec<PathSegment>,
    /// Time by cause, the longest first.
    pub by_cause: Vec<(PathCause, i64)>,
}

/// A piece of the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathSegment {
    pub start_ns: i64,
    pub end_ns: i64,
    /// What the time went into.
    pub cause: PathCause,
    /// Index into the timeline's work, for a piece of GPU work.
    pub work: Option<u32>,
}

gpuwise_units::named! {
    /// What a piece of the critical path went into.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PathCause:
        /// Its name for people, and as a part of figures.
        name
    {
        /// A kernel that computes.
        Computation = "computation",
        /// A kernel that communicates.
        Communication = "communication",
        /// A copy or fill on the device.
        Memory = "copies",
        Loader = "data loading",
        /// The host waited in a synchronising call for nothing that the device did.
        Synchronisation = "synchronisation",
        /// The host was in a call of the runtime: launches, copies, allocation.
        Call = "runtime calls",
        /// The host ran the framework or Python.
        Framework = "framework",
        /// Between the launching call and the start on an idle stream.
        Launch = "launch latency",
        /// Nothing that the file shows.
        Unknown = "unknown",
    }
}

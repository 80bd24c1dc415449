//! Figures of one device, or of all devices of a file taken together.

use super::work::{CopyFigures, KernelFigures, KernelGroup, TensorCoreTime, Weighted};
use alloc::{string::String, vec::Vec};

/// A range of time, `[start, end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    pub start_ns: i64,
    pub end_ns: i64,
}

impl Window {
    /// Its length in nanoseconds.
    pub fn length(self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// What one device did, or all devices of a file taken together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceFigures {
    /// The device's number in the file; all of them together when absent.
    pub device: Option<i64>,
    /// Product name, where stated.
    pub name: Option<String>,
    /// Pieces of work: kernels, copies, fills.
    pub work_count: u64,
    /// Streams that had work.
    pub stream_count: u32,
    /// From the first start to the last end, or as it was asked for; absent without work.
    pub window: Option<Window>,
    /// Time in which something ran.
    pub busy_ns: i64,
    /// Time in which nothing ran: the window less [`Self::busy_ns`].
    pub idle_ns: i64,
    pub idle: IdleSplit,
    /// Communication, computation and copies, communication by the wide list of names.
    pub classes: ClassFigures,
    /// The same with communication by `nccl` and `rccl` alone, as other tools have it.
    pub classes_nccl: ClassFigures,
    /// Pieces of work under 1 µs.
    pub below_1us: u64,
    /// Pieces of work under 10 µs.
    pub below_10us: u64,
    /// Sum of the durations of kernels, communication included.
    pub kernel_time_ns: i64,
    /// Kernels, copies and fills by name, the longest sum first.
    pub kernels: Vec<KernelFigures>,
    /// All work by kind (`gemm`, `attention`, `copy`), the longest sum first.
    pub kinds: Vec<KernelGroup>,
    pub tensor_cores: TensorCoreTime,
    pub copies: Vec<CopyFigures>,
    /// Estimated achieved occupancy in percent, weighted by time, where the file states it.
    pub occupancy_percent: Option<Weighted>,
    /// min(blocks / multiprocessors, 1) in percent, weighted by time, where the file states it.
    pub sm_efficiency_percent: Option<Weighted>,
    pub concurrency: Concurrency,
}

impl DeviceFigures {
    /// Length of the window; 0 without work.
    pub fn span_ns(&self) -> i64 {
        self.window.map_or(0, Window::length)
    }

    /// Time that is lost to launching: host wait for the framework, launch calls and kernel wait,
    /// without data loading and synchronisation.
    pub fn launch_bound_ns(&self) -> i64 {
        let causes = self.idle.causes;
        self.idle.host_wait_ns + self.idle.in_call_ns + self.idle.kernel_wait_ns
            - causes.loader_ns
            - causes.synchronisation_ns
    }
}

/// Time of disjoint classes of work: communication, computation, copies and fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassFigures {
    pub communication_count: u64,
    pub computation_count: u64,
    pub memory_count: u64,
    pub communication_sum_ns: i64,
    pub computation_sum_ns: i64,
    pub memory_sum_ns: i64,
    /// Time in which some communication ran.
    pub communication_ns: i64,
    /// Time in which some computation ran.
    pub computation_ns: i64,
    /// Time in which some copy or fill ran.
    pub memory_ns: i64,
    /// Time in which communication and computation ran concurrently.
    pub overlap_ns: i64,
    /// Time in which nothing but copies and fills ran.
    pub exposed_memory_ns: i64,
}

impl ClassFigures {
    /// Time of communication under which nothing was computed.
    pub fn exposed_communication_ns(&self) -> i64 {
        self.communication_ns - self.overlap_ns
    }
}

/// Why nothing ran; the parts sum to the idle time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IdleSplit {
    /// The host had not begun to launch what came next.
    pub host_wait_ns: i64,
    /// The host was in the call that launches it: first use, back-pressure.
    pub in_call_ns: i64,
    /// Launched, and it began within 10 µs.
    pub kernel_wait_ns: i64,
    /// Launched, and it began later: a dependency, a graph, a copy that blocks.
    pub other_ns: i64,
    /// What came next has no launching call in the file.
    pub unlinked_ns: i64,
    /// Idle time at the edges of a window that was asked for, with nothing that came next.
    pub edge_ns: i64,
    /// What the host did during [`Self::host_wait_ns`]; the parts sum to it.
    pub causes: HostWaitCauses,
    pub gap_count: u64,
    /// Of all of this, time under the profiler's own overhead: without the profiler it would be less.
    pub overhead_ns: i64,
    /// The longest gaps, the profiler's overhead left out, the longest first; not more than a few dozen.
    pub longest: Vec<Gap>,
}

impl IdleSplit {
    pub fn sum_ns(&self) -> i64 {
        self.host_wait_ns
            + self.in_call_ns
            + self.kernel_wait_ns
            + self.other_ns
            + self.unlinked_ns
            + self.edge_ns
    }
}

/// What the host did while a device waited for it; each moment is counted once, the first that
/// applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostWaitCauses {
    /// It fetched data: `enumerate(DataLoader)` ranges.
    pub loader_ns: i64,
    /// It waited for the device: `*Synchronize` calls.
    pub synchronisation_ns: i64,
    /// It was in a call that copies or fills.
    pub copy_calls_ns: i64,
    /// Anything else: the framework, Python.
    pub framework_ns: i64,
}

/// A stretch in which nothing ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    pub start_ns: i64,
    pub end_ns: i64,
    /// How much of it lies under the profiler's own overhead.
    pub overhead_ns: i64,
    /// The part that most of it is.
    pub part: GapPart,
    /// Index into the timeline's work of what came next; absent at the end of a window.
    pub next: Option<u32>,
}

impl Gap {
    /// How long it is without the profiler's own overhead.
    pub fn length_ns(&self) -> i64 {
        self.end_ns - self.start_ns - self.overhead_ns
    }
}

/// A part of the idle time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GapPart {
    /// The host fetched data.
    Loader,
    /// The host waited for the device.
    Synchronisation,
    /// The host was in another call that copies.
    CopyCall,
    /// The host was busy with something else.
    Framework,
    /// The host was in the launching call.
    InCall,
    /// Launched, began within 10 µs.
    KernelWait,
    Other,
    /// No launching call in the file.
    Unlinked,
    /// At the edge of a window that was asked for.
    Edge,
    /// The profiler was busy with itself.
    Overhead,
}

/// How much ran concurrently on a device.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Concurrency {
    /// Time in which two or more kernels or copies ran concurrently.
    pub two_or_more_ns: i64,
    /// Kernels and copies that ran concurrently, averaged over the busy time.
    pub mean: f64,
    /// The most that ran concurrently.
    pub peak: u32,
}

//! Figures of devices.

use crate::mirror::{forms, written};
use gpuwise_domain::profile::{
    figures::{
        ClassFigures, CopyFigures, DeviceFigures, Gap, GapPart, HostWaitCauses, IdleSplit,
        KernelFigures, KernelGroup, TensorCoreTime, TensorCores, Weighted,
    },
    timeline::{Direction, MemoryKind},
};
use std::collections::BTreeMap;

/// Kernels that are listed by name.
const TOP_KERNELS: usize = 10;

/// A share in percent with four decimals.
pub(super) fn percent(part: i64, of: i64) -> Option<f64> {
    (of > 0)
        .then(|| format!("{:.4}", 100.0 * part as f64 / of as f64))
        .and_then(|text| text.parse().ok())
}

written! {
    /// Figures of one device.
    pub(crate) DeviceDocument = |device: &DeviceFigures| {
        /// Its number in the file; null where the file has none.
        device: Option<i64> = device.device,
        /// Product name.
        name: Option<String> = device.name.clone(),
        #[serde(flatten)]
        figures: WorkDocument = device.into(),
    }
}

/// A figure of a device, unknown where it had no work.
fn worked<T>(device: &DeviceFigures, figure: T) -> Option<T> {
    device.window.is_some().then_some(figure)
}

written! {
    /// Figures of the work of one device, or of all devices of a file taken together.
    pub(crate) WorkDocument = |device: &DeviceFigures| {
        /// Kernels, copies and fills.
        n_gpu_events: u64 = device.work_count,
        /// Streams that had work.
        n_streams: u32 = device.stream_count,
        /// When the first began, on the file's clock; null without work.
        start_ns: Option<i64> = device.window.map(|window| window.start_ns),
        /// From the first start to the last end.
        span_ns: Option<i64> = worked(device, device.span_ns()),
        /// Time in which something ran.
        busy_ns: Option<i64> = worked(device, device.busy_ns),
        /// Time in which nothing ran.
        idle_ns: Option<i64> = worked(device, device.idle_ns),
        /// Idle time of the span.
        idle_pct: Option<f64> = percent(device.idle_ns, device.span_ns()),
        /// Idle time by cause; the parts sum to it.
        idle_split: Option<IdleDocument> = worked(device, (&device.idle).into()),
        /// Communication, computation and copies: by `nccl` and `rccl` alone, and by the wide list.
        comm_classes: Option<BTreeMap<&'static str, ClassDocument>> = device.window.is_some().then(|| classes(device)),
        /// Kernels, copies and fills under 1 µs.
        sub_us_kernels: Option<u64> = worked(device, device.below_1us),
        /// Kernels, copies and fills under 10 µs.
        lt_10us_kernels: Option<u64> = worked(device, device.below_10us),
        /// Time lost to launching, of the span.
        launch_bound_pct: Option<f64> = percent(device.launch_bound_ns(), device.span_ns()),
        /// Sum of the durations of kernels.
        kernel_time_ns: Option<i64> = worked(device, device.kernel_time_ns),
        /// The names with the longest sums.
        top_kernels: Vec<KernelDocument> = forms(device.kernels.iter().take(TOP_KERNELS)),
        /// Work by kind.
        kinds: Vec<KindDocument> = forms(&device.kinds),
        /// Kernel time by use of tensor cores.
        tensor_cores: TensorCoresDocument = (&device.tensor_cores).into(),
        /// Copies by direction and kinds of memory.
        copies: Vec<CopyDocument> = forms(&device.copies),
        /// Estimated achieved occupancy in percent.
        occupancy: Option<WeightedDocument> = device.occupancy_percent.map(WeightedDocument::from),
        /// Multiprocessors with a block, in percent.
        sm_efficiency: Option<WeightedDocument> = device.sm_efficiency_percent.map(WeightedDocument::from),
        /// Kernels and copies that ran concurrently, averaged over the time in which anything ran.
        concurrency_mean: f64 = device.concurrency.mean,
        /// Time in which two or more ran.
        two_or_more_ns: i64 = device.concurrency.two_or_more_ns,
        /// The longest gaps.
        gaps: Vec<GapDocument> = forms(&device.idle.longest),
    }
}

fn classes(device: &DeviceFigures) -> BTreeMap<&'static str, ClassDocument> {
    BTreeMap::from([
        ("nccl_only", (&device.classes_nccl).into()),
        ("wide", (&device.classes).into()),
    ])
}

written! {
    /// Idle time by cause.
    pub(crate) IdleDocument = |idle: &IdleSplit| {
        host_wait_ns: i64 = idle.host_wait_ns,
        in_call_ns: i64 = idle.in_call_ns,
        kernel_wait_ns: i64 = idle.kernel_wait_ns,
        other_ns: i64 = idle.other_ns,
        unlinked_ns: i64 = idle.unlinked_ns,
        edge_ns: i64 = idle.edge_ns,
        /// Host wait by what the host did; the parts sum to it.
        host_wait: HostWaitDocument = (&idle.causes).into(),
        /// Of all of this, time under the profiler's own overhead.
        overhead_ns: i64 = idle.overhead_ns,
        gaps: u64 = idle.gap_count,
    }
}

written! {
    /// What the host did while a device waited for it.
    #[allow(clippy::struct_field_names, reason = "keys name their units")]
    pub(crate) HostWaitDocument = |causes: &HostWaitCauses| {
        loader_ns: i64 = causes.loader_ns,
        synchronisation_ns: i64 = causes.synchronisation_ns,
        copy_calls_ns: i64 = causes.copy_calls_ns,
        framework_ns: i64 = causes.framework_ns,
    }
}

written! {
    /// Communication, computation and copies.
    #[allow(clippy::struct_field_names, reason = "names of an existing form")]
    pub(crate) ClassDocument = |classes: &ClassFigures| {
        comp_union_ns: i64 = classes.computation_ns,
        comm_union_ns: i64 = classes.communication_ns,
        mem_union_ns: i64 = classes.memory_ns,
        comm_comp_overlap_ns: i64 = classes.overlap_ns,
        comm_overlap_pct: Option<f64> = percent(classes.overlap_ns, classes.communication_ns),
        exposed_comm_ns: i64 = classes.exposed_communication_ns(),
        exposed_mem_ns: i64 = classes.exposed_memory_ns,
        comp_sum_ns: i64 = classes.computation_sum_ns,
        comm_sum_ns: i64 = classes.communication_sum_ns,
        mem_sum_ns: i64 = classes.memory_sum_ns,
        n_comm: u64 = classes.communication_count,
        n_mem: u64 = classes.memory_count,
        n_comp: u64 = classes.computation_count,
    }
}

written! {
    /// All work of one name.
    pub(crate) KernelDocument = |kernel: &KernelFigures| {
        name: String = kernel.name.clone(),
        sum_ns: i64 = kernel.sum_ns,
        count: u64 = kernel.count,
        min_ns: i64 = kernel.min_ns,
        max_ns: i64 = kernel.max_ns,
        kind: String = kernel.kind.clone(),
        /// `used`, `unused`, `ineligible` or `unknown`.
        tensor_cores: &'static str = tensor_cores(kernel.tensor_cores),
    }
}

fn tensor_cores(used: TensorCores) -> &'static str {
    match used {
        TensorCores::Used => "used",
        TensorCores::Unused => "unused",
        TensorCores::Ineligible => "ineligible",
        TensorCores::Unknown => "unknown",
    }
}

written! {
    /// All work of one kind.
    pub(crate) KindDocument = |group: &KernelGroup| {
        kind: String = group.kind.clone(),
        sum_ns: i64 = group.sum_ns,
        count: u64 = group.count,
    }
}

written! {
    /// Kernel time by use of tensor cores.
    #[allow(clippy::struct_field_names, reason = "keys name their units")]
    pub(crate) TensorCoresDocument = |cores: &TensorCoreTime| {
        used_ns: i64 = cores.used_ns,
        unused_ns: i64 = cores.unused_ns,
        ineligible_ns: i64 = cores.ineligible_ns,
        unknown_ns: i64 = cores.unknown_ns,
    }
}

written! {
    /// Copies of one direction between the same kinds of memory.
    pub(crate) CopyDocument = |copies: &CopyFigures| {
        direction: Option<&'static str> = copies.direction.map(direction),
        source: Option<&'static str> = memory(copies.source),
        target: Option<&'static str> = memory(copies.target),
        count: u64 = copies.count,
        sum_ns: i64 = copies.sum_ns,
        /// Bytes of those that state them; null where none does.
        bytes: Option<u64> = (copies.sized_count > 0).then_some(copies.bytes),
        bytes_per_s: Option<f64> = copies.bytes_per_second(),
    }
}

fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::HostToDevice => "HtoD",
        Direction::DeviceToHost => "DtoH",
        Direction::DeviceToDevice => "DtoD",
        Direction::PeerToPeer => "PtoP",
        Direction::HostToHost => "HtoH",
        Direction::Unified => "unified",
    }
}

fn memory(kind: MemoryKind) -> Option<&'static str> {
    match kind {
        MemoryKind::Pageable => Some("pageable"),
        MemoryKind::Pinned => Some("pinned"),
        MemoryKind::Device => Some("device"),
        MemoryKind::Managed => Some("managed"),
        MemoryKind::Unknown => None,
    }
}

written! {
    /// A mean weighted by time.
    pub(crate) WeightedDocument = |weighted: Weighted| {
        mean: f64 = weighted.mean,
        /// Kernel time for which it is known.
        known_ns: i64 = weighted.known_ns,
        /// Kernel time in all.
        of_ns: i64 = weighted.of_ns,
    }
}

written! {
    /// A stretch in which nothing ran.
    pub(crate) GapDocument = |gap: &Gap| {
        start_ns: i64 = gap.start_ns,
        end_ns: i64 = gap.end_ns,
        /// How much of it lies under the profiler's own overhead.
        overhead_ns: i64 = gap.overhead_ns,
        /// What most of it is.
        cause: &'static str = cause(gap.part),
    }
}

fn cause(part: GapPart) -> &'static str {
    match part {
        GapPart::Loader => "loader",
        GapPart::Synchronisation => "synchronisation",
        GapPart::CopyCall => "copy_call",
        GapPart::Framework => "framework",
        GapPart::InCall => "in_call",
        GapPart::KernelWait => "kernel_wait",
        GapPart::Other => "other",
        GapPart::Unlinked => "unlinked",
        GapPart::Edge => "edge",
        GapPart::Overhead => "overhead",
    }
}

//! Figures of devices.

use gpuwise_domain::profile::{
    figures::{
        ClassFigures, CopyFigures, DeviceFigures, Gap, GapPart, KernelFigures, KernelGroup,
        TensorCores, Weighted,
    },
    timeline::{Direction, MemoryKind},
};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Kernels that are listed by name.
const TOP_KERNELS: usize = 10;

/// A share in percent with four decimals.
pub(super) fn percent(part: i64, of: i64) -> Option<f64> {
    (of > 0)
        .then(|| format!("{:.4}", 100.0 * part as f64 / of as f64))
        .and_then(|text| text.parse().ok())
}

/// Figures of one device.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeviceDocument {
    /// Its number in the file; null where the file has none.
    device: Option<i64>,
    /// Product name.
    name: Option<String>,
    #[serde(flatten)]
    figures: WorkDocument,
}

/// Figures of the work of one device, or of all devices of a file taken together.
#[derive(Serialize, ToSchema)]
pub(crate) struct WorkDocument {
    /// Kernels, copies and fills.
    n_gpu_events: u64,
    /// Streams that had work.
    n_streams: u32,
    /// When the first began, on the file's clock; null without work.
    start_ns: Option<i64>,
    /// From the first start to the last end.
    span_ns: Option<i64>,
    /// Time in which something ran.
    busy_ns: Option<i64>,
    /// Time in which nothing ran.
    idle_ns: Option<i64>,
    /// Idle time of the span.
    idle_pct: Option<f64>,
    /// Idle time by cause; the parts sum to it.
    idle_split: Option<IdleDocument>,
    /// Communication, computation and copies: by `nccl` and `rccl` alone, and by the wide list.
    comm_classes: Option<BTreeMap<&'static str, ClassDocument>>,
    /// Pieces of work under 1 µs.
    sub_us_kernels: Option<u64>,
    /// Pieces of work under 10 µs.
    lt_10us_kernels: Option<u64>,
    /// Time lost to launching, of the span.
    launch_bound_pct: Option<f64>,
    /// Sum of the durations of kernels.
    kernel_time_ns: Option<i64>,
    /// The names with the longest sums.
    top_kernels: Vec<KernelDocument>,
    /// Work by kind.
    kinds: Vec<KindDocument>,
    /// Kernel time by use of tensor cores.
    tensor_cores: TensorCoresDocument,
    /// Copies by direction and kinds of memory.
    copies: Vec<CopyDocument>,
    /// Estimated achieved occupancy in percent.
    occupancy: Option<WeightedDocument>,
    /// Multiprocessors with a block, in percent.
    sm_efficiency: Option<WeightedDocument>,
    /// Pieces of work at once while anything ran.
    concurrency_mean: f64,
    /// Time in which two or more ran.
    two_or_more_ns: i64,
    /// The longest gaps.
    gaps: Vec<GapDocument>,
}

/// Idle time by cause.
#[derive(Serialize, ToSchema)]
pub(crate) struct IdleDocument {
    host_wait_ns: i64,
    in_call_ns: i64,
    kernel_wait_ns: i64,
    other_ns: i64,
    unlinked_ns: i64,
    edge_ns: i64,
    /// Of all of this, time under the profiler's own overhead.
    overhead_ns: i64,
    /// Host wait by what the host did; the parts sum to it.
    host_wait: HostWaitDocument,
    gaps: u64,
}

/// What the host did while a device waited for it.
#[derive(Serialize, ToSchema)]
#[allow(clippy::struct_field_names, reason = "keys name their units")]
pub(crate) struct HostWaitDocument {
    loader_ns: i64,
    synchronisation_ns: i64,
    copy_calls_ns: i64,
    framework_ns: i64,
}

/// Communication, computation and copies.
#[derive(Serialize, ToSchema)]
#[allow(clippy::struct_field_names, reason = "names of an existing form")]
pub(crate) struct ClassDocument {
    comp_union_ns: i64,
    comm_union_ns: i64,
    mem_union_ns: i64,
    comm_comp_overlap_ns: i64,
    comm_overlap_pct: Option<f64>,
    exposed_comm_ns: i64,
    exposed_mem_ns: i64,
    comp_sum_ns: i64,
    comm_sum_ns: i64,
    mem_sum_ns: i64,
    n_comm: u64,
    n_mem: u64,
    n_comp: u64,
}

/// All work of one name.
#[derive(Serialize, ToSchema)]
pub(crate) struct KernelDocument {
    name: String,
    sum_ns: i64,
    count: u64,
    min_ns: i64,
    max_ns: i64,
    kind: String,
    /// `used`, `unused`, `ineligible` or `unknown`.
    tensor_cores: &'static str,
}

/// All work of one kind.
#[derive(Serialize, ToSchema)]
pub(crate) struct KindDocument {
    kind: String,
    sum_ns: i64,
    count: u64,
}

/// Kernel time by use of tensor cores.
#[derive(Serialize, ToSchema)]
#[allow(clippy::struct_field_names, reason = "keys name their units")]
pub(crate) struct TensorCoresDocument {
    used_ns: i64,
    unused_ns: i64,
    ineligible_ns: i64,
    unknown_ns: i64,
}

/// Copies of one direction between the same kinds of memory.
#[derive(Serialize, ToSchema)]
pub(crate) struct CopyDocument {
    direction: Option<&'static str>,
    source: Option<&'static str>,
    target: Option<&'static str>,
    count: u64,
    sum_ns: i64,
    /// Bytes of those that state them; null where none does.
    bytes: Option<u64>,
    bytes_per_s: Option<f64>,
}

/// A mean weighted by time.
#[derive(Serialize, ToSchema)]
pub(crate) struct WeightedDocument {
    mean: f64,
    /// Kernel time for which it is known.
    known_ns: i64,
    /// Kernel time in all.
    of_ns: i64,
}

/// A stretch in which nothing ran.
#[derive(Serialize, ToSchema)]
pub(crate) struct GapDocument {
    start_ns: i64,
    end_ns: i64,
    /// How much of it lies under the profiler's own overhead.
    overhead_ns: i64,
    /// What most of it is.
    cause: &'static str,
}

impl DeviceDocument {
    pub(super) fn of(device: &DeviceFigures) -> Self {
        Self {
            device: device.device,
            name: device.name.clone(),
            figures: WorkDocument::of(device),
        }
    }
}

impl WorkDocument {
    pub(super) fn of(device: &DeviceFigures) -> Self {
        let worked = device.window.is_some();
        let span = device.span_ns();
        let cores = device.tensor_cores;
        Self {
            n_gpu_events: device.work_count,
            n_streams: device.stream_count,
            start_ns: device.window.map(|window| window.start_ns),
            span_ns: worked.then_some(span),
            busy_ns: worked.then_some(device.busy_ns),
            idle_ns: worked.then_some(device.idle_ns),
            idle_pct: percent(device.idle_ns, span),
            idle_split: worked.then(|| IdleDocument::of(device)),
            comm_classes: worked.then(|| {
                BTreeMap::from([
                    ("nccl_only", ClassDocument::of(&device.classes_nccl)),
                    ("wide", ClassDocument::of(&device.classes)),
                ])
            }),
            sub_us_kernels: worked.then_some(device.below_1us),
            lt_10us_kernels: worked.then_some(device.below_10us),
            launch_bound_pct: percent(device.launch_bound_ns(), span),
            kernel_time_ns: worked.then_some(device.kernel_time_ns),
            top_kernels: device
                .kernels
                .iter()
                .take(TOP_KERNELS)
                .map(KernelDocument::of)
                .collect(),
            kinds: device.kinds.iter().map(KindDocument::of).collect(),
            tensor_cores: TensorCoresDocument {
                used_ns: cores.used_ns,
                unused_ns: cores.unused_ns,
                ineligible_ns: cores.ineligible_ns,
                unknown_ns: cores.unknown_ns,
            },
            copies: device.copies.iter().map(CopyDocument::of).collect(),
            occupancy: device.occupancy_percent.map(WeightedDocument::of),
            sm_efficiency: device.sm_efficiency_percent.map(WeightedDocument::of),
            concurrency_mean: device.concurrency.mean,
            two_or_more_ns: device.concurrency.two_or_more_ns,
            gaps: device.idle.longest.iter().map(GapDocument::of).collect(),
        }
    }
}

impl IdleDocument {
    fn of(device: &DeviceFigures) -> Self {
        let idle = &device.idle;
        let causes = idle.causes;
        Self {
            host_wait_ns: idle.host_wait_ns,
            in_call_ns: idle.in_call_ns,
            kernel_wait_ns: idle.kernel_wait_ns,
            other_ns: idle.other_ns,
            unlinked_ns: idle.unlinked_ns,
            edge_ns: idle.edge_ns,
            overhead_ns: idle.overhead_ns,
            host_wait: HostWaitDocument {
                loader_ns: causes.loader_ns,
                synchronisation_ns: causes.synchronisation_ns,
                copy_calls_ns: causes.copy_calls_ns,
                framework_ns: causes.framework_ns,
            },
            gaps: idle.gap_count,
        }
    }
}

impl ClassDocument {
    fn of(classes: &ClassFigures) -> Self {
        Self {
            comp_union_ns: classes.computation_ns,
            comm_union_ns: classes.communication_ns,
            mem_union_ns: classes.memory_ns,
            comm_comp_overlap_ns: classes.overlap_ns,
            comm_overlap_pct: percent(classes.overlap_ns, classes.communication_ns),
            exposed_comm_ns: classes.exposed_communication_ns(),
            exposed_mem_ns: classes.exposed_memory_ns,
            comp_sum_ns: classes.computation_sum_ns,
            comm_sum_ns: classes.communication_sum_ns,
            mem_sum_ns: classes.memory_sum_ns,
            n_comm: classes.communication_count,
            n_mem: classes.memory_count,
            n_comp: classes.computation_count,
        }
    }
}

impl KernelDocument {
    fn of(kernel: &KernelFigures) -> Self {
        Self {
            name: kernel.name.clone(),
            sum_ns: kernel.sum_ns,
            count: kernel.count,
            min_ns: kernel.min_ns,
            max_ns: kernel.max_ns,
            kind: kernel.kind.clone(),
            tensor_cores: match kernel.tensor_cores {
                TensorCores::Used => "used",
                TensorCores::Unused => "unused",
                TensorCores::Ineligible => "ineligible",
                TensorCores::Unknown => "unknown",
            },
        }
    }
}

impl KindDocument {
    fn of(kind: &KernelGroup) -> Self {
        Self {
            kind: kind.kind.clone(),
            sum_ns: kind.sum_ns,
            count: kind.count,
        }
    }
}

impl CopyDocument {
    fn of(copies: &CopyFigures) -> Self {
        Self {
            direction: copies.direction.map(|direction| match direction {
                Direction::HostToDevice => "HtoD",
                Direction::DeviceToHost => "DtoH",
                Direction::DeviceToDevice => "DtoD",
                Direction::PeerToPeer => "PtoP",
                Direction::HostToHost => "HtoH",
                Direction::Unified => "unified",
            }),
            source: memory(copies.source),
            target: memory(copies.target),
            count: copies.count,
            sum_ns: copies.sum_ns,
            bytes: (copies.sized_count > 0).then_some(copies.bytes),
            bytes_per_s: copies.bytes_per_second(),
        }
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

impl WeightedDocument {
    fn of(weighted: Weighted) -> Self {
        Self {
            mean: weighted.mean,
            known_ns: weighted.known_ns,
            of_ns: weighted.of_ns,
        }
    }
}

impl GapDocument {
    fn of(gap: &Gap) -> Self {
        Self {
            start_ns: gap.start_ns,
            end_ns: gap.end_ns,
            overhead_ns: gap.overhead_ns,
            cause: match gap.part {
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
            },
        }
    }
}

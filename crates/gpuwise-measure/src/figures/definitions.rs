//! Every figure: its name, unit, formula and source. The reference page is written from this table.

use gpuwise_domain::profile::figure::{Better, FigureDefinition};
use std::fmt::Write as _;

/// Interval arithmetic of the figures, in words.
const UNION: &str = "U is the union of the time of all pieces, & the intersection, |x| the length";

macro_rules! figures {
    ($($name:literal, $unit:literal, $better:expr, $meaning:literal, $formula:literal, $source:literal;)*) => {
        /// All figures, in the order in which they are listed.
        pub const FIGURES: &[FigureDefinition] = &[
            $(FigureDefinition {
                name: $name,
                unit: $unit,
                meaning: $meaning,
                formula: $formula,
                source: $source,
                better: $better,
            }),*
        ];
    };
}

const LOWER: Option<Better> = Some(Better::Lower);
const HIGHER: Option<Better> = Some(Better::Higher);

figures! {
    "n_gpu_events", "count", None, "Kernels, copies and fills on GPUs.", "events of category kernel, gpu_memcpy, gpu_memset (2021: Kernel, Memcpy, Memset) that have a duration", "libkineto/include/ActivityType.h";
    "n_streams", "count", None, "Streams that had work.", "distinct (device, stream) of GPU work", "ours";
    "span_ns", "ns", LOWER, "From the first start to the last end of GPU work, or the window that was asked for.", "max(end) − min(start)", "ours";
    "busy_ns", "ns", None, "Time in which something ran.", "|U(GPU work)|", "interval unions in integer nanoseconds; nothing is rounded or dropped";
    "idle_ns", "ns", LOWER, "Time in which nothing ran.", "span_ns − busy_ns", "ours";
    "idle_pct", "%", LOWER, "Idle time of the span.", "100 · idle_ns / span_ns", "ours";
    "idle_overhead_ns", "ns", None, "Idle time under the profiler's own overhead; nobody's fault.", "|idle & U(overhead)|, without what the driver does alone (lazy loading, full command buffers)", "CUpti_ActivityOverheadKind; Nsight Systems PROFILER_OVERHEAD";
    "idle_without_overhead_ns", "ns", LOWER, "Idle time without the profiler's own overhead.", "idle_ns − idle_overhead_ns", "ours";
    "idle_host_wait_ns", "ns", LOWER, "Idle while the host had not begun the call that launches what came next.", "gap [a, b) before a piece launched by call [c0, c1]: |[a, min(b, c0))|", "HolisticTraceAnalysis idle_time_breakdown names the part; per device and against the call here";
    "idle_in_call_ns", "ns", LOWER, "Idle while the host was in the launching call: first use, back-pressure.", "|gap & [c0, c1]|", "ours";
    "idle_kernel_wait_ns", "ns", LOWER, "Idle after the launching call returned, where that is at most 10 µs.", "|gap after c1| if ≤ 10 µs", "usual latency of a launch; ours";
    "idle_other_ns", "ns", LOWER, "Idle after the launching call returned, where that is more than 10 µs: a dependency, a graph, a copy that blocks.", "|gap after c1| if > 10 µs", "ours";
    "idle_unlinked_ns", "ns", None, "Idle before work whose launching call is not in the file.", "|gap| without a call", "ours";
    "idle_edge_ns", "ns", None, "Idle at the end of a window that was asked for.", "window end − last end", "ours";
    "host_wait_loader_ns", "ns", LOWER, "Host wait under a data loader's range.", "|host wait & U(enumerate(DataLoader)#…)|", "torch/utils/data/dataloader.py names the range";
    "host_wait_synchronisation_ns", "ns", LOWER, "Host wait in a call that waits for the device.", "|host wait & U(*Synchronize) − loader|", "CUDA runtime API";
    "host_wait_copy_calls_ns", "ns", LOWER, "Host wait in a call that copies or fills.", "|host wait & U(*Memcpy*, *Memset*) − loader − synchronisation|", "CUDA runtime API";
    "host_wait_framework_ns", "ns", LOWER, "Host wait for anything else: the framework, Python.", "host wait − the three above", "ours";
    "launch_bound_pct", "%", LOWER, "Time lost to launching.", "100 · (host wait + in call + kernel wait − loader − synchronisation) / span", "ours";
    "sub_us_kernels", "count", LOWER, "Kernels, copies and fills under 1 µs.", "count(duration < 1,000 ns)", "ours";
    "lt_10us_kernels", "count", LOWER, "Kernels, copies and fills under 10 µs.", "count(duration < 10,000 ns)", "TraceLens short kernel report";
    "comm_union_ns", "ns", LOWER, "Time in which some kernel communicated, by the wide list of names.", "|U(communication)|", "names in catalogue/kernels.toml";
    "comm_pct", "%", LOWER, "Communication of the span.", "100 · comm_union_ns / span_ns", "ours";
    "comm_comp_overlap_ns", "ns", None, "Time in which communication and computation ran concurrently.", "|U(communication) & U(computation)|", "HolisticTraceAnalysis comm_comp_overlap";
    "comm_overlap_pct", "%", HIGHER, "Communication that is hidden under computation.", "100 · comm_comp_overlap_ns / comm_union_ns", "HolisticTraceAnalysis comm_comp_overlap";
    "exposed_comm_ns", "ns", LOWER, "Communication under which nothing was computed.", "comm_union_ns − comm_comp_overlap_ns", "PyTorch profiler TensorBoard plugin, distributed view";
    "comp_union_ns", "ns", None, "Time in which some kernel computed.", "|U(kernels that do not communicate)|", "ours";
    "mem_union_ns", "ns", LOWER, "Time in which something was copied or filled.", "|U(copies, fills)|", "ours";
    "exposed_mem_ns", "ns", LOWER, "Time in which nothing but copies and fills ran.", "busy_ns − |U(communication, computation)|", "ours";
    "kernel_time_ns", "ns", None, "Sum of the durations of kernels.", "Σ duration of kernels", "ours";
    "kind_time_ns", "ns", None, "Sum of the durations of work of one kind (part).", "Σ duration of work whose name is of the kind", "names in catalogue/kernels.toml";
    "tensor_core_pct", "%", HIGHER, "Kernel time known to use tensor cores.", "100 · Σ duration of kernels known to / kernel_time_ns", "names in catalogue/kernels.toml; PyTorch profiler tensor_core.py lists older names";
    "tensor_core_unused_pct", "%", LOWER, "Kernel time of matrix products, convolutions and attention known not to use tensor cores.", "100 · Σ duration / kernel_time_ns", "names in catalogue/kernels.toml";
    "tensor_core_unknown_pct", "%", None, "Kernel time for which the name does not tell.", "100 · Σ duration / kernel_time_ns", "names in catalogue/kernels.toml";
    "occupancy_pct", "%", HIGHER, "Estimated achieved occupancy, weighted by time over kernels that state it.", "Σ occupancy · duration / Σ duration", "PyTorch profiler TensorBoard plugin, gpu_utilization.md";
    "sm_efficiency_pct", "%", HIGHER, "Share of multiprocessors with a block, weighted by time over kernels that state it.", "Σ 100 · min(blocks / multiprocessors, 1) · duration / Σ duration", "PyTorch profiler TensorBoard plugin, gpu_utilization.md";
    "concurrency_mean", "count", None, "Kernels and copies that ran concurrently, averaged over the time in which anything ran.", "Σ duration / busy_ns", "ours";
    "two_or_more_ns", "ns", None, "Time in which two or more kernels or copies ran concurrently.", "|{t : two or more kernels or copies hold t}|", "ours";
    "copy_count", "count", None, "Copies of one direction and kinds of memory (part).", "count", "ours";
    "copy_time_ns", "ns", LOWER, "Sum of the durations of those copies.", "Σ duration", "ours";
    "copy_bytes", "bytes", None, "Bytes of those copies that state them.", "Σ bytes", "ours";
    "copy_bytes_per_s", "bytes/s", HIGHER, "Their rate while copying.", "Σ bytes / Σ duration, over those that state bytes", "ours";
    "launch_calls", "count", None, "Calls that launch kernels or graphs.", "count of calls by name", "names in catalogue/kernels.toml";
    "launch_call_ns", "ns", LOWER, "Time in those calls.", "Σ duration", "ours";
    "synchronisation_calls", "count", LOWER, "Calls that wait for the device.", "count of *Synchronize", "CUDA runtime API";
    "synchronisation_call_ns", "ns", None, "Time in those calls; the device may be busy meanwhile.", "Σ duration", "ours";
    "loader_wait_ns", "ns", LOWER, "Time under data loaders' ranges.", "|U(enumerate(DataLoader)#…)|", "PyTorch profiler TensorBoard plugin, data.py";
    "loader_wait_pct", "%", LOWER, "Data loading of the steps' time.", "100 · |U(loader) & U(steps)| / |U(steps)|", "PyTorch profiler TensorBoard plugin, data.py";
    "steps", "count", None, "Steps.", "ProfilerStep#n ranges, else ranges that users name; steps within steps are left out", "torch/profiler/profiler.py";
    "sequence_kernels", "count", None, "Kernels of the sequence that the busiest stream repeats.", "the shortest distance at which the same kernels stand about as surely as at any other, among those at which runs of 6 kernels recur most; where what it misses recurs at a longer one, that one, and so on outwards", "ours";
    "sequence_count", "count", None, "How often that sequence ran.", "count(its most regular run of 6 kernels)", "ours";
    "sequence_covered_pct", "%", None, "Kernels of that stream that lie in repeats of about that length.", "100 · kernels of repeats that are at most 5 % and two kernels longer or shorter / kernels of the stream", "ours";
    "sequence_median_ns", "ns", LOWER, "Median time from one repeat to the next: of a step, where nothing marks steps.", "median(start of the next repeat − start)", "ours";
    "step_median_ns", "ns", LOWER, "Median duration of a step.", "median(end − start) on the host", "ours";
    "step_spread", "ratio", LOWER, "Interquartile range of steps over their median.", "(q75 − q25) / median, linear interpolation, from 4 steps on", "ours";
    "step_outliers", "count", LOWER, "Steps much longer than the others.", "count(duration > q75 + max(1.5 · (q75 − q25), 0.05 · q75))", "Tukey, Exploratory Data Analysis, 1977";
    "flops_counted_pct", "%", None, "Kernel time, without communication, of operators whose work is counted.", "100 · Σ duration of their kernels / Σ duration of kernels that compute", "ours";
    "flops_covered_pct", "%", None, "Of the kernel time that could have countable work, that of operators whose work is counted.", "100 · Σ duration of their kernels / Σ duration of kernels that matrix units could serve", "ours";
    "utilisation_at_least_pct", "%", HIGHER, "What utilisation is at least: the counted work alone.", "100 · Σ FLOPs / dense peak of the precision / (span × devices)", "FLOPs after torch/utils/flop_counter.py";
    "hfu_pct", "%", HIGHER, "Hardware FLOPs utilisation, where 90 % or more of the kernel time that could have countable work is counted.", "100 · Σ FLOPs / dense peak of the precision / (span × devices)", "FLOPs after torch/utils/flop_counter.py; definition: Korthikanti et al., arXiv:2205.05198";
    "mfu_pct", "%", HIGHER, "Model FLOPs utilisation: the same where nothing is recomputed.", "hfu_pct, if no activation checkpointing is seen", "Chowdhery et al., arXiv:2204.02311";
    "memory_peak_bytes", "bytes", LOWER, "The most bytes in tensors, by the allocator's events.", "max(total allocated)", "[memory] events of the PyTorch profiler";
    "memory_mean_bytes", "bytes", None, "Bytes in tensors, averaged over time.", "∫ allocated dt / length", "ours";
    "memory_reserved_peak_bytes", "bytes", LOWER, "The most bytes that the allocator took from the driver.", "max(total reserved)", "[memory] events of the PyTorch profiler";
    "memory_slack_bytes", "bytes", LOWER, "Bytes that were reserved and in no tensor when tensors were at their peak.", "reserved − allocated at the peak", "PyTorch notes on memory management";
    "collective_time_ns", "ns", LOWER, "Time of collectives of one kind (part).", "Σ duration", "ours";
    "collective_bus_bytes_per_s", "bytes/s", HIGHER, "Bus bandwidth of collectives of one kind (part), waiting for other ranks included.", "Σ bytes / Σ duration · (n−1)/n, twice that for all-reduce", "nccl-tests doc/PERFORMANCE.md";
    "straggler_last_count", "count", LOWER, "Collectives in which a rank came last.", "the rank with the shortest kernel of a collective came last; nobody where two are equally short", "clocks of hosts do not compare; durations do";
    "straggler_caused_ns", "ns", LOWER, "What other ranks waited for it.", "Σ (longest − shortest kernel − the profiler's overhead on it before) over collectives in which it came last", "ours";
    "straggler_waited_ns", "ns", LOWER, "What a rank waited for others.", "Σ (own − shortest kernel) over its collectives", "ours";
    "critical_path_ns", "ns", LOWER, "Time of the critical path that went into one cause (part).", "walk back from the last end through whatever ended last before", "ours";
    "allocator_reserved_bytes", "bytes", LOWER, "Memory that the framework's allocator took from the driver, at the end of a snapshot.", "Σ total_size of segments", "torch.cuda.memory_reserved";
    "allocator_allocated_bytes", "bytes", LOWER, "Memory in blocks that are in use, at the end of a snapshot.", "Σ allocated_size of segments", "torch.cuda.memory_allocated";
    "allocator_rounding_bytes", "bytes", LOWER, "Memory lost to rounding requests up to blocks: internal fragmentation.", "Σ allocated_size − Σ requested_size", "PyTorch CUDA memory notes";
    "allocator_free_bytes", "bytes", LOWER, "Memory in free blocks of the allocator, at the end of a snapshot.", "Σ size of inactive blocks", "PyTorch CUDA memory notes";
    "allocator_largest_free_bytes", "bytes", HIGHER, "The largest free block.", "max size of inactive blocks", "ours";
    "allocator_fragmentation_pct", "%", LOWER, "Free memory that one request could not have: external fragmentation.", "100 · (1 − allocator_largest_free_bytes / allocator_free_bytes)", "the usual measure of external fragmentation";
    "allocator_peak_bytes", "bytes", LOWER, "Most that was in use over the recorded history.", "max over events of the live total, walked back from the total at the end, for the history is a ring", "ours";
    "allocator_slack_at_peak_bytes", "bytes", LOWER, "Taken from the driver and not in use at the peak.", "reserved − live, both walked back to the peak", "ours";
    "allocator_peak_reserved_bytes", "bytes", LOWER, "Most that was taken from the driver over the recorded history.", "max over events of the reserved total, walked back", "ours";
    "allocator_mean_bytes", "bytes", None, "In use on average over the recorded history.", "Σ live · time to the next event / Σ time", "ours";
    "allocator_oom_count", "count", LOWER, "Requests that found no memory.", "events of action oom", "torch.cuda.memory._dump_snapshot";
    "category_peak_bytes", "bytes", LOWER, "Most that was live, and at that time by what it is used for (part).", "max over events of Σ bytes", "torch.profiler export_memory_timeline, raw form";
    "counted_launches", "count", None, "Launches of kernels that were counted.", "rows or groups of rows by launch", "Nsight Compute";
    "counted_compute_pct", "%", HIGHER, "Throughput of the multiprocessors against their peak, over counted launches.", "Σ sm__throughput · duration / Σ duration", "Nsight Compute, section SpeedOfLight";
    "counted_memory_pct", "%", None, "Throughput of the busiest part of caches and memory against its peak, over counted launches.", "Σ gpu__compute_memory_throughput · duration / Σ duration", "Nsight Compute, section SpeedOfLight";
    "counted_dram_pct", "%", None, "Throughput of device memory against its peak, over counted launches.", "Σ gpu__dram_throughput · duration / Σ duration", "Nsight Compute, section SpeedOfLight";
    "counted_occupancy_pct", "%", HIGHER, "Achieved occupancy over counted launches.", "Σ sm__warps_active · duration / Σ duration", "Nsight Compute, section Occupancy";
    "gpu_copy_bytes_per_s", "bytes/s", HIGHER, "What one way of copying (part) moves, timed on purpose.", "bytes read and written, or over the link / median time", "CUDA events, `gpuwise profile gpu`";
    "gpu_launch_ns", "ns", LOWER, "An empty kernel, one behind the other or waited for (part), timed on purpose.", "median time / launches", "CUDA events, `gpuwise profile gpu`";
    "gpu_matmul_ns", "ns", LOWER, "One matrix product (part), timed on purpose.", "median time / products", "CUDA events, `gpuwise profile gpu`";
    "gpu_matmul_flops_per_s", "FLOP/s", HIGHER, "Its rate.", "2 · m · n · k / gpu_matmul_ns", "CUDA events, `gpuwise profile gpu`";
}

pub fn definition(name: &str) -> Option<&'static FigureDefinition> {
    FIGURES.iter().find(|figure| figure.name == name)
}

/// The reference page of figures, as Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "# Figures\n\nEvery figure that `gpuwise profile` gives, by its name in JSON and in the database. \
         Written from the code's table; not edited by hand.\n\n",
    );
    page += UNION;
    page += ". Times are integer nanoseconds.\n\n| figure | unit | meaning | formula | source |\n|---|---|---|---|---|\n";
    for figure in FIGURES {
        let cell = |text: &str| text.replace('|', "\\|");
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} |",
            figure.name,
            figure.unit,
            cell(figure.meaning),
            cell(figure.formula),
            cell(figure.source)
        );
    }
    page
}

//! Every finding from traces: what must be seen, what to do, how the gain is bounded, and whence.

use gpuwise_domain::profile::finding::FindingDefinition;

macro_rules! definitions {
    ($($class:literal, $title:literal, $signal:literal, $advice:literal, $gain:literal, $source:literal;)*) => {
        &[$(FindingDefinition {
            class: $class, title: $title, signal: $signal, advice: $advice, gain: $gain, source: $source,
        }),*]
    };
}

/// All of them. Names in back quotes are thresholds of `catalogue/findings.toml`.
pub const DEFINITIONS: &[FindingDefinition] = definitions! {
    "data_loading", "data loading",
    "Idle time of the device under a data loader's range (`enumerate(DataLoader)#…`) is `loader_share` of the span or more.",
    "More workers, prefetching, pinned memory, cached or cheaper decoding.",
    "high: that idle time; low: `certain_loader` of it, since workers take cores from the launching thread.",
    "pytorch/kineto tb_plugin data.py; TensorFlow profiler guide";
    "host_bound", "host bound",
    "Idle time in which the host ran the framework before the next launch, with no other cause, is `host_bound_share` or more.",
    "CUDA graphs, torch.compile, larger batches, less Python between launches; a faster core for the launching thread.",
    "high: that idle time; low: `certain_host` of it.",
    "AMD-AGI/TraceLens cpu_idle_analysis; PyTorch performance tuning guide";
    "small_kernels", "small kernels",
    "Waiting before kernels shorter than `small_kernel_ns` whose launches follow one another within `launch_pace_ns` is `small_kernels_share` or more: the host launches as fast as it can, and there are too many launches.",
    "Fuse them (torch.compile, foreach optimizers, fused kernels) or replay them as a CUDA graph.",
    "high: that waiting; low: `certain_host` of it.",
    "AMD-AGI/TraceLens short-kernel analysis";
    "first_use", "first use",
    "Idle time in calls that launch or allocate and last `first_use_call_ns` or longer (modules are loaded, libraries initialised, algorithms tried) is `first_use_share` or more.",
    "Warm up before measuring; load modules eagerly (CUDA_MODULE_LOADING=EAGER); keep allocations (no cudaFree in the loop); cache compiled kernels. It is paid once.",
    "high: that idle time; low: `certain_host` of it. A long run pays it once.",
    "NVIDIA CUDA programming guide, lazy loading";
    "synchronisation", "synchronisation",
    "Idle time within calls that wait for the device, and idle time after them up to what they had held the host back while the device was busy, is `synchronisation_share` or more.",
    "Take `.item()`, `.cpu()`, printing and cudaDeviceSynchronize out of the loop, or do them every n steps; copy without blocking from pinned memory.",
    "high: that idle time; low: `certain_host` of it.",
    "Nsight Systems expert system, synchronisation rules";
    "pageable_copies", "pageable copies",
    "Copies from or to pageable host memory under which nothing was computed, and idle time that their blocking calls cause, are `pageable_share` or more.",
    "Pinned memory (pin_memory=True), non_blocking=True, and a stream of their own.",
    "high: all of it; low: what is over the time at `pinned_bytes_per_s`.",
    "Nsight Systems expert system, cudaMemcpyAsync with pageable memory";
    "pcie", "copies over PCIe",
    "Copies between host and device from pinned memory under which nothing was computed are `pcie_share` or more.",
    "Keep the data on the device, copy less or earlier on a stream of its own; below the link's rate: check slot, link width under load and NUMA node.",
    "high: the exposed time; low: what is over the time at `pinned_bytes_per_s`.",
    "DCGM documentation of PCIe fields; PCI Express 3.0";
    "communication", "communication",
    "Communication under which nothing was computed, without the wait for a straggler, is `communication_share` or more.",
    "Overlap it (buckets, prefetch), fewer bytes (compression, accumulation), placement within NVLink, other parallel sizes.",
    "high: the exposed time; low: `certain_kernel` of it.",
    "pytorch/kineto tb_plugin data.py; facebookresearch/HolisticTraceAnalysis comm-comp overlap";
    "straggler", "straggler",
    "One rank came last to `straggler_last_share` of the collectives or more (its kernel is the shortest: the others' had waited), or caused most of the lateness, which is `straggler_share` of the span or more.",
    "Look at that rank alone: its share of the data, its GPU's clock and link, its loader, its host.",
    "high: the longest wait of each collective to which it came last; low: `certain_host` of it.",
    "facebookresearch/HolisticTraceAnalysis straggler analysis; Meta, Zoomer (2025)";
    "throttled_clock", "throttled clock",
    "The same kernels (name, grid, block) took `throttle_ratio` longer or more (`throttle_ratio_doubtful` beside communication or without stated shapes) in a part of the trace than in its fastest part, and `throttle_breadth` of the part's kernel time did; the loss is `throttle_share` or more.",
    "Look at clocks, power cap, temperature and at who shares the GPU in that time.",
    "high: time beyond that of the fastest part; low: `certain_kernel` of it.",
    "NVML clock event reasons; Meta, Zoomer (2025)";
    "tensor_cores_unused", "tensor cores unused",
    "Matrix products, convolutions or attention on operands of 16 bits or fewer ran kernels that do not use tensor cores, for `tensor_cores_share` of the span or more, on a GPU that has them.",
    "Dimensions in multiples of 8 (16 for 8-bit types), channels-last, a current cuBLAS or cuDNN.",
    "high: 7/8 of the time (a dense peak 8 times that of FP32 units); low: `certain_kernel` of that.",
    "pytorch/kineto tb_plugin tensor_core.py; NVIDIA data sheets of V100, A100, H100";
    "wrong_precision", "FP32 where less suffices",
    "Matrix products, convolutions or attention ran in FP32 on units other than tensor cores for `tensor_cores_share` of the span or more, on a GPU that has them.",
    "TF32 (torch.backends.cuda.matmul.allow_tf32) on Ampere and later, or BF16 and FP16 by autocast, where accuracy allows.",
    "high: 7/8 of the time; low: `certain_kernel` of that.",
    "PyTorch documentation, CUDA semantics, TF32; NVIDIA data sheets of V100, A100, H100";
    "low_occupancy", "multiprocessors empty",
    "Kernels of `small_kernel_ns` or longer with fewer than `occupancy_blocks` blocks a multiprocessor lose `occupancy_share` of the span or more.",
    "Larger batches or tiles split over more blocks (split-K, stream-K), several streams; or a smaller GPU or slice.",
    "high: their time × (1 − blocks a multiprocessor); low: `certain_kernel` of it.",
    "pytorch/kineto tb_plugin docs/gpu_utilization.md, SM efficiency";
    "idle", "host at rest",
    "Idle time in which the host ran no operator and no call for `rest_ns` or longer, and for 20 times its usual rest, is `idle_share` or more.",
    "Look what Python did there: evaluation, logging, checkpoints, waiting for input; lend the GPU if it is by design.",
    "high: that idle time; low: `certain_host` of it.",
    "-";
    "memory_capacity", "memory nearly full",
    "Memory that the allocator took from the driver is `memory_full` of the device or more.",
    "Activation checkpointing, sharding, a smaller batch, or a tier with more memory.",
    "bytes above `memory_full` of the device.",
    "pytorch/kineto tb_plugin memory view";
    "fragmentation", "allocator fragmentation",
    "Of the reserved bytes `fragmentation_slack` or more lie in no tensor at the peak, on a device of which `fragmentation_pressure` or more is reserved.",
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, fixed shapes, fewer allocations of odd sizes.",
    "high: those bytes; low: half of them.",
    "PyTorch documentation, CUDA semantics, memory management";
    "compute_bound", "compute bound",
    "Counted floating-point work reaches `compute_bound_hfu` of the dense peak over the span.",
    "Fewer operations or a lower precision; a tier with more FLOPS.",
    "cannot be told from a trace.",
    "Chowdhery et al., PaLM (2022), for what utilisation well-tuned training reaches";
};

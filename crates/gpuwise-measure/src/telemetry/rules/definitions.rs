//! What each finding of telemetry is; the reference page is written from this table.

use gpuwise_domain::profile::finding::FindingDefinition;

macro_rules! definitions {
    ($($class:literal, $title:literal, $signal:literal, $advice:literal, $gain:literal, $source:literal;)*) => {
        /// Every finding that telemetry can carry. Thresholds in brackets are rows of
        /// `catalogue/telemetry.toml`.
        pub const DEFINITIONS: &[FindingDefinition] = &[$(FindingDefinition {
            class: $class,
            title: $title,
            signal: $signal,
            advice: $advice,
            gain: $gain,
            source: $source,
        },)*];
    };
}

definitions! {
    "hardware_fault", "hardware fault", "the last XID is one of the device or of a link", "drain, reset, replace, by code", "safety", "NVIDIA XID errors guide";
    "application_fault", "application fault", "the last XID is one of the program", "compute-sanitizer", "safety", "NVIDIA XID errors guide";
    "uncorrectable_memory_errors", "uncorrectable memory errors", "ecc_uncorrected (field 311) > 0", "drain and reset", "safety", "DCGM field 311; NVIDIA memory error management guide";
    "memory_repair_pending", "memory repair pending", "row remapping failed or pending (395, 396), page retirement pending (392)", "reset when the job has ended; replace on failure", "safety", "NVIDIA memory error management guide";
    "thermal_throttling", "thermal throttling", "clock reasons 0x08, 0x20, 0x40 (field 112) in, or field 241 grows by, at least [throttle_share] of the time under load", "cooling; compare with neighbours", "1 − clock / highest clock, at most the share of time", "DCGM fields 112, 241; NVML clock event reasons";
    "power_throttling", "power throttling", "clock reasons 0x04, 0x80 (field 112) in, or field 240 grows by, at least [throttle_share] of the time under load", "power limit, power supply, precision, tier", "1 − clock / highest clock, at most the share of time", "DCGM fields 112, 240; NVML clock event reasons";
    "pcie_link", "PCIe link below its best", "width (238) or generation (237) below the highest (236, 235) under load", "reseat; check slot and riser", "cannot be told without a trace", "DCGM fields 235 to 238; links slow down on idle GPUs";
    "pcie_bound", "PCIe bound", "copies in one direction (1009, 1010) fill at least [pcie_share] of the link", "keep data on the device, overlap", "cannot be told without a trace", "DCGM guide, profiling metrics; PCI Express Base";
    "dram_bound", "memory bandwidth bound", "mean of dram_active (1005) at least [dram_bound]", "fuse, lower precision, tier by bandwidth", "cannot be told without a trace", "DCGM guide, profiling metrics";
    "compute_bound", "compute bound", "mean of tensor_active (1004) at least [tensor_bound]", "precision, tier by FLOPS", "cannot be told without a trace", "DCGM guide, profiling metrics";
    "idle_gpu", "idle GPU", "95th percentile of use (1001, else 1002, else 203) below [idle_engine] for [idle_seconds] while a holder, a process or memory is there", "lend, scale to 0", "the GPU", "DCGM guide, profiling metrics";
    "over_provisioned", "over-provisioned", "somebody holds it, and a slice of it or a GPU that is watched would bear what was needed and cost less, as `gpuwise audit` decides it: [memory_headroom] × peak memory, 95th percentiles of compute (1002, else 1001, else 203) within [compute_target] and of memory bandwidth within [bandwidth_target]; not said of serving engines, nor of a holder of several GPUs", "that slice or GPU, share", "1 − its cost by that of what is held", "catalogue/audit.toml";
    "mig_candidate", "slice candidate", "what suffices (over-provisioned) is a MIG profile of the same board", "ask for the slice", "1 − the slice's share of the board", "NVIDIA MIG user guide; catalogue/mig_profiles.csv";
    "busy_low_occupancy", "busy with low occupancy", "mean of gpu_util (203) above [busy_low_util], sm_active (1002) below [low_sm] or sm_occupancy (1003) below [low_occupancy]", "batch, streams, MPS", "1 − sm_active; unknown from occupancy", "DCGM guide, profiling metrics";
    "numa_mismatch", "NUMA mismatch", "processors a process may use lie outside the GPU's in `topo -m`", "bind with numactl", "cannot be told; measure", "mlcommons/inference_results_v5.1 performance tuning guides";
    "queueing", "queueing", "requests wait in at least [queue_share] of samples, [queue_waiting] on average; or [queue_seconds] a request", "batch limits, cache memory, replicas", "cannot be told without the SLO", "our default";
    "preemption", "preemption", "preemptions over ended requests at least [preempted_share]", "cache memory, fewer sequences", "preempted / (preempted + ended)", "vLLM docs, optimization and tuning";
    "cache_thrash", "cache thrash", "prefix hit rate fell by at least [thrash_fall] within the window while blocks were evicted, or the cache is fuller than [thrash_cache_full]", "routing by prefix, cache memory", "the fall of the hit rate", "our default";
    "padding", "padding", "empty slots of a static batch at least [padding_share]", "in-flight batching", "the share of empty slots", "triton-inference-server/tensorrtllm_backend README";
    "uneven_replicas", "uneven replicas", "the fullest replica has [uneven_spread] more than the mean of at least [uneven_least] requests", "routing by queue length", "1 − mean / fullest", "our default";
}

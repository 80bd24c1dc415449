//! Findings in words.

use super::ledger::Cause;

/// A time with its unit.
pub(super) fn time(ns: f64) -> String {
    if ns >= 1e9 {
        format!("{:.2} s", ns / 1e9)
    } else if ns >= 1e6 {
        format!("{:.1} ms", ns / 1e6)
    } else {
        format!("{:.1} µs", ns / 1e3)
    }
}

/// A share in percent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A name, not longer than a line.
pub(super) fn short(name: &str) -> String {
    const LONGEST: usize = 64;
    if name.chars().count() <= LONGEST {
        return format!("`{name}`");
    }
    let begin: String = name.chars().take(LONGEST).collect();
    format!("`{begin}…`")
}

/// What happened, in a sentence; `share` and `lost` are those of the span.
pub(super) fn statement(cause: Cause, share: &str, lost: &str, count: u64, first: &str) -> String {
    match cause {
        Cause::Loader => {
            format!("The GPU stood idle {share} of the time ({lost}) while {first} fetched data")
        }
        Cause::Synchronisation => format!(
            "The GPU stood idle {share} of the time ({lost}) because the host waited for it, mostly in {first}, and had to start anew"
        ),
        Cause::Pageable => format!(
            "Copies of pageable host memory took {share} of the time ({lost}), with nothing computed beside them"
        ),
        Cause::Pcie => format!(
            "Copies between host and GPU took {share} of the time ({lost}), with nothing computed beside them"
        ),
        Cause::Rest => format!(
            "The GPU stood idle {share} of the time ({lost}) in {count} rests of the host, which ran no operator; the longest before {first}"
        ),
        Cause::FirstUse => format!(
            "The GPU stood idle {share} of the time ({lost}) in long calls such as {first}, which load or allocate on first use"
        ),
        Cause::SmallKernels => format!(
            "The GPU waited {share} of the time ({lost}) between small kernels launched as fast as the host can, most of them from {first}"
        ),
        Cause::Host => format!(
            "The GPU stood idle {share} of the time ({lost}) in {count} gaps until the host launched the next work, most of it before {first}"
        ),
        Cause::Communication => format!(
            "Communication that nothing hides took {share} of the time ({lost}), most of it {first}"
        ),
        Cause::Throttled => format!(
            "The same kernels ran slower in part of the trace: {share} of the time ({lost}) was lost to it"
        ),
        Cause::Occupancy => format!(
            "Kernels that leave most multiprocessors empty lost {share} of the time ({lost}), most of it {first}"
        ),
        Cause::TensorCores => format!(
            "Kernels such as {first} do not use tensor cores, though their operands fit: up to {share} of the time ({lost}) could go"
        ),
        Cause::Precision => format!(
            "Kernels such as {first} compute in FP32 without tensor cores: up to {share} of the time ({lost}) could go"
        ),
    }
}

/// What to do, for this very case.
pub(super) fn advice(cause: Cause, names: &[(String, i64)]) -> Vec<String> {
    let first = names.first().map_or("", |(name, _)| name.as_str());
    let listed: Vec<String> = names.iter().take(3).map(|(one, _)| short(one)).collect();
    let listed = listed.join(", ");
    match cause {
        Cause::Loader if first.contains("SingleProcess") => vec![
            "The loader works in the training process itself: give it workers (`DataLoader(num_workers=4, pin_memory=True)`).".into(),
            "Then raise `prefetch_factor`, or make decoding cheaper, until its range is near zero.".into(),
        ],
        Cause::Loader => vec![
            "The loader has workers, and they do not keep up: more of them, a larger `prefetch_factor`, `persistent_workers=True`, or cheaper decoding.".into(),
        ],
        Cause::Synchronisation => vec![
            format!("Calls that waited: {listed}. Take `.item()`, `.cpu()`, `print` of tensors and explicit synchronisation out of the loop, or do them every n steps."),
        ],
        Cause::Pageable => vec![
            "Pin the host memory (`pin_memory=True` of the loader, `tensor.pin_memory()`), and copy with `non_blocking=True`.".into(),
        ],
        Cause::Pcie => vec![
            "Keep the data on the GPU, or copy ahead of time on a stream of its own; if the rate is below the link's, check slot, link width under load and NUMA node.".into(),
        ],
        Cause::Rest => vec![
            "See what Python did in these places: evaluation, logging, checkpoints, input. Profile with `with_stack=True` to have its names.".into(),
        ],
        Cause::FirstUse => vec![
            format!("Longest: {listed}. Warm up before the loop, set `CUDA_MODULE_LOADING=EAGER`, keep allocations; a long run pays this once."),
        ],
        Cause::SmallKernels => vec![
            format!("Fuse them (`torch.compile`, fused or `foreach` optimizers) or replay them as a CUDA graph; first {listed}."),
        ],
        Cause::Host => vec![
            format!("Launch in advance or all at once: CUDA graphs, `torch.compile(mode=\"reduce-overhead\")`, larger batches. Most of the waiting is before {listed}."),
        ],
        Cause::Communication => vec![
            format!("Hide or shrink {listed}: overlap with the backward pass (bucket size), fewer or smaller messages, ranks of a group within one NVLink domain."),
        ],
        Cause::Throttled => vec![
            "Look at clock, power cap and temperature of that time (`nvidia-smi -q -d CLOCK,PERFORMANCE`), and at who shares the GPU.".into(),
        ],
        Cause::Occupancy => vec![
            format!("Give {listed} more blocks: a larger batch, split-K, several streams; else a smaller GPU or slice does as well."),
        ],
        Cause::TensorCores => vec![
            format!("For {listed}: dimensions in multiples of 8, channels-last, a current cuBLAS or cuDNN."),
        ],
        Cause::Precision => vec![
            format!("For {listed}: `torch.autocast` with BF16 or FP16, or TF32 where the GPU has it (`torch.backends.cuda.matmul.allow_tf32 = True`, `cudnn.allow_tf32`)."),
        ],
    }
}

//! What a part of a GPU takes on GPUs of another size.
//!
//! Half of an A100's memory is not half of its speed, nor half of an L4's: memory is asked in MiB and
//! stays the same on every GPU; time is asked in thousandths of a reference GPU and is converted by the
//! slower of compute and memory bandwidth. What each way of sharing keeps apart is data
//! ([`SharingMeans`](gpuwise_domain::placement::SharingMeans)). One GPU is shared in one way at a time,
//! and a cut one by its instances only: the world refuses anything else.

use gpuwise_domain::placement::GpuKind;

/// Thousandths of this kind's time that do what so many thousandths of the reference do: by compute or
/// by memory bandwidth, whichever takes more. `None`: the kinds' figures are not known, or it is more
/// than a GPU.
pub fn on_kind(milli: u32, reference: &GpuKind, kind: &GpuKind) -> Option<u32> {
    let by = |has: Option<u32>, referred: Option<u32>| {
        let has = u64::from(has.filter(|has| *has > 0)?);
        Some((u64::from(milli) * u64::from(referred?)).div_ceil(has))
    };
    let compute = by(kind.tflops, reference.tflops)?;
    let bandwidth = by(kind.bandwidth_gbs, reference.bandwidth_gbs)?;
    u32::try_from(compute.max(bandwidth))
        .ok()
        .filter(|milli| *milli <= 1000)
}

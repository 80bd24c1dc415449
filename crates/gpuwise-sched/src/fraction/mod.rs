//! What a part of a GPU takes under each way of sharing, and on GPUs of another size.
//!
//! Half of an A100's memory is not half of its speed, nor half of an L4's: memory is asked in MiB and
//! stays the same on every GPU; time is asked in thousandths of a reference GPU and is converted by the
//! slower of compute and memory bandwidth. What each way keeps apart is data
//! ([`SharingMeans`](gpuwise_domain::placement::SharingMeans)). One GPU is shared in one way at a time,
//! and a cut one by its instances only: the world refuses anything else.

use crate::mig;
use gpuwise_domain::placement::{
    GpuKind, Occupancy, SliceAsk, VgpuProfile, mps_milli, smallest_vgpu,
};

/// A part of a GPU, as it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Thousandths of the reference GPU's time.
    pub milli: u32,
    pub memory_mib: u32,
}

/// What a part takes of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Takes {
    /// Thousandths of the GPU's time that are kept for it; what is not kept apart is only counted.
    pub milli: u32,
    /// Memory in MiB that it has, which may be more than was asked.
    pub memory_mib: u32,
    /// How many like it the GPU holds.
    pub alike: u32,
    /// The setting or profile that gives it.
    pub setting: String,
}

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

/// Under time slices: nothing is kept for it. Both are counted, so that a GPU is not promised twice.
pub fn time_slice(kind: &GpuKind, part: Part) -> Option<Takes> {
    counted(kind, part, None, "replica".into())
}

/// Under MPS: a percentage of threads, rounded up, and a limit of memory. `clients`: how many a GPU
/// takes at most.
pub fn mps(kind: &GpuKind, part: Part, clients: Option<u32>) -> Option<Takes> {
    let milli = mps_milli(part.milli, None);
    let rounded = Part { milli, ..part };
    let percent = milli / 10;
    let setting = format!("{percent} % of threads, {} MiB", part.memory_mib);
    counted(kind, rounded, clients, setting)
}

/// As a vGPU: the smallest of the kind's types that has the memory and, in equal turns, the time.
pub fn vgpu(kind: &GpuKind, part: Part, profiles: &[VgpuProfile]) -> Option<Takes> {
    let profile = smallest_vgpu(profiles, &kind.name, part.memory_mib, part.milli)?;
    Some(Takes {
        milli: 1000 / profile.most.max(1),
        memory_mib: profile.frame_buffer_mib,
        alike: profile.most,
        setting: profile.profile.clone(),
    })
}

/// As a MIG instance: the profile that takes least of the board among those with the memory and the
/// share of multiprocessors.
pub fn mig_instance(kind: &GpuKind, part: Part) -> Option<Takes> {
    let geometry = kind.mig.as_ref()?;
    let units = u64::from(kind.units?);
    let ask = SliceAsk {
        memory_mib: part.memory_mib,
        units: (u64::from(part.milli) * units).div_ceil(1000) as u32,
        ..SliceAsk::default()
    };
    let shape = *mig::by_cost(geometry, &ask).first()?;
    let row = geometry.shape(shape)?;
    Some(Takes {
        milli: (u64::from(row.units?) * 1000 / units.max(1)) as u32,
        memory_mib: row.memory_mib?,
        alike: u32::from(mig::most(geometry, Occupancy::default(), shape)),
        setting: row.profile.clone(),
    })
}

fn counted(kind: &GpuKind, part: Part, most: Option<u32>, setting: String) -> Option<Takes> {
    let memory = kind.memory_mib?;
    if part.milli > 1000 || part.memory_mib > memory {
        return None;
    }
    let by_time = 1000 / part.milli.max(1);
    let by_memory = memory / part.memory_mib.max(1);
    Some(Takes {
        milli: part.milli,
        memory_mib: part.memory_mib,
        alike: by_time.min(by_memory).min(most.unwrap_or(u32::MAX)),
        setting,
    })
}

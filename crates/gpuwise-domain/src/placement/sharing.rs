//! Ways in which several workloads use one GPU: facts about each.

use alloc::{string::String, vec::Vec};

gpuwise_units::named! {
    /// How far something is kept apart.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
    pub enum IsolationLevel:
        name
    {
        None = "none",
        /// By the driver, the hypervisor or a library, where it is set.
        Software = "software",
        Hardware = "hardware",
    }
}

/// A way of sharing a GPU.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SharingMeans {
    /// The word of files: `time-slice`, `mps`, `vgpu`, `mig`.
    pub name: String,
    pub title: String,
    /// Whether one can take another's memory.
    pub memory: IsolationLevel,
    /// Whether one can take another's time.
    pub compute: IsolationLevel,
    /// Whether one's fault ends another.
    pub faults: IsolationLevel,
    /// How many share one GPU at most, where there is a limit of its own.
    pub most: Option<u32>,
    pub meaning: String,
    pub source: String,
}

/// A vGPU type of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct VgpuProfile {
    /// Catalogue names of the GPUs that have it.
    pub gpus: Vec<String>,
    /// Its name, such as `L40S-24C`.
    pub profile: String,
    pub frame_buffer_mib: u32,
    /// How many of it a GPU has where all are of one size.
    pub most: u32,
    /// How many of it a GPU has where sizes are mixed; `None`: they cannot be.
    pub most_mixed: Option<u32>,
    pub source: String,
}

/// The smallest of a GPU's vGPU types that has so much memory and, in equal turns, so many thousandths of
/// its time.
pub fn smallest_vgpu<'p>(
    profiles: &'p [VgpuProfile],
    gpu: &str,
    memory_mib: u32,
    milli: u32,
) -> Option<&'p VgpuProfile> {
    let own = profiles
        .iter()
        .filter(|profile| profile.gpus.iter().any(|name| name == gpu));
    let enough = own.filter(|profile| {
        profile.frame_buffer_mib >= memory_mib && 1000 / profile.most.max(1) >= milli
    });
    enough.min_by_key(|profile| profile.frame_buffer_mib)
}

/// Thousandths of a GPU's time that an MPS client takes: whole percents of its threads, and no less than
/// what leaves no room for more clients than a GPU has.
pub fn mps_milli(milli: u32, clients: Option<u32>) -> u32 {
    let least = clients.map_or(0, |most| 1000_u32.div_ceil(most.max(1)));
    (milli.div_ceil(10) * 10).max(least).min(1000)
}

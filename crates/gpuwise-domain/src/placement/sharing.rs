//! Ways in which several workloads use one GPU: facts about each.

use alloc::{string::String, vec::Vec};

/// How far something is kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Apart {
    /// It is not.
    None,
    /// By the driver, the hypervisor or a library, where it is set.
    Software,
    /// By the GPU.
    Hardware,
}

impl Apart {
    /// The word of files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Software => "software",
            Self::Hardware => "hardware",
        }
    }
}

/// A way of sharing a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharingMeans {
    /// The word of files: `time-slice`, `mps`, `vgpu`, `mig`.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// Whether one can take another's memory.
    pub memory: Apart,
    /// Whether one can take another's time.
    pub compute: Apart,
    /// Whether one's fault ends another.
    pub faults: Apart,
    /// How many share one GPU at most, where there is a limit of its own.
    pub most: Option<u32>,
    /// What it is.
    pub meaning: String,
    /// Where the row comes from.
    pub source: String,
}

/// A vGPU type of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VgpuProfile {
    /// Catalogue names of the GPUs that have it.
    pub gpus: Vec<String>,
    /// Its name, such as `L40S-24C`.
    pub profile: String,
    /// Frame buffer in MiB.
    pub frame_buffer_mib: u32,
    /// How many of it a GPU has where all are of one size.
    pub most: u32,
    /// How many of it a GPU has where sizes are mixed; `None`: they cannot be.
    pub most_mixed: Option<u32>,
    /// Where the row comes from.
    pub source: String,
}

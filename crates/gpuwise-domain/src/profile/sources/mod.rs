//! What files of profilers other than traces say of themselves: memory, planes, counters, exports.

mod counters;
mod hangs;
mod memory;
mod nsight;
mod planes;

pub use counters::{CountedFigures, CounterNote, CountersSource, Roofs};
pub use hangs::{Hang, HangSource, LateRank};
pub use memory::{
    AllocationSite, CategoryFigures, LivePoint, MemoryFigures, MemorySource, OutOfMemory,
    OwnedMemory, OwnedMoment, TraceFigures,
};
pub use nsight::{NsightDevice, NsightSource};
pub use planes::{LineSummary, PlaneFigures, PlaneStep, PlaneSummary, PlanesSource};

use alloc::{boxed::Box, string::String};

/// A file, and what it says beyond a timeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The file as the user named it.
    pub file: String,
    pub content: SourceContent,
}

/// What a file says beyond a timeline.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceContent {
    /// An SQLite export of Nsight Systems.
    Nsight(NsightSource),
    /// Planes of TensorFlow or JAX.
    Planes(PlanesSource),
    /// A snapshot of PyTorch's allocator.
    Memory(Box<MemorySource>),
    /// Memory by category over time.
    Categories(CategoryFigures),
    /// Counters of kernels of Nsight Compute.
    Counters(CountersSource),
    /// Dumps of flight recorders.
    Hangs(HangSource),
}

impl SourceContent {
    /// The kind of file, as in JSON.
    pub fn format(&self) -> &'static str {
        match self {
            Self::Nsight(_) => "nsight_systems",
            Self::Planes(_) => "xplane",
            Self::Memory(_) => "memory_snapshot",
            Self::Categories(_) => "memory_timeline",
            Self::Counters(_) => "nsight_compute",
            Self::Hangs(_) => "flight_recorder",
        }
    }

    /// The kind of file, for people.
    pub fn title(&self) -> &'static str {
        match self {
            Self::Nsight(_) => "export of Nsight Systems",
            Self::Planes(_) => "XPlane of TensorFlow or JAX",
            Self::Memory(_) => "memory snapshot of PyTorch",
            Self::Categories(_) => "memory timeline of PyTorch",
            Self::Counters(_) => "counters of Nsight Compute",
            Self::Hangs(_) => "NCCL flight recorder",
        }
    }
}

//! What is asked for.

use super::{JobId, KindId, Kinds, Level, NodeId, QueueId};
use alloc::{string::String, vec::Vec};
use gpuwise_units::Nanoseconds;

/// A job: one worker, or a gang of equal ones.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Job {
    pub id: JobId,
    pub name: String,
    pub tenant: String,
    /// In which queue; `None`: there are no queues.
    pub queue: Option<QueueId>,
    /// Higher goes first.
    pub priority: i32,
    pub submitted: Nanoseconds,
    pub worker: WorkerAsk,
    pub gang: Gang,
    pub topology: Option<TopologyWish>,
    pub spread: Option<Spread>,
    /// When it must have ended.
    pub deadline: Option<Nanoseconds>,
    /// Whether it may be stopped, and what that costs.
    pub preemption: Preemption,
    /// How long it may take to leave when it is told to.
    pub grace: Nanoseconds,
    /// How long it runs, at speed 1000, with its preferred number of workers.
    pub duration: Option<DurationEstimate>,
    /// Its speed on kinds of GPU in thousandths of the reference; kinds that are not named: 1000.
    pub speeds: Vec<(KindId, u32)>,
    pub near: Vec<NodeId>,
}

/// What one worker needs, all on one node.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct WorkerAsk {
    /// Processor time in thousandths of a core.
    pub cpu_milli: u64,
    pub memory_mib: u64,
    pub gpu: GpuAsk,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum GpuAsk {
    None,
    /// Whole GPUs, all of one kind.
    Whole {
        count: u32,
        kinds: Kinds,
        need: Need,
    },
    /// A part of one GPU, by time.
    Fraction {
        /// Thousandths of a GPU's time.
        milli: u32,
        /// Memory in MiB; `None`: nothing is said of it.
        memory_mib: Option<u32>,
        /// How it must be kept apart from others on the GPU.
        isolation: Isolation,
        kinds: Kinds,
    },
    Slice {
        slice: SliceAsk,
        kinds: Kinds,
    },
}

/// What a GPU must have at least; 0: nothing is asked.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Need {
    pub memory_mib: u32,
    /// Dense peak at 16 bits in TFLOP/s.
    pub tflops: u32,
    /// Memory bandwidth in GB/s.
    pub bandwidth_gbs: u32,
}

/// What a MIG instance must have at least.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct SliceAsk {
    pub memory_mib: u32,
    pub units: u32,
    /// Compute slices, as in a profile's name (`3g`): exactly so many; 0: any.
    pub compute: u8,
    /// Memory slices: exactly so many; 0: any.
    pub memory_slices: u8,
    /// Whether it needs the media engines.
    pub media: bool,
}

/// How parts of one GPU are kept apart. One GPU is shared in one way at a time.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum Isolation {
    /// Turns on the whole GPU: neither memory nor faults are kept apart.
    TimeSlice,
    /// CUDA MPS: shares of threads and limits of memory if set; one fault can end all.
    Mps,
    /// vGPU types: memory is kept apart, time by a scheduler of the host. Those of one GPU are of one size.
    Vgpu {
        /// Memory in MiB that each has.
        mib: u32,
    },
    /// Turns of two jobs that asked for the whole GPU and were measured side by side: nobody else is let on
    /// it. Each gets its part of the GPU's time times the gain of what it does alone.
    Pair {
        /// What both do together, in thousandths of what the GPU does for one alone.
        gain_milli: u32,
    },
}

impl Isolation {
    pub const fn name(self) -> &'static str {
        match self {
            Self::TimeSlice => "time-slice",
            Self::Mps => "mps",
            Self::Vgpu { .. } => "vgpu",
            Self::Pair { .. } => "pair",
        }
    }

    /// A number that no other way of sharing has.
    pub const fn code(self) -> u32 {
        match self {
            Self::TimeSlice => 0,
            Self::Mps => 1,
            // No GPU has 2 PiB.
            Self::Vgpu { mib } => mib.saturating_add(2) & (u32::MAX >> 1),
            Self::Pair { gain_milli } => gain_milli | 1 << 31,
        }
    }
}

/// Workers of a job: all of `least` start together or none does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Gang {
    /// Below this many it does not run.
    pub least: u32,
    /// How many it would like.
    pub preferred: u32,
    /// How many it can use.
    pub most: u32,
}

impl Gang {
    pub const fn exactly(count: u32) -> Self {
        Self {
            least: count,
            preferred: count,
            most: count,
        }
    }
}

/// How near workers of a job must or should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct TopologyWish {
    /// All GPUs within one of these.
    pub within: Level,
    /// Whether it does not run otherwise; else it runs slower by `penalty_milli`.
    pub required: bool,
    /// By how many thousandths it is slower outside.
    pub penalty_milli: u32,
}

/// How far workers must be apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Spread {
    pub over: Level,
    /// How many workers one of them may have.
    pub most: u32,
}

/// Whether a job may be stopped for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Preemption {
    Never,
    Allowed {
        /// Time between checkpoints: on average half of it is lost.
        checkpoint_every: Nanoseconds,
        /// From starting again until it goes on where it was.
        restart: Nanoseconds,
    },
}

/// A time that is not known for sure.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct DurationEstimate {
    pub expected: Nanoseconds,
    /// Standard deviation of its logarithm; 0: it is known.
    pub spread: f64,
}

impl GpuAsk {
    /// Thousandths of GPUs; an instance counts as its share of compute only once it is placed, here 0.
    pub const fn milli(self) -> u64 {
        match self {
            Self::None | Self::Slice { .. } => 0,
            Self::Whole { count, .. } => count as u64 * 1000,
            Self::Fraction { milli, .. } => milli as u64,
        }
    }

    pub const fn kinds(self) -> Kinds {
        match self {
            Self::None => Kinds::NONE,
            Self::Whole { kinds, .. }
            | Self::Fraction { kinds, .. }
            | Self::Slice { kinds, .. } => kinds,
        }
    }
}

impl Job {
    /// One worker from the beginning, of whom no more is known, and who is never stopped.
    pub const fn new(id: JobId, name: String, worker: WorkerAsk) -> Self {
        Self {
            id,
            name,
            tenant: String::new(),
            queue: None,
            priority: 0,
            submitted: Nanoseconds(0),
            worker,
            gang: Gang::exactly(1),
            topology: None,
            spread: None,
            deadline: None,
            preemption: Preemption::Never,
            grace: Nanoseconds(0),
            duration: None,
            speeds: Vec::new(),
            near: Vec::new(),
        }
    }

    /// Its speed on a kind in thousandths of the reference.
    pub fn speed(&self, kind: KindId) -> u32 {
        let found = self.speeds.iter().find(|(named, _)| *named == kind);
        found.map_or(1000, |(_, speed)| *speed)
    }
}

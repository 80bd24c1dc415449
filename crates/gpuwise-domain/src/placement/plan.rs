//! Plans: ordered actions that leave nothing to decide.

use super::{GpuId, Isolation, JobId, NodeId};
use alloc::vec::Vec;
use gpuwise_units::Nanoseconds;

/// A plan. It is never changed; it becomes the target only if its parent is the target.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Its number: one above its parent's.
    pub number: u64,
    /// The plan that it continues.
    pub parent: u64,
    /// When it was made.
    pub made: Nanoseconds,
    /// What is done, in this order.
    pub actions: Vec<Action>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// Starts a job.
    Place {
        /// Which.
        job: JobId,
        /// One seat for each worker.
        seats: Vec<Seat>,
    },
    /// Stops a job; it waits again, from its last checkpoint.
    Preempt {
        /// Which.
        job: JobId,
        /// For whom or what.
        cause: Cause,
    },
    /// Moves a job: it stops at its present seats and goes on at these.
    Move {
        /// Which.
        job: JobId,
        /// All its seats afterwards.
        seats: Vec<Seat>,
        /// For whom or what.
        cause: Cause,
    },
    /// Gives a running elastic job more or fewer workers.
    Resize {
        /// Which.
        job: JobId,
        /// All its seats afterwards.
        seats: Vec<Seat>,
    },
    /// Switches MIG on or off on an empty GPU.
    SetMig {
        /// Which.
        gpu: GpuId,
        /// On or off.
        on: bool,
    },
    /// Creates a MIG instance.
    Cut {
        /// On which GPU.
        gpu: GpuId,
        /// Which profile: its place in the kind's geometry.
        shape: u8,
        /// At which memory slice.
        start: u8,
    },
    /// Destroys an idle MIG instance.
    Merge {
        /// On which GPU.
        gpu: GpuId,
        /// At which memory slice it starts.
        start: u8,
    },
    /// Attaches a pooled GPU to a node.
    Attach {
        /// Which.
        gpu: GpuId,
        /// To which.
        node: NodeId,
    },
    /// Gives an idle pooled GPU back to its pool.
    Detach {
        /// Which.
        gpu: GpuId,
    },
    /// Takes the GPUs of an idle holder, who keeps its host memory and gets GPUs back on demand.
    Reclaim {
        /// Whose.
        job: JobId,
    },
    /// Gives GPUs back to a holder who was idle.
    Restore {
        /// Whose.
        job: JobId,
        /// One seat for each worker.
        seats: Vec<Seat>,
    },
}

/// Why somebody is disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// For this job.
    For(JobId),
    /// To have fewer pieces.
    Defragmentation,
    /// Its node or GPU is to be empty.
    Drain,
    /// A queue takes back what it lent.
    Reclaim,
    /// Its turn is over (rounds).
    Turn,
}

/// Where one worker runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Seat {
    /// On which node.
    pub node: NodeId,
    /// On which GPUs, in rank order.
    pub gpus: Vec<GpuShare>,
}

/// What a worker has of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GpuShare {
    /// Which.
    pub gpu: GpuId,
    /// What of it.
    pub part: Part,
}

/// What of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// All.
    Whole,
    /// A part by time.
    Fraction {
        /// Thousandths of its time.
        milli: u32,
        /// Memory in MiB; 0: nothing was said of it.
        memory_mib: u32,
        /// How it is kept apart.
        isolation: Isolation,
    },
    /// A MIG instance.
    Slice {
        /// Which profile: its place in the kind's geometry.
        shape: u8,
        /// The memory slice at which it starts.
        start: u8,
    },
}

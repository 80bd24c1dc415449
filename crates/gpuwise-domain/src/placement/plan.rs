//! Plans: ordered actions that leave nothing to decide.

use super::{GpuId, Isolation, JobId, NodeId};
use alloc::vec::Vec;
use gpuwise_units::Nanoseconds;

/// A plan. It is never changed; it becomes the target only if its parent is the target.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Plan {
    /// Its number: one above its parent's.
    pub number: u64,
    pub parent: u64,
    pub made: Nanoseconds,
    /// What is done, in this order.
    pub actions: Vec<Action>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Action {
    Place {
        job: JobId,
        assignments: Vec<Assignment>,
    },
    /// Stops a job; it waits again, from its last checkpoint.
    Preempt {
        job: JobId,
        /// For whom or what.
        cause: Cause,
    },
    /// Moves a job: it stops at its present assignments and goes on at these.
    Move {
        job: JobId,
        assignments: Vec<Assignment>,
        /// For whom or what.
        cause: Cause,
    },
    /// Gives a running elastic job more or fewer workers.
    Resize {
        job: JobId,
        assignments: Vec<Assignment>,
    },
    /// Switches MIG on or off on an empty GPU.
    SetMig {
        gpu: GpuId,
        on: bool,
    },
    CreateInstance {
        gpu: GpuId,
        /// Which profile: its place in the kind's geometry.
        shape: u8,
        /// At which memory slice.
        start: u8,
    },
    /// Destroys an idle MIG instance.
    DestroyInstance {
        gpu: GpuId,
        /// At which memory slice it starts.
        start: u8,
    },
    Attach {
        gpu: GpuId,
        node: NodeId,
    },
    /// Gives an idle pooled GPU back to its pool.
    Detach {
        gpu: GpuId,
    },
    /// Takes the GPUs of an idle holder, who keeps its host memory and gets GPUs back on demand.
    Reclaim {
        job: JobId,
    },
    /// Gives GPUs back to a holder who was idle.
    Restore {
        job: JobId,
        assignments: Vec<Assignment>,
    },
}

/// Why somebody is disrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Cause {
    For(JobId),
    /// To have fewer pieces.
    Defragmentation,
    /// Its node or GPU is to be empty.
    Drain,
    /// A queue reclaims what it lent.
    Reclaim,
    /// Its turn is over (rounds).
    RoundEnd,
    /// It lost workers and cannot run with those that are left.
    Lost,
    /// It is where nobody wanted it to be.
    Drift,
}

/// Where one worker runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Assignment {
    pub node: NodeId,
    /// On which GPUs, in rank order.
    pub gpus: Vec<GpuShare>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct GpuShare {
    pub gpu: GpuId,
    pub part: Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Part {
    Whole,
    Fraction {
        /// Thousandths of its time.
        milli: u32,
        /// Memory in MiB; 0: nothing was said of it.
        memory_mib: u32,
        isolation: Isolation,
    },
    Slice {
        /// Which profile: its place in the kind's geometry.
        shape: u8,
        /// The memory slice at which it starts.
        start: u8,
    },
}

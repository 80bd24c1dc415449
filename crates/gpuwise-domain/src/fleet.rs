//! Nodes of a fleet and what ran on them, as traces of clusters record it.

use alloc::{string::String, vec::Vec};
use gpuwise_units::Nanoseconds;

pub const WHOLE_GPU: u32 = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetNode {
    pub name: String,
    /// Processor time in thousandths of a core.
    pub cpu_milli: u64,
    pub memory_mib: u64,
    pub gpus: u32,
    /// What its GPUs are called; empty where it has none.
    pub model: String,
}

/// A task with what it asks for, all of it on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetTask {
    pub name: String,
    /// Processor time in thousandths of a core.
    pub cpu_milli: u64,
    pub memory_mib: u64,
    pub gpus: u32,
    /// Thousandths of each GPU; less than [`WHOLE_GPU`] only of a single one.
    pub gpu_milli: u32,
    /// Models of GPUs that will do; empty: any.
    pub models: Vec<String>,
    /// Seconds from the beginning of the trace until it came, where the trace says.
    pub arrival: Option<u64>,
    /// Seconds that it ran; `None`: it never did, or the trace does not say.
    pub duration: Option<u64>,
}

impl FleetTask {
    /// Thousandths of GPUs in all.
    pub const fn milli(&self) -> u64 {
        self.gpus as u64 * self.gpu_milli as u64
    }
}

/// A cluster of a trace of training jobs: a part of a fleet that its users have for themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualCluster {
    pub name: String,
    /// How many nodes it has, where the trace says.
    pub nodes: Option<u32>,
    /// What ran on it, as it came.
    pub jobs: Vec<TrainingJob>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainingJob {
    pub number: u32,
    /// When it came, from the cluster's first job on.
    pub submitted: Nanoseconds,
    /// GPUs that it needs all at once.
    pub gpus: u32,
    /// How long it ran on them.
    pub duration: Nanoseconds,
}

/// What ran on somebody's cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Past {
    /// As they were submitted.
    pub jobs: Vec<PastJob>,
    /// Jobs without GPUs, that never ran, or that had not ended.
    pub left_out: u64,
}

/// A job that ran and ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastJob {
    pub name: String,
    /// Account, virtual cluster or namespace.
    pub group: String,
    pub user: String,
    /// From the first job's submission on.
    pub submitted: Nanoseconds,
    pub started: Option<Nanoseconds>,
    pub duration: Nanoseconds,
    /// GPUs in all.
    pub gpus: u32,
    /// Of which type, as the record says it.
    pub gpu: Option<String>,
    /// On how many nodes; 0: the record does not say.
    pub nodes: u32,
    /// In all; 0: the record does not say.
    pub cpu_milli: u64,
    pub memory_mib: u64,
}

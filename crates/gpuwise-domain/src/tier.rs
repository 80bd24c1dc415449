//! Workloads as they were profiled on one tier, and rules that say which tier fits.

use crate::profile::matmul::{MatmulPrecision, MatmulShape};
use alloc::{string::String, vec::Vec};
use gpuwise_units::Bytes;

/// A workload as it was profiled. Times are wall seconds of one unit of its work (a step, a batch, a
/// request), per GPU; parts do not overlap and what they leave of the whole is the host's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Job {
    pub name: String,
    /// The GPU that it ran on, for looking up its figures; never a feature.
    pub gpu: String,
    /// How many of them it held.
    pub gpus: u32,
    pub precision: Option<MatmulPrecision>,
    /// Wall seconds of a unit of its work.
    pub seconds: f64,
    /// Of these, bound by computing.
    pub compute: Option<f64>,
    /// Bound by device memory.
    pub memory: Option<f64>,
    pub launch: Option<f64>,
    /// Communication that nothing hides.
    pub communication: Option<f64>,
    /// Copies between host and device that nothing hides.
    pub copies: Option<f64>,
    /// The host's own: loading, preparing, synchronising.
    pub host: Option<f64>,
    /// Floating-point operations of a unit of work, per GPU.
    pub operations: Option<f64>,
    /// Bytes of device memory moved in a unit of work, per GPU.
    pub bytes: Option<f64>,
    /// Matrix products of a unit of work, per GPU, each with how often it is computed.
    pub matmuls: Vec<(MatmulShape, f64)>,
    /// Kernels launched in a unit of work, per GPU.
    pub kernels: Option<f64>,
    pub peak_memory: Option<Bytes>,
    /// Share of the time in which multiprocessors were at work (95th percentile), 0 to 1.
    pub busy: Option<f64>,
    /// Seconds that a unit of work may take.
    pub slo: Option<f64>,
    /// Hours a month that it runs.
    pub hours: Option<f64>,
    /// What was measured of it on another tier: what is learned from.
    pub measured: Option<MeasuredTier>,
}

/// A workload's time on another tier.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredTier {
    pub gpu: String,
    pub gpus: u32,
    /// Wall seconds of the same unit of work.
    pub seconds: f64,
}

/// Rules in their order: the first that applies decides.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TierRules {
    pub rules: Vec<TierRule>,
    /// How well times carry over.
    pub scaling: Scaling,
}

/// How far a time that was scaled from one GPU to another may be off: bounds of actual/scaled between
/// which 80 % lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// Between GPUs of one generation.
    pub kin: (f64, f64),
    /// Between generations of one vendor.
    pub generations: (f64, f64),
    /// Share of a GPU's memory that may be filled.
    pub memory_headroom: f64,
}

impl Default for Scaling {
    fn default() -> Self {
        Self {
            kin: (1.0, 1.0),
            generations: (1.0, 1.0),
            memory_headroom: 1.0,
        }
    }
}

/// A rule: where all its conditions hold, its preference decides.
#[derive(Debug, Clone, PartialEq)]
pub struct TierRule {
    pub name: String,
    pub conditions: Vec<TierCondition>,
    /// What is preferred then.
    pub prefer: Preference,
    pub reason: String,
    pub source: String,
}

/// A figure of a workload held against a threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TierCondition {
    pub figure: JobFigure,
    /// Whether it must lie above the threshold; below otherwise.
    pub above: bool,
    pub threshold: f64,
}

gpuwise_units::named! {
    /// What a rule prefers among the tiers that fit.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Preference:
        /// Its name in files of rules.
        name
    {
        /// The least cost of a unit of work.
        Cheapest = "cheapest",
        /// The least cost of a unit of work among slices of a GPU; none where no slice fits.
        Slice = "slice",
        /// The lowest price an hour: time hardly depends on the GPU.
        LowestPrice = "lowest_price",
        /// The most memory bandwidth for the money.
        Bandwidth = "bandwidth",
        /// The highest peak for the money.
        Compute = "compute",
        FewestGpus = "fewest_gpus",
    }
}

gpuwise_units::named! {
    /// A figure of a workload that rules may ask for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum JobFigure:
        /// Its name in files of rules.
        name
    {
        /// Share of the time bound by computing.
        ComputeShare = "compute_share",
        /// Share bound by device memory.
        MemoryTimeShare = "memory_time_share",
        /// Share waiting for launches.
        LaunchShare = "launch_share",
        /// Share of exposed communication.
        CommunicationShare = "communication_share",
        /// Share of exposed copies.
        CopyShare = "copy_share",
        /// The host's share.
        HostShare = "host_share",
        /// Peak memory over the GPU's.
        MemoryUsed = "memory_used",
        /// Share of the time in which multiprocessors were at work.
        Busy = "busy",
        /// Time over what it may take.
        SloUsed = "slo_used",
        Gpus = "gpus",
    }
}

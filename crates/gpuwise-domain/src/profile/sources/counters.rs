//! Figures of counted kernels.

use crate::profile::kernel_counters::{Bound, KernelCounters};
use alloc::{collections::BTreeMap, string::String, vec::Vec};

/// Counters of a file, measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CountersSource {
    pub counters: KernelCounters,
    /// Figures of each launch, in the order of the launches.
    pub figures: Vec<CountedFigures>,
    pub roofs: Roofs,
}

/// Peaks of the device that the counters state.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Roofs {
    /// Bytes of device memory a second.
    pub memory: Option<f64>,
    /// FP32 operations a second, outside tensor cores.
    pub fp32: Option<f64>,
}

gpuwise_units::named! {
    /// What counters of caches say beside what limits a kernel.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum CounterNote:
        /// Its name, as in JSON.
        name
    {
        /// Accesses to shared memory wait for one another.
        BankConflicts = "bank_conflicts",
        /// The L2 cache has little of what is asked for: device memory gives it.
        LowL2Hits = "low_l2_hits",
    }
}

impl Roofs {
    /// Operations per byte at which both roofs meet.
    pub fn ridge(&self) -> Option<f64> {
        Some(self.fp32? / self.memory.filter(|rate| *rate > 0.0)?)
    }
}

/// Figures of one launch. What the file does not count is `None`; shares are in percent of peak.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CountedFigures {
    /// Time of the kernel, in nanoseconds, replayed and alone on the GPU.
    pub duration_ns: Option<f64>,
    /// Throughput of the multiprocessors.
    pub compute_percent: Option<f64>,
    /// Throughput of the busiest part of caches and memory.
    pub memory_percent: Option<f64>,
    /// Throughput of device memory.
    pub dram_percent: Option<f64>,
    /// Activity of tensor cores.
    pub tensor_percent: Option<f64>,
    pub occupancy_percent: Option<f64>,
    /// Occupancy that the launch allows.
    pub occupancy_limit_percent: Option<f64>,
    /// Waves of blocks over the multiprocessors.
    pub waves: Option<f64>,
    pub memory_bytes: Option<f64>,
    /// Operations by precision; empty where none are counted.
    pub operations: BTreeMap<String, f64>,
    /// Accesses that the L2 cache had.
    pub l2_hit_percent: Option<f64>,
    /// Conflicts of banks of shared memory, counted.
    pub bank_conflicts: Option<f64>,
    /// The side of the roofline: compute or memory; absent where a roof or the intensity is not known.
    pub side: Option<Bound>,
    /// What of the caches is worth a look.
    pub notes: Vec<CounterNote>,
    pub bound: Option<Bound>,
    /// Whether compute or memory is near its peak; absent where neither is counted.
    pub near_peak: Option<bool>,
    /// What would have to be counted to say what limits it, where that cannot be told.
    pub needed: Vec<String>,
}

impl CountedFigures {
    /// Operations of all precisions; absent where none are counted.
    pub fn total_operations(&self) -> Option<f64> {
        (!self.operations.is_empty()).then(|| self.operations.values().sum())
    }

    /// Position on the roofline's axis: operations per byte of device memory.
    pub fn arithmetic_intensity(&self) -> Option<f64> {
        let bytes = self.memory_bytes.filter(|bytes| *bytes > 0.0)?;
        Some(self.total_operations()? / bytes)
    }

    pub fn operations_per_second(&self) -> Option<f64> {
        let duration = self.duration_ns.filter(|duration| *duration > 0.0)?;
        Some(self.total_operations()? / (duration * 1e-9))
    }

    /// Bytes of device memory per second.
    pub fn bytes_per_second(&self) -> Option<f64> {
        let duration = self.duration_ns.filter(|duration| *duration > 0.0)?;
        Some(self.memory_bytes? / (duration * 1e-9))
    }
}

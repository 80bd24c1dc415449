//! Hardware counters of single kernels, as Nsight Compute exports them.
//!
//! Kernels are replayed and serialised to be counted: these files tell what a kernel does, not how
//! long a job takes.

use super::timeline::{Loss, NameId, Names};
use alloc::{string::String, vec::Vec};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct KernelCounters {
    /// Launches in the order of the file.
    pub launches: Vec<CountedLaunch>,
    /// Names of metrics, sections and units, each once.
    pub names: Names,
    /// What the profiler and the program printed around the table, line by line.
    pub printed: Vec<String>,
    /// What the file had, or should have had, and that is missing here.
    pub losses: Vec<Loss>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct CountedLaunch {
    /// Its number in the file, as written.
    pub id: String,
    pub kernel: String,
    /// The process, where stated.
    pub process: Option<u64>,
    /// The name of the process, where stated.
    pub process_name: Option<String>,
    /// The device's number, where stated.
    pub device: Option<i64>,
    /// The stream's number, where stated.
    pub stream: Option<u64>,
    /// Threads of a block in each dimension, where stated.
    pub block: Option<[u32; 3]>,
    /// Blocks in each dimension, where stated.
    pub grid: Option<[u32; 3]>,
    /// CUDA compute capability, major and minor, where stated.
    pub compute_capability: Option<(u32, u32)>,
    /// Counters in the order of the file.
    pub metrics: Vec<CountedMetric>,
    pub advice: Vec<ProfilerAdvice>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CountedMetric {
    /// Its canonical name (`sm__throughput.avg.pct_of_peak_sustained_elapsed`) where it is known; else
    /// its label in the file.
    pub name: NameId,
    pub label: NameId,
    /// The section it stands in, where stated.
    pub section: Option<NameId>,
    /// The unit of its value: a base unit (`ns`, `byte`, `hz`, `byte/second`, `%`) where the file's
    /// unit is known, else that of the file; empty for counts and ratios.
    pub unit: NameId,
    pub value: CountedValue,
}

#[derive(Debug, Clone, PartialEq)]
pub enum CountedValue {
    Number(f64),
    /// A text (`PolicySpread`), or what the profiler could not count (`n/a`).
    Text(String),
}

/// What one of the profiler's own rules said of a launch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProfilerAdvice {
    /// The rule (`SOLBottleneck`).
    pub rule: String,
    /// Its kind (`OPT`, `WRN`, `INF`).
    pub kind: String,
    pub text: String,
    /// Gain in percent that it estimates, where it does.
    pub speedup_percent: Option<f64>,
    /// What the estimate is of (`global`, `local`), where stated.
    pub speedup_scope: Option<String>,
}

impl KernelCounters {
    /// The number under a canonical name, if the launch has it.
    pub fn number(&self, launch: &CountedLaunch, name: &str) -> Option<f64> {
        let mut metrics = launch.metrics.iter();
        metrics.find_map(|metric| match metric.value {
            CountedValue::Number(number) if self.names.text(metric.name) == name => Some(number),
            _ => None,
        })
    }
}

/// How counters are read and judged: data, with a source per row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CounterRules {
    /// Labels of sections and the metrics that they stand for.
    pub labels: Vec<(String, String)>,
    pub operations: Vec<OperationRule>,
    /// Sets of metrics whose sum is the bytes moved to and from device memory; the first complete one
    /// counts.
    pub memory_bytes: Vec<Vec<String>>,
    /// Names of the metrics that are judged, each with its spellings; the first present counts.
    pub judged: JudgedMetrics,
    pub limits: BoundLimits,
}

/// A metric that counts operations of arithmetic.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationRule {
    pub metric: String,
    /// Operations per count.
    pub operations: f64,
    /// The precision (`fp32`).
    pub precision: String,
    /// Rows of one family count the same work: the first family that a launch has counts.
    pub family: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JudgedMetrics {
    /// Time of the kernel, in nanoseconds.
    pub duration: Vec<String>,
    /// Throughput of the multiprocessors, in percent of their peak.
    pub compute: Vec<String>,
    /// Throughput of caches and memory, in percent of the peak of the busiest part.
    pub memory: Vec<String>,
    /// Throughput of device memory, in percent of its peak.
    pub dram: Vec<String>,
    /// Achieved occupancy, in percent.
    pub occupancy: Vec<String>,
    /// Theoretical occupancy, in percent.
    pub occupancy_limit: Vec<String>,
    /// Waves of blocks over the multiprocessors.
    pub waves: Vec<String>,
    /// Activity of tensor cores, in percent of their peak.
    pub tensor: Vec<String>,
    /// Accesses that the L2 cache had, in percent.
    pub l2_hit: Vec<String>,
    /// Conflicts of banks of shared memory.
    pub bank_conflicts: Vec<String>,
}

/// Limits between the classes of [`Bound`], in percent of peak.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BoundLimits {
    /// Below it in both, latency limits.
    pub latency: f64,
    /// From it on in either, the kernel is near the peak of the GPU.
    pub near_peak: f64,
    /// Two that are closer than this are balanced.
    pub balanced: f64,
    /// Below so many waves the grid is too small to fill the GPU.
    pub waves: f64,
    /// Below so many percent of hits the L2 cache does little for a kernel.
    pub l2_hit: f64,
    /// From so many bank conflicts a nanosecond on they are worth a look.
    pub bank_conflicts: f64,
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Bound:
        /// Its name, as in JSON.
        name
    {
        Compute = "compute",
        /// Caches or device memory.
        Memory = "memory",
        Balanced = "balanced",
        /// Neither: waiting for results.
        Latency = "latency",
        /// Neither: too few blocks to fill the GPU.
        SmallGrid = "small_grid",
    }
}

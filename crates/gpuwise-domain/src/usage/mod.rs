//! What workloads of a fleet asked for and what they used, over days; and what an audit says of each.

pub mod proposal;
pub mod remembered;
pub mod rules;
pub mod totals;
pub mod vocabulary;

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use gpuwise_units::Bytes;

/// Which workload: what a person would edit to change it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    /// Its namespace, project or account; empty where there is none.
    pub namespace: String,
    /// `Deployment`, `StatefulSet`, `Job`, `Pod`, `SlurmJob`, or `Device` where nothing says who holds
    /// the GPU.
    pub kind: String,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResourceRequest {
    /// The GPU as exporters name it; unknown where they do not.
    pub gpu: Option<String>,
    /// The MIG profile that it holds, such as `1g.10gb`; the whole GPU when absent.
    pub slice: Option<String>,
    /// It holds MIG instances, and nothing tells of which profile: neither a whole GPU nor a known share.
    pub slice_untold: bool,
    /// Pods that hold each of its devices at once (time-slicing, MPS), itself among them; 0 and 1 are alone.
    pub shared_by: u32,
    /// GPUs or slices of one replica.
    pub devices: u32,
    pub replicas: u32,
    /// CPUs of one replica: its limit, else its request.
    pub cpus: Option<f64>,
    /// The container that holds the GPUs, for patches.
    pub container: Option<String>,
    /// Its CPU limit is one, so that more than it is throttled.
    pub cpus_limited: bool,
}

gpuwise_units::named! {
    /// What one device of it shows: the measure behind `compute`, from the best to the weakest.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ComputeMeasure:
        title
    {
        /// Share of multiprocessors with work (DCGM 1002).
        SmActive = "SM active",
        /// Share of time in which any engine worked (DCGM 1001): an upper bound.
        EngineActive = "engine active",
        /// Share of time in which any kernel ran (DCGM 203, nvidia-smi): an upper bound.
        Utilisation = "GPU utilisation",
    }
}

/// Share of a device's compute in use.
#[derive(Debug, Clone, PartialEq)]
pub struct ComputeUse {
    pub measure: ComputeMeasure,
    /// Mean over all samples of all its devices, 0 to 1.
    pub average: Option<f64>,
    /// 95th percentile of its busiest device, 0 to 1.
    pub p95: Option<f64>,
    /// Sum of the 95th percentiles of the first device of each replica: what one replica would have
    /// to bear if all came together.
    pub p95_sum: Option<f64>,
    /// The percentiles are of the largest sample of each hour, and so never below those of all samples.
    pub of_hours: bool,
}

/// Hours in which it did nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct IdleUse {
    /// Hours in which no device of it did anything.
    pub hours: f64,
    /// Of these, hours in stretches long enough to give the GPU back.
    pub in_stretches: f64,
    pub stretches: u32,
    /// Of these, hours on Saturdays and Sundays (UTC).
    pub weekend: f64,
}

/// What a serving engine on it shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EngineUse {
    /// The engine, by the prefix of its metrics.
    pub engine: String,
    pub model: Option<String>,
    /// Requests that waited, mean over time and replicas.
    pub waiting: Option<f64>,
    /// Share of the key-value cache in use: the highest of any replica, 0 to 1.
    pub cache_peak: Option<f64>,
    /// Memory of the model's weights in 16 bits; less where they are quantised.
    pub weights: Option<Bytes>,
    /// Mean seconds from a request to its end, over all requests of the window.
    pub latency: Option<f64>,
    /// Requests a second, mean over the window, all replicas.
    pub requests: Option<f64>,
    /// Tokens of a prompt, mean.
    pub prompt_tokens: Option<f64>,
    /// Tokens of an answer, mean.
    pub answer_tokens: Option<f64>,
}

/// A workload over a window: what it asked for, and what it used. Absent is unknown, never 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    pub holder: Holder,
    /// Who it is charged to: its namespace, or the label that was asked for.
    pub tenant: String,
    pub asked: ResourceRequest,
    pub hours: f64,
    /// Hours from its first to its last sign, gaps included.
    pub spanned_hours: f64,
    /// Device-hours that it held, gaps included.
    pub device_hours: f64,
    /// Device-hours in which it was seen, gaps left out.
    pub device_hours_seen: f64,
    /// Whether it was still there at the end of the window.
    pub present: bool,
    /// Largest memory of any device.
    pub memory_peak: Option<Bytes>,
    /// Mean memory of its devices.
    pub memory_average: Option<Bytes>,
    /// Largest memory of any device in each hour of the window, MiB; NaN where nothing came.
    pub memory_hourly: Vec<f32>,
    /// Share of hours in which its memory was at the device's end, where counted beforehand.
    pub memory_full_share: Option<f64>,
    pub compute: Option<ComputeUse>,
    /// Largest compute of any device in each hour of the window, 0 to 1; NaN where nothing came.
    pub compute_hourly: Vec<f32>,
    pub idle: Option<IdleUse>,
    /// Devices of each replica that did nothing in the whole window, while others of it worked.
    pub idle_devices: u32,
    /// Share of time in which tensor cores worked, mean, 0 to 1.
    pub tensor_average: Option<f64>,
    /// Share of time in which device memory was read or written, 95th percentile, 0 to 1.
    pub dram_p95: Option<f64>,
    /// CPUs in use over CPUs it may use, mean over the hours of the window, 0 to 1.
    pub cpu_share: Option<f64>,
    /// Share of scheduling periods in which it was throttled, 0 to 1.
    pub throttled_share: Option<f64>,
    pub engine: Option<EngineUse>,
    /// What could not be told, in words.
    pub missing: Vec<String>,
}

impl Usage {
    /// Devices that it holds at a time.
    pub fn devices(&self) -> u32 {
        let replicas = self.asked.replicas.max(1);
        self.asked.devices.max(1).saturating_mul(replicas)
    }
}

/// Days that an audit looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its begin, seconds since 1970.
    pub start: i64,
    pub end: i64,
}

impl Window {
    pub fn hours(self) -> usize {
        usize::try_from((self.end - self.start) / 3600).unwrap_or(0)
    }

    /// Whether an hour of it lies on a Saturday or Sunday (UTC).
    pub fn is_weekend(self, hour: usize) -> bool {
        let at = self.start + i64::try_from(hour).unwrap_or(0) * 3600;
        // The first of January 1970 was a Thursday; 0 is Sunday.
        matches!((at.div_euclid(86_400) + 4).rem_euclid(7), 0 | 6)
    }
}

/// Where usage was looked for. What was seen in one scope says nothing of what lies outside of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// The server's address as it may be shown, or `tables`.
    pub source: String,
    /// Matchers of each series, as they were given.
    pub matchers: Option<String>,
}

impl core::fmt::Display for Scope {
    fn fmt(&self, form: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        form.write_str(&self.source)?;
        match &self.matchers {
            Some(matchers) => write!(form, " with {matchers}"),
            None => Ok(()),
        }
    }
}

/// Workloads that are declared at the end of a window, whether or not they hold a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Declared {
    pub replicas: BTreeMap<Holder, u32>,
    /// Whether all Deployments and `StatefulSet`s of the namespaces that were looked at are listed, so
    /// that one that is not listed is not there.
    pub whole: bool,
}

/// A fleet over a window.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    pub scope: Scope,
    pub window: Window,
    /// Its workloads, by holder.
    pub workloads: Vec<Usage>,
    /// What is declared, with GPUs or without.
    pub declared: Declared,
    /// Devices that nobody held at the end, where exporters list them.
    pub unheld_devices: u32,
    /// What holds for all: metrics that are missing, answers that were partial.
    pub notes: Vec<String>,
}

//! How exporters call what an audit needs: names are rows of the catalogue.

use alloc::{string::String, vec::Vec};

/// What an audit needs to know of workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Device memory in use.
    MemoryUsed,
    /// Share of multiprocessors with work.
    SmActive,
    /// Share of time in which any engine worked.
    EngineActive,
    /// Share of time in which any kernel ran.
    Utilisation,
    /// Share of time in which tensor cores worked.
    TensorActive,
    /// Share of time in which device memory was busy.
    DramActive,
    /// CPU-seconds used, a counter.
    CpuSeconds,
    /// Scheduling periods in which it was throttled, a counter.
    ThrottledPeriods,
    /// Scheduling periods, a counter.
    Periods,
    /// What containers ask for, by resource.
    Requests,
    /// What containers are limited to, by resource.
    Limits,
    /// Who owns a pod.
    PodOwner,
    /// Who owns a replica set.
    ReplicaSetOwner,
    /// Who owns a job.
    JobOwner,
    Replicas,
    /// Labels of pods, for the tenant.
    PodLabels,
    /// Requests that wait in an engine.
    EngineWaiting,
    /// Share of an engine's cache in use.
    EngineCache,
    /// Sum of seconds of requests, a counter.
    EngineLatencySum,
    /// Count of the same.
    EngineLatencyCount,
    /// Tokens of prompts, a counter.
    EnginePromptTokens,
    /// Tokens of answers, a counter.
    EngineAnswerTokens,
}

impl Quantity {
    /// All of them, with their names in the catalogue.
    pub const ALL: [(Self, &'static str); 22] = [
        (Self::MemoryUsed, "memory_used"),
        (Self::SmActive, "sm_active"),
        (Self::EngineActive, "engine_active"),
        (Self::Utilisation, "utilisation"),
        (Self::TensorActive, "tensor_active"),
        (Self::DramActive, "dram_active"),
        (Self::CpuSeconds, "cpu_seconds"),
        (Self::ThrottledPeriods, "throttled_periods"),
        (Self::Periods, "periods"),
        (Self::Requests, "requests"),
        (Self::Limits, "limits"),
        (Self::PodOwner, "pod_owner"),
        (Self::ReplicaSetOwner, "replica_set_owner"),
        (Self::JobOwner, "job_owner"),
        (Self::Replicas, "replicas"),
        (Self::PodLabels, "pod_labels"),
        (Self::EngineWaiting, "engine_waiting"),
        (Self::EngineCache, "engine_cache"),
        (Self::EngineLatencySum, "engine_latency_sum"),
        (Self::EngineLatencyCount, "engine_latency_count"),
        (Self::EnginePromptTokens, "engine_prompt_tokens"),
        (Self::EngineAnswerTokens, "engine_answer_tokens"),
    ];

    /// Its name in the catalogue.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(quantity, _)| *quantity == self);
        found.map_or("", |(_, name)| name)
    }

    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(quantity, _)| *quantity)
    }
}

/// A metric that shows a quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricName {
    pub metric: String,
    pub quantity: Quantity,
    /// By what its values are multiplied: to MiB, to shares of 1, to seconds.
    pub scale: f64,
    /// Where the row comes from.
    pub source: String,
}

/// How metrics and labels are called. In each list the first that a series has counts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Vocabulary {
    /// Metrics, the preferred ones of a quantity first.
    pub metrics: Vec<MetricName>,
    /// Labels that hold the workload's namespace.
    pub namespace: Vec<String>,
    /// Labels that hold its pod.
    pub pod: Vec<String>,
    /// Labels that hold its container.
    pub container: Vec<String>,
    /// Labels that hold the batch job.
    pub job: Vec<String>,
    /// Labels that tell devices apart.
    pub device: Vec<String>,
    /// Labels that hold the host.
    pub host: Vec<String>,
    /// Labels that hold the GPU's name.
    pub model: Vec<String>,
    /// Labels that hold the MIG profile.
    pub slice: Vec<String>,
    /// Labels that hold the MIG instance.
    pub instance: Vec<String>,
    /// Containers of exporters: a device whose pod is one of these is held by nobody.
    pub exporters: Vec<String>,
}

impl Vocabulary {
    /// The metrics of a quantity, the preferred one first.
    pub fn of(&self, quantity: Quantity) -> impl Iterator<Item = &MetricName> {
        self.metrics
            .iter()
            .filter(move |row| row.quantity == quantity)
    }
}

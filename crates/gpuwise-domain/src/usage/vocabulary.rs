//! How exporters call what an audit needs: names are rows of the catalogue.

use alloc::{string::String, vec::Vec};

gpuwise_units::named! {
    /// What an audit needs to know of workloads.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Quantity:
        name
    {
        /// Device memory in use.
        MemoryUsed = "memory_used",
        /// Share of multiprocessors with work.
        SmActive = "sm_active",
        /// Share of time in which any engine worked.
        EngineActive = "engine_active",
        /// Share of time in which any kernel ran.
        Utilisation = "utilisation",
        /// Share of time in which tensor cores worked.
        TensorActive = "tensor_active",
        /// Share of time in which device memory was busy.
        DramActive = "dram_active",
        /// CPU-seconds used, a counter.
        CpuSeconds = "cpu_seconds",
        /// Scheduling periods in which it was throttled, a counter.
        ThrottledPeriods = "throttled_periods",
        /// Scheduling periods, a counter.
        Periods = "periods",
        /// What containers ask for, by resource.
        Requests = "requests",
        /// What containers are limited to, by resource.
        Limits = "limits",
        PodOwner = "pod_owner",
        ReplicaSetOwner = "replica_set_owner",
        JobOwner = "job_owner",
        Replicas = "replicas",
        /// Labels of pods, for the tenant.
        PodLabels = "pod_labels",
        /// Requests that wait in an engine.
        EngineWaiting = "engine_waiting",
        /// Share of an engine's cache in use.
        EngineCache = "engine_cache",
        /// Sum of seconds of requests, a counter.
        EngineLatencySum = "engine_latency_sum",
        /// Count of the same.
        EngineLatencyCount = "engine_latency_count",
        /// Tokens of prompts, a counter.
        EnginePromptTokens = "engine_prompt_tokens",
        /// Tokens of answers, a counter.
        EngineAnswerTokens = "engine_answer_tokens",
    }
}

impl Quantity {
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// A metric that shows a quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricName {
    pub metric: String,
    pub quantity: Quantity,
    /// By what its values are multiplied: to MiB, to shares of 1, to seconds.
    pub scale: f64,
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

//! What the operator asks of those who plan and measure, and what they answer.

use crate::{
    resources::{Avoided, Decided, GpuWorkloadSpec, WorkloadScaling, WorkloadSlo, WorkloadTraffic},
    tiers::{SloSeen, Verdict},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

/// What an hour of a GPU costs here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PriceBook {
    /// ISO 4217.
    pub currency: String,
    /// Millionths of it, by product as nodes are labelled with it.
    pub by_product: BTreeMap<String, i64>,
}

/// What is to be sized.
#[derive(Debug, Clone, Default)]
pub struct WorkloadAsk {
    pub namespace: String,
    pub name: String,
    pub spec: GpuWorkloadSpec,
    /// Products of GPUs that the cluster has, as its nodes call them.
    pub products: BTreeSet<String>,
    /// Whether nodes offer MIG slices.
    pub slices: bool,
    pub prices: Option<PriceBook>,
    /// What was measured, in place of what the spec says.
    pub traffic: Option<WorkloadTraffic>,
    /// The decision that is to be made again, whatever else would be better now.
    pub pinned: Option<Decided>,
    /// GPUs that are not taken.
    pub avoided: Vec<Avoided>,
    /// For how many replicas more nodes are kept, where the forecast says it.
    pub spare_nodes: u32,
}

/// What was decided for it, and what it is served by: objects without a namespace.
#[derive(Debug, Clone)]
pub struct Sized {
    pub decided: Decided,
    /// What it costs an hour in millionths of the currency of `money`; `None`: no price is known.
    pub micros: Option<i64>,
    /// ISO 4217.
    pub money: String,
    pub objects: Vec<Value>,
}

/// Sizes what a GpuWorkload asks for: the same function as that of `gpuwise plan`.
pub trait Sizer: Send + Sync {
    /// # Errors
    /// When it is wrong, or no GPU keeps the SLO; what is short, in words.
    fn size(&self, ask: &WorkloadAsk) -> Result<Sized, String>;
}

/// A workload that is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterAsk {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    /// What it is served by; the engine may be empty: any that tells.
    pub decided: Decided,
    pub slo: WorkloadSlo,
    /// How its replicas follow what comes; `None`: nothing of it is the operator's to write.
    pub scaling: Option<WorkloadScaling>,
    /// Pods of it that are warm and ready.
    pub warm: u32,
    /// Pods of its replicas that are ready, and that are not ready yet.
    pub ready: u32,
    pub starting: u32,
}

/// How many replicas a workload is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Following {
    pub replicas: u32,
    /// Those that the forecast wants warm beside them; `None`: nobody asked it.
    pub warm: Option<u32>,
    /// Why so many are warm, in words.
    pub why: String,
}

/// What an audit is asked about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditAsk {
    pub products: BTreeSet<String>,
    /// Whether nodes offer MIG slices.
    pub slices: bool,
    pub prices: Option<PriceBook>,
}

/// What an audit says of one workload of the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Audited {
    pub namespace: String,
    /// `Deployment`, `StatefulSet` …
    pub kind: String,
    pub name: String,
    pub verdict: Verdict,
    /// Why, with figures.
    pub reason: String,
    /// What it proposes, in words.
    pub title: Option<String>,
    /// What that saves an hour, in millionths of US dollars.
    pub saving: Option<i64>,
    /// The change as a strategic-merge patch; `None`: there is none to apply in place.
    pub patch: Option<Value>,
    /// What came in its busiest hour, and how long prompts and answers were on average, where its engine tells.
    pub traffic: Option<WorkloadTraffic>,
}

/// Puts engines of warm pods to sleep, and wakes them; waits for their answers.
pub trait Sleeper: Send + Sync {
    /// # Errors
    /// Why the engine at an address does not sleep.
    fn sleep(&self, at: SocketAddr) -> Result<(), String>;

    /// # Errors
    /// Why it does not serve.
    fn wake(&self, at: SocketAddr) -> Result<(), String>;
}

/// Measures what workloads do: by Prometheus.
pub trait Meter: Send + Sync {
    /// Whether the SLO of a workload was kept of late.
    fn slo(&self, ask: &MeterAsk) -> SloSeen;

    /// How many replicas each of these is to have that follows what comes; `Err`: why that is not known, and what
    /// there is stays.
    fn replicas(&self, asks: &[MeterAsk]) -> BTreeMap<String, Result<Following, String>>;

    /// What `gpuwise audit` says of the cluster's workloads.
    ///
    /// # Errors
    /// When nobody can be asked.
    fn audit(&self, ask: &AuditAsk) -> Result<Vec<Audited>, String>;
}

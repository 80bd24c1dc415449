//! What the search asks of memory and time.

use alloc::{string::String, vec::Vec};
use gpuwise_domain::{
    estimate::Derivation,
    fix::Fix,
    gpu::Gpu,
    training::{StepTime, TrainingMemory, TrainingSetup},
};
use gpuwise_units::Bytes;

/// The machines of a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster<'a> {
    pub gpu: &'a Gpu,
    pub gpus: u64,
    /// GPUs that reach one another over the fast link (an NVLink domain), or within one host.
    pub domain: u32,
    /// GPUs of one host.
    pub per_host: u32,
    /// Network of one GPU between hosts in bytes a second and direction; `None`: not known.
    pub network: Option<f64>,
}

impl Cluster<'_> {
    /// Hosts, the last of which may not be full.
    pub fn hosts(&self) -> u64 {
        self.gpus.div_ceil(u64::from(self.per_host.max(1)))
    }
}

/// Memory and time of setups: the formulas that the search is over.
pub trait Physics {
    /// Memory by rank.
    ///
    /// # Errors
    /// When the setup is none that can be run; the text says why.
    fn memory(
        &self,
        setup: &TrainingSetup,
        cluster: &Cluster<'_>,
    ) -> Result<TrainingMemory, String>;

    /// Time of one step.
    ///
    /// # Errors
    /// When the GPU has no such precision, or something is not known; the text says what.
    fn step(&self, setup: &TrainingSetup, cluster: &Cluster<'_>) -> Result<StepTime, String>;

    /// Memory of a GPU that a job may fill.
    fn usable(&self, cluster: &Cluster<'_>) -> Bytes;

    /// Bytes of one checkpoint.
    fn checkpoint(&self, setup: &TrainingSetup) -> Bytes;

    /// What makes a setup fit that does not, cheapest first, with the setup that each makes of it.
    fn fixes(&self, setup: &TrainingSetup, cluster: &Cluster<'_>) -> Vec<(Fix, TrainingSetup)>;

    /// How memory and time came about.
    fn derivations(&self, setup: &TrainingSetup, cluster: &Cluster<'_>) -> Vec<Derivation>;
}

//! What a training run is asked for, and what may be chosen.

use alloc::{string::String, vec::Vec};
use gpuwise_domain::{
    catalogue::Catalogue,
    gpu::Gpu,
    model::Architecture,
    offer::Terms,
    training::{Framework, LossKernel, Method, Offload, Optimizer, Recipe, Recompute, Sharding},
    training_plan::{Reliability, TrainingJob},
};

/// A model, a job, machines, and what may be chosen.
#[derive(Debug, Clone)]
pub struct TrainRequest<'a> {
    /// The model's name as it is shown.
    pub name: String,
    /// Where its shape was read.
    pub origin: String,
    pub architecture: &'a Architecture,
    /// Tokens, deadline, budget, evaluation.
    pub job: TrainingJob,
    pub catalogue: &'a Catalogue,
    /// How often machines fail and how fast state is saved.
    pub reliability: Reliability,
    /// What may be chosen.
    pub choices: TrainChoices,
    pub machines: Machines<'a>,
    /// By what plans are ranked; `None`: rented ones by money, hosts of one's own, which cost the
    /// same busy or idle, by time.
    pub rank: Option<RankBy>,
    pub top: usize,
}

/// What makes one plan better than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankBy {
    Time,
    /// The least money; of hosts of one's own the fewest GPU-hours.
    Cost,
}

/// What a setup is made of; what is `None` is searched.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainChoices {
    pub method: Method,
    pub recipe: Recipe,
    /// What updates the weights.
    pub optimizer: Optimizer,
    /// Whose allocations and kernels.
    pub framework: Option<Framework>,
    /// How logits become a loss; `None`: as the framework does by default.
    pub loss: Option<LossKernel>,
    /// What is computed again.
    pub recompute: Option<Recompute>,
    /// How states are divided.
    pub sharding: Option<Sharding>,
    /// What is kept in host memory.
    pub offload: Offload,
    /// Whether the graph is compiled.
    pub compiled: bool,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Sequences of a micro-batch.
    pub micro_batch: Option<u64>,
    /// Sequences of an optimizer step; `None`: the usual, rounded up to a multiple of the GPUs.
    pub global_batch: Option<u64>,
    /// Degrees of parallelism that are fixed.
    pub degrees: Degrees,
}

/// Degrees of parallelism; what is `None` is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Degrees {
    pub tensor: Option<u32>,
    pub pipeline: Option<u32>,
    /// Virtual stages of each pipeline rank.
    pub interleave: Option<u32>,
    pub context: Option<u32>,
    pub expert: Option<u32>,
    pub data: Option<u32>,
}

impl Degrees {
    /// The first degree that only Megatron has and that is fixed above 1, with its flag.
    pub fn beyond_data(&self) -> Option<(&'static str, u32)> {
        let degrees = [
            ("--tp", self.tensor),
            ("--pp", self.pipeline),
            ("--vp", self.interleave),
            ("--cp", self.context),
            ("--ep", self.expert),
        ];
        degrees
            .into_iter()
            .find_map(|(flag, degree)| Some((flag, degree.filter(|d| *d > 1)?)))
    }
}

#[derive(Debug, Clone)]
pub enum Machines<'a> {
    Given(super::Cluster<'a>),
    /// On what can be rented or is owned.
    Offered(Market<'a>),
}

#[derive(Debug, Clone)]
pub struct Market<'a> {
    /// Only these GPUs; empty: all that are offered.
    pub gpus: Vec<&'a Gpu>,
    /// Only these providers; empty: all.
    pub providers: Vec<String>,
    /// Only regions that begin with one of these; empty: all.
    pub regions: Vec<String>,
    /// Hosts of one's own, as GPU and how many.
    pub owned: Vec<(&'a Gpu, u32)>,
    pub terms: Terms,
    /// GPUs at most.
    pub most: u64,
}

//! What a training run is asked for, and what may be chosen.

use super::change::ParallelDegree;
use crate::memory::visible_memory;
use alloc::{string::String, vec::Vec};
use gpuwise_domain::{
    alignment::{Alignment, RolloutMode},
    catalogue::Catalogue,
    gpu::{Device, Gpu},
    model::Architecture,
    offer::Terms,
    training::{Framework, LossKernel, Method, Offload, Optimizer, Recipe, Recompute, Sharding},
    training_plan::{Reliability, TrainingJob},
};
use gpuwise_units::Bytes;

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
    /// Under which terms given machines are priced.
    pub terms: Terms,
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
    /// What it learns from beyond given texts.
    pub alignment: Option<Alignment>,
    pub recipe: Recipe,
    /// The recipe on GPUs without BF16; `None`: they are refused where the recipe needs it.
    pub without_bf16: Option<Recipe>,
    /// What updates the weights.
    pub optimizer: Optimizer,
    /// Whose allocations and kernels.
    pub framework: Option<Framework>,
    /// How logits become a loss; `None`: as the framework does by default.
    pub loss: Option<LossKernel>,
    /// What is recomputed.
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

impl TrainChoices {
    /// Whole groups of so many make a batch.
    pub(crate) fn group(&self) -> u64 {
        self.alignment.map_or(1, |one| one.group()).max(1)
    }

    /// What of a cluster trains: all but GPUs that write completions alone. `None`: nothing.
    pub(crate) fn trainers<'a>(&self, cluster: &super::Cluster<'a>) -> Option<super::Cluster<'a>> {
        let own = self.alignment.map_or(0, |one| one.own_gpus());
        let gpus = cluster.gpus.checked_sub(own).filter(|gpus| *gpus > 0)?;
        Some(super::Cluster { gpus, ..*cluster })
    }

    /// The same on these GPUs: in numbers that they have, and an engine beside training knows what it takes of them.
    pub(crate) fn on(&self, cluster: &super::Cluster<'_>) -> Self {
        let mut out = self.clone();
        if let Some(recipe) = self
            .without_bf16
            .filter(|_| cluster.gpu.peak.bf16.is_none())
        {
            out.recipe = recipe;
        }
        if let Some(Alignment::Grpo(grpo)) = &mut out.alignment
            && grpo.engine.mode == RolloutMode::Colocate
        {
            let (visible, _) = visible_memory(&Device::whole(cluster.gpu));
            grpo.engine.held = Bytes::from_f64(grpo.engine.share * visible);
        }
        out
    }
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
    /// The same, where what is not stated is not done: 1, and all that is left to data parallelism.
    pub(crate) fn or_none(self) -> Self {
        let one = |degree: Option<u32>| degree.or(Some(1));
        Self {
            tensor: one(self.tensor),
            pipeline: one(self.pipeline),
            interleave: one(self.interleave),
            context: one(self.context),
            expert: one(self.expert),
            data: self.data,
        }
    }

    /// The first degree beside data parallelism that is fixed above 1.
    pub fn beyond_data(&self) -> Option<(ParallelDegree, u32)> {
        let degrees = [
            ParallelDegree::Tensor,
            ParallelDegree::Pipeline,
            ParallelDegree::Interleave,
            ParallelDegree::Context,
            ParallelDegree::Expert,
        ];
        let above =
            |degree: ParallelDegree| Some((degree, degree.stated(self).filter(|d| *d > 1)?));
        degrees.into_iter().find_map(above)
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

//! Changes of a question that was refused, as what is chosen and as the flag that asks for it.

use super::{
    Cluster, market,
    request::{Degrees, TrainChoices},
};
use gpuwise_domain::{
    catalogue::Catalogue,
    fix::Flag,
    training::{Framework, Recompute, Sharding},
};

/// One choice that is made otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QuestionChange {
    Degree(ParallelDegree, u32),
    Gpus(u64),
    Sequence(u64),
    GlobalBatch(u64),
    Recompute(Recompute),
    Framework(Framework),
    Sharding(Sharding),
    /// Ranks of each engine that writes completions beside training.
    RolloutRanks(u32),
}

/// A degree of parallelism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParallelDegree {
    Tensor,
    Pipeline,
    Interleave,
    Context,
    Expert,
    Data,
}

impl ParallelDegree {
    /// Those whose product is the GPUs, data parallelism first: it takes what others leave.
    pub(crate) const PRODUCT: [Self; 4] = [Self::Data, Self::Pipeline, Self::Context, Self::Tensor];

    pub const fn flag(self) -> &'static str {
        match self {
            Self::Tensor => "--tp",
            Self::Pipeline => "--pp",
            Self::Interleave => "--vp",
            Self::Context => "--cp",
            Self::Expert => "--ep",
            Self::Data => "--dp",
        }
    }

    pub(crate) const fn of(self, degrees: &mut Degrees) -> &mut Option<u32> {
        match self {
            Self::Tensor => &mut degrees.tensor,
            Self::Pipeline => &mut degrees.pipeline,
            Self::Interleave => &mut degrees.interleave,
            Self::Context => &mut degrees.context,
            Self::Expert => &mut degrees.expert,
            Self::Data => &mut degrees.data,
        }
    }

    pub(crate) fn stated(self, degrees: &Degrees) -> Option<u32> {
        *self.of(&mut degrees.clone())
    }
}

impl QuestionChange {
    /// As it is asked for.
    pub fn flag(&self, gpu: &str) -> Flag {
        match self {
            Self::Degree(degree, value) => Flag::new(degree.flag(), value),
            Self::Gpus(count) => Flag::gpus(*count, gpu),
            Self::Sequence(tokens) => Flag::new("--seq", tokens),
            Self::GlobalBatch(sequences) => Flag::new("--global-batch", sequences),
            Self::Recompute(recompute) => Flag::new("--recompute", recompute.name()),
            Self::Framework(framework) => Flag::new("--framework", framework.name()),
            Self::Sharding(sharding) => match sharding {
                Sharding::Hybrid { group } => {
                    Flag::new("--sharding", format_args!("hybrid:{group}"))
                }
                plain => Flag::new("--sharding", plain.name()),
            },
            Self::RolloutRanks(ranks) => Flag::new("--vllm-tensor-parallel-size", ranks),
        }
    }

    pub(super) fn apply(
        &self,
        choices: &mut TrainChoices,
        cluster: &mut Cluster<'_>,
        catalogue: &Catalogue,
    ) {
        match self {
            Self::Degree(degree, value) => *degree.of(&mut choices.degrees) = Some(*value),
            Self::Gpus(count) => *cluster = market::resized(catalogue, cluster, *count),
            Self::Sequence(tokens) => choices.sequence = *tokens,
            Self::GlobalBatch(sequences) => choices.global_batch = Some(*sequences),
            Self::Recompute(recompute) => choices.recompute = Some(*recompute),
            Self::Framework(framework) => choices.framework = Some(*framework),
            Self::Sharding(sharding) => choices.sharding = Some(*sharding),
            Self::RolloutRanks(ranks) => {
                if let Some(gpuwise_domain::alignment::Alignment::Grpo(grpo)) =
                    &mut choices.alignment
                {
                    grpo.engine.tensor = *ranks;
                }
            }
        }
    }
}

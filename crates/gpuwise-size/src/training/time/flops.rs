//! Operations that a model's own work counts for one token, as each source counts them.

use super::work::passes;
use gpuwise_domain::{
    model::{Architecture, FeedForward, Role},
    training::{Framework, TrainingSetup},
};

/// How a source counts the model's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlopCount {
    /// llm-foundry: six for every parameter, embeddings counted, and twelve times layers, hidden width
    /// and sequence for attention.
    /// (`mosaicml/llm-foundry@8c8dd48f7216:scripts/train/benchmarking/collect_results.py`)
    EveryParameter,
    /// Megatron-LM and Megatron-Bridge: matmuls without routers, and half of the attention matrix,
    /// which is causal, in every layer whatever its window. Experts whose activation is clamped count
    /// as ungated. (`NVIDIA/Megatron-LM@00caa53:megatron/training/training.py`, read against its rows)
    Causal,
    /// NeMo before it: matmuls, and the whole attention matrix.
    /// (`NVIDIA/NeMo@35029a0c84:docs/source/performance/performance_summary.md`, read against its rows)
    WholeMatrix,
    /// torchtitan: six for every parameter but the embedding's, and the whole attention matrix.
    /// (`pytorch/torchtitan@b5bcd76c:torchtitan/components/metrics.py` and its models)
    WithoutEmbedding,
}

impl FlopCount {
    /// How a framework's users count.
    pub const fn of(framework: Framework) -> Self {
        match framework {
            Framework::Megatron => Self::Causal,
            Framework::Torchtitan => Self::WithoutEmbedding,
            Framework::HuggingFace | Framework::PyTorch | Framework::Torchtune => {
                Self::EveryParameter
            }
        }
    }
}

/// Operations of training on one token, recomputation apart.
///
/// With a frozen base its weight gradients are not computed: four for every weight instead of six.
pub fn model_flops_per_token(
    architecture: &Architecture,
    setup: &TrainingSetup,
    count: FlopCount,
) -> f64 {
    let each = passes(&setup.method);
    let sequence = setup.sequence.0 as f64;
    if count == FlopCount::EveryParameter {
        let layers = architecture.layer_count() as f64;
        let attention = 12.0 * layers * architecture.hidden as f64 * sequence;
        return each * active(architecture) + attention;
    }
    let head = architecture.hidden as f64 * architecture.vocabulary as f64;
    let mut weights = head;
    let mut attention = 0.0;
    for run in &architecture.layers {
        let layers = run.count as f64;
        let chosen = run.layer.feed_forward.chosen_share();
        let clamped = run
            .layer
            .tensors
            .iter()
            .any(|t| t.role.is_routed_expert() && !t.is_matrix());
        for tensor in run.layer.tensors.iter().filter(|t| t.is_matrix()) {
            let share = match tensor.role {
                Role::Router => 0.0,
                Role::ExpertUp if clamped => chosen / 2.0,
                role if role.is_routed_expert() => chosen,
                _ => 1.0,
            };
            weights += layers * share * tensor.elements() as f64;
        }
        attention += layers * run.layer.mixer.attention_width() as f64;
    }
    let matrix = match count {
        FlopCount::WholeMatrix | FlopCount::WithoutEmbedding => 1.0,
        FlopCount::Causal | FlopCount::EveryParameter => 0.5,
    };
    // Scores and values: two matmuls of two operations, forward once and backward twice. They have no
    // weights, so a frozen base saves none of it.
    each * weights + 6.0 * attention * sequence * matrix
}

/// Parameters that work on a token, embedding and head each once.
fn active(architecture: &Architecture) -> f64 {
    architecture.active_parameters().0 as f64
}

/// Whether any layer has experts: which rows of errors a prediction belongs to.
pub(super) fn has_experts(architecture: &Architecture) -> bool {
    architecture
        .layers
        .iter()
        .any(|run| matches!(run.layer.feed_forward, FeedForward::Experts { .. }))
}

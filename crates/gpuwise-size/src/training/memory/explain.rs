//! How the memory of a rank comes about, as a tree.

use super::{
    TrainingMemoryError,
    activations::{kept, logits},
    adapters::Resolved,
    resolved,
    states::{Parameters, Stage, frozen_copy, per_parameter, stages},
    training_memory,
};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::{
    estimate::Derivation,
    model::Architecture,
    training::{MemoryCause as C, Method, Recompute, Sharding, TrainingSetup},
};
use gpuwise_units::{Bytes, significant};

const SOURCE: &str = "docs/concepts/training-memory.md";

/// The fullest rank's peak, down to shapes and settings.
///
/// # Errors
/// As [`training_memory`].
pub fn explain(
    architecture: &Architecture,
    setup: &TrainingSetup,
) -> Result<Derivation, TrainingMemoryError> {
    let memory = training_memory(architecture, setup)?;
    let adapter = resolved(architecture, setup)?;
    let all = stages(architecture, setup)?;
    let Some(rank) = memory.fullest() else {
        return Ok(Derivation::computed("memory", "–", "", Vec::new()));
    };
    let stage = all.iter().find(|stage| stage.index == rank.stage);
    let inputs = rank
        .causes
        .iter()
        .map(|(cause, bytes)| {
            let (name, formula) = words(*cause, setup);
            let inputs = stage.map_or_else(Vec::new, |stage| {
                inputs_of(*cause, architecture, setup, stage, adapter.as_ref())
            });
            let mut out = Derivation::computed(name, bytes.to_string(), formula, inputs);
            out.source = SOURCE.into();
            out
        })
        .collect();
    Ok(Derivation::computed(
        format!("memory of pipeline stage {}", rank.stage),
        Bytes::from_f64(rank.peak.value).to_string(),
        "the sum at the highest phase of a step",
        inputs,
    ))
}

/// What a cause follows from.
fn inputs_of(
    cause: C,
    architecture: &Architecture,
    setup: &TrainingSetup,
    stage: &Stage<'_>,
    adapter: Option<&Resolved>,
) -> Vec<Derivation> {
    match cause {
        C::Gradients if adapter.is_some() => Vec::new(),
        C::Weights | C::MasterWeights | C::Gradients | C::OptimizerStates => {
            let parameters = Parameters::of(architecture, stage, setup);
            core::iter::once(parameter_count(&parameters))
                .chain(each(cause, setup))
                .collect()
        }
        C::Activations | C::Working => {
            let share = stage.layers.first().map(|(_, layer)| {
                let kept = kept(architecture, layer, setup, adapter);
                let again = setup.recompute == Recompute::Full && cause == C::Activations;
                Derivation::computed(
                    "a layer's share of one token",
                    format!(
                        "{} bytes",
                        significant(if again { kept.input } else { kept.token }, 6)
                    ),
                    "inputs of norms, matmuls, attention and activation functions",
                    Vec::new(),
                )
            });
            share.into_iter().chain([tokens(setup)]).collect()
        }
        C::Reference => {
            let parameters = Parameters::of(architecture, stage, setup);
            let each = Derivation::fact(
                "bytes a parameter",
                significant(frozen_copy(setup), 3),
                "as the policy is loaded, without an FP32 copy beside it",
            );
            alloc::vec![parameter_count(&parameters), each]
        }
        C::RolloutEngine => setup.grpo().map_or_else(Vec::new, |grpo| {
            let share = grpo.engine.share;
            alloc::vec![Derivation::fact(
                "vllm_gpu_memory_utilization",
                significant(share, 3),
                "the setup",
            )]
        }),
        C::Logits => {
            let (_, backward) = logits(architecture, setup);
            let one = Derivation::computed(
                "logits of one token",
                format!("{} bytes", significant(backward, 6)),
                "vocabulary × bytes of logits, their copies and gradients",
                Vec::new(),
            );
            let scored = setup.grpo().map(|grpo| {
                Derivation::fact(
                    "tokens that are scored",
                    format!("{} of {}", grpo.completion, setup.sequence.0),
                    "logits_to_keep: those of the completion",
                )
            });
            [one, tokens(setup)].into_iter().chain(scored).collect()
        }
        _ => Vec::new(),
    }
}

fn tokens(setup: &TrainingSetup) -> Derivation {
    Derivation::fact(
        "tokens of a micro-batch",
        format!(
            "{} × {} / {} context ranks",
            setup.micro_batch * setup.sequences_each(),
            setup.sequence.0,
            setup.layout.context
        ),
        "the setup",
    )
}

fn parameter_count(parameters: &Parameters) -> Derivation {
    Derivation::fact(
        "parameters of the rank",
        significant(parameters.all(), 6),
        "shapes of the model's configuration, divided by TP, PP and EP",
    )
}

fn each(cause: C, setup: &TrainingSetup) -> Option<Derivation> {
    if setup.method != Method::Full {
        return None;
    }
    let bytes = per_parameter(setup);
    let value = match cause {
        C::Weights => bytes.weight,
        C::MasterWeights => bytes.master,
        C::Gradients => bytes.gradient,
        _ => bytes.moments,
    };
    Some(Derivation::fact(
        "bytes a parameter",
        significant(value, 3),
        "recipe, framework and optimizer",
    ))
}

fn words(cause: C, setup: &TrainingSetup) -> (&'static str, String) {
    let sharded = match setup.sharding {
        Sharding::None => "(not sharded)".to_string(),
        Sharding::Optimizer => "(ZeRO-1: FP32 copies and moments ÷ data ranks)".into(),
        Sharding::Gradients => "(ZeRO-2: gradients, FP32 copies, moments ÷ data ranks)".into(),
        Sharding::Full => "(all ÷ data ranks)".into(),
        Sharding::Hybrid { group } => format!("(all ÷ {group} ranks of a group)"),
    };
    let frozen = setup.method != Method::Full;
    match cause {
        C::Weights => ("weights", format!("parameters × bytes {sharded}")),
        C::MasterWeights => ("FP32 weights", format!("parameters × 4 {sharded}")),
        C::Gradients if frozen => ("gradients", "trained parameters × 4".into()),
        C::Gradients => ("gradients", format!("parameters × bytes {sharded}")),
        C::OptimizerStates => ("optimizer states", format!("parameters × bytes {sharded}")),
        C::Adapters => (
            "adapters",
            "trained parameters × 4, their moments, and factors that are held".into(),
        ),
        C::Reference => (
            "the reference model",
            match setup.sharding {
                Sharding::Full | Sharding::Hybrid { .. } => {
                    format!("parameters × bytes {sharded}")
                }
                _ => "parameters × bytes (whole on every rank)".into(),
            },
        ),
        C::RolloutEngine => (
            "vLLM beside training",
            "vllm_gpu_memory_utilization × memory that a program sees".into(),
        ),
        C::Gathered => (
            "gathered weights",
            "what computes, cast or gathered from other ranks".into(),
        ),
        C::Activations => (
            "activations",
            "layers × tokens × bytes kept × micro-batches in flight".into(),
        ),
        C::Working => (
            "the layer that computes",
            "tokens × bytes of one layer".into(),
        ),
        C::Logits => ("logits", "tokens × vocabulary × bytes".into()),
        C::OptimizerTemporaries => (
            "the optimizer's temporaries",
            "one copy of what it steps over".into(),
        ),
        C::Communication => ("buffers of collectives", String::new()),
        C::Context => ("context of the driver", String::new()),
        C::Fragmentation => ("fragmentation", String::new()),
    }
}

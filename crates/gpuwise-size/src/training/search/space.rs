//! Every way to divide a job over a cluster that its numbers allow.

use super::{
    Cluster,
    request::{Degrees, TrainChoices},
    shape::{Shape, divisors},
};
use alloc::{vec, vec::Vec};
use gpuwise_domain::training::{
    BaseStorage, Framework, LossKernel, Method, Recompute, Sharding, TrainingLayout, TrainingSetup,
};
use gpuwise_units::Tokens;

/// Tokens of an optimizer step where no batch is stated and every weight is trained.
const FULL_STEP_TOKENS: u64 = 1 << 20;
/// Sequences of an optimizer step where no batch is stated, at least; adapters: exactly, and so many
/// pairs or prompts.
const LEAST_BATCH: u64 = 64;
/// The largest micro-batch that is tried.
const MOST_MICRO: u64 = 256;
/// The most virtual stages of a pipeline rank that are tried unasked.
const MOST_INTERLEAVE: u64 = 8;
/// Context parallelism is tried unasked while this many tokens stay on a rank.
const LEAST_CONTEXT: u64 = 4096;

/// One way to lie on a cluster; micro-batch and recomputation are open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Placement {
    pub(crate) framework: Framework,
    pub(crate) layout: TrainingLayout,
    pub(crate) sharding: Sharding,
}

/// Sequences of an optimizer step (pairs, completions) on so many GPUs that train.
pub fn global_batch(choices: &TrainChoices, gpus: u64) -> u64 {
    choices.global_batch.unwrap_or_else(|| {
        let group = choices.group();
        let usual = match (&choices.alignment, &choices.method) {
            (Some(_), _) => LEAST_BATCH * group,
            (None, Method::Full) => (FULL_STEP_TOKENS / choices.sequence.max(1)).max(LEAST_BATCH),
            (None, Method::Adapter(_)) => LEAST_BATCH,
        };
        usual.next_multiple_of(least_common(gpus.max(1), group))
    })
}

/// The least number that both divide.
pub(crate) fn least_common(a: u64, b: u64) -> u64 {
    let shared = divisors(a.min(b)).filter(|d| a.max(b).is_multiple_of(*d));
    (a / shared.max().unwrap_or(1)).saturating_mul(b)
}

/// Frameworks that may be chosen.
pub(crate) fn frameworks(choices: &TrainChoices) -> Vec<Framework> {
    if let Some(framework) = choices.framework {
        return vec![framework];
    }
    let megatron_only = choices.degrees.beyond_data().is_some();
    match &choices.method {
        _ if choices.alignment.is_some() => vec![Framework::HuggingFace],
        _ if megatron_only => vec![Framework::Megatron],
        Method::Full => vec![Framework::PyTorch, Framework::Megatron],
        Method::Adapter(_) => vec![Framework::HuggingFace],
    }
}

/// Every placement, simplest first.
pub(crate) fn placements(
    shape: &Shape,
    choices: &TrainChoices,
    cluster: &Cluster<'_>,
) -> Vec<Placement> {
    let mut out = Vec::new();
    for framework in frameworks(choices) {
        // Only Megatron's degrees are searched; others have those that are stated.
        let degrees = match framework {
            Framework::Megatron => choices.degrees,
            _ => choices.degrees.or_none(),
        };
        if !framework.divides_models() && degrees.beyond_data().is_some() {
            continue;
        }
        for layout in layouts(shape, (choices.sequence, &degrees), cluster) {
            push(&mut out, choices, cluster, framework, layout);
        }
    }
    out
}

fn push(
    out: &mut Vec<Placement>,
    choices: &TrainChoices,
    cluster: &Cluster<'_>,
    framework: Framework,
    layout: TrainingLayout,
) {
    for sharding in shardings(choices, cluster, framework, &layout) {
        out.push(Placement {
            framework,
            layout,
            sharding,
        });
    }
}

/// Ways to divide states that a framework has for a layout.
fn shardings(
    choices: &TrainChoices,
    cluster: &Cluster<'_>,
    framework: Framework,
    layout: &TrainingLayout,
) -> Vec<Sharding> {
    let copies = u64::from(layout.data) * u64::from(layout.context);
    match choices.sharding {
        Some(Sharding::Hybrid { group }) if !copies.is_multiple_of(u64::from(group)) => {
            return Vec::new();
        }
        Some(sharding) => return vec![sharding],
        None => {}
    }
    if copies == 1 {
        return vec![Sharding::None];
    }
    let base = match &choices.method {
        Method::Adapter(adapter) => adapter.base,
        Method::Full => BaseStorage::SixteenBit,
    };
    match framework {
        Framework::Megatron => vec![Sharding::Optimizer],
        // Of quantized weights FSDP shards those in 4 bits, stored as 16-bit elements; those in 8 bits
        // stay whole on each rank.
        Framework::HuggingFace if base == BaseStorage::EightBit => vec![Sharding::None],
        Framework::HuggingFace if matches!(base, BaseStorage::Nf4 { .. }) => {
            vec![Sharding::None, Sharding::Full]
        }
        Framework::HuggingFace => vec![Sharding::None, Sharding::Gradients, Sharding::Full],
        Framework::PyTorch | Framework::Torchtune | Framework::Torchtitan => {
            let mut all = vec![Sharding::None, Sharding::Gradients, Sharding::Full];
            let group = cluster.domain;
            if group > 1 && copies > u64::from(group) && copies.is_multiple_of(u64::from(group)) {
                all.push(Sharding::Hybrid { group });
            }
            all
        }
    }
}

fn layouts(
    shape: &Shape,
    (sequence, fixed): (u64, &Degrees),
    cluster: &Cluster<'_>,
) -> Vec<TrainingLayout> {
    let gpus = cluster.gpus;
    let mut out = Vec::new();
    let domain = u64::from(cluster.domain.max(1));
    for tensor in degrees(fixed.tensor, gpus, |degree| degree <= domain) {
        if !shape.takes_tensor(tensor) {
            continue;
        }
        let left = gpus / u64::from(tensor);
        for context in degrees(fixed.context, left, |degree| {
            degree == 1 || sequence / degree >= LEAST_CONTEXT
        }) {
            if !divides_sequence(sequence, context) {
                continue;
            }
            let left = left / u64::from(context);
            for pipeline in degrees(fixed.pipeline, left, |_| true) {
                // Stages of unequal layers are not tried unasked.
                let stages = u64::from(pipeline);
                let deals = match fixed.pipeline {
                    Some(_) => shape.fills_stages(stages),
                    None => shape.balances_stages(stages),
                };
                if !deals {
                    continue;
                }
                let Ok(data) = u32::try_from(left / u64::from(pipeline)) else {
                    continue;
                };
                if fixed.data.is_some_and(|stated| stated != data) {
                    continue;
                }
                let base = TrainingLayout {
                    tensor,
                    pipeline,
                    interleave: 1,
                    context,
                    expert: 1,
                    data,
                    sequence_parallel: tensor > 1,
                };
                with_experts(shape, fixed, base, &mut out);
            }
        }
    }
    out
}

/// A layout with each way to deal experts and to interleave.
fn with_experts(
    shape: &Shape,
    fixed: &Degrees,
    base: TrainingLayout,
    out: &mut Vec<TrainingLayout>,
) {
    let ranks = u64::from(base.tensor) * u64::from(base.context) * u64::from(base.data);
    let most = ranks.min(shape.experts.max(1));
    let expert: Vec<u32> = match fixed.expert {
        Some(stated) => vec![stated],
        None => divisors(most)
            .filter_map(|d| u32::try_from(d).ok())
            .collect(),
    };
    for expert in expert {
        if !shape.takes_experts(expert) || !ranks.is_multiple_of(u64::from(expert)) {
            continue;
        }
        for interleave in interleaves(shape, fixed, base.pipeline) {
            out.push(TrainingLayout {
                interleave,
                expert,
                ..base
            });
        }
    }
}

/// Virtual stages that layers can be dealt to.
fn interleaves(shape: &Shape, fixed: &Degrees, pipeline: u32) -> Vec<u32> {
    let all = |interleave: u32| u64::from(pipeline) * u64::from(interleave);
    match fixed.interleave {
        Some(stated) => {
            let fits = stated == 1 || pipeline > 1 && shape.fills_stages(all(stated));
            fits.then_some(stated).into_iter().collect()
        }
        None if pipeline == 1 => vec![1],
        None => (1..=MOST_INTERLEAVE as u32)
            .filter(|v| *v == 1 || shape.balances_stages(all(*v)))
            .collect(),
    }
}

fn degrees(fixed: Option<u32>, of: u64, allowed: impl Fn(u64) -> bool) -> Vec<u32> {
    match fixed {
        Some(stated) if stated > 0 && of.is_multiple_of(u64::from(stated)) => vec![stated],
        Some(_) => Vec::new(),
        None => divisors(of)
            .filter(|degree| allowed(*degree))
            .filter_map(|degree| u32::try_from(degree).ok())
            .collect(),
    }
}

/// Context parallel ranks take two chunks each, so that causal work is balanced.
pub(crate) fn divides_sequence(sequence: u64, context: u32) -> bool {
    context == 1 || sequence.is_multiple_of(2 * u64::from(context))
}

/// Micro-batches that divide a rank's share of the global batch, ascending.
pub(crate) fn micro_batches(choices: &TrainChoices, placement: &Placement, batch: u64) -> Vec<u64> {
    let data = u64::from(placement.layout.data);
    if batch == 0 || !batch.is_multiple_of(data) || !batch.is_multiple_of(choices.group()) {
        return Vec::new();
    }
    let share = batch / data;
    let mut all: Vec<u64> = match choices.micro_batch {
        Some(stated) => vec![stated],
        None => (0..64)
            .map(|power| 1_u64 << power)
            .take_while(|micro| *micro <= MOST_MICRO.min(share))
            .collect(),
    };
    let (stages, interleave) = (
        u64::from(placement.layout.pipeline),
        placement.layout.interleave,
    );
    all.retain(|micro| {
        *micro > 0
            && share.is_multiple_of(*micro)
            // The interleaved schedule takes micro-batches in groups of as many as stages.
            && (interleave == 1 || (share / micro).is_multiple_of(stages))
    });
    all
}

/// What a framework may compute again, least first; parts of a layer are tried unasked in Megatron alone.
pub(crate) fn recomputes(choices: &TrainChoices, framework: Framework) -> Vec<Recompute> {
    match (choices.recompute, framework) {
        (Some(Recompute::Selective), _) if !framework.recomputes_parts() => Vec::new(),
        (Some(stated), _) => vec![stated],
        // What is offloaded is what checkpointed layers keep.
        (None, _) if choices.offload.activations => vec![Recompute::Full],
        (None, Framework::Megatron) => Recompute::ALL.to_vec(),
        (None, _) => vec![Recompute::None, Recompute::Full],
    }
}

/// The setup of a placement.
pub(crate) fn setup(
    choices: &TrainChoices,
    placement: &Placement,
    micro_batch: u64,
    global_batch: u64,
    recompute: Recompute,
) -> TrainingSetup {
    let usual_loss = match placement.framework {
        Framework::HuggingFace => LossKernel::Eager,
        Framework::PyTorch | Framework::Torchtune | Framework::Torchtitan => LossKernel::Chunked,
        Framework::Megatron => LossKernel::VocabularyParallel,
    };
    TrainingSetup {
        method: choices.method.clone(),
        alignment: choices.alignment,
        recipe: choices.recipe,
        optimizer: choices.optimizer,
        recompute,
        loss: choices.loss.unwrap_or(usual_loss),
        framework: placement.framework,
        sequence: Tokens(choices.sequence),
        micro_batch,
        global_batch,
        layout: placement.layout,
        sharding: placement.sharding,
        offload: choices.offload,
        compiled: choices.compiled,
        step_in_backward: false,
    }
}

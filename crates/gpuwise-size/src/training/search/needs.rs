//! What a setup asks of links, network and storage.

use super::Cluster;
use alloc::vec::Vec;
use gpuwise_domain::{
    model::{Architecture, FeedForward},
    training::{
        Framework, Method, Recipe, Sharding, StepCause, StepTime, TrainingMemory, TrainingSetup,
    },
    training_plan::{CheckpointPlan, TrafficKind, TrafficNeed, TrainingNeeds},
};
use gpuwise_units::Bytes;

/// Bytes of an activation element between ranks.
const ACTIVATION: f64 = 2.0;
/// Checkpoints that are kept: the last one, and the one before until it is whole.
const KEPT: u64 = 2;
/// Bytes of a stored token where the vocabulary has more than 2^16 entries, and else.
const TOKEN_BYTES: (u64, u64) = (4, 2);

/// Seconds of a step in which GPUs compute: what traffic can hide behind.
pub(crate) fn computing(step: &StepTime) -> f64 {
    step.parts
        .iter()
        .filter(|(cause, _)| {
            matches!(
                cause,
                StepCause::Matmul
                    | StepCause::Attention
                    | StepCause::Elementwise
                    | StepCause::Loss
                    | StepCause::Recompute
                    | StepCause::Launch
                    | StepCause::Reference
                    | StepCause::OldLogProbs
            )
        })
        .map(|(_, seconds)| seconds)
        .sum()
}

/// Counts of one rank that traffic follows from.
struct Rank {
    /// Tokens of a micro-batch on this rank.
    tokens: f64,
    /// Micro-batches of a step.
    micro_batches: f64,
    layers: f64,
}

impl Rank {
    fn of(architecture: &Architecture, setup: &TrainingSetup) -> Self {
        let layout = &setup.layout;
        let share = setup.global_batch / u64::from(layout.data.max(1));
        Self {
            tokens: setup.micro_batch as f64 * setup.sequence.0 as f64
                / f64::from(layout.context.max(1)),
            micro_batches: (share / setup.micro_batch.max(1)) as f64,
            layers: architecture.layer_count() as f64 / f64::from(layout.pipeline.max(1)),
        }
    }
}

/// What network and storage must give.
pub(crate) fn needs(
    architecture: &Architecture,
    setup: &TrainingSetup,
    cluster: &Cluster<'_>,
    memory: &TrainingMemory,
    step: &StepTime,
    checkpoints: &CheckpointPlan,
    tokens: Option<u64>,
) -> TrainingNeeds {
    let rank = Rank::of(architecture, setup);
    let compute = computing(step);
    let traffic = [
        tensor(architecture, setup, cluster, &rank, compute),
        context(architecture, setup, cluster, &rank, compute),
        expert(architecture, setup, cluster, &rank, compute),
        pipeline(architecture, setup, cluster, &rank, compute),
        data(architecture, setup, cluster, memory, &rank, compute),
    ];
    let small = architecture.vocabulary <= 1 << 16;
    let each = if small { TOKEN_BYTES.1 } else { TOKEN_BYTES.0 };
    let per_second = step.tokens_per_second_per_gpu.value * cluster.gpus as f64;
    let kept = checkpoints.bytes.count().saturating_mul(KEPT);
    TrainingNeeds {
        traffic: traffic.into_iter().flatten().collect::<Vec<_>>(),
        network_has: cluster.network.map(|bytes| bytes * 8.0),
        capacity: tokens.map(|tokens| Bytes::new(kept.saturating_add(tokens.saturating_mul(each)))),
        data: Some(per_second * each as f64),
        checkpoint_write: checkpoints.bytes.count() as f64 / checkpoints.write.value.max(1e-9),
    }
}

/// One kind of traffic: `local` ranks of a group share a host's way out, so each sends that part.
fn need(
    kind: TrafficKind,
    bytes: f64,
    hidden_behind: f64,
    span: u64,
    local: f64,
    cluster: &Cluster<'_>,
) -> Option<TrafficNeed> {
    let across_hosts = span > u64::from(cluster.domain.max(1));
    let crossing = if across_hosts {
        bytes / local.max(1.0)
    } else {
        bytes
    };
    (bytes > 0.0).then(|| TrafficNeed {
        kind,
        bytes,
        hidden_behind,
        bits_per_second: crossing * 8.0 / hidden_behind.max(1e-9),
        across_hosts,
    })
}

/// Two all-reduces forward and two backward in each layer, a ring's bytes each.
fn tensor(
    architecture: &Architecture,
    setup: &TrainingSetup,
    cluster: &Cluster<'_>,
    rank: &Rank,
    compute: f64,
) -> Option<TrafficNeed> {
    let ranks = f64::from(setup.layout.tensor);
    let ring = 2.0 * (ranks - 1.0) / ranks;
    let message = rank.tokens * architecture.hidden as f64 * ACTIVATION;
    let bytes = 4.0 * ring * message * rank.layers * rank.micro_batches;
    let span = u64::from(setup.layout.tensor);
    need(TrafficKind::Tensor, bytes, compute, span, 1.0, cluster)
}

/// Keys and values of the other ranks, forward once and backward twice (with their gradients).
fn context(
    architecture: &Architecture,
    setup: &TrainingSetup,
    cluster: &Cluster<'_>,
    rank: &Rank,
    compute: f64,
) -> Option<TrafficNeed> {
    let layout = &setup.layout;
    let per_token: f64 = architecture
        .layers
        .iter()
        .map(|run| run.count as f64 * run.layer.mixer.trained_keys_and_values() as f64)
        .sum();
    let shared = f64::from(layout.tensor) * f64::from(layout.pipeline);
    let others = f64::from(layout.context) - 1.0;
    let bytes = 3.0 * others * rank.tokens * per_token * ACTIVATION * rank.micro_batches / shared;
    let span = u64::from(layout.tensor) * u64::from(layout.context);
    need(TrafficKind::Context, bytes, compute, span, 1.0, cluster)
}

/// Tokens to their experts and back, forward and backward; a copy for each rank that has a chosen
/// expert.
fn expert(
    architecture: &Architecture,
    setup: &TrainingSetup,
    cluster: &Cluster<'_>,
    rank: &Rank,
    compute: f64,
) -> Option<TrafficNeed> {
    let layout = &setup.layout;
    let ranks = f64::from(layout.expert);
    if layout.expert <= 1 {
        return None;
    }
    let copies: f64 = architecture
        .layers
        .iter()
        .filter_map(|run| match run.layer.feed_forward {
            FeedForward::Experts { chosen, .. } => {
                Some(run.count as f64 * (chosen as f64).min(ranks))
            }
            _ => None,
        })
        .sum();
    let tokens = rank.tokens / f64::from(layout.tensor);
    let each = architecture.hidden as f64 * ACTIVATION * (ranks - 1.0) / ranks;
    let layers = copies / f64::from(layout.pipeline);
    let mut bytes = 4.0 * tokens * each * layers * rank.micro_batches;
    let span = u64::from(layout.expert);
    // Of all copies only those to ranks of other hosts cross.
    let inside = f64::from(cluster.domain.max(1));
    if ranks > inside {
        bytes *= (ranks - inside) / (ranks - 1.0);
    }
    need(TrafficKind::Expert, bytes, compute, span, 1.0, cluster)
}

/// Activations to the next stage and their gradients back.
fn pipeline(
    architecture: &Architecture,
    setup: &TrainingSetup,
    cluster: &Cluster<'_>,
    rank: &Rank,
    compute: f64,
) -> Option<TrafficNeed> {
    let layout = &setup.layout;
    if layout.pipeline <= 1 {
        return None;
    }
    let shared = if layout.sequence_parallel {
        f64::from(layout.tensor)
    } else {
        1.0
    };
    let message = rank.tokens * architecture.hidden as f64 * ACTIVATION / shared;
    let bytes = 2.0 * message * rank.micro_batches * f64::from(layout.interleave);
    need(
        TrafficKind::Pipeline,
        bytes,
        compute,
        layout.gpus(),
        1.0,
        cluster,
    )
}

/// Gradients and weights between data-parallel ranks.
fn data(
    architecture: &Architecture,
    setup: &TrainingSetup,
    cluster: &Cluster<'_>,
    memory: &TrainingMemory,
    rank: &Rank,
    compute: f64,
) -> Option<TrafficNeed> {
    let layout = &setup.layout;
    let copies = f64::from(layout.data) * f64::from(layout.context);
    if copies <= 1.0 {
        return None;
    }
    let shared = f64::from(layout.tensor) * f64::from(layout.pipeline);
    let trained = memory.trainable as f64 / shared;
    let base = match setup.method {
        Method::Full => trained,
        Method::Adapter(_) => architecture.parameters().0 as f64 / shared,
    };
    let width = if setup.recipe == Recipe::Fp32 {
        4.0
    } else {
        2.0
    };
    let part = (copies - 1.0) / copies;
    // Each micro-batch gathers weights forward and backward where they are sharded, and reduces
    // gradients; elsewhere both are done once a step, behind one micro-batch.
    let (bytes, behind) = match setup.sharding {
        Sharding::Full | Sharding::Hybrid { .. } => {
            // Log-probs of the reference, and of the policy that wrote, are forward passes of their own.
            let passes = [setup.reference().is_some(), setup.grpo().is_some()];
            let forward = passes.iter().filter(|runs| **runs).count() as f64;
            let gathered = (2.0 + forward) * base + trained;
            (gathered * width * rank.micro_batches, compute)
        }
        Sharding::Gradients => (
            (base.min(trained) + trained) * width * rank.micro_batches,
            compute,
        ),
        Sharding::None | Sharding::Optimizer => {
            (2.0 * trained * width, compute / rank.micro_batches.max(1.0))
        }
    };
    let inner = if setup.framework == Framework::Megatron {
        u64::from(layout.tensor)
    } else {
        1
    };
    let span = inner * copies as u64;
    let local = f64::from(cluster.domain.max(1)) / inner as f64;
    need(
        TrafficKind::Data,
        bytes * part,
        behind,
        span,
        local,
        cluster,
    )
}

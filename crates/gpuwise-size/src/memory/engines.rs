//! What engines keep besides weights and cache, by version.

use super::Overhead;
use crate::setup::Setup;
use alloc::{format, string::String, vec, vec::Vec};
use gpuwise_domain::{
    engine::EngineKind,
    model::{FeedForward, Layer},
};

const GIB: f64 = 1073741824.0;
const MIB: f64 = 1048576.0;

/// The budget of the engine in bytes, and its overheads.
pub fn overheads(setup: &Setup<'_>, visible: f64, weights: f64) -> (f64, Vec<Overhead>) {
    match setup.engine.kind {
        EngineKind::Vllm => vllm(setup, visible),
        EngineKind::Sglang => sglang(setup, visible),
        EngineKind::TensorRtLlm => tensorrt(setup, visible, weights),
        EngineKind::LlamaCpp => llamacpp(setup, visible),
        EngineKind::Transformers | EngineKind::DeepSpeedMii => transformers(setup, visible),
    }
}

fn part(name: &'static str, bytes: f64, formula: impl Into<String>) -> Overhead {
    Overhead {
        name,
        bytes,
        outside_budget: false,
        formula: formula.into(),
    }
}

/// Bytes of the rotary table, which vLLM keeps for every position that the model states.
fn rotary(setup: &Setup<'_>) -> f64 {
    let positions = setup
        .architecture
        .max_context
        .map_or(0.0, |tokens| tokens.0 as f64);
    positions * setup.architecture.rotary_elements as f64 * 2.0
}

/// Logits and what sorting them takes, and the widest layer's activations, in the profile run.
fn activations(setup: &Setup<'_>, sorts: bool) -> (f64, f64) {
    let tokens = setup.settings.batched_tokens as f64;
    let sequences = setup.settings.sequences as f64;
    let hidden = setup.architecture.hidden as f64;
    let vocabulary = setup.architecture.vocabulary as f64;
    let sampler = if sorts { 38.4 } else { 10.0 } * sequences * vocabulary + 2.0 * tokens * hidden;
    let forward = setup
        .architecture
        .layers
        .iter()
        .map(|run| layer_activations(&run.layer, setup, tokens))
        .fold(0.0, f64::max);
    (sampler, forward)
}

fn layer_activations(layer: &Layer, setup: &Setup<'_>, tokens: f64) -> f64 {
    let hidden = setup.architecture.hidden as f64;
    let tensor = f64::from(setup.layout.tensor);
    match layer.feed_forward {
        FeedForward::Dense { width, .. } => {
            2.0 * tokens * (3.0 * width as f64 / tensor + 4.0 * hidden)
        }
        FeedForward::Experts { chosen, width, .. } => {
            let within = f64::from(setup.layout.expert_tensor());
            2.0 * tokens * chosen as f64 * (3.0 * width as f64 / within + hidden)
                + 8.0 * tokens * hidden
        }
        FeedForward::None => 8.0 * tokens * hidden,
    }
}

fn vllm(setup: &Setup<'_>, visible: f64) -> (f64, Vec<Overhead>) {
    let engine = &setup.engine;
    let budget = visible * setup.settings.memory_fraction;
    let first_generation = !engine.at_least([0, 8, 0]);
    let tokens = setup.settings.batched_tokens as f64;
    let hidden = setup.architecture.hidden as f64;
    let (sampler, forward) = activations(setup, !first_generation);
    let activation = sampler.max(forward);
    let parallel = setup.layout.stage_gpus() > 1;
    let mut parts = vec![
        part(
            "rotary table",
            rotary(setup),
            "positions × rotary elements × 2 B",
        ),
        part(
            "activations",
            activation,
            format!(
                "max(sampler 38.4·S·V + 2·T·h, forward) with S = {}, T = {}",
                setup.settings.sequences, setup.settings.batched_tokens
            ),
        ),
    ];
    if engine.at_least([0, 12, 0]) {
        parts.push(part("hidden buffers", 4.0 * tokens * hidden, "4·T·h"));
        parts.push(part(
            "context and kernels",
            0.5 * GIB,
            "0.5 GiB, fitted on logged capacities",
        ));
    } else {
        let bytes = if parallel { 0.55 } else { 0.13 } * GIB;
        parts.push(part(
            "context and collectives",
            bytes,
            "0.13 GiB, 0.55 with several ranks",
        ));
    }
    if engine.at_least([0, 21, 0]) && !setup.settings.eager {
        parts.push(part(
            "CUDA graphs",
            0.36 * GIB,
            "estimate subtracted since 0.21",
        ));
    }
    parts.extend(encoder(setup));
    (budget, parts)
}

/// The profile run of a tower on its largest item, and the cache of its outputs.
fn encoder(setup: &Setup<'_>) -> Option<Overhead> {
    let tower = setup.architecture.towers.first()?;
    let patches = tower.largest_patches? as f64;
    let tensor = f64::from(setup.layout.tensor);
    let bytes = 2.0 * patches * (6.0 * tower.hidden as f64 + 2.0 * tower.width as f64 / tensor)
        + 2.0
            * tower.largest_item.map_or(0.0, |t| t.0 as f64)
            * setup.architecture.hidden as f64
            * 2.0;
    Some(part(
        "encoder profile",
        bytes,
        "patches of the largest item × (6·h + 2·f/TP) × 2 B",
    ))
}

fn sglang(setup: &Setup<'_>, visible: f64) -> (f64, Vec<Overhead>) {
    let gib = visible / GIB;
    let tensor = f64::from(setup.layout.tensor);
    let graphs = if gib < 20.0 {
        8.0
    } else if gib < 35.0 {
        48.0
    } else if gib < 60.0 {
        32.0
    } else if gib < 90.0 {
        256.0
    } else {
        512.0
    };
    let chunk = (setup.settings.batched_tokens as f64).max(2048.0);
    let stages = f64::from(setup.layout.pipeline);
    let data = f64::from(setup.layout.attention_data);
    let mut reserved = 512.0 + 1.5 * chunk + 2.0 * graphs + 128.0 * tensor * stages;
    if data > 1.0 {
        reserved += 3.0 * graphs * data;
    }
    if gib > 60.0 {
        reserved = reserved.max(10_240.0);
    }
    let stated = setup.settings.memory_fraction;
    let by_default = 1.0 - reserved * MIB / visible;
    // A fraction of 0.9 is what other engines default to; SGLang derives its own.
    let fraction = if (stated - 0.9).abs() < 1e-9 {
        by_default
    } else {
        stated
    };
    let parts = vec![part(
        "rotary table",
        rotary(setup),
        "positions × rotary elements × 2 B",
    )];
    (visible * fraction, parts)
}

fn tensorrt(setup: &Setup<'_>, visible: f64, weights: f64) -> (f64, Vec<Overhead>) {
    let (_, forward) = activations(setup, false);
    let workspace = forward
        + 1.0 * GIB
        + if setup.layout.stage_gpus() > 1 {
            0.6 * GIB
        } else {
            0.0
        };
    // The fraction is of what is free after weights and workspace.
    let free = (visible - weights - workspace).max(0.0);
    let parts = vec![part(
        "workspace and context",
        workspace,
        "forward activations + 1 GiB, 1.6 with several ranks",
    )];
    (
        weights + workspace + free * setup.settings.memory_fraction,
        parts,
    )
}

fn llamacpp(setup: &Setup<'_>, visible: f64) -> (f64, Vec<Overhead>) {
    let architecture = setup.architecture;
    let batch = setup.settings.batched_tokens as f64;
    let width = architecture
        .layers
        .iter()
        .map(|run| match run.layer.feed_forward {
            FeedForward::Dense { width, .. } => width as f64,
            FeedForward::Experts { width, chosen, .. } => (width * chosen) as f64,
            FeedForward::None => 0.0,
        })
        .fold(0.0, f64::max);
    let compute = (architecture.vocabulary as f64 * 4.0)
        .max(4.0 * width + 8.0 * architecture.hidden as f64)
        * batch;
    let gpus = f64::from(setup.layout.replica_gpus());
    let context = (0.35 + 0.55 * (gpus - 1.0) / gpus) * GIB;
    let parts = vec![
        part(
            "compute buffer",
            compute,
            "max(4·V, 4·f + 8·h) × micro-batch",
        ),
        part(
            "context",
            context,
            "0.35 GiB and 0.55 GiB for each further GPU",
        ),
    ];
    (visible, parts)
}

fn transformers(setup: &Setup<'_>, visible: f64) -> (f64, Vec<Overhead>) {
    let (_, forward) = activations(setup, false);
    let logits =
        setup.architecture.vocabulary as f64 * 4.0 * setup.settings.sequences.min(64) as f64;
    let parts = vec![
        part(
            "activations",
            forward.min(4.0 * GIB) + logits,
            "widest layer and logits",
        ),
        part("context", 0.5 * GIB, "0.5 GiB"),
    ];
    (visible * 0.95, parts)
}

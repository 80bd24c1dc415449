//! What engines keep besides weights and cache.

use super::{
    Overhead, Part,
    vllm::{self, rotary, widest_layer},
    weights::allocator_slack,
};
use crate::{
    derive::{Amount, Said},
    setup::Setup,
};
use alloc::{format, string::String, vec, vec::Vec};
use gpuwise_domain::{derivation::Unit, engine::EngineKind, layout::Layout, model::FeedForward};

pub(super) const GIB: f64 = 1073741824.0;
const MIB: f64 = 1048576.0;

/// The budget of the engine in bytes, and its overheads.
pub fn overheads(setup: &Setup<'_>, visible: f64, weights: f64) -> (f64, Vec<Overhead>) {
    let parts = match setup.engine.kind {
        EngineKind::Vllm => vllm::overheads(setup, weights),
        EngineKind::Sglang => sglang(setup, visible),
        EngineKind::TensorRtLlm => tensorrt(setup),
        EngineKind::LlamaCpp => llamacpp(setup),
        EngineKind::Transformers | EngineKind::DeepSpeedMii => transformers(setup),
    };
    (budget(setup, visible, weights, &parts), parts)
}

/// The engine's budget: a share of the memory that it sees; TensorRT-LLM takes its share of what is
/// free after weights and workspace.
pub(super) fn budget<A: Amount>(
    setup: &Setup<'_>,
    visible: A,
    weights: A,
    overheads: &[Overhead],
) -> A {
    let fraction = || {
        Said::new("memory fraction", Unit::Number)
            .digits(4)
            .from("the engine's setting")
    };
    let fraction = A::input(fraction_of(setup), fraction);
    if setup.engine.kind != EngineKind::TensorRtLlm {
        return visible * fraction;
    }
    let held = overheads.iter().map(explained).sum::<A>();
    let taken = weights + held;
    taken.clone() + (visible - taken).or_more(A::number(0.0)) * fraction
}

/// Share of visible memory that an engine may take.
fn fraction_of(setup: &Setup<'_>) -> f64 {
    match setup.engine.kind {
        EngineKind::LlamaCpp => 1.0,
        EngineKind::Transformers | EngineKind::DeepSpeedMii => 0.95,
        EngineKind::Vllm | EngineKind::Sglang | EngineKind::TensorRtLlm => {
            setup.settings.memory_fraction
        }
    }
}

/// An overhead as an input of a formula.
pub(super) fn explained<A: Amount>(overhead: &Overhead) -> A {
    A::input(overhead.bytes, || {
        Said::new(overhead.name, Unit::Bytes).from(overhead.formula.clone())
    })
}

pub(super) fn part(
    kind: Part,
    name: &'static str,
    bytes: f64,
    formula: impl Into<String>,
) -> Overhead {
    Overhead {
        kind,
        name,
        bytes,
        outside_budget: false,
        formula: formula.into(),
    }
}

/// Share of memory that SGLang takes by itself: it reserves activations, graphs and collectives up
/// front, for so many tokens of a step, and the static fraction is what that leaves.
pub(crate) fn sglang_fraction(visible: f64, layout: Layout, batched_tokens: u64) -> f64 {
    let gib = visible / GIB;
    let tensor = f64::from(layout.tensor);
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
    let chunk = (batched_tokens as f64).max(2048.0);
    let stages = f64::from(layout.pipeline);
    let data = f64::from(layout.attention_data);
    let mut reserved = 512.0 + 1.5 * chunk + 2.0 * graphs + 128.0 * tensor * stages;
    if data > 1.0 {
        reserved += 3.0 * graphs * data;
    }
    if gib > 60.0 {
        reserved = reserved.max(10_240.0);
    }
    (1.0 - reserved * MIB / visible).max(0.0)
}

/// The static fraction is what holds weights and cache.
fn sglang(setup: &Setup<'_>, visible: f64) -> Vec<Overhead> {
    let fraction = setup.settings.memory_fraction;
    // The fraction is of what is free once the process and its collectives have started.
    let several = setup.layout.stage_gpus() * setup.layout.pipeline > 1;
    let taken = if several { 1.6 } else { 0.5 } * GIB;
    vec![
        rotary(setup),
        part(
            Part::Allocator,
            "allocator blocks",
            allocator_slack(setup),
            "weights of 10 MiB and more in blocks of 2 MiB",
        ),
        part(
            Part::NonTorch,
            "context and collectives",
            taken * fraction,
            "what is taken before weights load, by the static fraction",
        ),
        Overhead {
            outside_budget: true,
            ..part(
                Part::Activations,
                "activations and graphs",
                visible * (1.0 - fraction),
                "what the static fraction leaves",
            )
        },
    ]
}

/// TensorRT-LLM's fraction is of what is free after weights and workspace.
fn tensorrt(setup: &Setup<'_>) -> Vec<Overhead> {
    let several = setup.layout.stage_gpus() > 1;
    let activations = widest_layer(setup, setup.settings.batched_tokens as f64);
    let context = if several { 1.6 } else { 1.0 } * GIB;
    vec![
        part(
            Part::Activations,
            "workspace",
            activations,
            "activations of the widest layer",
        ),
        part(
            Part::NonTorch,
            "context",
            context,
            "1 GiB, 1.6 with several ranks",
        ),
    ]
}

fn llamacpp(setup: &Setup<'_>) -> Vec<Overhead> {
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
    let hidden = architecture.hidden as f64;
    let compute = (architecture.vocabulary as f64 * 4.0).max(4.0 * width + 8.0 * hidden) * batch;
    let gpus = f64::from(setup.layout.replica_gpus().max(1));
    let context = (0.35 + 0.55 * (gpus - 1.0) / gpus) * GIB;
    vec![
        part(
            Part::Activations,
            "compute buffer",
            compute,
            format!("max(4·V, 4·f + 8·h) × {batch} tokens"),
        ),
        part(
            Part::NonTorch,
            "context",
            context,
            "0.35 GiB and 0.55 GiB for each further GPU",
        ),
    ]
}

fn transformers(setup: &Setup<'_>) -> Vec<Overhead> {
    let logits =
        setup.architecture.vocabulary as f64 * 4.0 * setup.settings.sequences.min(64) as f64;
    vec![
        part(
            Part::Activations,
            "activations",
            widest_layer(setup, setup.settings.batched_tokens as f64).min(4.0 * GIB) + logits,
            "widest layer and logits",
        ),
        part(Part::NonTorch, "context", 0.5 * GIB, "0.5 GiB"),
    ]
}

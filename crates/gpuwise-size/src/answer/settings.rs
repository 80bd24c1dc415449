//! With which settings an engine runs: those that a row states, and its own for the rest.

use super::launched::Launched;
use crate::{
    memory::{sglang_fraction, visible_memory},
    setup::Settings,
};
use gpuwise_domain::{
    engine::{Engine, EngineKind},
    gpu::Device,
    layout::Layout,
    question::{Load, Question},
    recipe::{RecipeSettings, Sequences},
};

/// Settings that the row states, else those of its benchmark's recipe, else the engine's own.
pub(crate) fn settings(
    question: &Question,
    engine: &Engine,
    device: &Device<'_>,
    layout: Layout,
    recipe: &RecipeSettings,
) -> Settings {
    let number = |key: &str| question.extra(key).and_then(|v| v.parse::<f64>().ok());
    let launched = Launched::of(question);
    let stated = number("max_num_batched_tokens")
        .map(|tokens| tokens as u64)
        .or(launched.and_then(|l| l.batched_tokens()))
        .or(batched(question, recipe));
    let usual = default_settings(engine, device, layout, stated);
    Settings {
        sequences: number("max_num_seqs")
            .map(|v| v as u64)
            .or(launched.and_then(|l| l.sequences()))
            .or(sequences(question, recipe))
            .unwrap_or(usual.sequences),
        max_context: number("max_model_len")
            .map(|v| v as u64)
            .or(launched.and_then(|l| l.max_context()))
            .unwrap_or(0),
        memory_fraction: number("gpu_memory_utilization")
            .or(number("mem_fraction_static"))
            .or(launched.and_then(|l| l.memory_fraction()))
            .or(recipe.memory_fraction)
            .unwrap_or(usual.memory_fraction),
        eager: question
            .extra("note")
            .is_some_and(|note| note.contains("enforce_eager")),
        ..usual
    }
}

/// Tokens of a step as the benchmark's recipe sets them, by the nominal length of prompts.
fn batched(question: &Question, recipe: &RecipeSettings) -> Option<u64> {
    let tokens = recipe.batched_tokens?;
    Some(tokens.of(question.input?, in_flight(question)?) as u64)
}

fn sequences(question: &Question, recipe: &RecipeSettings) -> Option<u64> {
    Some(match recipe.sequences? {
        Sequences::Count(count) => count,
        Sequences::InFlight => (in_flight(question)? as u64).max(1),
    })
}

fn in_flight(question: &Question) -> Option<f64> {
    match question.load {
        Load::InFlight(requests) => Some(requests),
        _ => None,
    }
}

/// What an engine does by itself on a device, with so many tokens of a step where they are stated.
pub fn default_settings(
    engine: &Engine,
    device: &Device<'_>,
    layout: Layout,
    batched_tokens: Option<u64>,
) -> Settings {
    let gib = device
        .gpu
        .memory_reported
        .map_or(device.gpu.memory_marketing_gb, gpuwise_units::Bytes::gib);
    let ampere_data_centre = device.gpu.compute_capability == Some((8, 0));
    let large = gib >= 70.0 && !ampere_data_centre;
    let batched_tokens = batched_tokens.unwrap_or(match engine.kind {
        EngineKind::Vllm if !engine.at_least([0, 8, 0]) => 2048,
        EngineKind::Vllm if large && gib >= 160.0 && engine.at_least([0, 28, 0]) => 16384,
        EngineKind::Vllm if large => 8192,
        EngineKind::Vllm => 2048,
        EngineKind::Sglang if gib < 20.0 => 2048,
        EngineKind::Sglang if gib < 60.0 => 4096,
        EngineKind::Sglang if gib < 160.0 => 8192,
        EngineKind::Sglang => 16384,
        EngineKind::TensorRtLlm => 8192,
        EngineKind::LlamaCpp => 512,
        EngineKind::Transformers | EngineKind::DeepSpeedMii => 1_000_000_000,
    });
    let memory_fraction = match engine.kind {
        EngineKind::Sglang => sglang_fraction(visible_memory(device).0, layout, batched_tokens),
        _ => 0.9,
    };
    let sequences = match engine.kind {
        EngineKind::Vllm if large && engine.at_least([0, 8, 0]) => 1024,
        EngineKind::Vllm => 256,
        EngineKind::TensorRtLlm => 2048,
        _ => 4096,
    };
    Settings {
        batched_tokens,
        sequences,
        max_context: 0,
        memory_fraction,
        block: 16,
        eager: false,
    }
}

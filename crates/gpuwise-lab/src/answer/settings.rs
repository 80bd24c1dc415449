//! With which settings an engine runs: those that a row states, and its own for the rest.

use super::launched::Launched;
use gpuwise_domain::{
    engine::Engine,
    gpu::Device,
    layout::Layout,
    question::{Load, Question},
    recipe::{RecipeSettings, Sequences},
};
use gpuwise_size::{engines, setup::Settings};

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
    let usual = engines::model(engine.kind).settings(engine, device, layout, stated);
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

//! Recipes: with which settings a published benchmark launches its engines.
//!
//! A table of results states the engine and the layout, and leaves out the rest of the launch command,
//! which changes answers: the cache's format, the tokens of a step, for how many steps requests are
//! gathered. Launch scripts are public; what they set is a fact about the row.

use crate::{
    engine::{Engine, EngineKind, Release},
    precision::CacheFormat,
};
use alloc::string::String;

/// Settings of a launch script, and the runs that it is for. An empty condition holds for all.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    pub benchmark: String,
    pub engine: EngineKind,
    /// Whether prefill and decode run on workers apart.
    pub apart: bool,
    /// The first release that it is for.
    pub since: Option<Release>,
    /// A part of the model's name.
    pub model: String,
    /// The precision as the benchmark labels it.
    pub precision: String,
    /// The beginning of the GPU's name.
    pub gpu: String,
    pub tensor: Option<u32>,
    /// Whether it is for data-parallel attention alone.
    pub attention_data: bool,
    /// Concurrent requests, at least.
    pub in_flight: f64,
    pub sets: RecipeSettings,
    /// The script, and when it was read.
    pub source: String,
}

/// What a launch script sets; `None` leaves it to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RecipeSettings {
    pub cache: Option<CacheFormat>,
    /// The share of memory (of what is free beside the weights, in TensorRT-LLM).
    pub memory_fraction: Option<f64>,
    pub batched_tokens: Option<BatchedTokens>,
    pub sequences: Option<Sequences>,
    /// Steps for which requests are gathered before their prompts are computed: the interval at which
    /// SGLang's scheduler receives, or for which TensorRT-LLM waits until ranks are balanced.
    pub gather_steps: Option<f64>,
    /// Whether ranks of data-parallel attention compute prompts in the same steps.
    pub balanced: Option<bool>,
    /// Whether the script knows tensor parallelism alone, whatever else the row is labelled with.
    pub tensor_only: Option<bool>,
}

/// Tokens of a step, as scripts compute them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchedTokens {
    /// At least so many.
    pub least: f64,
    /// So many for each prompt token of a request.
    pub per_input: f64,
    /// So many for each request in flight.
    pub per_request: f64,
}

impl BatchedTokens {
    /// For requests of this nominal length.
    pub fn of(self, input: f64, in_flight: f64) -> f64 {
        self.least
            .max(self.per_input * input + self.per_request * in_flight)
    }
}

/// Sequences of a step at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequences {
    Count(u64),
    /// As many as are kept in flight.
    InFlight,
}

/// A run that a benchmark made, as far as recipes depend on it.
#[derive(Debug, Clone, Copy)]
pub struct BenchmarkRun<'q> {
    pub benchmark: &'q str,
    /// The engine, at its release.
    pub engine: &'q Engine,
    /// Whether prefill and decode run on workers apart.
    pub apart: bool,
    pub model: &'q str,
    pub precision: &'q str,
    /// The GPU's name in the catalogue.
    pub gpu: &'q str,
    pub tensor: Option<u32>,
    /// Whether attention is data-parallel.
    pub attention_data: bool,
    pub in_flight: f64,
}

impl Recipe {
    pub fn is_for(&self, run: &BenchmarkRun<'_>) -> bool {
        let released = |since: Release| {
            (run.engine.release).is_some_and(|release| release.numbers >= since.numbers)
        };
        self.benchmark == run.benchmark
            && self.engine == run.engine.kind
            && self.apart == run.apart
            && self.since.is_none_or(released)
            && run.model.contains(self.model.as_str())
            && run.precision.starts_with(self.precision.as_str())
            && run.gpu.starts_with(self.gpu.as_str())
            && self.tensor.is_none_or(|tensor| run.tensor == Some(tensor))
            && (!self.attention_data || run.attention_data)
            && run.in_flight >= self.in_flight
    }
}

impl RecipeSettings {
    /// What all recipes for a run set together: of two that set the same, the later one counts.
    pub fn of(recipes: &[Recipe], run: &BenchmarkRun<'_>) -> Self {
        let fits = recipes.iter().filter(|recipe| recipe.is_for(run));
        fits.fold(Self::default(), |earlier, recipe| {
            let later = recipe.sets;
            Self {
                cache: later.cache.or(earlier.cache),
                memory_fraction: later.memory_fraction.or(earlier.memory_fraction),
                batched_tokens: later.batched_tokens.or(earlier.batched_tokens),
                sequences: later.sequences.or(earlier.sequences),
                gather_steps: later.gather_steps.or(earlier.gather_steps),
                balanced: later.balanced.or(earlier.balanced),
                tensor_only: later.tensor_only.or(earlier.tensor_only),
            }
        })
    }
}

//! SGLang's pools for models whose layers keep different things: one for layers that keep the whole
//! context, one for layers with a window, one for states.
//!
//! The rules are those of `sglang/srt/model_executor/model_runner.py` in 0.5.2 and 0.5.6 and of
//! `model_runner_kv_cache_mixin.py` in 0.5.10.

use super::cache::{CacheShape, RULES};
use crate::{
    derive::{Amount, TermLabel},
    setup::Setup,
};
use gpuwise_domain::{derivation::Unit, model::Window};

/// How memory is shared out over pools.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Split {
    /// Tokens that a layer with a window holds for each token of a layer without
    /// (`swa_full_tokens_ratio`); 1 where all layers hold as many.
    pub windowed: f64,
    /// Share of memory for states (`mamba_full_memory_ratio` 0.9: 0.9 ÷ 1.9).
    pub states: f64,
    /// States that a running request keeps: of its own, of prefixes, and of drafted tokens.
    pub states_each: f64,
}

/// `swa_full_tokens_ratio`, by default.
const WINDOWED: f64 = 0.8;
/// `mamba_full_memory_ratio`, by default.
const STATES: f64 = 0.9;
/// States for each running request, so that prefixes have room
/// (`MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO`).
const STATES_EACH: f64 = 3.0;
/// Types of models with a pool for windows of their own since 0.5.10 (`is_hybrid_swa_model`).
const LISTED: [&str; 5] = [
    "gpt_oss",
    "llama4",
    "llama4_text",
    "mimo_v2_flash",
    "step3p5",
];

impl Split {
    /// The pools of the setup's release; `None` where all layers share one.
    pub(crate) fn of(setup: &Setup<'_>, shape: &CacheShape) -> Option<Self> {
        let caches = |full: bool| {
            let mut groups = shape.groups.iter();
            groups.any(|g| g.token_bytes > 0.0 && (g.window == Window::Full) == full)
        };
        let states = shape.groups.iter().any(|group| group.state_bytes > 0.0);
        let apart = caches(true) && caches(false) && windows_apart(setup);
        let drafted = setup.draft.map_or(0.0, |draft| f64::from(draft.tokens));
        (apart || states && caches(true)).then_some(Self {
            windowed: if apart { WINDOWED } else { 1.0 },
            states: if states { STATES / (1.0 + STATES) } else { 0.0 },
            states_each: STATES_EACH + drafted,
        })
    }

    /// Tokens that layers without a window hold: the figure that the engine logs.
    pub(super) fn tokens<A: Amount>(&self, cache: &CacheShape, bytes: A) -> A {
        let each: A = cache.token_sum(|group| match group.window {
            Window::Full => 1.0,
            _ => self.windowed,
        });
        let states = A::input(self.states, || {
            TermLabel::new("share of memory for states", Unit::Number)
                .digits(6)
                .from(RULES)
        });
        bytes * (A::number(1.0) - states) / each
    }

    /// Requests of so many tokens that fit.
    pub(super) fn sequences(&self, shape: &CacheShape, bytes: f64, tokens: f64) -> f64 {
        let held = self.tokens(shape, bytes);
        let mut most = held / tokens.max(1.0);
        for group in shape.groups.iter().filter(|g| g.window != Window::Full) {
            if self.windowed < 1.0 {
                let kept = group.window.kept(tokens as u64) as f64;
                most = most.min(self.windowed * held / kept.max(1.0));
            }
        }
        let state = shape.state_bytes() * self.states_each;
        if state > 0.0 {
            most = most.min(bytes * self.states / state);
        }
        most
    }
}

/// Whether layers with a window have a pool of their own: from 0.4.10 all but Llama-4, since 0.5.10
/// the models listed.
pub(crate) fn windows_apart(setup: &Setup<'_>) -> bool {
    let since = |numbers| setup.engine.at_least(numbers);
    let kind = setup.architecture.model_type.as_str();
    if since([0, 5, 10]) {
        return LISTED.contains(&kind);
    }
    since([0, 4, 10]) && !matches!(kind, "llama4" | "llama4_text")
}

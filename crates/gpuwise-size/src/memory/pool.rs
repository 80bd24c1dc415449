//! vLLM's pool for models whose layers keep different things: groups of equally many layers draw
//! pages of one size.
//!
//! The rules are those of `vllm/v1/core/kv_cache_utils.py` and `vllm/v1/kv_cache_interface.py` in
//! releases 0.9.2 to 0.33.

use super::cache::{CONFIGURATION, CacheGroup, CacheShape, RULES};
use crate::{
    derive::{Amount, TermLabel},
    setup::Setup,
};
use gpuwise_domain::{
    derivation::Unit,
    model::{Mixer, Window},
};

/// The rules of a release by which layers of several kinds share a pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pool {
    /// Kinds whose layers are fewer than this factor apart form groups of the larger number, with
    /// padding; else groups have as many layers as the rarest kind.
    pub padding: f64,
    /// Whether capacity is reported as the requests of the longest context that fit, times that
    /// context (else as blocks shared out over groups).
    pub by_requests: bool,
    /// What a request keeps of states.
    pub states: States,
    /// Tokens that may be scheduled and not yet done, which a window keeps beside itself.
    pub in_flight: f64,
    /// What the block of attention beside states is a multiple of, in tokens.
    pub alignment: f64,
}

/// Pages that a request keeps of one layer's state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum States {
    /// So many: the running one and one for each drafted token; with prefix caching one more, that
    /// at the last block's end.
    Pages(f64),
    /// One at each block's end, and one for each drafted token.
    EveryBlock(f64),
}

/// How a cache lies in pages.
#[derive(Debug, Clone, Copy)]
struct Pages {
    /// Bytes of a page in one layer.
    page: f64,
    /// Tokens of the smallest block.
    block: f64,
    group_layers: f64,
    groups: f64,
}

impl Pool {
    /// The rules of the setup's release.
    pub(crate) fn of(setup: &Setup<'_>, block: f64) -> Self {
        let since = |numbers| setup.engine.at_least(numbers);
        let padding = match (since([0, 12, 0]), since([0, 18, 0])) {
            (_, true) => 1.5,
            (true, false) => 1.25,
            (false, false) => 1.0,
        };
        let batches = if since([0, 26, 0]) { 2.0 } else { 1.0 };
        Self {
            padding,
            by_requests: since([0, 21, 0]),
            states: states(setup),
            in_flight: batches * setup.settings.batched_tokens as f64,
            alignment: alignment(setup, block),
        }
    }

    fn pages(&self, shape: &CacheShape) -> Option<Pages> {
        let largest = |of: fn(&CacheGroup) -> f64| shape.groups.iter().map(of).fold(0.0, f64::max);
        let widest = largest(CacheGroup::page_token_bytes);
        let state = largest(|group| {
            if group.positions > 0.0 {
                0.0
            } else {
                group.state_bytes
            }
        });
        if widest <= 0.0 {
            return None;
        }
        // With states the attention block grows until its page holds a state.
        let block = (libm::ceil(state / widest / self.alignment) * self.alignment).max(shape.block);
        let layers = shape.groups.iter().map(|g| g.layers);
        let fewest = layers.clone().fold(f64::INFINITY, f64::min);
        let most = layers.fold(0.0, f64::max);
        let group_layers = if most < fewest * self.padding {
            most
        } else {
            fewest
        }
        .max(1.0);
        let groups = shape
            .groups
            .iter()
            .map(|g| libm::ceil(g.layers / group_layers))
            .sum();
        Some(Pages {
            page: block * widest,
            block,
            group_layers,
            groups,
        })
    }

    /// Blocks that one request of so many tokens holds at most.
    fn request_blocks(&self, shape: &CacheShape, pages: Pages, tokens: f64, reserve: f64) -> f64 {
        let of = |group: &CacheGroup| {
            let repeats = libm::ceil(group.layers / pages.group_layers);
            repeats * self.group_blocks(group, pages, tokens, reserve)
        };
        shape.groups.iter().map(of).sum()
    }

    /// The same of one group of layers.
    fn group_blocks(&self, group: &CacheGroup, pages: Pages, tokens: f64, reserve: f64) -> f64 {
        let width = group.page_token_bytes();
        if width <= 0.0 {
            return match self.states {
                States::Pages(pages) => pages,
                States::EveryBlock(drafted) => libm::ceil(tokens / pages.block) + drafted,
            };
        }
        // Narrower layers hold more tokens in a page of the common size.
        let block = pages.page / width;
        if group.positions > 0.0 {
            return libm::ceil(group.positions / block);
        }
        let full = libm::ceil(tokens / block);
        match group.window {
            Window::Full => full,
            Window::Sliding(window) => {
                let kept = (window.0 as f64 - 1.0 + reserve).min(tokens);
                (libm::ceil(kept / block) + 1.0).min(full.max(1.0) + 1.0)
            }
            Window::Chunked(chunk) => libm::ceil((chunk.0 as f64 + reserve).min(tokens) / block),
        }
    }

    /// Tokens as the engine reports them.
    pub(super) fn reported<A: Amount>(&self, shape: &CacheShape, bytes: A) -> A {
        let Some(pages) = self.pages(shape) else {
            return A::number(0.0);
        };
        let input = |value: f64, name: &'static str, unit: Unit, source: &'static str| {
            A::input(value, || TermLabel::new(name, unit).digits(9).from(source))
        };
        let page = input(pages.page, "page", Unit::ByteCount, CONFIGURATION);
        let layers = input(
            pages.group_layers,
            "layers of a group",
            Unit::Number,
            "layers are dealt out into groups of one size",
        );
        let blocks = (bytes / (page * layers))
            .rounded_down()
            .called(|| TermLabel::new("blocks", Unit::Number).digits(9));
        if self.by_requests {
            let context = shape.max_context.max(1.0);
            let each =
                self.request_blocks(shape, pages, context / shape.context_ranks, self.in_flight);
            let each = input(
                each.max(1.0),
                "blocks of a request of the longest context",
                Unit::Number,
                "over all groups: whole contexts, windows and states, each in whole blocks",
            );
            let context = input(context, "longest context", Unit::Number, "the settings");
            let tokens = blocks / each * context;
            let ranks = shape.context_ranks;
            if ranks > 1.0 {
                let ranks = input(ranks, "decode context ranks", Unit::Number, "the layout");
                return (tokens / ranks).rounded_down();
            }
            return tokens.rounded_down();
        }
        let groups = input(
            pages.groups,
            "groups of layers",
            Unit::Number,
            CONFIGURATION,
        );
        let block = input(pages.block, "tokens of a block", Unit::Number, RULES);
        (blocks / groups).rounded_down() * block
    }

    /// Requests of so many tokens that fit.
    pub(super) fn sequences(&self, shape: &CacheShape, bytes: f64, tokens: f64) -> f64 {
        let Some(pages) = self.pages(shape) else {
            return 0.0;
        };
        let blocks = libm::floor(bytes / (pages.page * pages.group_layers));
        // While decoding, a window keeps little beside itself.
        blocks
            / self
                .request_blocks(shape, pages, tokens / shape.context_ranks, 0.0)
                .max(1.0)
    }
}

/// What a request keeps of states. Prefix caching is on by default for models with states since
/// 0.28. It keeps a state at every block of Mamba layers until 0.33, elsewhere one beside the
/// running one.
fn states(setup: &Setup<'_>) -> States {
    let drafted = setup.draft.map_or(0.0, |draft| f64::from(draft.tokens));
    let since = |numbers| setup.engine.at_least(numbers);
    match (since([0, 28, 0]), since([0, 33, 0])) {
        (true, false) if MAMBA.contains(&setup.architecture.model_type.as_str()) => {
            States::EveryBlock(drafted)
        }
        (true, _) => States::Pages(2.0 + drafted),
        (false, _) => States::Pages(1.0 + drafted),
    }
}

/// Types of models with Mamba layers beside attention whose states vLLM caches at every block
/// (`SupportsMambaPrefixCaching` in `vllm/model_executor/models` of 0.28 and 0.30).
const MAMBA: [&str; 5] = [
    "nemotron_h",
    "jamba",
    "zamba2",
    "granitemoehybrid",
    "falcon_h1",
];

/// What the block of attention beside states is a multiple of: 64 tokens for latent attention; 32
/// for heads of 256 on compute capability 10.x until 0.20; else the engine's block.
fn alignment(setup: &Setup<'_>, block: f64) -> f64 {
    let since = |numbers| setup.engine.at_least(numbers);
    let any = |of: fn(&Mixer) -> bool| setup.architecture.attention_layers().any(|(_, m)| of(m));
    let wide = any(|mixer| matches!(mixer, Mixer::Attention { key_dim: 256, .. }));
    let capability = setup.device.gpu.compute_capability;
    if since([0, 12, 0]) && any(|mixer| matches!(mixer, Mixer::Latent { .. })) {
        return block.max(64.0);
    }
    let blackwell = capability.is_some_and(|(major, _)| major == 10);
    if wide && blackwell && since([0, 12, 0]) && !since([0, 20, 0]) {
        return block.max(32.0);
    }
    block
}

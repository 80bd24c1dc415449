//! The key-value cache of one rank: what a token and a sequence take, and how engines pool it.

use crate::{setup::Setup, shard::piece_share};
use alloc::vec::Vec;
use gpuwise_domain::{
    engine::EngineKind,
    model::{Mixer, Window},
    precision::CacheFormat,
};

/// What the cache of one rank is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheShape {
    /// Layers of one kind, with what each keeps.
    pub groups: Vec<CacheGroup>,
    /// Tokens of a block.
    pub block: f64,
    /// Ranks over which tokens are dealt out (decode context parallel).
    pub context_ranks: f64,
    /// Whether all groups draw blocks of one size from one pool, as vLLM's hybrid manager does.
    pub pooled: bool,
    /// Whether windows are ignored, so that every layer keeps the whole context.
    pub windows_ignored: bool,
    /// The longest context, at which capacity is reported for models with state.
    pub max_context: f64,
}

/// Layers that keep the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheGroup {
    /// How many layers of the stage.
    pub layers: f64,
    /// Bytes that a token adds in one layer (0 for states).
    pub token_bytes: f64,
    /// Bytes of a sequence's state in one layer (0 for caches).
    pub state_bytes: f64,
    /// What a caching layer keeps of a context.
    pub window: Window,
}

/// The cache of a setup.
pub fn cache_shape(setup: &Setup<'_>) -> CacheShape {
    let stages = u64::from(setup.layout.pipeline.max(1));
    let total = setup.architecture.layer_count().max(1);
    let share = total.div_ceil(stages) as f64 / total as f64;
    let mut groups: Vec<CacheGroup> = Vec::new();
    for run in &setup.architecture.layers {
        let count = run.count as f64 * share;
        if let Some(group) = group_of(&run.layer.mixer, setup) {
            match groups.iter_mut().find(|g| same_kind(g, &group)) {
                Some(known) => known.layers += count,
                None => groups.push(CacheGroup {
                    layers: count,
                    ..group
                }),
            }
        }
        if run.layer.cross_attention > 0 {
            let element = setup.cache.bytes_per_element();
            let heads = run.layer.cross_attention as f64 / f64::from(setup.layout.tensor);
            let positions = setup
                .architecture
                .encoder
                .as_ref()
                .and_then(|encoder| encoder.positions)
                .map_or(512.0, |tokens| tokens.0 as f64);
            groups.push(CacheGroup {
                layers: count,
                token_bytes: 0.0,
                state_bytes: 2.0 * heads * element * positions,
                window: Window::Full,
            });
        }
    }
    let kind = setup.engine.kind;
    let hybrid = groups.len() > 1;
    // Before 0.10 vLLM kept the whole context in every layer of models with windows.
    let windows_ignored = match kind {
        EngineKind::Vllm => !setup.engine.at_least([0, 10, 0]) && hybrid,
        EngineKind::Transformers | EngineKind::DeepSpeedMii => true,
        _ => false,
    };
    CacheShape {
        pooled: kind == EngineKind::Vllm && hybrid && !windows_ignored,
        windows_ignored,
        block: setup.settings.block as f64,
        context_ranks: f64::from(setup.layout.decode_context.max(1)),
        max_context: setup.settings.max_context.max(1) as f64,
        groups,
    }
}

fn same_kind(a: &CacheGroup, b: &CacheGroup) -> bool {
    let same = |x: f64, y: f64| x.to_bits() == y.to_bits();
    a.window == b.window && same(a.token_bytes, b.token_bytes) && same(a.state_bytes, b.state_bytes)
}

fn group_of(mixer: &Mixer, setup: &Setup<'_>) -> Option<CacheGroup> {
    let element = setup.cache.bytes_per_element();
    let tensor = setup.layout.tensor;
    let cache = |token_bytes: f64, window: Window| CacheGroup {
        layers: 0.0,
        token_bytes,
        state_bytes: 0.0,
        window,
    };
    match *mixer {
        Mixer::Attention {
            shares_cache: true, ..
        }
        | Mixer::None => None,
        Mixer::Attention {
            kv_heads,
            key_dim,
            value_dim,
            window,
            ..
        } => {
            let heads = kv_heads as f64 * piece_share(kv_heads, tensor);
            Some(cache(
                heads * (key_dim + value_dim) as f64 * element,
                window,
            ))
        }
        Mixer::Latent {
            kv_rank,
            rotary_dim,
            index_dim,
            ..
        } => {
            // The FP8 layout keeps 512 bytes, four scales and the rotary part in 16 bits; an index
            // key is FP8 with a scale.
            let latent = if setup.cache == CacheFormat::FP8 {
                kv_rank as f64 + 16.0 + 2.0 * rotary_dim as f64
            } else {
                (kv_rank + rotary_dim) as f64 * element
            };
            let index = if index_dim > 0 {
                index_dim as f64 + 4.0
            } else {
                0.0
            };
            Some(cache(latent + index, Window::Full))
        }
        Mixer::Compressed {
            dim,
            window,
            ratio,
            index_dim,
            ..
        } => {
            // Beyond the window one entry for every `ratio` tokens.
            let per_token = if ratio == 0 {
                0.0
            } else {
                (dim as f64 * element + index_dim as f64) / ratio as f64
            };
            Some(CacheGroup {
                layers: 0.0,
                token_bytes: per_token,
                state_bytes: window.0 as f64 * dim as f64 * element,
                window: Window::Full,
            })
        }
        Mixer::Recurrent(state) => {
            let share = piece_share(state.heads, tensor);
            let bytes = if state.state_bytes == 0 {
                2
            } else {
                state.state_bytes
            } as f64;
            let recurrent = state.heads as f64 * state.state_per_head as f64 * bytes;
            Some(CacheGroup {
                layers: 0.0,
                token_bytes: 0.0,
                state_bytes: (recurrent + state.convolution as f64 * 2.0) * share,
                window: Window::Full,
            })
        }
    }
}

impl CacheShape {
    /// Bytes that a sequence of `tokens` takes on the rank, blocks not rounded.
    pub fn sequence_bytes(&self, tokens: f64) -> f64 {
        self.groups
            .iter()
            .map(|group| {
                let kept = if self.windows_ignored {
                    tokens
                } else {
                    group.window.kept(tokens as u64) as f64
                };
                group.layers * (group.token_bytes * kept / self.context_ranks + group.state_bytes)
            })
            .sum()
    }

    /// Bytes that one more token of a long context adds.
    pub fn token_bytes(&self) -> f64 {
        self.groups
            .iter()
            .filter(|group| self.windows_ignored || group.window == Window::Full)
            .map(|group| group.layers * group.token_bytes / self.context_ranks)
            .sum()
    }

    /// Bytes per token in all layers that cache tokens, windows left aside.
    fn all_token_bytes(&self) -> f64 {
        self.groups.iter().map(|g| g.layers * g.token_bytes).sum()
    }

    fn state_bytes(&self) -> f64 {
        self.groups.iter().map(|g| g.layers * g.state_bytes).sum()
    }

    /// Requests of this many tokens that fit into so many bytes.
    pub fn sequences(&self, bytes: f64, tokens: f64) -> f64 {
        if bytes <= 0.0 {
            return 0.0;
        }
        // On average half a block of each group is empty.
        let padded = tokens + self.block / 2.0;
        bytes / self.sequence_bytes(padded).max(1.0)
    }

    /// Tokens that so many bytes hold, as the engine reports its cache's size.
    pub fn reported_tokens(&self, bytes: f64) -> f64 {
        if bytes <= 0.0 {
            return 0.0;
        }
        if !self.pooled {
            let per_token = self.all_token_bytes();
            let tokens = if per_token > 0.0 {
                bytes / per_token
            } else {
                0.0
            };
            return libm::floor(tokens / self.block) * self.block * self.context_ranks;
        }
        self.pooled_tokens(bytes) * self.context_ranks
    }

    /// vLLM's hybrid manager: groups of equally many layers draw pages of one size from one pool.
    fn pooled_tokens(&self, bytes: f64) -> f64 {
        let caching: Vec<&CacheGroup> =
            self.groups.iter().filter(|g| g.token_bytes > 0.0).collect();
        let states: Vec<&CacheGroup> = self
            .groups
            .iter()
            .filter(|g| g.token_bytes == 0.0)
            .collect();
        let page_token = caching.iter().map(|g| g.token_bytes).fold(0.0, f64::max);
        let state = states.iter().map(|g| g.state_bytes).fold(0.0, f64::max);
        if page_token == 0.0 {
            return 0.0;
        }
        // With states the attention block grows until its page holds a state.
        let block = if state > 0.0 {
            libm::ceil(state / page_token / self.block) * self.block
        } else {
            self.block
        };
        let page = block * page_token;
        let fewest = self
            .groups
            .iter()
            .map(|g| g.layers)
            .fold(f64::INFINITY, f64::min);
        let most = self.groups.iter().map(|g| g.layers).fold(0.0, f64::max);
        let group_layers = if most < fewest * 1.25 { most } else { fewest }.max(1.0);
        let groups: f64 = self
            .groups
            .iter()
            .map(|g| libm::ceil(g.layers / group_layers))
            .sum();
        let blocks = libm::floor(bytes / (page * group_layers));
        if state > 0.0 {
            // Reported at the longest context: each state group keeps one page a request.
            let context = self.max_context;
            let full: f64 = caching
                .iter()
                .map(|g| libm::ceil(g.layers / group_layers))
                .sum();
            let per_request = full * libm::ceil(context / block) + (groups - full);
            return blocks / per_request * context;
        }
        libm::floor(blocks / groups) * self.block
    }

    /// Bytes of states for so many sequences, for reports.
    pub fn states(&self, sequences: f64) -> f64 {
        self.state_bytes() * sequences
    }
}

//! What a layer reads and computes to mix tokens, whole and without fused attention.

use crate::setup::Setup;
use gpuwise_domain::model::{Mixer, Window};

/// What mixing tokens costs in a layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mixing {
    /// Bytes per query and token seen, and operations.
    pub(super) bytes: f64,
    pub(super) flop: f64,
    pub(super) heads: f64,
    pub(super) window: Window,
    /// Tokens per entry beyond the window (1: no compression), and entries read at most.
    pub(super) ratio: f64,
    pub(super) top: f64,
    /// Bytes and operations per token scored by an index.
    pub(super) index_bytes: f64,
    pub(super) index_flop: f64,
    /// Bytes per sequence of a state, and operations per token.
    pub(super) state_bytes: f64,
    pub(super) state_flop: f64,
}

impl Mixing {
    const NONE: Self = Self {
        bytes: 0.0,
        flop: 0.0,
        heads: 0.0,
        window: Window::Full,
        ratio: 1.0,
        top: f64::INFINITY,
        index_bytes: 0.0,
        index_flop: 0.0,
        state_bytes: 0.0,
        state_flop: 0.0,
    };

    pub(super) fn of(mixer: &Mixer, setup: &Setup<'_>) -> Self {
        let element = setup.cache.bytes_per_element();
        let index = |heads: u64, dim: u64, pool: f64| {
            (dim as f64 / pool, 2.0 * (heads * dim) as f64 / pool)
        };
        let top = |tokens: u64| {
            if tokens > 0 {
                tokens as f64
            } else {
                f64::INFINITY
            }
        };
        match *mixer {
            Mixer::Attention {
                heads,
                kv_heads,
                key_dim,
                value_dim,
                window,
                index_heads,
                index_dim,
                top_tokens,
                ..
            } => {
                let dims = (key_dim + value_dim) as f64;
                let (index_bytes, index_flop) = index(index_heads, index_dim, 1.0);
                Self {
                    bytes: kv_heads as f64 * dims * element,
                    flop: 2.0 * heads as f64 * dims,
                    heads: heads as f64,
                    window,
                    top: top(top_tokens),
                    index_bytes,
                    index_flop,
                    ..Self::NONE
                }
            }
            Mixer::Latent {
                heads,
                kv_rank,
                rotary_dim,
                index_heads,
                index_dim,
                index_pool,
                top_tokens,
                ..
            } => {
                let (index_bytes, index_flop) =
                    index(index_heads, index_dim, (index_pool as f64).max(1.0));
                Self {
                    bytes: (kv_rank + rotary_dim) as f64 * element,
                    flop: 2.0 * (heads * (2 * kv_rank + rotary_dim)) as f64,
                    heads: heads as f64,
                    top: top(top_tokens),
                    index_bytes,
                    index_flop,
                    ..Self::NONE
                }
            }
            Mixer::Compressed {
                heads,
                dim,
                window,
                ratio,
                index_heads,
                index_dim,
                top_entries,
            } => {
                let pool = (ratio as f64).max(1.0);
                let (index_bytes, index_flop) = index(index_heads, index_dim, pool);
                Self {
                    bytes: dim as f64 * element,
                    flop: 4.0 * (heads * dim) as f64,
                    heads: heads as f64,
                    window: Window::Sliding(window),
                    ratio: if ratio > 0 { pool } else { f64::INFINITY },
                    top: top(top_entries),
                    index_bytes,
                    index_flop,
                    ..Self::NONE
                }
            }
            Mixer::Recurrent(state) => {
                let elements = (state.heads * state.state_per_head) as f64;
                let bytes = state.state_bytes.max(2) as f64;
                Self {
                    state_bytes: 2.0 * elements * bytes,
                    state_flop: 6.0 * elements,
                    ..Self::NONE
                }
            }
            Mixer::None => Self::NONE,
        }
    }

    /// Entries that a query reads of a context.
    pub(super) fn seen(&self, context: f64) -> f64 {
        let near = self.window.visible(context);
        if self.ratio > 1.0 {
            near + (context / self.ratio).min(self.top)
        } else {
            near.min(self.top)
        }
    }
}

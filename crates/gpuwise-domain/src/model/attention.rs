use gpuwise_units::Tokens;

/// How much of the context an attention layer sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    Full,
    /// The last tokens up to this many.
    Sliding(Tokens),
    /// The current chunk of this many tokens.
    Chunked(Tokens),
}

impl Window {
    /// Tokens seen of a context of `context`.
    pub fn visible(self, context: f64) -> f64 {
        match self {
            Self::Full => context,
            Self::Sliding(window) => context.min(window.0 as f64),
            // On average half a chunk.
            Self::Chunked(chunk) => {
                if context <= chunk.0 as f64 {
                    context
                } else {
                    chunk.0 as f64 / 2.0
                }
            }
        }
    }

    /// Tokens that must be kept of a context of `context`.
    pub fn kept(self, context: u64) -> u64 {
        match self {
            Self::Full => context,
            Self::Sliding(window) | Self::Chunked(window) => context.min(window.0),
        }
    }
}

/// What mixes tokens in a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mixer {
    /// Multi-head, grouped-query or multi-query attention.
    Attention {
        heads: u64,
        kv_heads: u64,
        /// Dimension of queries and keys.
        key_dim: u64,
        value_dim: u64,
        window: Window,
        /// Whether it reads the cache of an earlier layer instead of keeping its own.
        shares_cache: bool,
        /// Query heads that score all earlier tokens so that the best are read (0: none).
        index_heads: u64,
        /// Width of the index key kept for each token (0: none).
        index_dim: u64,
        /// Tokens that it then reads at most (0: all).
        top_tokens: u64,
    },
    /// Multi-head latent attention: one compressed vector a token, the same on all ranks.
    Latent {
        heads: u64,
        /// Rank of the compressed key-value.
        kv_rank: u64,
        /// Rotary part, kept beside it.
        rotary_dim: u64,
        /// Non-rotary part of a query head.
        plain_dim: u64,
        /// Dimension of a value head.
        value_dim: u64,
        /// Query heads of the index, on every rank: the layer scores all earlier keys with them
        /// (0: it has no index, or takes the choice of an earlier layer).
        index_heads: u64,
        /// Width of index keys kept beside it for sparse attention (0: none).
        index_dim: u64,
        /// Tokens that one scored index key stands for.
        index_pool: u64,
        /// Tokens that sparse attention reads at most (0: all).
        top_tokens: u64,
    },
    /// A local window and, beyond it, one compressed entry for every `ratio` tokens.
    Compressed {
        heads: u64,
        /// Dimension of the one shared key-value head.
        dim: u64,
        window: Tokens,
        /// Tokens per compressed entry (0: the window only).
        ratio: u64,
        /// Query heads of the index, on every rank: they score all compressed entries (0: none).
        index_heads: u64,
        /// Width of index keys per compressed entry (0: none).
        index_dim: u64,
        /// Compressed entries that attention reads at most (0: all of them, `context / ratio`).
        top_entries: u64,
    },
    /// State of constant size: Mamba, gated delta rule, linear attention.
    Recurrent(RecurrentState),
    /// No token mixing in this layer.
    None,
}

/// The state that one sequence keeps in one recurrent layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecurrentState {
    /// Heads, split over tensor-parallel ranks.
    pub heads: u64,
    /// Elements of recurrent state per head.
    pub state_per_head: u64,
    /// Elements kept by the short convolution, all heads together.
    pub convolution: u64,
    /// Bytes of a state element where the model fixes them (0: the engine's default).
    pub state_bytes: u64,
}

impl Mixer {
    /// Elements of cache that each further token adds, for ever.
    pub fn growing_elements_per_token(&self) -> u64 {
        match *self {
            Self::Attention {
                kv_heads,
                key_dim,
                value_dim,
                window: Window::Full,
                shares_cache: false,
                ..
            } => kv_heads * (key_dim + value_dim),
            Self::Latent {
                kv_rank,
                rotary_dim,
                ..
            } => kv_rank + rotary_dim,
            Self::Attention { .. } | Self::Compressed { .. } | Self::Recurrent(_) | Self::None => 0,
        }
    }

    /// Elements of cache per token inside a window that slides on.
    pub fn window_elements_per_token(&self) -> u64 {
        match *self {
            Self::Attention {
                kv_heads,
                key_dim,
                value_dim,
                window: Window::Sliding(_) | Window::Chunked(_),
                shares_cache: false,
                ..
            } => kv_heads * (key_dim + value_dim),
            Self::Compressed { dim, .. } => dim,
            Self::Attention { .. } | Self::Latent { .. } | Self::Recurrent(_) | Self::None => 0,
        }
    }
}

/// What works on each token alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FeedForward {
    /// One network for all tokens.
    Dense {
        width: u64,
        /// Whether a gate multiplies the up projection (3 matrices instead of 2).
        gated: bool,
    },
    /// A router chooses a few of many.
    Experts {
        count: u64,
        chosen: u64,
        width: u64,
        /// Width of its input and output (the residual stream, or a latent of it).
        input: u64,
        /// Whether experts are gated.
        gated: bool,
        /// Inner width of all shared experts together (0: none).
        shared_width: u64,
    },
    /// None in this layer.
    None,
}

impl FeedForward {
    /// The share of routed experts that works on a token; 1 without experts.
    pub fn chosen_share(&self) -> f64 {
        match *self {
            Self::Experts { count, chosen, .. } if count > 0 => chosen as f64 / count as f64,
            _ => 1.0,
        }
    }
}

/// Heads of attention that computes, for each of its heads, keys and values of its own width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadShape {
    pub heads: u64,
    pub kv_heads: u64,
    /// Dimension of queries and keys.
    pub key_dim: u64,
    pub value_dim: u64,
}

impl HeadShape {
    /// Elements of keys and values of one token.
    pub const fn keys_and_values(self) -> u64 {
        self.kv_heads * (self.key_dim + self.value_dim)
    }
}

/// Shapes of a token mixer as layouts and training ask for them; memory and speed of serving, which
/// differ in more than shape, read the variants themselves.
impl Mixer {
    /// Heads that tensor parallelism deals out; `None` where nothing is mixed.
    pub const fn heads(&self) -> Option<u64> {
        match self {
            Self::Recurrent(state) => Some(state.heads),
            Self::Attention { .. } | Self::Latent { .. } | Self::Compressed { .. } | Self::None => {
                self.attention_heads()
            }
        }
    }

    /// The same of attention alone.
    pub const fn attention_heads(&self) -> Option<u64> {
        match self {
            Self::Attention { heads, .. }
            | Self::Latent { heads, .. }
            | Self::Compressed { heads, .. } => Some(*heads),
            Self::Recurrent(_) | Self::None => None,
        }
    }

    /// Heads of multi-head, grouped-query or multi-query attention; `None` of everything else.
    pub const fn head_shape(&self) -> Option<HeadShape> {
        match *self {
            Self::Attention {
                heads,
                kv_heads,
                key_dim,
                value_dim,
                ..
            } => Some(HeadShape {
                heads,
                kv_heads,
                key_dim,
                value_dim,
            }),
            Self::Latent { .. } | Self::Compressed { .. } | Self::Recurrent(_) | Self::None => None,
        }
    }

    /// Heads times the widths of a key and a value; 0 without attention.
    pub const fn attention_width(&self) -> u64 {
        match *self {
            Self::Attention {
                heads,
                key_dim,
                value_dim,
                ..
            } => heads * (key_dim + value_dim),
            Self::Latent {
                heads,
                rotary_dim,
                plain_dim,
                value_dim,
                ..
            } => heads * (rotary_dim + plain_dim + value_dim),
            Self::Compressed { heads, dim, .. } => 2 * heads * dim,
            Self::Recurrent(_) | Self::None => 0,
        }
    }

    /// Elements of keys and values of a token in training, where latents are expanded to heads.
    pub const fn trained_keys_and_values(&self) -> u64 {
        match *self {
            Self::Attention {
                kv_heads,
                key_dim,
                value_dim,
                ..
            } => kv_heads * (key_dim + value_dim),
            Self::Compressed { dim, .. } => 2 * dim,
            Self::Latent { .. } | Self::Recurrent(_) | Self::None => self.attention_width(),
        }
    }

    /// What of a context attention sees nearby.
    pub const fn window(&self) -> Window {
        match *self {
            Self::Attention { window, .. } => window,
            Self::Compressed { window, .. } => Window::Sliding(window),
            Self::Latent { .. } | Self::Recurrent(_) | Self::None => Window::Full,
        }
    }
}

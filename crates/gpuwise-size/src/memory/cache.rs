//! The key-value cache of one rank: what a token and a sequence take.

use super::{
    pool::Pool,
    split::Split,
    weights::{fullest_share, prediction_runs},
};
use crate::{
    derive::{Amount, TermLabel},
    setup::Setup,
    shard::piece_share,
};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::{
    derivation::Unit,
    model::{LayerRun, Mixer, Window},
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
    /// How blocks of one size are shared by layers of several kinds, where an engine does so.
    pub pool: Option<Pool>,
    /// How memory is shared out over pools of different kinds, where an engine does so.
    pub split: Option<Split>,
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
    /// Positions of an encoder's output whose keys and values the state is; 0 for states that are
    /// not made of positions.
    pub positions: f64,
    /// What a caching layer keeps of a context.
    pub window: Window,
}

impl CacheGroup {
    const fn caching(token_bytes: f64, window: Window) -> Self {
        Self {
            layers: 0.0,
            token_bytes,
            state_bytes: 0.0,
            positions: 0.0,
            window,
        }
    }

    const fn state(state_bytes: f64) -> Self {
        Self {
            layers: 0.0,
            token_bytes: 0.0,
            state_bytes,
            positions: 0.0,
            window: Window::Full,
        }
    }

    fn same_kind(&self, other: &Self) -> bool {
        let equal = |a: f64, b: f64| libm::fabs(a - b) < 1e-6;
        self.window == other.window
            && equal(self.token_bytes, other.token_bytes)
            && equal(self.state_bytes, other.state_bytes)
            && equal(self.positions, other.positions)
    }

    /// Bytes that a token or a position takes in a page of one layer; 0 for recurrent states.
    pub(super) fn page_token_bytes(&self) -> f64 {
        if self.positions > 0.0 {
            self.state_bytes / self.positions
        } else {
            self.token_bytes
        }
    }
}

pub fn cache_shape(setup: &Setup<'_>) -> CacheShape {
    let groups = groups(setup);
    let engine = setup.engine_model();
    let windowed = groups.iter().any(|group| group.window != Window::Full);
    let windows_ignored = engine.ignores_windows(setup, &groups);
    let states = groups.iter().any(|group| group.state_bytes > 0.0);
    let caches = groups.iter().any(|group| group.token_bytes > 0.0);
    let full = groups
        .iter()
        .any(|group| group.token_bytes > 0.0 && group.window == Window::Full);
    // Layers that all keep as many tokens need no pool, whatever their widths.
    let mixed = caches && (states || windowed && (full || groups.len() > 1));
    let block = (setup.settings.block as f64).max(1.0);
    let pool = (mixed && !windows_ignored)
        .then(|| engine.pool(setup, states, block))
        .flatten();
    let mut shape = CacheShape {
        pool,
        split: None,
        windows_ignored,
        block,
        context_ranks: f64::from(setup.layout.decode_context.max(1)),
        max_context: longest_context(setup),
        groups,
    };
    shape.split = engine.split(setup, &shape);
    shape
}

/// The context that a request may have: as set, else what the model states.
pub fn longest_context(setup: &Setup<'_>) -> f64 {
    let set = setup.settings.max_context;
    let stated = setup.architecture.max_context.map_or(1, |tokens| tokens.0);
    if set > 0 { set as f64 } else { stated as f64 }
}

fn groups(setup: &Setup<'_>) -> Vec<CacheGroup> {
    let share = fullest_share(setup);
    let mut groups: Vec<CacheGroup> = Vec::new();
    let layers = setup.architecture.layers.iter().map(|run| (run, share));
    // Drafting layers cache too; they lie on the last stage.
    let drafts = prediction_runs(setup).map(|run| (run, 1.0));
    let drafted = setup.draft.map_or(0.0, |draft| f64::from(draft.tokens));
    for (run, share) in layers.chain(drafts) {
        let layers = run.count as f64 * share;
        if let Some(group) = group_of(&run.layer.mixer, setup, drafted) {
            gather(&mut groups, CacheGroup { layers, ..group });
        }
        if let Some(cross) = cross_attention(run, setup) {
            gather(&mut groups, CacheGroup { layers, ..cross });
        }
    }
    // A model that drafts caches every token beside the model's own cache.
    for group in setup.drafter().iter().flat_map(self::groups) {
        gather(&mut groups, group);
    }
    groups
}

/// Adds layers to those of their kind.
fn gather(groups: &mut Vec<CacheGroup>, group: CacheGroup) {
    match groups.iter_mut().find(|known| known.same_kind(&group)) {
        Some(known) => known.layers += group.layers,
        None => groups.push(group),
    }
}

/// What a decoder layer keeps of the encoder's output, once for each request.
///
/// Where blocks are of one kind, they hold keys and values of every layer: text takes room in layers
/// with cross attention alone, and those with both take it once.
fn cross_attention(run: &LayerRun, setup: &Setup<'_>) -> Option<CacheGroup> {
    let width = run.layer.cross_attention as f64 / f64::from(setup.layout.tensor.max(1));
    let element = setup.cache.bytes_per_element();
    if width > 0.0 && setup.engine_model().one_kind_of_blocks(setup) {
        let alone = matches!(run.layer.mixer, Mixer::None);
        return alone.then(|| CacheGroup::caching(2.0 * width * element, Window::Full));
    }
    let positions = setup
        .architecture
        .encoder
        .as_ref()
        .and_then(|encoder| encoder.positions)
        .map_or(512.0, |tokens| tokens.0 as f64);
    (width > 0.0).then(|| CacheGroup {
        positions,
        ..CacheGroup::state(2.0 * width * element * positions)
    })
}

fn group_of(mixer: &Mixer, setup: &Setup<'_>, drafted: f64) -> Option<CacheGroup> {
    let element = setup.cache.bytes_per_element();
    let tensor = setup.layout.tensor;
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
            index_dim,
            ..
        } => {
            let heads = kv_heads as f64 * piece_share(kv_heads, tensor);
            // Every rank scores all blocks of sparse attention, so each keeps the index keys.
            let elements = heads * (key_dim + value_dim) as f64 + index_dim as f64;
            Some(CacheGroup::caching(elements * element, window))
        }
        Mixer::Latent {
            kv_rank,
            rotary_dim,
            index_dim,
            ..
        } => {
            let latent = latent_bytes(setup, kv_rank as f64, rotary_dim as f64);
            // An index key is FP8 with a scale.
            let index = if index_dim > 0 {
                index_dim as f64 + 4.0
            } else {
                0.0
            };
            Some(CacheGroup::caching(latent + index, Window::Full))
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
                state_bytes: window.0 as f64 * dim as f64 * element,
                ..CacheGroup::caching(per_token, Window::Full)
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
            let convolution = state.convolution as f64 * 2.0;
            // A drafted token that is refused needs the state before it.
            let copies = if setup.engine_model().pages_states() {
                1.0
            } else {
                1.0 + drafted
            };
            Some(CacheGroup::state(
                (recurrent + convolution) * share * copies,
            ))
        }
    }
}

/// Bytes of a latent entry. Sparse attention on NVIDIA parts has a layout of its own in FP8: 512
/// bytes, a 32-bit scale for each 128 of them, and the rotary part in 16 bits.
fn latent_bytes(setup: &Setup<'_>, rank: f64, rotary: f64) -> f64 {
    let sparse = setup.architecture.attention_layers().any(|(_, mixer)| {
        matches!(
            mixer,
            Mixer::Latent {
                top_tokens: 1..,
                ..
            }
        )
    });
    let nvidia = setup.device.gpu.vendor.eq_ignore_ascii_case("nvidia");
    if setup.cache == CacheFormat::FP8 && sparse && nvidia {
        return rank + 4.0 * libm::ceil(rank / 128.0) + 2.0 * rotary;
    }
    (rank + rotary) * setup.cache.bytes_per_element()
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
    pub fn all_token_bytes(&self) -> f64 {
        self.groups.iter().map(|g| g.layers * g.token_bytes).sum()
    }

    pub fn state_bytes(&self) -> f64 {
        self.groups.iter().map(|g| g.layers * g.state_bytes).sum()
    }

    /// Whether no layer keeps more than a window.
    pub(super) fn windows_everywhere(&self) -> bool {
        let mut caches = self.groups.iter().filter(|group| group.token_bytes > 0.0);
        !self.windows_ignored && caches.all(|group| group.window != Window::Full)
    }

    /// Requests of this many tokens that fit into so many bytes.
    pub fn sequences(&self, bytes: f64, tokens: f64) -> f64 {
        if bytes <= 0.0 {
            return 0.0;
        }
        if let Some(pool) = &self.pool {
            return pool.sequences(self, bytes, tokens);
        }
        if let Some(split) = &self.split {
            return split.sequences(self, bytes, tokens + self.block / 2.0);
        }
        // On average half a block of each group is empty.
        let padded = tokens + self.block / 2.0;
        bytes / self.sequence_bytes(padded).max(1.0)
    }

    /// The same cache as releases of vLLM before 0.21 report it: blocks shared out over groups of
    /// layers, as if each kept the whole context. `None` where no pool makes the forms differ.
    pub fn reported_by_groups(&self) -> Option<Self> {
        let pool = self.pool.filter(|pool| pool.by_requests)?;
        Some(Self {
            pool: Some(Pool {
                by_requests: false,
                ..pool
            }),
            ..self.clone()
        })
    }

    /// Tokens that so many bytes hold in requests of this many tokens each.
    pub fn held_tokens(&self, bytes: f64, tokens: f64) -> f64 {
        self.sequences(bytes, tokens) * tokens
    }

    /// Tokens that so many bytes hold, as the engine reports its cache's size. Bytes of host memory
    /// that the cache is offloaded to hold as many.
    pub fn reported_tokens(&self, bytes: f64) -> f64 {
        if bytes <= 0.0 {
            return 0.0;
        }
        self.reported(bytes)
    }

    /// The same of bytes that are there.
    pub(crate) fn reported<A: Amount>(&self, bytes: A) -> A {
        let tokens = if let Some(pool) = &self.pool {
            pool.reported(self, bytes)
        } else {
            let block = A::input(self.block, || {
                TermLabel::new("tokens of a block", Unit::Number).from(RULES)
            });
            let tokens = match &self.split {
                Some(split) => split.tokens(self, bytes),
                None => bytes / self.token_sum(|_| 1.0),
            };
            if self.all_token_bytes() <= 0.0 {
                return A::number(0.0);
            }
            (tokens / block.clone()).rounded_down() * block
        };
        if self.context_ranks > 1.0 {
            let ranks = || TermLabel::new("decode context ranks", Unit::Number).from("the layout");
            return tokens * A::input(self.context_ranks, ranks);
        }
        tokens
    }

    /// Bytes of a token in all layers that cache tokens, each kind counted by this share.
    pub(super) fn token_sum<A: Amount>(&self, share: impl Fn(&CacheGroup) -> f64) -> A {
        let caching = self.groups.iter().filter(|group| group.token_bytes > 0.0);
        caching
            .enumerate()
            .map(|(at, group)| {
                // Kinds of layers that keep as much are told apart by their number.
                let alike = self
                    .groups
                    .iter()
                    .filter(|other| other.token_bytes > 0.0 && other.window == group.window);
                let kind = match alike.count() {
                    0 | 1 => String::new(),
                    _ => format!(" (kind {})", at + 1),
                };
                let kept = match group.window {
                    Window::Full => "the whole context".to_string(),
                    Window::Sliding(window) => format!("the last {} tokens", window.0),
                    Window::Chunked(chunk) => format!("the current {} tokens", chunk.0),
                };
                let layers = A::input(group.layers, || {
                    let name = format!("layers that keep {kept}{kind}");
                    TermLabel::new(name, Unit::Number)
                        .digits(5)
                        .from(CONFIGURATION)
                });
                let bytes = A::input(group.token_bytes, || {
                    let name = format!("a token in each that keeps {kept}{kind}");
                    TermLabel::new(name, Unit::ByteCount)
                        .digits(9)
                        .from(CONFIGURATION)
                });
                let share = share(group);
                if (share - 1.0).abs() < 1e-12 {
                    return layers * bytes;
                }
                let ratio = || {
                    let name = format!("tokens held of {kept}{kind}");
                    TermLabel::new(name, Unit::Number).digits(4).from(RULES)
                };
                A::input(share, ratio) * layers * bytes
            })
            .sum::<A>()
            .called(|| TermLabel::new("bytes per token on a GPU", Unit::ByteCount).digits(9))
    }
}

/// Where shapes of the cache come from.
pub(super) const CONFIGURATION: &str = "model configuration, layout and cache format";
/// Where rules of sharing memory out come from.
pub(super) const RULES: &str = "rules of the engine's release";

//! A language model as sizing sees it: tensors to store, state to keep, work to do.

mod attention;
mod tensor;

pub use attention::{FeedForward, HeadShape, Mixer, RecurrentState, Window};
pub use tensor::{Role, Split, Tensor};

use crate::precision::{Quantization, WeightFormat};
use alloc::{string::String, vec::Vec};
use gpuwise_units::{Parameters, Tokens};

/// The shape of a language model, as a `config.json` or a tensor header gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// The `model_type` of the configuration, or of the GGUF header.
    pub model_type: String,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Rows of the embedding, before any engine's padding.
    pub vocabulary: u64,
    /// Whether the head reads the embedding's weights.
    pub tied_head: bool,
    /// The longest context that the model states; unknown where it states none.
    pub max_context: Option<Tokens>,
    /// Elements of rotary position that an engine caches per position (0: none).
    pub rotary_elements: u64,
    /// Decoder layers, as runs of equal layers, in order.
    pub layers: Vec<LayerRun>,
    /// Tensors outside of layers: embedding, head, norms, learned positions.
    pub outside: Vec<Tensor>,
    /// The encoder of an encoder-decoder model, whose output the decoder attends to.
    pub encoder: Option<Encoder>,
    pub towers: Vec<Tower>,
    /// Multi-token-prediction layers: loaded only where speculation uses them.
    pub prediction: Vec<LayerRun>,
    /// The format in which unquantized weights are stored.
    pub native: WeightFormat,
    pub quantization: Option<Quantization>,
    /// What a tensor header says is stored, where one was read: the truth for sizes, while the
    /// shapes above say how it is shared.
    pub stored: Option<StoredWeights>,
    /// What was not stated and had to be assumed, in words for a reader.
    pub assumptions: Vec<String>,
}

/// Bytes of a checkpoint by role, as its header gives them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredWeights {
    /// Bytes per role, scales and zero points included.
    pub by_role: Vec<(Role, u64)>,
    /// Elements in all, packed ones counted as what they stand for.
    pub elements: u64,
}

impl StoredWeights {
    /// Bytes of a role; `None` where the header has none of it.
    pub fn bytes(&self, role: Role) -> Option<u64> {
        self.by_role
            .iter()
            .find(|(known, _)| *known == role)
            .map(|(_, bytes)| *bytes)
    }

    pub fn total(&self) -> u64 {
        self.by_role.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// `count` equal layers in a row.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerRun {
    pub count: u64,
    pub layer: Layer,
}

/// One decoder layer: one mixer and one feed-forward, either of which may be absent.
///
/// A block with more of them, side by side or one after the other, is described as several layers.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    pub mixer: Mixer,
    pub feed_forward: FeedForward,
    pub tensors: Vec<Tensor>,
    /// Heads × dimension of cross attention to an encoder (0: none).
    pub cross_attention: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Encoder {
    pub layers: Vec<LayerRun>,
    /// Tensors outside of its layers.
    pub outside: Vec<Tensor>,
    /// Positions of one input, where fixed (Whisper: 1500).
    pub positions: Option<Tokens>,
}

/// A vision or audio tower with its projector.
#[derive(Debug, Clone, PartialEq)]
pub struct Tower {
    /// `vision` or `audio`.
    pub kind: TowerKind,
    /// Width of its residual stream.
    pub hidden: u64,
    /// Width of its feed-forward.
    pub width: u64,
    pub layers: u64,
    /// Tokens handed to the language model for its largest item, where known.
    pub largest_item: Option<Tokens>,
    /// Patches of its largest item before merging, where known.
    pub largest_patches: Option<u64>,
    /// Whether it takes videos too: pairs of frames, each pair as large as the largest image.
    pub videos: bool,
    /// All its tensors, the projector's too.
    pub tensors: Vec<Tensor>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TowerKind {
    Vision,
    Audio,
}

impl Architecture {
    /// Every tensor of the decoder, encoder and towers with how often its layer repeats;
    /// prediction layers are not in it.
    pub fn tensors(&self) -> impl Iterator<Item = (u64, &Tensor)> {
        let encoder = self.encoder.iter();
        let runs = self
            .layers
            .iter()
            .chain(encoder.clone().flat_map(|e| e.layers.iter()))
            .flat_map(|run| run.layer.tensors.iter().map(move |t| (run.count, t)));
        let outside = self
            .outside
            .iter()
            .chain(encoder.flat_map(|e| e.outside.iter()))
            .chain(self.towers.iter().flat_map(|t| t.tensors.iter()));
        runs.chain(outside.map(|t| (1, t)))
    }

    /// All parameters, each tensor once, a tied head once, without prediction layers and scales.
    pub fn parameters(&self) -> Parameters {
        Parameters(
            self.tensors()
                .map(|(repeat, t)| repeat * t.elements())
                .sum(),
        )
    }

    /// Parameters of the tensors with one of these roles.
    pub fn parameters_of(&self, wanted: impl Fn(Role) -> bool) -> Parameters {
        Parameters(
            self.tensors()
                .filter(|(_, t)| wanted(t.role))
                .map(|(repeat, t)| repeat * t.elements())
                .sum(),
        )
    }

    /// Parameters that work on one text token: all but towers and the experts not chosen.
    pub fn active_parameters(&self) -> Parameters {
        let mut active = 0.0;
        for run in &self.layers {
            let chosen = run.layer.feed_forward.chosen_share();
            for tensor in &run.layer.tensors {
                let share = if tensor.role.is_routed_expert() {
                    chosen
                } else {
                    1.0
                };
                active += run.count as f64 * tensor.elements() as f64 * share;
            }
        }
        let outside: u64 = self.outside.iter().map(Tensor::elements).sum();
        Parameters((active + outside as f64 + 0.5) as u64)
    }

    /// Number of decoder layers.
    pub fn layer_count(&self) -> u64 {
        self.layers.iter().map(|run| run.count).sum()
    }

    /// The first mixer that keeps a cache or state, and how many layers hold any.
    pub fn attention_layers(&self) -> impl Iterator<Item = (u64, &Mixer)> {
        self.layers.iter().map(|run| (run.count, &run.layer.mixer))
    }

    /// Whether any layer chooses among experts.
    pub fn has_experts(&self) -> bool {
        self.layers
            .iter()
            .any(|run| matches!(run.layer.feed_forward, FeedForward::Experts { .. }))
    }

    /// Whether it takes windows of audio, of which its encoder has a fixed number of positions.
    pub fn takes_audio(&self) -> bool {
        let encoder = self.encoder.as_ref();
        encoder.is_some_and(|encoder| encoder.positions.is_some())
    }

    /// Elements of key-value cache that one more token adds in layers that see the whole context.
    pub fn cache_elements_per_token(&self) -> u64 {
        self.attention_layers()
            .map(|(count, mixer)| count * mixer.growing_elements_per_token())
            .sum()
    }

    /// Elements of key-value cache per token inside the window, in windowed layers.
    pub fn window_elements_per_token(&self) -> u64 {
        self.attention_layers()
            .map(|(count, mixer)| count * mixer.window_elements_per_token())
            .sum()
    }
}

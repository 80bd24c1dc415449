//! Diffusion, vision and embedding models instead of token by token: diffusion pipelines, vision, speech,
//! embeddings, recommenders. What a walk over such a network finds. Data only.

mod denoiser;
mod encoder;
mod input;
mod vision;

pub use denoiser::{
    Autoencoder, DiffusionTransformer, DiffusionUnet, FluxDenoiser, HunyuanVideo, QwenImage,
    StableDiffusion3, UnetLevel, VideoAutoencoder, Wan,
};
pub use encoder::{BertHead, ClipText, LanguagePart, Recommender, TextEncoder, TransformerSize};
pub use input::InputSize;
pub use vision::{ResidualNetwork, Retinanet, VisionHead, VisionTransformer, VolumeUnet};

use crate::model::Architecture;
use alloc::{boxed::Box, string::String, vec::Vec};

/// A diffusion, vision or embedding model, as its configurations describe it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Network {
    /// Its name, as people give it; empty where it has none.
    pub name: String,
    /// What it makes of what (`text to image`); empty where unknown.
    pub task: String,
    /// Its parts in the order in which they run.
    pub components: Vec<Component>,
    /// The input for which it is usually asked; what is absent follows from the configurations.
    pub usual: InputSize,
    /// What was not stated and had to be assumed, in words.
    pub assumptions: Vec<String>,
}

/// One part of a network: its name and its shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    /// As its folder or field is named (`text_encoder_2`).
    pub name: String,
    pub shape: Shape,
}

/// What a part is built of, by its class.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    Text(TextEncoder),
    ClipText(ClipText),
    /// A language model, or what of one is run: T5, Whisper, a decoder that embeds.
    Language(Box<Architecture>, LanguagePart),
    /// A transformer over patches of an image.
    Vision(VisionTransformer),
    /// `ResNet` and `ResNeXt`.
    Residual(ResidualNetwork),
    /// A detector with a pyramid of features.
    Retinanet(Retinanet),
    /// A U-net over volumes.
    VolumeUnet(VolumeUnet),
    /// The U-net of Stable Diffusion.
    Unet(DiffusionUnet),
    /// A variational autoencoder of images.
    Autoencoder(Autoencoder),
    VideoAutoencoder(VideoAutoencoder),
    Transformer(DiffusionTransformer),
    /// Tables of embeddings, a network below and one above.
    Recommender(Recommender),
}

/// What one input costs, part by part, at the sizes that were asked for.
///
/// The same walk yields parameters and work, so that the two cannot disagree.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Walk {
    /// Parts in the order in which they run.
    pub parts: Vec<Part>,
    /// What had to be assumed, in words.
    pub assumptions: Vec<String>,
}

/// One network of a pipeline: a text encoder, a denoiser, a decoder, a backbone.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// As its configuration names it (`unet`, `text_encoder_2`, `vae.decoder`).
    pub name: String,
    /// What it does in the pipeline.
    pub role: PartRole,
    /// How often it runs for one input (steps of a denoiser, twice with guidance; tokens of a decoder).
    pub passes: f64,
    /// Parameters, exact; also of what does not run.
    pub parameters: u64,
    /// What one pass does; empty where the part is not run.
    pub operations: Vec<Operation>,
    /// Elements of the largest set of tensors that live at once in one pass of one input.
    pub live_elements: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PartRole {
    TextEncoder,
    Denoiser,
    ImageDecoder,
    ImageEncoder,
    /// An encoder of any other input (audio, images).
    Encoder,
    /// A decoder that writes token by token.
    Decoder,
    Backbone,
    Tables,
    /// What follows: heads, poolers, interaction.
    Head,
}

/// Equal operations of one pass for one input.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// Where it stands in the network, in its own names.
    pub name: String,
    pub kind: OperationKind,
    /// How many equal ones.
    pub count: u64,
    /// Floating-point operations of one (a multiply-add is two).
    pub flops: u64,
    /// Weight elements that one reads.
    pub weights: u64,
    /// Activation elements that one reads.
    pub reads: u64,
    /// Activation elements that one writes.
    pub writes: u64,
    /// Rows of the matmul that one is, for one input (tokens, or pixels of a convolution's output);
    /// 0 where it is none.
    pub rows: u64,
    /// Whether weights are read once a batch (true), or once an input as lookups are.
    pub shared_weights: bool,
}

/// Kinds of operations, by what limits them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OperationKind {
    Matmul,
    /// Convolution of two dimensions.
    Convolution,
    /// Convolution of three dimensions.
    Convolution3d,
    /// Convolution whose groups are its channels.
    Depthwise,
    /// Attention over a sequence.
    Attention,
    /// Norms, activations, residuals, resampling.
    Elementwise,
    Lookup,
}

impl Walk {
    pub fn parameters(&self) -> u64 {
        self.parts.iter().map(|part| part.parameters).sum()
    }

    /// Floating-point operations for one input, all passes.
    pub fn flops(&self) -> f64 {
        self.parts
            .iter()
            .map(|part| part.passes * part.flops() as f64)
            .sum()
    }
}

impl Part {
    /// Floating-point operations of one pass for one input.
    pub fn flops(&self) -> u64 {
        self.operations
            .iter()
            .map(|operation| operation.count * operation.flops)
            .sum()
    }
}

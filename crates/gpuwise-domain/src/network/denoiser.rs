//! Shapes of what denoises, and of what turns pixels into latents and back.

use alloc::vec::Vec;

/// One level of the U-net of Stable Diffusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnetLevel {
    pub channels: u64,
    /// Transformer blocks behind each residual block, on the way down; 0 for none.
    pub down_transformers: u64,
    /// The same on the way up.
    pub up_transformers: u64,
    pub heads: u64,
}

/// The U-net of Stable Diffusion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffusionUnet {
    pub input_channels: u64,
    pub output_channels: u64,
    /// Side of the latents for which it was trained.
    pub sample: Option<u64>,
    pub levels: Vec<UnetLevel>,
    /// Residual blocks a level on the way down; one more on the way up.
    pub blocks: u64,
    /// Transformer blocks at the bottom; `None` without a middle.
    pub middle_transformers: Option<u64>,
    /// Width of the text's states.
    pub cross_width: u64,
    /// Whether transformers begin and end with a matmul instead of a convolution; of equal size.
    pub linear_projection: bool,
    /// Width of the added embedding of text and sizes (0: none), and of one of its sizes.
    pub added_width: u64,
    pub added_size_width: u64,
}

/// A variational autoencoder of images (`AutoencoderKL`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autoencoder {
    pub input_channels: u64,
    pub output_channels: u64,
    pub latent_channels: u64,
    /// Channels of each level, from the outside in.
    pub levels: Vec<u64>,
    /// Residual blocks a level in the encoder; one more in the decoder.
    pub blocks: u64,
    /// Whether a convolution follows the encoder.
    pub quantize: bool,
    /// Whether one precedes the decoder.
    pub dequantize: bool,
    /// Whether the middle attends.
    pub middle_attention: bool,
}

impl Autoencoder {
    /// Pixels of an image's side for one latent.
    pub fn factor(&self) -> u64 {
        1 << self.levels.len().saturating_sub(1).min(16)
    }
}

/// A variational autoencoder of video, by causal convolutions over three dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VideoAutoencoder {
    /// Channels of the outermost level.
    pub base: u64,
    pub latent_channels: u64,
    pub channels: u64,
    /// Channels of each level as multiples of the outermost.
    pub multipliers: Vec<u64>,
    /// Residual blocks a level in the encoder; one more in the decoder.
    pub blocks: u64,
    /// Whether each step between levels also halves time, from the outside in.
    pub halve_time: Vec<bool>,
}

impl VideoAutoencoder {
    /// Pixels of a frame's side for one latent.
    pub fn factor(&self) -> u64 {
        1 << self.halve_time.len().min(16)
    }

    /// Frames of one latent, but for the first, which has one.
    pub fn time_factor(&self) -> u64 {
        1 << self.halve_time.iter().filter(|time| **time).count().min(16)
    }
}

/// A transformer that denoises, by its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffusionTransformer {
    /// FLUX.1 and FLUX.2: blocks with a stream each for text and image, then blocks with one.
    Flux(FluxDenoiser),
    StableDiffusion3(StableDiffusion3),
    /// Wan: attention over space and time, then to the text.
    Wan(Wan),
    /// Qwen-Image: two streams all the way.
    QwenImage(QwenImage),
    /// `HunyuanVideo`: a refiner of text, then as FLUX over space and time.
    HunyuanVideo(HunyuanVideo),
}

/// FLUX.1 and FLUX.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FluxDenoiser {
    /// Whether it is the second generation: modulations that all blocks share, gated feed-forwards
    /// that start with attention's matmul, no biases, no pooled text.
    pub second: bool,
    /// Channels of a packed latent.
    pub input_channels: u64,
    pub output_channels: u64,
    /// Blocks of two streams.
    pub double_blocks: u64,
    pub single_blocks: u64,
    pub heads: u64,
    pub head_width: u64,
    /// Inner width of the feed-forward, before gating.
    pub feed_forward: u64,
    /// Width of the text's states.
    pub text_width: u64,
    /// Width of the pooled text (0: none).
    pub pooled_width: u64,
    /// Channels of the sinusoids of time and guidance.
    pub time_channels: u64,
    /// Whether guidance is an input instead of a second pass.
    pub guidance: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StableDiffusion3 {
    /// Side of a patch, in latents.
    pub patch: u64,
    pub input_channels: u64,
    pub output_channels: u64,
    /// Side of the latents for which it was trained.
    pub sample: Option<u64>,
    pub blocks: u64,
    /// Of these the first so many attend a second time, over the image alone.
    pub dual_blocks: u64,
    pub heads: u64,
    pub head_width: u64,
    /// Width of the text's states.
    pub text_width: u64,
    pub pooled_width: u64,
    /// Patches of a side for which positions are stored.
    pub largest_side: u64,
    /// Whether queries and keys have norms.
    pub head_norms: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wan {
    /// Latents of a patch: time, height, width.
    pub patch: [u64; 3],
    pub input_channels: u64,
    pub output_channels: u64,
    pub blocks: u64,
    pub heads: u64,
    pub head_width: u64,
    /// Inner width of the feed-forward.
    pub feed_forward: u64,
    /// Width of the text's states.
    pub text_width: u64,
    pub time_channels: u64,
    /// Whether attention to the text has a norm with parameters.
    pub cross_norm: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QwenImage {
    /// Side of a patch, in latents.
    pub patch: u64,
    /// Channels of a packed latent.
    pub input_channels: u64,
    /// Channels that it predicts, of one latent.
    pub output_channels: u64,
    pub blocks: u64,
    pub heads: u64,
    pub head_width: u64,
    /// Width of the text's states.
    pub text_width: u64,
}

/// `HunyuanVideo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HunyuanVideo {
    /// Latents of a patch: time, height, width.
    pub patch: [u64; 3],
    pub input_channels: u64,
    pub output_channels: u64,
    /// Blocks of two streams.
    pub double_blocks: u64,
    pub single_blocks: u64,
    /// Blocks that refine the text's states.
    pub refiner_blocks: u64,
    pub heads: u64,
    pub head_width: u64,
    /// Inner width of the feed-forward.
    pub feed_forward: u64,
    /// Width of the text's states.
    pub text_width: u64,
    pub pooled_width: u64,
    /// Whether guidance is an input.
    pub guidance: bool,
}

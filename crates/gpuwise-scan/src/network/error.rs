use crate::config::ConfigError;

/// Why a network cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// A configuration that is wrong.
    #[error("{part}: {source}")]
    Config { part: String, source: ConfigError },
    /// A class of network that cannot be walked.
    #[error("{part}: class {class:?} is not known; known are {KNOWN}")]
    UnknownClass { part: String, class: String },
    /// A part of a pipeline without configuration.
    #[error("the pipeline's index names {part:?}, but there is no {part}/config.json")]
    MissingPart { part: String },
    /// A pipeline that names nothing that computes.
    #[error("the pipeline's index names no part that computes")]
    Empty,
    /// A name that leads nowhere.
    #[error("no network {name:?} in the catalogue")]
    Unknown { name: String, like: Vec<String> },
}

/// What the readers know, for people.
const KNOWN: &str = "UNet2DConditionModel, AutoencoderKL, AutoencoderKLFlux2, AutoencoderKLWan, AutoencoderKLQwenImage, FluxTransformer2DModel, Flux2Transformer2DModel, SD3Transformer2DModel, WanTransformer3DModel, QwenImageTransformer2DModel, HunyuanVideoTransformer3DModel; BERT, RoBERTa and XLM-RoBERTa, CLIP, ViT, ResNet, T5, Whisper and other encoder-decoders, decoders that embed; RetinaNet, UNet3D and DLRM from a stated table";

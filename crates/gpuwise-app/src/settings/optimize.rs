//! Flags of `gpuwise optimize`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Optimize {
    /// A directory with safetensors and their config.json
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// The format of weights
    #[arg(long, value_enum)]
    pub to: Form,
    /// The directory that is written; it must not be there
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// How far a scale reaches [default: a channel for fp8, int8 and int8-weights, a group of 128 for int4]
    #[arg(long, value_name = "tensor|channel|block|GROUP")]
    pub scales: Option<String>,
    /// INT4 or INT8 weights with a zero point for each scale
    #[arg(long)]
    pub asymmetric: bool,
    /// Layers that stay as they are, beside head, embeddings and routers: parts of their names
    #[arg(long, value_name = "NAME")]
    pub keep: Vec<String>,
}

/// Formats of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// FP8 (E4M3) weights, activations in FP8 too
    Fp8,
    /// INT8 weights, activations in INT8 too
    Int8,
    /// INT8 weights alone
    Int8Weights,
    /// INT4 weights alone, in groups
    Int4,
    /// NVIDIA's FP4 weights alone, in groups of 16
    Nvfp4,
    /// FP4 weights alone by the OCP's microscaling, in groups of 32
    Mxfp4,
    /// BF16 again, of weights that are quantized: what was lost stays lost
    Bf16,
    /// F16 again
    F16,
    /// F32 again
    F32,
}

impl Form {
    /// As it is said.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp8 => "fp8",
            Self::Int8 => "int8",
            Self::Int8Weights => "int8-weights",
            Self::Int4 => "int4",
            Self::Nvfp4 => "nvfp4",
            Self::Mxfp4 => "mxfp4",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F32 => "f32",
        }
    }
}

//! Flags of `gpuwise optimize`.

use super::{LimitFlags, MeasureFlags, SloFlags, TrafficFlags};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Optimize {
    /// A directory with safetensors and their config.json, or an ONNX graph; with --advise any model that `plan` knows; with --measure a
    /// GGUF file, or the address of a server
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    #[command(flatten)]
    pub make: MakeFlags,
    /// Write the script that makes the form with calibration data, or by which a pruned model learns again, on a GPU
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = ["lora", "prune", "rotate", "fuse", "max_error", "kv", "report", "sparse_as"])]
    pub recipe: Option<RecipeName>,
    /// With --recipe distill: the model that MODEL was made of
    #[arg(long, value_name = "DIR", requires = "recipe", conflicts_with_all = ["lora", "prune", "rotate", "fuse", "max_error", "kv", "report", "sparse_as"])]
    pub teacher: Option<PathBuf>,
    /// Write a GGUF file for llama.cpp in this type, such as q4_k_m, by its own converter and quantizer
    #[arg(long, value_name = "TYPE", ignore_case = true, value_parser = GGUF, conflicts_with_all = ["to", "recipe", "advise", "measure", "lora", "prune", "rotate", "fuse", "scales", "asymmetric", "sparse_as", "keep", "max_error", "kv", "report"])]
    pub gguf: Option<String>,
    /// Say what each form would need, cost and lose under a traffic and an SLO
    #[arg(long, conflicts_with_all = ["to", "output", "recipe", "lora", "prune", "rotate", "fuse", "scales", "asymmetric", "sparse_as", "keep", "max_error", "kv", "report"])]
    pub advise: bool,
    #[command(flatten)]
    pub asked: AdviseFlags,
    #[command(flatten)]
    pub measured: MeasureFlags,
}

/// Types of GGUF files, as llama.cpp's quantizer calls them.
const GGUF: [&str; 20] = [
    "f32",
    "f16",
    "bf16",
    "q8_0",
    "q6_k",
    "q5_k_m",
    "q5_k_s",
    "q5_1",
    "q5_0",
    "q4_k_m",
    "q4_k_s",
    "q4_1",
    "q4_0",
    "iq4_nl",
    "iq4_xs",
    "q3_k_l",
    "q3_k_m",
    "q3_k_s",
    "q2_k",
    "mxfp4_moe",
];

/// What is made.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct MakeFlags {
    /// The format of weights
    #[arg(long, value_enum)]
    pub to: Option<Form>,
    /// The directory that is written, or the ONNX or GGUF file; it must not be there. With --recipe the script
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Merge a LoRA adapter into the weights first: a directory as PEFT writes it
    #[arg(long, value_name = "DIR")]
    pub lora: Option<PathBuf>,
    /// Take out the least channels of each MLP and the least heads of keys and values first, down to a share or a count:
    /// a narrower model that has to be fine-tuned (`--recipe distill`)
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "mlp=75%,kv-heads=4",
        conflicts_with = "rotate"
    )]
    pub prune: Vec<String>,
    /// Rotate the residual stream and the values of attention first, by Hadamard matrices folded into weights: the same
    /// model, whose numbers are as large as one another, so that fewer bits lose less
    #[arg(long)]
    pub rotate: bool,
    /// Make one of several, before: `qkv,gate-up` of Llama and Mistral, whose files become Phi-3's; `batchnorm,dead` of an
    /// ONNX graph, by onnxsim
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,…")]
    pub fuse: Vec<Fusion>,
    /// How far a scale reaches [default: a channel for fp8, int8 and int8-w8a16; for int4 a group
    /// of 128, or of 64 or 32 where that makes fewer bytes]
    #[arg(long, value_name = "tensor|channel|block|GROUP")]
    pub scales: Option<String>,
    /// INT4 or INT8 weights with a zero point for each scale
    #[arg(long)]
    pub asymmetric: bool,
    /// How `2:4` stores its zeros [default: dense]
    #[arg(long, value_enum, value_name = "FORM")]
    pub sparse_as: Option<SparseName>,
    /// Layers that stay as they are, beside head, embeddings and routers: parts of their names
    #[arg(long, value_name = "NAME")]
    pub keep: Vec<String>,
    /// Make towers of images and sound, and what lies between them and the language model, smaller too
    #[arg(long)]
    pub towers: bool,
    /// Write a form that no loader of `weight_loaders.csv` opens for this architecture
    #[arg(long)]
    pub unchecked: bool,
    /// Relative error of a layer's weights, such as 12%: layers that would lose more stay as they are. Encodes all twice
    #[arg(long, value_name = "SHARE")]
    pub max_error: Option<String>,
    /// Format of the key-value cache that engines take from the written directory
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub kv: Option<CacheName>,
    /// Write what became of each tensor, with its error (CSV)
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// How zeros are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SparseName {
    /// As zeros: every engine loads it, and nothing is smaller
    Dense,
    /// Left out, with a bit for each weight (`sparse-24-bitmask`): 56 % of the bytes, for vLLM up to 0.18 on Hopper
    Bitmask,
}

/// What becomes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Fusion {
    /// Queries, keys and values
    Qkv,
    /// Gate and what goes up
    GateUp,
    /// Of an ONNX graph: batch norms become part of the convolutions before them
    Batchnorm,
    /// Of an ONNX graph: what no output depends on, and what is constant, goes
    Dead,
}

impl Fusion {
    /// As it is said.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qkv => "qkv",
            Self::GateUp => "gate-up",
            Self::Batchnorm => "batchnorm",
            Self::Dead => "dead",
        }
    }

    /// Whether it is of ONNX graphs, and not of checkpoints.
    pub fn of_graphs(self) -> bool {
        matches!(self, Self::Batchnorm | Self::Dead)
    }
}

/// Formats of the key-value cache that a checkpoint may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CacheName {
    /// FP8 (E4M3) with a scale of 1, as nothing was measured
    Fp8,
}

/// What `--advise` is asked for.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct AdviseFlags {
    #[command(flatten, next_help_heading = "With --advise: traffic")]
    pub traffic: TrafficFlags,
    #[command(flatten, next_help_heading = "With --advise: SLO")]
    pub slo: SloFlags,
    #[command(flatten, next_help_heading = "With --advise: limits")]
    pub limits: LimitFlags,
    /// vllm, sglang, trtllm or transformers, with its release if need be: vllm@0.20
    #[arg(long, value_name = "NAME[@RELEASE]")]
    pub engine: Option<String>,
    /// Draw what a request costs against what is lost, of each form (SVG)
    #[arg(long, value_name = "FILE", help_heading = "With --advise: result")]
    pub svg: Option<PathBuf>,
}

/// How calibration data is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RecipeName {
    /// Rounding that makes up for what was rounded before (Frantar et al. 2022)
    Gptq,
    /// Channels scaled by how strong their activations are (Lin et al. 2023)
    Awq,
    /// Outliers of activations moved into weights, for INT8 (Xiao et al. 2022)
    Smoothquant,
    /// A pruned model is trained to answer as the one it was made of (Muralidharan et al. 2024)
    Distill,
}

impl RecipeName {
    /// As it is said.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gptq => "gptq",
            Self::Awq => "awq",
            Self::Smoothquant => "smoothquant",
            Self::Distill => "distill",
        }
    }
}

/// Formats of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// FP8 (E4M3) weights, activations in FP8 too
    Fp8,
    /// INT8 weights, activations in INT8 too
    Int8,
    /// INT8 weights alone
    Int8W8a16,
    /// INT4 weights alone, in groups
    Int4,
    /// NVIDIA's FP4 weights alone, in groups of 16
    Nvfp4,
    /// FP4 weights alone by the OCP's microscaling, in groups of 32
    Mxfp4,
    /// Two of each four weights along the input, the largest; the others become zeros
    #[value(name = "2:4")]
    TwoFour,
    /// BF16 again, of weights that are quantized: what was lost stays lost
    Bf16,
    /// F16 again
    F16,
    /// F32 again
    F32,
}

impl Form {
    /// Those that are smaller.
    pub const SMALLER: [Self; 6] = [
        Self::Fp8,
        Self::Int8,
        Self::Int8W8a16,
        Self::Int4,
        Self::Nvfp4,
        Self::Mxfp4,
    ];

    /// As `plan --precision` has it.
    pub fn planned(self) -> &'static str {
        match self {
            Self::Int8W8a16 => "int8-w8a16",
            other => other.name(),
        }
    }

    /// As it is said.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp8 => "fp8",
            Self::Int8 => "int8",
            Self::Int8W8a16 => "int8-w8a16",
            Self::Int4 => "int4",
            Self::Nvfp4 => "nvfp4",
            Self::Mxfp4 => "mxfp4",
            Self::TwoFour => "2:4",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F32 => "f32",
        }
    }
}

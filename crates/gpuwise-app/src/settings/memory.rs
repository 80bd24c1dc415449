//! Flags of `gpuwise memory`.

use super::{InputFlags, ModelFlags};
use clap::Args;

#[derive(Debug, Args)]
pub struct Memory {
    #[command(flatten)]
    pub model: ModelFlags,
    /// GPUs, also with a MIG profile ("A100 SXM4 80GB 3g.40gb") [default: those that are rented out]
    #[arg(long, value_name = "GPU", value_delimiter = ',')]
    pub gpu: Vec<String>,
    /// Longest request in tokens, prompt and output together
    #[arg(long, value_name = "TOKENS")]
    pub context: Option<String>,
    /// Concurrent requests of that length
    #[arg(long, value_name = "N")]
    pub concurrency: Option<String>,
    #[command(flatten, next_help_heading = "Parallel layout")]
    pub layout: LayoutFlags,
    #[command(flatten, next_help_heading = "Engine and precision")]
    pub engine: MemoryEngineFlags,
    #[command(flatten, next_help_heading = "Diffusion, vision and embedding models")]
    pub input: InputFlags,
    /// Show how every number came about
    #[arg(long)]
    pub explain: bool,
}

#[derive(Debug, Clone, Default, Args)]
pub struct LayoutFlags {
    /// Tensor-parallel ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub tp: Option<u32>,
    /// Pipeline stages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub pp: Option<u32>,
    /// Attention data-parallel groups
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub dp: Option<u32>,
    /// Expert-parallel groups
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub ep: Option<u32>,
}

#[derive(Debug, Args)]
pub struct MemoryEngineFlags {
    /// vllm, sglang, trtllm, llamacpp or transformers, with its release if need be: vllm@0.20
    #[arg(long, value_name = "NAME[@RELEASE]")]
    pub engine: Option<String>,
    /// Weight format, such as bf16, fp8, int4, nvfp4 [default: as published]
    #[arg(long, value_name = "FORMAT")]
    pub precision: Option<String>,
    /// Format of the key-value cache, such as fp16 or fp8 [default: as the checkpoint asks, else 16 bits]
    #[arg(long, value_name = "FORMAT")]
    pub kv: Option<String>,
    /// Share of memory that the engine may take [default: the engine's]
    #[arg(long, value_name = "SHARE")]
    pub memory_fraction: Option<String>,
    /// Tokens of a step at most [default: the engine's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub max_batched_tokens: Option<u64>,
    /// Sequences of a step at most [default: the engine's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub max_seqs: Option<u64>,
    /// Without CUDA graphs
    #[arg(long)]
    pub eager: bool,
    /// Tokens drafted a step by prediction layers or a draft model
    #[arg(long, value_name = "N")]
    pub draft_tokens: Option<u32>,
    /// The model that drafts them, named as a model is [default: the model's own prediction layers]
    #[arg(long, value_name = "MODEL")]
    pub draft_model: Option<String>,
    /// LoRA adapters served beside the base, and their largest rank, such as 4@16
    #[arg(long, value_name = "N@RANK")]
    pub lora: Option<String>,
}

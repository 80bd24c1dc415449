//! Flags of `gpuwise train`.

use super::{MarketFlags, ModelFlags};
use clap::{Args, ValueEnum};
use gpuwise_size::training::search::RankBy;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Train {
    #[command(flatten)]
    pub model: ModelFlags,
    #[command(flatten, next_help_heading = "What is trained")]
    pub method: MethodFlags,
    #[command(
        flatten,
        next_help_heading = "Preference tuning and reinforcement learning"
    )]
    pub alignment: AlignmentFlags,
    #[command(flatten, next_help_heading = "How much")]
    pub amount: AmountFlags,
    #[command(flatten, next_help_heading = "Machines")]
    pub machines: MachineFlags,
    #[command(flatten, next_help_heading = "Layout (what is left out is searched)")]
    pub layout: TrainLayoutFlags,
    #[command(flatten, next_help_heading = "Failures and storage")]
    pub reliability: ReliabilityFlags,
    #[command(flatten, next_help_heading = "Result")]
    pub result: TrainResultFlags,
}

#[derive(Debug, Args)]
pub struct MethodFlags {
    /// full, lora, qlora, dora, or another method of PEFT; dpo or grpo as TRL runs them, of every
    /// weight or of an adapter (dpo-lora, grpo-qlora)
    #[arg(long, value_name = "NAME", default_value = "full")]
    pub method: String,
    /// Rank of adapters, or what the method has in its place [default: 16]
    #[arg(long, value_name = "N")]
    pub rank: Option<String>,
    /// Modules that adapters sit on, such as q_proj,v_proj, or all-linear [default: the method's]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub modules: Vec<String>,
    /// How a frozen base is stored [default: as the method has it]
    #[arg(long, value_name = "FORM", value_parser = ["16bit", "32bit", "8bit", "nf4", "nf4-double"])]
    pub base: Option<String>,
    /// In which numbers it computes: bf16 (FP32 states beside BF16 compute), pure-bf16, fp16 (the loss
    /// scaled), fp8, fp8-block, nvfp4, tf32 or fp32 [default: bf16; pure-bf16 for adapters and
    /// torchtune; fp16 on GPUs without BF16]
    #[arg(long, value_name = "NAME")]
    pub recipe: Option<String>,
    /// adamw, adamw-8bit, paged-adamw, paged-adamw-8bit, adafactor, muon, lion or sgd
    #[arg(long, value_name = "NAME", default_value = "adamw")]
    pub optimizer: String,
    /// Whose memory and speed: huggingface, pytorch (FSDP) or megatron [default: searched]
    #[arg(long, value_name = "NAME")]
    pub framework: Option<String>,
    /// How logits become a loss: eager, fused, chunked or vocabulary-parallel [default: the framework's]
    #[arg(long, value_name = "NAME")]
    pub loss: Option<String>,
    /// Recipes of --emit compile the graph (torch.compile); speed and memory are taken as without
    #[arg(long)]
    pub compile: bool,
}

/// Settings of DPO and GRPO, by the names that TRL has.
#[derive(Debug, Args)]
pub struct AlignmentFlags {
    /// The reference's log-probs are computed once, before training (DPO)
    #[arg(long)]
    pub precompute_ref_log_probs: bool,
    /// Weight of the KL divergence; above 0 a reference is run beside the policy (GRPO) [default: 0]
    #[arg(long, value_name = "NUMBER")]
    pub beta: Option<String>,
    /// Completions of one prompt (GRPO) [default: 8]
    #[arg(long, value_name = "N")]
    pub num_generations: Option<String>,
    /// Tokens of a prompt (GRPO) [default: 512]
    #[arg(long, value_name = "TOKENS")]
    pub prompt_tokens: Option<String>,
    /// Tokens of a completion (GRPO) [default: 512]
    #[arg(long, value_name = "TOKENS")]
    pub max_completion_length: Option<String>,
    /// Where vLLM writes completions (GRPO): colocate, on the GPUs that train, or server, on GPUs of
    /// its own among those asked for [default: colocate]
    #[arg(long, value_name = "NAME")]
    pub vllm_mode: Option<String>,
    /// Share of a GPU's memory that vLLM takes (GRPO) [default: 0.3; 0.9 of a server]
    #[arg(long, value_name = "SHARE")]
    pub vllm_gpu_memory_utilization: Option<String>,
    /// Tensor-parallel ranks of one vLLM (GRPO) [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub vllm_tensor_parallel_size: Option<u32>,
    /// Engines of a server (GRPO) [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub vllm_data_parallel_size: Option<u32>,
    /// vLLM gives its memory back while the model trains (GRPO)
    #[arg(long)]
    pub vllm_enable_sleep_mode: bool,
    /// Time to reward the completions of a step, such as 2s (GRPO) [default: none]
    #[arg(long, value_name = "TIME")]
    pub reward_time: Option<String>,
}

#[derive(Debug, Args)]
pub struct AmountFlags {
    /// Tokens to train on in all, such as 2e9, 2B or 500M
    #[arg(long, value_name = "TOKENS")]
    pub tokens: Option<String>,
    /// Sequences of the data set, in place of tokens; pairs of DPO, prompts of GRPO
    #[arg(long, value_name = "N", conflicts_with = "tokens")]
    pub samples: Option<String>,
    /// How often the data set is gone through [default: 1]
    #[arg(
        long,
        value_name = "N",
        requires = "samples",
        conflicts_with = "tokens"
    )]
    pub epochs: Option<String>,
    /// Tokens of a sequence [default: 4096; of GRPO a prompt and its completion]
    #[arg(long, value_name = "TOKENS")]
    pub seq: Option<String>,
    /// Sequences of an optimizer step; pairs of DPO, completions of GRPO [default: about 2^20 tokens,
    /// 64 for adapters, pairs or prompts]
    #[arg(long, value_name = "N")]
    pub global_batch: Option<String>,
    /// Tokens of one evaluation
    #[arg(long, value_name = "TOKENS", requires = "eval_every")]
    pub eval_tokens: Option<String>,
    /// Steps between evaluations
    #[arg(long, value_name = "STEPS", requires = "eval_tokens")]
    pub eval_every: Option<String>,
    /// Longest time that the run may take, such as 3d or 12h
    #[arg(long, value_name = "TIME")]
    pub within: Option<String>,
    /// Most that the run may cost, such as 5000USD
    #[arg(long, value_name = "MONEY")]
    pub budget: Option<String>,
}

#[derive(Debug, Args)]
pub struct MachineFlags {
    /// Exactly these GPUs, such as 64xH100: the best layout on them
    #[arg(long, value_name = "NxGPU", conflicts_with_all = ["gpu", "provider", "region", "owned", "fabric"])]
    pub gpus: Option<String>,
    #[command(flatten)]
    pub market: MarketFlags,
    /// What surrounds the GPUs of one host: a host file (.toml), or a shape such as p5.48xlarge
    #[arg(long, value_name = "FILE|SHAPE")]
    pub host: Option<String>,
    /// GPUs at most
    #[arg(long, value_name = "N", default_value_t = 1024, conflicts_with = "gpus", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub max_gpus: u64,
    /// Network of one GPU between hosts in Gbit/s [default: the catalogue's for the host]
    #[arg(long, value_name = "GBIT", requires = "gpus", conflicts_with_all = ["gpu", "provider", "region", "owned", "fabric"])]
    pub network: Option<String>,
}

#[derive(Debug, Args)]
pub struct TrainLayoutFlags {
    /// Tensor-parallel ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub tp: Option<u32>,
    /// Pipeline stages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub pp: Option<u32>,
    /// Virtual stages of each pipeline rank (interleaved 1F1B)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub vp: Option<u32>,
    /// Context-parallel ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub cp: Option<u32>,
    /// Expert-parallel ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub ep: Option<u32>,
    /// Data-parallel ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub dp: Option<u32>,
    /// Sequences of a micro-batch
    #[arg(long, value_name = "N")]
    pub micro_batch: Option<String>,
    /// Activation checkpointing, by what is recomputed: none, selective (attention in Megatron, by operator in PyTorch) or
    /// full
    #[arg(long, value_name = "NAME")]
    pub recompute: Option<String>,
    /// What data-parallel ranks divide: none (DDP), optimizer (ZeRO-1), gradients (ZeRO-2), full
    /// (ZeRO-3, FSDP) or hybrid:N (HSDP in groups of N)
    #[arg(long, value_name = "NAME")]
    pub sharding: Option<String>,
    /// What is kept in host memory: optimizer, parameters, activations
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub offload: Vec<OffloadName>,
}

/// What can be kept in host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OffloadName {
    /// Optimizer states, and the step itself
    Optimizer,
    /// Weights
    Parameters,
    /// What layers keep for the backward pass
    Activations,
}

/// What training plans are ranked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TrainObjective {
    /// Money of the run; GPU-hours of hosts of one's own
    Cost,
    /// The shortest run, up to --max-gpus
    Time,
}

impl From<TrainObjective> for RankBy {
    fn from(objective: TrainObjective) -> Self {
        match objective {
            TrainObjective::Cost => Self::Cost,
            TrainObjective::Time => Self::Time,
        }
    }
}

#[derive(Debug, Args)]
pub struct ReliabilityFlags {
    /// GPU-hours for each unasked stop of a job [default: the catalogue's]
    #[arg(long, value_name = "GPU-HOURS")]
    pub mtbf: Option<String>,
    /// Bytes a second in which checkpoints are written by the whole job, such as 20GB
    #[arg(long, value_name = "BYTES")]
    pub storage: Option<String>,
    /// Figures of your own in place of those that gpuwise brings (TOML as
    /// `gpuwise example reliability.toml` prints)
    #[arg(long, value_name = "FILE")]
    pub reliability: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct TrainResultFlags {
    /// What to rank by [default: cost; time on hosts of one's own]
    #[arg(long, value_enum)]
    pub objective: Option<TrainObjective>,
    /// Plans to show
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub top: u16,
    /// Show memory and time by cause as tables, and how every number came about
    #[arg(long)]
    pub explain: bool,
    /// Print the sizing part of a recipe for the picked plan, and nothing else
    #[arg(long, value_name = "FORM", value_parser = ["torchtune", "axolotl", "megatron", "accelerate", "deepspeed", "trl"])]
    pub emit: Option<String>,
    /// Which of the plans to emit or explain
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub pick: u16,
    /// Write a report into one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

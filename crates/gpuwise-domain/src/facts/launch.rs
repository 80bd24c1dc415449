//! A launch command understood.

use super::Span;
use crate::{
    deployment::{Adapters, Settings},
    engine::{EngineKind, Release},
    layout::Layout,
};
use alloc::{string::String, vec::Vec};
use core::fmt;

/// What a launch command says; what it leaves to the engine is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    pub engine: EngineKind,
    /// Its release, where an image tag or the caller states it.
    pub release: Option<Release>,
    pub model: Option<String>,
    /// Tensor-parallel ranks as the engine counts them.
    pub tensor: Option<u32>,
    /// Pipeline stages; GPUs that llama.cpp deals layers out to.
    pub pipeline: Option<u32>,
    /// Data-parallel ranks: groups of attention for models with experts, replicas for others.
    pub data: Option<u32>,
    /// Whether data parallelism of attention lies within the tensor ranks (SGLang, TensorRT-LLM).
    pub data_within_tensor: bool,
    /// Whether experts are spread whole.
    pub expert_parallel: bool,
    /// Over how many ranks, where that is said.
    pub expert: Option<u32>,
    /// Decode context parallel ranks.
    pub decode_context: Option<u32>,
    /// Quantization as the engine names it.
    pub quantization: Option<String>,
    /// Element type of weights as the engine names it.
    pub weight_dtype: Option<String>,
    /// Element type of the key-value cache as the engine names it.
    pub kv_cache_dtype: Option<String>,
    /// Longest request in tokens.
    pub max_model_len: Option<u64>,
    /// Share of memory, as the engine counts it.
    pub memory_fraction: Option<f64>,
    /// Sequences at once, on one attention group.
    pub max_num_seqs: Option<u64>,
    /// Tokens of a step, on one attention group.
    pub max_num_batched_tokens: Option<u64>,
    /// Tokens of a cache block.
    pub block_size: Option<u64>,
    /// Whether steps run without CUDA graphs.
    pub eager: bool,
    pub draft_tokens: Option<u32>,
    /// How they are drafted, as the engine names it.
    pub draft_method: Option<String>,
    pub draft_model: Option<String>,
    pub adapters: Option<Adapters>,
    pub role: Option<PoolRole>,
    /// Further settings that sizing does not read, by name.
    pub other: Vec<(String, String)>,
    pub unknown: Vec<NotUnderstood>,
}

/// The part of a server in disaggregated serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolRole {
    Prefill,
    Decode,
}

/// A part of a launch command that was left aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotUnderstood {
    /// A flag that the release does not have.
    Flag {
        flag: String,
        engine: String,
        /// The releases that have it, where any does.
        elsewhere: Option<Span>,
        like: Vec<String>,
    },
    /// A value that the flag does not take in this release.
    Choice {
        flag: String,
        value: String,
        engine: String,
        choices: Vec<String>,
    },
}

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag {
                flag,
                engine,
                elsewhere,
                like,
            } => {
                write!(f, "`{flag}` is no flag of {engine} that we know")?;
                match elsewhere {
                    Some(Span {
                        until: Some(until), ..
                    }) => write!(f, ": it went with {until}"),
                    Some(Span {
                        since: Some(since), ..
                    }) => write!(f, ": it came with {since}"),
                    _ if like.is_empty() => Ok(()),
                    _ => write!(f, "; did you mean {}?", like.join(", ")),
                }
            }
            Self::Choice {
                flag,
                value,
                engine,
                choices,
            } => {
                write!(
                    f,
                    "`{flag} {value}` is no choice of {engine}; expected one of {}",
                    choices.join(", ")
                )
            }
        }
    }
}

impl Launch {
    pub fn new(engine: EngineKind, release: Option<Release>) -> Self {
        Self {
            engine,
            release,
            model: None,
            tensor: None,
            pipeline: None,
            data: None,
            data_within_tensor: false,
            expert_parallel: false,
            expert: None,
            decode_context: None,
            quantization: None,
            weight_dtype: None,
            kv_cache_dtype: None,
            max_model_len: None,
            memory_fraction: None,
            max_num_seqs: None,
            max_num_batched_tokens: None,
            block_size: None,
            eager: false,
            draft_tokens: None,
            draft_method: None,
            draft_model: None,
            adapters: None,
            role: None,
            other: Vec::new(),
            unknown: Vec::new(),
        }
    }

    /// The layout that it starts, for a model with or without routed experts.
    pub fn layout(&self, has_experts: bool) -> Layout {
        let tensor = self.tensor.unwrap_or(1).max(1);
        let data = self.data.unwrap_or(1).max(1);
        let mut layout = Layout {
            tensor,
            pipeline: self.pipeline.unwrap_or(1).max(1),
            decode_context: self.decode_context.unwrap_or(1).max(1),
            ..Layout::SINGLE
        };
        if self.data_within_tensor {
            layout.tensor = (tensor / data).max(1);
            layout.attention_data = data;
        } else if self.engine == EngineKind::Vllm && has_experts {
            layout.attention_data = data;
        } else {
            layout.replicas = data;
        }
        if has_experts {
            let ranks = layout.stage_gpus();
            let stated = self
                .expert
                .unwrap_or(if self.expert_parallel { ranks } else { 1 });
            layout.expert = stated.clamp(1, ranks);
        }
        layout
    }

    /// These defaults with what the command says in their place.
    pub fn settings(&self, defaults: Settings) -> Settings {
        Settings {
            batched_tokens: self
                .max_num_batched_tokens
                .unwrap_or(defaults.batched_tokens),
            sequences: self.max_num_seqs.unwrap_or(defaults.sequences),
            max_context: self.max_model_len.unwrap_or(defaults.max_context),
            memory_fraction: self.memory_fraction.unwrap_or(defaults.memory_fraction),
            block: self.block_size.unwrap_or(defaults.block),
            eager: self.eager || defaults.eager,
        }
    }
}

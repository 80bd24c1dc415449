//! What an engine is told before it starts.

use crate::cache::PoolSettings;

/// One serving engine: one or more ranks that step together.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub policy: Policy,
    /// Ranks that step in lock: data-parallel attention with expert parallelism. Otherwise 1; ranks
    /// that do not wait for each other are replicas of their own.
    pub ranks: u32,
    /// Most sequences in a batch, by rank (`max_num_seqs`, `max_running_requests`, `max_batch_size`).
    pub max_sequences: u32,
    /// Most tokens in a step, by rank (`max_num_batched_tokens`, `max_num_tokens`; with SGLang
    /// `max_prefill_tokens`, which bounds prefill steps alone).
    pub max_batched_tokens: u32,
    /// Most tokens of prompt and answer together (`max_model_len`).
    pub max_context: u32,
    /// KV cache of each rank.
    pub cache: PoolSettings,
    /// A step is planned while the one before it runs (asynchronous scheduling, overlap scheduler).
    pub overlap: bool,
    /// Answers end by a stop token, which `overlap` sees one step late; otherwise by `max_tokens`,
    /// which is known ahead.
    pub ends_by_stop: bool,
    /// Drafted tokens, verified in the same step.
    pub speculation: Option<Speculation>,
    pub role: Role,
    /// Most LoRA adapters in a batch (`max_loras`); `None`: as many as come.
    pub max_adapters: Option<u32>,
    /// Requests beyond so many waiting are refused (`max_num_queued_reqs`); `None`: never.
    pub max_queued: Option<u32>,
    /// Requests beyond so many waiting prompt tokens are refused (`max_num_queued_tokens`).
    pub max_queued_tokens: Option<u64>,
}

/// Whose rules decide what is in a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Policy {
    /// vLLM V1.
    Vllm(VllmRules),
    Sglang(SglangRules),
    TensorRtLlm(TensorRtLlmRules),
}

/// The rules of vLLM V1 that differ between releases or by a flag.
#[derive(Debug, Clone, PartialEq)]
pub struct VllmRules {
    /// Long prompts are computed in chunks (`enable_chunked_prefill`).
    pub chunked_prefill: bool,
    /// Most prompt tokens of one sequence in a step (`long_prefill_token_threshold`); 0: no limit.
    /// A sequence that is alone in the engine is not limited.
    pub long_prefill_threshold: u32,
    /// The smallest (priority, arrival) first, instead of the order of arrival.
    pub priority: bool,
    /// A request joins only if blocks for the whole of it are free, though only its chunk is taken
    /// (`scheduler_reserve_full_isl`, since 0.19).
    pub reserve_full_prompt: bool,
    /// Share of the blocks that stays free when a request joins running ones (`watermark`, since
    /// 0.24).
    pub watermark: f64,
}

impl Default for VllmRules {
    fn default() -> Self {
        Self {
            chunked_prefill: true,
            long_prefill_threshold: 0,
            priority: false,
            reserve_full_prompt: true,
            watermark: 0.0,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct SglangRules {
    /// Most tokens of one prompt in a step (`chunked_prefill_size`); `None`: whole prompts.
    pub chunked_prefill: Option<u32>,
    /// Decodes join prefill steps (`enable_mixed_chunk`).
    pub mixed_chunk: bool,
    pub order: SglangOrder,
    /// Factor of the output that admission keeps room for (`schedule_conservativeness`).
    pub conservativeness: f64,
    /// The share of the remaining output that is kept free at first, before the factor.
    pub initial_ratio: f64,
    /// The share of the first ratio that remains after `ratio_steps` decode steps.
    pub least_ratio: f64,
    /// Decode steps in which the ratio falls from the first to the least, linearly.
    pub ratio_steps: u32,
    /// Tokens of output beyond which admission looks no further ahead (`CLIP_MAX_NEW_TOKENS`).
    pub output_clip: u32,
    /// Decode steps that a retraction makes room for.
    pub retract_steps: u32,
    /// Clients ask that the end of text be ignored: remaining output is kept free in full.
    pub ignore_end: bool,
}

/// Which waiting request SGLang takes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SglangOrder {
    Arrival,
    /// The longest prefix in the cache first (`lpm`); in the order of arrival while more than so many
    /// wait.
    LongestPrefix {
        /// Above so many waiting requests the order is that of arrival.
        until: u32,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct TensorRtLlmRules {
    pub capacity: Capacity,
    /// Long prompts are computed in chunks of whole KV blocks (`enable_chunked_prefill`).
    pub chunked_context: bool,
}

/// Which requests have a place in TensorRT-LLM's KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capacity {
    /// Blocks are kept free until the end of each running request: none is ever paused.
    GuaranteedNoEvict,
    /// As many as fit the next step; the latest are paused when it does not.
    MaxUtilization,
}

/// Drafted tokens: each step verifies `drafts` of them for each sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speculation {
    /// Drafted tokens by sequence and step.
    pub drafts: u32,
    /// Chance that a draft is accepted, given that those before it were.
    pub acceptance: f64,
    /// Seed of the chances; each request has a stream of its own.
    pub seed: u64,
}

/// Which phases an engine serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    #[default]
    Whole,
    /// Prompts alone: a request ends with its first token and holds its blocks until they are pulled.
    Prefill,
    /// Answers: the cache of the prompt comes from elsewhere, its last token is computed here.
    Decode,
}

/// Settings that no engine could run with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// A count that must be at least 1.
    #[error("{name} is 0: an engine needs at least 1")]
    Zero {
        /// What is 0.
        name: &'static str,
    },
    /// A share that must be from 0 to 1.
    #[error("{name} is {value}: give a number from 0 to 1")]
    Share { name: &'static str, value: f64 },
    /// Too few tokens in a step for a token of each sequence.
    #[error(
        "a step of {tokens} tokens cannot hold a token of each of {sequences} sequences: raise the first or lower the second"
    )]
    Budget { tokens: u32, sequences: u32 },
    /// Speculation under rules that are not modelled with it.
    #[error(
        "speculative decoding is modelled under vLLM's rules only: leave it out or change the engine"
    )]
    Speculation,
}

impl Settings {
    /// Whether an engine could run with them.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn check(&self) -> Result<(), SettingsError> {
        for (name, value) in [
            ("the number of ranks", u64::from(self.ranks)),
            (
                "the most sequences in a batch",
                u64::from(self.max_sequences),
            ),
            (
                "the most tokens in a step",
                u64::from(self.max_batched_tokens),
            ),
            ("the longest context", u64::from(self.max_context)),
            ("the KV cache in blocks", self.cache.blocks),
            ("the KV block in tokens", u64::from(self.cache.block_tokens)),
        ] {
            if value == 0 {
                return Err(SettingsError::Zero { name });
            }
        }
        let share = |name, value: f64| {
            if (0.0..=1.0).contains(&value) {
                Ok(())
            } else {
                Err(SettingsError::Share { name, value })
            }
        };
        match &self.policy {
            Policy::Vllm(rules) => share("the watermark", rules.watermark)?,
            Policy::Sglang(rules) => {
                share("the first ratio of new tokens", rules.initial_ratio)?;
                share("the least ratio of new tokens", rules.least_ratio)?;
                if rules.chunked_prefill == Some(0) {
                    return Err(SettingsError::Zero {
                        name: "the prefill chunk in tokens",
                    });
                }
            }
            Policy::TensorRtLlm(_) => {
                let (tokens, sequences) = (self.max_batched_tokens, self.max_sequences);
                if tokens < sequences {
                    return Err(SettingsError::Budget { tokens, sequences });
                }
            }
        }
        if let Some(speculation) = self.speculation {
            share("the acceptance of drafts", speculation.acceptance)?;
            if !matches!(self.policy, Policy::Vllm(_)) {
                return Err(SettingsError::Speculation);
            }
        }
        Ok(())
    }
}

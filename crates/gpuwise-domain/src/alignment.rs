//! What a run learns from beyond the next token of given texts: pairs of answers (DPO), or answers
//! that the model writes itself and that are rewarded (GRPO). Data only.

use crate::training::{Method, TrainingSetup};
use alloc::{format, string::String};
use gpuwise_units::{Bytes, Tokens};

/// Preference tuning and reinforcement learning, with what decides their memory and time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Alignment {
    /// Direct preference optimization. Batches count pairs.
    Dpo {
        /// Whether the reference's log-probs are computed once, before training.
        precomputed: bool,
    },
    /// Group relative policy optimization. Batches count completions.
    Grpo(Grpo),
}

/// The sizes of GRPO.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grpo {
    /// Completions of one prompt.
    pub generations: u64,
    /// Tokens of a prompt.
    pub prompt: u64,
    /// Tokens of a completion.
    pub completion: u64,
    /// Weight of the KL divergence from the reference; 0: there is no reference.
    pub beta: f64,
    pub engine: RolloutEngine,
    /// Seconds of rewarding one batch.
    pub reward: f64,
}

/// The vLLM that writes completions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RolloutEngine {
    pub mode: RolloutMode,
    /// Tensor-parallel ranks of one engine.
    pub tensor: u32,
    /// Share of a GPU's memory that an engine takes (0 to 1).
    pub share: f64,
    /// Whether weights and cache are given back while the model trains.
    pub sleeps: bool,
    /// Bytes that it takes of a GPU that trains: `share` of what a program sees there.
    pub held: Bytes,
}

/// Where completions are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutMode {
    /// On the GPUs that train, in turn with training.
    Colocate,
    /// On GPUs of their own.
    Server {
        /// Engines, each of as many GPUs as it has ranks.
        engines: u32,
    },
}

impl RolloutMode {
    /// Its name in flags and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Colocate => "colocate",
            Self::Server { .. } => "server",
        }
    }
}

impl RolloutEngine {
    /// GPUs that write and do not train.
    pub const fn own_gpus(&self) -> u64 {
        match self.mode {
            RolloutMode::Colocate => 0,
            RolloutMode::Server { engines } => engines as u64 * self.tensor as u64,
        }
    }
}

/// What the policy is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// A frozen copy of the model.
    Copy,
    /// The base of the adapter, with the adapter switched off.
    Base,
}

impl Alignment {
    /// Its name in flags and documents.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Dpo { .. } => "dpo",
            Self::Grpo(_) => "grpo",
        }
    }

    /// Sequences that one count of a batch stands for.
    pub const fn sequences(&self) -> u64 {
        match self {
            Self::Dpo { .. } => 2,
            Self::Grpo(_) => 1,
        }
    }

    /// Whole groups of so many make a batch.
    pub const fn group(&self) -> u64 {
        match self {
            Self::Dpo { .. } => 1,
            Self::Grpo(grpo) => grpo.generations,
        }
    }

    /// GPUs that write completions and do not train.
    pub const fn own_gpus(&self) -> u64 {
        match self {
            Self::Dpo { .. } => 0,
            Self::Grpo(grpo) => grpo.engine.own_gpus(),
        }
    }

    /// What the policy is compared with in a step; `None`: nothing is run beside it.
    pub const fn reference(&self, method: &Method) -> Option<Reference> {
        let needed = match self {
            Self::Dpo { precomputed } => !*precomputed,
            Self::Grpo(grpo) => grpo.beta > 0.0,
        };
        match (needed, method) {
            (false, _) => None,
            (true, Method::Full) => Some(Reference::Copy),
            (true, Method::Adapter(_)) => Some(Reference::Base),
        }
    }

    /// What a batch is made of, in a clause that follows a sentence on what is trained.
    pub fn words(&self, sequence: u64) -> String {
        match self {
            Self::Dpo { precomputed } => format!(
                "DPO on pairs of two sequences of {} tokens{}",
                Tokens(sequence),
                if *precomputed {
                    ", the reference's log-probs precomputed"
                } else {
                    ""
                }
            ),
            Self::Grpo(grpo) => {
                let place = match grpo.engine.mode {
                    RolloutMode::Colocate => "vLLM on the GPUs that train".into(),
                    RolloutMode::Server { .. } => {
                        format!("vLLM on {} GPUs of its own", grpo.engine.own_gpus())
                    }
                };
                format!(
                    "GRPO on {} completions of {} tokens for each prompt of {}, by {place}",
                    grpo.generations,
                    Tokens(grpo.completion),
                    Tokens(grpo.prompt)
                )
            }
        }
    }
}

impl TrainingSetup {
    /// What the policy is compared with in a step.
    pub fn reference(&self) -> Option<Reference> {
        self.alignment.as_ref()?.reference(&self.method)
    }

    /// The sizes of GRPO, where it is that.
    pub const fn grpo(&self) -> Option<&Grpo> {
        match &self.alignment {
            Some(Alignment::Grpo(grpo)) => Some(grpo),
            _ => None,
        }
    }

    /// The training part alone: its sequences, each counted as one, learned from as from given texts.
    #[must_use]
    pub fn plain(&self) -> Self {
        let sequences = self.sequences_each();
        Self {
            micro_batch: self.micro_batch.saturating_mul(sequences),
            global_batch: self.global_batch.saturating_mul(sequences),
            alignment: None,
            ..self.clone()
        }
    }

    /// Sequences that one count of its batches stands for.
    pub fn sequences_each(&self) -> u64 {
        self.alignment.as_ref().map_or(1, Alignment::sequences)
    }

    /// Tokens that an optimizer step trains on.
    pub fn step_tokens(&self) -> u64 {
        let sequences = self.global_batch.saturating_mul(self.sequences_each());
        sequences.saturating_mul(self.sequence.0)
    }

    /// Share of a sequence's tokens whose logits are computed: of rollouts the completion alone.
    pub fn scored_share(&self) -> f64 {
        self.grpo().map_or(1.0, |grpo| {
            grpo.completion as f64 / self.sequence.0.max(1) as f64
        })
    }
}

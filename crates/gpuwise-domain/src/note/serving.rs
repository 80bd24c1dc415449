//! Notes on plans for serving.

use alloc::string::String;
use core::fmt;
use gpuwise_units::{Bytes, HourlyPrice, significant};

/// What a plan for serving rests on.
#[derive(Debug, Clone, PartialEq)]
pub enum ServingNote {
    /// Requests that the model does not take.
    BeyondContext {
        /// Tokens of the longest.
        longest: f64,
        most: u64,
    },
    /// No GPU that was allowed suffices; the best of all others.
    Elsewhere {
        label: String,
        hour: Option<HourlyPrice>,
    },
    /// Nobody is known to rent out what will do.
    Unpriced,
    /// Host memory that keeps prefixes.
    HostCache { bytes: Bytes, tokens: f64 },
    Drafts {
        model: String,
        /// Drafted a step.
        tokens: u32,
        /// Of each token, once those before it are accepted.
        acceptance: f64,
        /// Whether nothing said that share.
        assumed: bool,
        /// Tokens of a step in the mean.
        step: f64,
    },
    /// The vocabulary of the model that drafts is not that of the model.
    OtherVocabulary {
        draft_model: String,
        draft: u64,
        model: u64,
    },
    /// Latencies are those of simulated requests.
    Simulated {
        traffic: String,
        tried: u64,
        hold: u64,
    },
}

impl fmt::Display for ServingNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeyondContext { longest, most } => write!(
                f,
                "requests of up to {longest:.0} tokens are longer than the {most} that the model takes: what is \
                 longer is refused"
            ),
            Self::Elsewhere { label, hour } => {
                write!(f, "of all GPUs the best that suffices is {label} ")?;
                match hour {
                    Some(hour) => write!(f, "at {hour}"),
                    None => f.write_str("at an unknown price"),
                }
            }
            Self::Unpriced => f.write_str(
                "no offer in the catalogue has these GPUs under these limits: prices are unknown",
            ),
            Self::HostCache { bytes, tokens } => write!(
                f,
                "{bytes} of host memory a GPU keeps prefixes of {} tokens for reuse; it allows no more \
                 concurrent requests, and prompts gain from it what --prefix-hit says",
                significant(*tokens, 6)
            ),
            Self::Drafts {
                model,
                tokens,
                acceptance,
                assumed,
                step,
            } => write!(
                f,
                "{model} drafts {tokens} tokens a step, of which each is accepted with {} % once those before it \
                 are{}: {} tokens a step in the mean",
                significant(acceptance * 100.0, 3),
                if *assumed {
                    ", assumed because --acceptance does not say it"
                } else {
                    ""
                },
                significant(*step, 3)
            ),
            Self::OtherVocabulary {
                draft_model,
                draft,
                model,
            } => write!(
                f,
                "{draft_model} has a vocabulary of {draft} tokens and the model one of {model}: engines draft only \
                 with a model of the same tokenizer, and some only with the same size"
            ),
            Self::Simulated {
                traffic,
                tried,
                hold,
            } => write!(
                f,
                "latencies are simulated, request by request, under {traffic}: of {tried} deployments tried {hold} \
                 hold"
            ),
        }
    }
}

//! Notes on training plans.

use core::fmt;

/// What a training plan rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrainingNote {
    /// Nothing states the global batch.
    GlobalBatch { sequences: u64, usual: UsualBatch },
    /// Completions of a rollout.
    Rollout {
        /// Tokens of each.
        completion: u64,
        /// Seconds of a reward, as stated.
        reward: Option<f64>,
    },
    /// Hosts of one's own are ranked by time.
    OwnHosts,
    /// A graph is compiled, which no measured run tells apart.
    Compiled,
    /// Nothing states the tokens of the run.
    NoTokens,
    /// Sequences that are longer than the model states.
    BeyondContext { sequence: u64, most: u64 },
}

/// Whose usual batch stands in for one that is not stated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsualBatch {
    /// Of pretraining, by its tokens.
    Tokens,
    Adapters,
    Pairs,
    Prompts {
        /// Completions of each.
        generations: u64,
    },
}

impl fmt::Display for TrainingNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GlobalBatch { sequences, usual } => {
                let of = match usual {
                    UsualBatch::Tokens => "sequences (about 2^20 tokens a step)",
                    UsualBatch::Adapters => "sequences (usual for adapters)",
                    UsualBatch::Pairs => "pairs (usual for DPO)",
                    UsualBatch::Prompts { generations } => {
                        return write!(
                            f,
                            "the global batch is taken to be {sequences} completions ({} prompts of \
                             {generations}), or the next multiple of the GPUs; --global-batch states it",
                            sequences / (*generations).max(1)
                        );
                    }
                };
                write!(
                    f,
                    "the global batch is taken to be {sequences} {of}, or the next multiple of the GPUs; \
                     --global-batch states it"
                )
            }
            Self::Rollout { completion, reward } => {
                write!(
                    f,
                    "every completion is taken to have {completion} tokens, and the step waits for all of them; "
                )?;
                match reward {
                    Some(seconds) => write!(f, "rewarding a batch takes {seconds} s, as stated"),
                    None => f.write_str(
                        "rewarding a batch is taken to take no time; --reward-time states it",
                    ),
                }
            }
            Self::OwnHosts => f.write_str(
                "hosts of your own cost the same busy or idle, so the fastest way to use them comes first; \
                 --objective cost ranks by GPU-hours",
            ),
            Self::Compiled => f.write_str(
                "a compiled graph is taken to be as fast and as large as one that is not: no measured runs tell \
                 them apart; --emit writes it into the recipe",
            ),
            Self::NoTokens => f.write_str(
                "no tokens are stated: days, money and energy of the run cannot be told; --tokens states them",
            ),
            Self::BeyondContext { sequence, most } => write!(
                f,
                "sequences of {sequence} tokens are longer than the {most} that the model states"
            ),
        }
    }
}

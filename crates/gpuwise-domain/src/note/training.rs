//! Notes on training plans.

use core::fmt;

/// What a training plan rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainingNote {
    /// Nothing states the global batch.
    GlobalBatch {
        sequences: u64,
        /// Whether adapters are trained, and not all weights.
        adapters: bool,
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

impl fmt::Display for TrainingNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GlobalBatch {
                sequences,
                adapters,
            } => {
                let why = if *adapters {
                    "usual for adapters"
                } else {
                    "about 2^20 tokens a step"
                };
                write!(
                    f,
                    "the global batch is taken to be {sequences} sequences ({why}), or the next multiple of the \
                     GPUs; --global-batch states it"
                )
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

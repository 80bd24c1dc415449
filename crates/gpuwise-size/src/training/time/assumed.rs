//! What had to be assumed to tell the time of a training step.

use alloc::string::String;
use core::fmt;
use gpuwise_domain::training::{Framework, Recipe};

/// An assumption that the time of a step rests on.
#[derive(Debug, Clone, PartialEq)]
pub enum Assumed {
    /// No matmuls were timed on GPUs of this generation.
    UntimedMatmuls {
        /// The generation.
        generation: String,
    },
    /// The network between hosts is not known.
    Network {
        /// What it is taken as: bytes a second of one GPU.
        bytes_per_second: f64,
    },
    /// The GPU does not multiply in the recipe's numbers.
    WiderMatmuls { gpu: String, recipe: Recipe },
    /// Towers and encoders are not counted.
    TextAlone,
    /// A rollout is learned from once.
    OneUpdate,
    /// No rows of this framework were fitted.
    UnfittedFramework(Framework),
    /// Rows of this framework were fitted, but none with such a layout or recomputation.
    UnfittedLayout(Framework),
}

impl fmt::Display for Assumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UntimedMatmuls { generation } => write!(
                f,
                "no matmuls were timed on {generation}: shares of the peak are those of other GPUs"
            ),
            Self::Network { bytes_per_second } => {
                let gbit = bytes_per_second * 8.0 / 1e9;
                write!(f, "network taken as {gbit:.0} Gbit/s a GPU")
            }
            Self::WiderMatmuls { gpu, recipe } => {
                let numbers = match recipe {
                    Recipe::Fp8 | Recipe::Fp8Block => "FP8",
                    Recipe::Nvfp4 => "FP4",
                    _ => "this precision",
                };
                write!(
                    f,
                    "{gpu} has no {numbers} matmuls: computed in the next wider format"
                )
            }
            Self::TextAlone => {
                f.write_str("towers and encoders are not counted: text tokens alone")
            }
            Self::OneUpdate => f.write_str(
                "each rollout is learned from once (num_iterations 1), and corrected for the engine's own \
                 log-probs (vllm_importance_sampling_correction)",
            ),
            Self::UnfittedLayout(framework) => write!(
                f,
                "of {} only rows over data-parallel ranks were fitted, whole layers recomputed or none: what else a step \
                 does is taken as published for such schedules",
                framework.title()
            ),
            Self::UnfittedFramework(framework) => write!(
                f,
                "{} was fitted on no rows: constants of FSDP runs, passes counted in its code",
                framework.title()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_network_is_said_in_bits() {
        let assumed = Assumed::Network {
            bytes_per_second: 25e9,
        };
        assert_eq!(assumed.to_string(), "network taken as 200 Gbit/s a GPU");
    }
}

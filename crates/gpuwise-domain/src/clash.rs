//! Choices of a training setup that no placement can meet.

use crate::training::{Framework, Recompute};
use core::fmt;

/// Degrees, batches and switches that exclude each other, the model or the machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clash {
    /// Activations are offloaded where recomputation keeps no layer's input apart.
    OffloadedActivations(Recompute),
    /// The framework recomputes whole layers or nothing.
    WholeLayers(Framework),
    /// The framework divides over data-parallel ranks alone.
    DataParallelOnly {
        flag: &'static str,
        degree: u32,
        framework: Framework,
    },
    Heads {
        tensor: u32,
        heads: u64,
    },
    /// More pipeline stages than layers.
    EmptyStages {
        stages: u64,
        layers: u64,
    },
    /// Virtual stages without a pipeline.
    NoPipeline {
        interleave: u64,
    },
    VirtualStages {
        interleave: u64,
        stages: u64,
        layers: u64,
    },
    NoExperts {
        degree: u32,
    },
    Experts {
        degree: u32,
        experts: u64,
    },
    /// A sequence is dealt to context ranks in equal chunks, two a rank.
    Sequence {
        context: u32,
        tokens: u64,
    },
    /// The degrees that are stated, in the order TP, PP, CP, DP, do not make the GPUs.
    Product {
        stated: [Option<u32>; 4],
        product: u64,
        gpus: u64,
    },
    /// Copies cannot be dealt to groups of so many ranks.
    HybridGroup {
        group: u32,
        copies: u64,
    },
    NoPlacement {
        gpus: u64,
    },
    /// A rank takes whole micro-batches.
    GlobalBatch {
        batch: u64,
        micro: u64,
        /// Whole groups of so many make a batch: completions of one prompt.
        group: u64,
        /// The least and the most that it must be a multiple of, by placement.
        multiple: (u64, u64),
    },
    /// The engine that writes completions leaves no GPU to train.
    NoTrainers {
        gpus: u64,
        /// GPUs of the engine.
        own: u64,
    },
    /// Engines of so many ranks cannot be made of the GPUs that train.
    RolloutRanks {
        tensor: u32,
        gpus: u64,
    },
}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OffloadedActivations(stated) => write!(
                f,
                "--offload activations: with --recompute {} no layer's input is kept apart that could be offloaded",
                stated.name()
            ),
            Self::WholeLayers(framework) => write!(
                f,
                "--recompute selective: {} recomputes whole layers or nothing",
                framework.title()
            ),
            Self::DataParallelOnly {
                flag,
                degree,
                framework,
            } => write!(
                f,
                "{flag} {degree}: {} divides over data-parallel ranks alone",
                framework.title()
            ),
            Self::Heads { tensor, heads } => {
                write!(
                    f,
                    "--tp {tensor} does not divide the {heads} attention heads"
                )
            }
            Self::EmptyStages { stages, layers } => write!(
                f,
                "--pp {stages}: {layers} layers leave {} stages without a layer",
                stages - layers
            ),
            Self::NoPipeline { interleave } => write!(f, "--vp {interleave} needs a pipeline"),
            Self::VirtualStages {
                interleave,
                stages,
                layers,
            } => write!(
                f,
                "--vp {interleave}: {layers} layers cannot be dealt to {stages} × {interleave} virtual stages"
            ),
            Self::NoExperts { degree } => write!(f, "--ep {degree}: the model has no experts"),
            Self::Experts { degree, experts } => {
                write!(f, "--ep {degree} does not divide the {experts} experts")
            }
            Self::Sequence { context, tokens } => write!(
                f,
                "--cp {context}: {tokens} tokens cannot be dealt in {} equal chunks, two a rank",
                2 * u64::from(*context)
            ),
            Self::Product {
                stated,
                product,
                gpus,
            } => {
                let named = ["TP", "PP", "CP", "DP"].into_iter().zip(stated);
                let named = named.filter_map(|(name, degree)| degree.map(|d| (name, d)));
                for (at, (name, degree)) in named.enumerate() {
                    let between = if at == 0 { "" } else { " × " };
                    write!(f, "{between}{name}{degree}")?;
                }
                write!(f, " is {product}, which does not make {gpus} GPUs")
            }
            Self::HybridGroup { group, copies } => write!(
                f,
                "--sharding hybrid:{group} does not divide the {copies} data-parallel ranks into groups"
            ),
            Self::NoPlacement { gpus } => write!(
                f,
                "no degrees of parallelism that divide heads, layers and experts make {gpus} GPUs"
            ),
            Self::GlobalBatch {
                batch,
                micro,
                group,
                multiple: (least, most),
            } => {
                write!(f, "a global batch of {batch} does not divide into ")?;
                if *group > 1 {
                    write!(f, "prompts of {group} completions, and ")?;
                }
                write!(
                    f,
                    "micro-batches of {micro} over data-parallel ranks: it must be a multiple of {least}"
                )?;
                if least == most {
                    Ok(())
                } else {
                    write!(f, " to {most}")
                }
            }
            Self::NoTrainers { gpus, own } => write!(
                f,
                "--vllm-mode server takes {own} GPUs to write completions, and of {gpus} none is left to train"
            ),
            Self::RolloutRanks { tensor, gpus } => write!(
                f,
                "--vllm-tensor-parallel-size {tensor} does not divide the {gpus} GPUs that train"
            ),
        }
    }
}

//! Flags of `gpuwise check`.

use super::{EngineFlags, LimitFlags, ModelFlags, SloFlags, TrafficFlags};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    pub model: ModelFlags,
    #[command(flatten, next_help_heading = "What runs")]
    pub current: CurrentFlags,
    #[command(flatten, next_help_heading = "Traffic")]
    pub traffic: TrafficFlags,
    #[command(flatten, next_help_heading = "SLO")]
    pub slo: SloFlags,
    #[command(flatten, next_help_heading = "What may take its place")]
    pub limits: LimitFlags,
    #[command(flatten, next_help_heading = "Engine and precision")]
    pub engine: EngineFlags,
    #[command(
        flatten,
        next_help_heading = "A job by its figures, in place of a model"
    )]
    pub job: JobFlags,
    #[command(flatten, next_help_heading = "Result")]
    pub result: CheckResultFlags,
}

#[derive(Debug, Clone, Args)]
pub struct CurrentFlags {
    /// How many of which GPU, such as 8xH100
    #[arg(long, value_name = "NxGPU")]
    pub current: Option<String>,
    /// What surrounds them: a host file (.toml), or a shape of the catalogue, such as p5.48xlarge
    #[arg(long, value_name = "FILE|SHAPE")]
    pub host: Option<String>,
    /// What one host costs, such as 55USD/h [default: as the catalogue's offers say]
    #[arg(long, value_name = "MONEY/h")]
    pub price: Option<String>,
    /// Tensor-parallel ranks of one replica, where no launch command says it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub tp: Option<u32>,
    /// A saved deployment that runs: its model, GPUs, layout and traffic
    #[arg(long, value_name = "FILE")]
    pub deployment: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct JobFlags {
    /// Samples that one GPU gets through when nothing holds it up, such as 2500/s
    #[arg(long, value_name = "RATE")]
    pub samples: Option<String>,
    /// Bytes of a sample as it is stored, such as 110kB
    #[arg(long, value_name = "BYTES", requires = "samples")]
    pub stored: Option<String>,
    /// Bytes of a sample as it is copied to the GPU [default: a normalized 224 × 224 image in 32 bits]
    #[arg(long, value_name = "BYTES", requires = "samples")]
    pub copied: Option<String>,
    /// Milliseconds of a core that loading a sample takes [default: those of decoding it as JPEG]
    #[arg(long, value_name = "MS", requires = "samples")]
    pub core_ms: Option<f64>,
    /// Samples of a batch on one GPU
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: u32,
    /// Parameters whose gradients nodes exchange after every batch, such as 25.6M; none when serving
    #[arg(long, value_name = "N", requires = "samples")]
    pub gradients: Option<String>,
    /// Nodes of the job
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: u32,
    /// Host memory that a node's processes hold, such as 64GiB
    #[arg(long, value_name = "BYTES", requires = "samples")]
    pub holds: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub struct CheckResultFlags {
    /// Constants of the host's balance in place of those of the catalogue (TOML)
    #[arg(long, value_name = "FILE")]
    pub constants: Vec<PathBuf>,
    /// Show how every number came about
    #[arg(long)]
    pub explain: bool,
}

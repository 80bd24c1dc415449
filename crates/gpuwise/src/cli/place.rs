//! Flags of `gpuwise place`, `gpuwise lint` and `gpuwise capacity`.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The fleet (TOML): nodes, GPUs, links, queues
    #[arg(value_name = "FLEET")]
    pub(crate) fleet: PathBuf,
    /// What is asked of it, and what runs already (TOML)
    #[arg(value_name = "JOBS")]
    pub(crate) jobs: PathBuf,
    #[command(flatten)]
    pub(crate) how: HowFlags,
    /// Say of this job why it waits, and everything that would help; or where it runs and what was
    /// weighed
    #[arg(long, value_name = "JOB")]
    pub(crate) why: Vec<String>,
    /// Plan as if: +2xL40S a node with two more, +n3 another node like n3, -n3 without node n3
    #[arg(
        long = "what-if",
        value_name = "CHANGE",
        allow_hyphen_values = true,
        conflicts_with = "save"
    )]
    pub(crate) what_if: Vec<String>,
    /// Write the plan into a file, to be checked with `gpuwise lint`
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Draw the fleet as it is with the plan (SVG)
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Show what each placement weighed
    #[arg(long)]
    pub(crate) explain: bool,
    /// Jobs that wait for which cures are looked for; --why looks for its own
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) cures: usize,
}

/// How is decided.
#[derive(Debug, Clone, Args)]
pub(crate) struct HowFlags {
    /// Which node is taken
    #[arg(long, value_name = "NAME", default_value = "gpuwise")]
    pub(crate) policy: String,
    /// Stop, move or shrink those who may be, to make room for those of higher priority
    #[arg(long)]
    pub(crate) disturb: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Lint {
    /// A saved plan (`gpuwise place … --save`)
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    /// Check it against this fleet [default: the one that the plan was made for]
    #[arg(long, value_name = "FILE", requires = "jobs")]
    pub(crate) fleet: Option<PathBuf>,
    /// Check it against these jobs
    #[arg(long, value_name = "FILE", requires = "fleet")]
    pub(crate) jobs: Option<PathBuf>,
    /// Jobs that the plan may preempt, move or reclaim at most
    #[arg(long, value_name = "N")]
    pub(crate) max_disturbed: Option<u32>,
    /// GPU time of others that it may lose at most, such as 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) max_lost: Option<gpuwise_units::Nanoseconds>,
}

#[derive(Debug, Args)]
pub(crate) struct Capacity {
    /// The fleet (TOML)
    #[arg(value_name = "FLEET")]
    pub(crate) fleet: PathBuf,
    /// What is asked of it (TOML)
    #[arg(value_name = "JOBS")]
    pub(crate) jobs: PathBuf,
    #[command(flatten)]
    pub(crate) how: HowFlags,
    /// Nodes that may be bought at most
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) max_nodes: u32,
}

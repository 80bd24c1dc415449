//! Flags of `gpuwise composed`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Composed {
    /// A saved deployment (`gpuwise plan … --save`)
    #[arg(
        value_name = "DEPLOYMENT",
        required_unless_present = "replay",
        requires = "fabric",
        conflicts_with = "replay"
    )]
    pub deployment: Option<PathBuf>,
    /// The fabric (TOML): pools of GPUs, hosts, bandwidth, switches, time to attach
    #[arg(long, value_name = "FILE")]
    pub fabric: Option<PathBuf>,
    /// Show how collectives over the fabric came about
    #[arg(long)]
    pub explain: bool,
    #[command(flatten, next_help_heading = "Replay of a fleet")]
    pub replay: ReplayFlags,
}

#[derive(Debug, Args)]
pub struct ReplayFlags {
    /// Replay a trace of a fleet on fixed hosts and on pools; the word is the form of its files
    #[arg(long, value_enum)]
    pub replay: Option<TraceForm>,
    /// Its tasks (also .gz) [default: openb's default list under $GPUWISE_DATA]
    #[arg(long, value_name = "FILE", requires = "replay")]
    pub trace: Option<PathBuf>,
    /// Its nodes (also .gz) [default: openb's GPU nodes under $GPUWISE_DATA]
    #[arg(long, value_name = "FILE", requires = "replay")]
    pub nodes: Option<PathBuf>,
    /// Nodes to replay on, evenly out of the list
    #[arg(long, value_name = "N", default_value_t = 64, requires = "replay", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub hosts: u32,
    /// GPUs asked for in the mean, as a share of those that there are
    #[arg(long, value_name = "SHARE", default_value = "0.8", requires = "replay")]
    pub load: String,
    /// Tasks stay for good, one after another in the list's order, as fleets are often compared
    #[arg(long, requires = "replay", conflicts_with = "load")]
    pub stay: bool,
    /// How a node is chosen
    #[arg(long, value_enum, default_value_t = ChoiceName::Best, requires = "replay")]
    pub choice: ChoiceName,
    /// Hosts that share one fabric [default: those of the fabric file, else all]
    #[arg(long, value_name = "N", requires = "replay")]
    pub hosts_per_fabric: Option<u32>,
    /// GPUs that a host can have [default: those of the fabric file, else 8]
    #[arg(long, value_name = "N", requires = "replay", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub gpus_per_host: Option<u32>,
    /// Seconds to attach a GPU [default: those of the fabric file, else 10]
    #[arg(long, value_name = "SECONDS", requires = "replay")]
    pub attach: Option<u64>,
}

/// Forms of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TraceForm {
    /// Alibaba's GPU trace of 2023: lists of nodes and pods
    Openb,
}

/// How a node is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ChoiceName {
    /// The one with the least left
    Best,
    /// The first with room
    First,
}

//! Flags of `gpuwise bench`.

use super::{ChangeFlags, SloFlags, TrafficFlags};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Bench {
    /// Address of the server's OpenAI-compatible interface, such as http://localhost:8000/v1
    #[arg(value_name = "URL")]
    pub url: String,
    #[command(flatten, next_help_heading = "Server")]
    pub server: ServerFlags,
    #[command(flatten, next_help_heading = "Traffic")]
    pub traffic: TrafficFlags,
    #[command(flatten, next_help_heading = "Traffic, changed")]
    pub changes: ChangeFlags,
    #[command(flatten, next_help_heading = "Traffic, shaped")]
    pub shape: ShapeFlags,
    #[command(flatten, next_help_heading = "SLO")]
    pub slo: SloFlags,
    #[command(flatten, next_help_heading = "Result")]
    pub result: BenchResultFlags,
}

/// How the server is spoken to.
#[derive(Debug, Clone, Args)]
pub struct ServerFlags {
    /// The model, as the server names it [default: the first that it names]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Which interface [default: chat; completions where the server has no chat]
    #[arg(long, value_enum)]
    pub interface: Option<InterfaceName>,
    /// Ask for whole answers in place of streams; nothing is known of first tokens then
    #[arg(long)]
    pub no_stream: bool,
    /// Environment variable that holds the server's key
    #[arg(long, value_name = "NAME")]
    pub key_env: Option<String>,
    /// File that holds the server's key
    #[arg(long, value_name = "FILE", conflicts_with = "key_env")]
    pub key_file: Option<PathBuf>,
    /// Certificates (PEM) that are trusted besides the public ones
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long, conflicts_with = "ca_file")]
    pub insecure: bool,
    /// Abort a request after so long
    #[arg(long, value_name = "TIME", default_value = "300s")]
    pub timeout: String,
    /// Wait so long for the server to be ready [default: 20s where it answers that it is not ready; a
    /// refused connection is told at once]
    #[arg(long, value_name = "TIME")]
    pub wait: Option<String>,
    /// Send again what the server was too full for (429, 503), when it says, up to 5 times
    #[arg(long)]
    pub retry_after: bool,
    /// Fields of every request that win over ours, such as '{"temperature":0}'
    #[arg(long, value_name = "JSON")]
    pub body: Option<String>,
}

/// The two interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InterfaceName {
    /// /chat/completions
    Chat,
    /// /completions
    Completions,
}

/// Traffic beyond what a workload says.
#[derive(Debug, Clone, Args)]
pub struct ShapeFlags {
    /// The law of arrivals: poisson, constant, or gamma with the squared variation of its gaps, gamma:4
    #[arg(long, value_name = "LAW", conflicts_with = "burstiness")]
    pub arrivals: Option<String>,
    /// Prompts begin with so many tokens that they share, in so many groups, such as 500@4
    #[arg(long, value_name = "TOKENS@GROUPS")]
    pub shared_prefix: Option<String>,
    /// Seed of the words of prompts; with another seed no prompt was ever sent before [default: the
    /// clock, so that no cache is warm from an earlier run]
    #[arg(long, value_name = "N")]
    pub prompt_seed: Option<u64>,
    /// Loads to try at most where a range is given, such as --rate 2..40 [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=64))]
    pub points: Option<u32>,
}

/// What is done with what was measured.
#[derive(Debug, Clone, Args)]
pub struct BenchResultFlags {
    /// Save the result as a document (gpuwise.run/v1)
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Write a report into one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write what became of every request (CSV)
    #[arg(long, value_name = "FILE")]
    pub records: Option<PathBuf>,
}

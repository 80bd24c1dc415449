//! Flags of `gpuwise workload`.

use crate::fetch::Access;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Workload {
    #[command(subcommand)]
    pub from: WorkloadFrom,
}

#[derive(Debug, Subcommand)]
pub enum WorkloadFrom {
    /// From the metrics that a server keeps of itself (vLLM, SGLang, TGI)
    ///
    /// Reads /metrics of a running server or a saved copy of it, or asks a Prometheus server. A summary
    /// goes to standard error, the workload file to standard output.
    FromMetrics(Box<FromMetrics>),
    /// From access logs of a gateway or an engine (JSON lines or CSV)
    ///
    /// Fields are found by their usual names, or as --map says. A summary goes to standard error, the
    /// workload file to standard output.
    FromLog(FromLog),
}

#[derive(Debug, Args)]
pub struct FromMetrics {
    /// Address of a server's metrics, or a saved copy; of two copies the later is the second
    #[arg(value_name = "URL|FILE", num_args = 1..=2, required_unless_present = "prometheus", conflicts_with = "prometheus")]
    pub source: Vec<String>,
    /// Watch a server for so long; of files: the time that a copy covers, or between two copies
    #[arg(long = "for", value_name = "TIME")]
    pub span: Option<String>,
    /// While watching, look so often [default: a twelfth of the time, at least 1s]
    #[arg(long, value_name = "TIME", requires = "span")]
    pub every: Option<String>,
    /// When the counts began, if not when the process started, such as 2026-11-20T08:00:00Z
    #[arg(long, value_name = "DATE")]
    pub since: Option<String>,
    /// When a saved copy was taken
    #[arg(long, value_name = "DATE")]
    pub taken: Option<String>,
    /// The model, where there are several
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Longest context of the server: bounds what lies beyond the last bucket
    #[arg(long, value_name = "TOKENS")]
    pub context: Option<String>,
    /// Address of a Prometheus server to ask instead
    #[arg(long, value_name = "URL", help_heading = "A Prometheus server")]
    pub prometheus: Option<String>,
    /// Only series with these labels, such as '{namespace="prod"}'
    #[arg(
        long,
        value_name = "LABELS",
        requires = "prometheus",
        help_heading = "A Prometheus server"
    )]
    pub selector: Option<String>,
    /// How far back to look
    #[arg(
        long,
        value_name = "TIME",
        default_value = "24h",
        help_heading = "A Prometheus server"
    )]
    pub range: String,
    /// Length of the windows in which requests are counted
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10min",
        help_heading = "A Prometheus server"
    )]
    pub step: String,
    #[command(flatten, next_help_heading = "Access")]
    pub access: Access,
    /// Write the workload here instead of to standard output; .json writes JSON
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct FromLog {
    /// The log; also .gz
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where fields stand, such as arrival=ts,isl=usage.prompt_tokens,session=chat_id
    #[arg(long, value_name = "FIELD=COLUMN,…")]
    pub map: Option<String>,
    /// Only requests of this model
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Write the workload here instead of to standard output; .json writes JSON
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also write the requests as a trace (CSV) that can be replayed
    #[arg(long, value_name = "FILE")]
    pub save_trace: Option<PathBuf>,
}

//! Flags of `gpuwise tco`.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Tco {
    /// A saved deployment, or the JSON that `train` or `plan` of another model answers with
    /// [default: hosts as the flags say]
    #[arg(value_name = "DEPLOYMENT")]
    pub deployment: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Hosts and load")]
    pub hosts: HostFlags,
    #[command(flatten, next_help_heading = "Time")]
    pub time: TimeFlags,
    #[command(flatten, next_help_heading = "Prices and assumptions")]
    pub money: MoneyFlags,
    #[command(flatten, next_help_heading = "Results")]
    pub result: TcoResultFlags,
}

#[derive(Debug, Args)]
pub struct HostFlags {
    /// GPU of the hosts [default: the deployment's]
    #[arg(long, value_name = "GPU")]
    pub gpu: Option<String>,
    /// GPUs of one host [default: those of the deployment's instance]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub gpus_per_host: Option<u32>,
    /// Hosts today [default: the deployment's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub hosts: Option<u32>,
    /// What is served at the load of today, such as "4 images/s" or "40 hours of audio/h" [default: the
    /// deployment's tokens]
    #[arg(long, value_name = "N NAME/TIME")]
    pub serves: Option<String>,
    /// A training run on all hosts of today takes so many hours
    #[arg(long, value_name = "HOURS", conflicts_with = "serves")]
    pub run_hours: Option<String>,
    /// The load that today's hosts sustain at the most, over the load of today [default: as so many of the deployment's
    /// hosts do, or 1]
    #[arg(long, value_name = "FACTOR")]
    pub headroom: Option<String>,
}

#[derive(Debug, Args)]
pub struct TimeFlags {
    /// Months or years that are billed, up to 120 months
    #[arg(long, value_name = "TIME", default_value = "36mo")]
    pub horizon: String,
    /// The first month, such as 2026-12 [default: the one after that of the prices, and not before today]
    #[arg(long, value_name = "MONTH")]
    pub start: Option<String>,
    /// Growth of the load, such as 20%/month, 10..30%/month or 40%/year; or a CSV with a column `load`,
    /// a row a month
    #[arg(long, value_name = "GROWTH|FILE", allow_hyphen_values = true)]
    pub growth: Option<String>,
    /// From order to service, such as 4mo or 2..6mo
    #[arg(long, value_name = "TIME")]
    pub lead_time: Option<String>,
    /// Time between orders, such as 3mo
    #[arg(long, value_name = "TIME")]
    pub review: Option<String>,
}

#[derive(Debug, Args)]
pub struct MoneyFlags {
    /// The currency of everything
    #[arg(long, value_name = "CODE", default_value = "USD")]
    pub currency: String,
    /// Price of a host, such as 250000..350000USD
    #[arg(long, value_name = "MONEY")]
    pub capital: Option<String>,
    /// Rent of a host on demand, such as 31.46USD/h [default: the deployment's offer]
    #[arg(long, value_name = "MONEY")]
    pub on_demand: Option<String>,
    /// Rent of a host reserved
    #[arg(long, value_name = "MONEY")]
    pub reserved: Option<String>,
    /// Rent of a host as spot capacity
    #[arg(long, value_name = "MONEY")]
    pub spot: Option<String>,
    /// Mean load over the peak that hosts are bought for, such as 50%
    #[arg(long, value_name = "SHARE")]
    pub duty: Option<String>,
    /// Emissions of the grid, such as 380g/kWh
    #[arg(long, value_name = "G/KWH")]
    pub grid: Option<String>,
    /// Another assumption, such as pue=1.2, energy=0.15..0.19..0.24USD, rate=9% or life=4y; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Assumptions of your own, as `gpuwise example tco.toml` prints them
    #[arg(long, value_name = "FILE")]
    pub assumptions: Option<PathBuf>,
    /// A price list of your own, as `gpuwise example prices.csv` prints one; may be repeated
    #[arg(long, value_name = "FILE")]
    pub prices: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct TcoResultFlags {
    /// Write everything as CSV that a spreadsheet recomputes: inputs, lines, formulas over cells
    #[arg(long, value_name = "FILE")]
    pub export: Option<PathBuf>,
    /// Draw what to buy by when
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Show every input with its source and every line with its formula
    #[arg(long)]
    pub explain: bool,
    /// Write a report into one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

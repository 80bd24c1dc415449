//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Finds the GPUs that a language model and a promise need: which, how many, rented where, at what
/// price, with which settings, and how sure that is.
#[derive(Debug, Parser)]
#[command(
    name = "gpuwise",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Never touch the network
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) offline: bool,
    /// Form of the result
    #[arg(long, global = true, value_enum, default_value_t = Format::Table, help_heading = "Global options")]
    pub(crate) format: Format,
    /// Whether to colour; `auto` colours on terminals unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, help_heading = "Global options")]
    pub(crate) color: Colour,
    /// Seed of what is drawn at random; the same seed gives the same result
    #[arg(
        long,
        global = true,
        default_value_t = 0,
        help_heading = "Global options"
    )]
    pub(crate) seed: u64,
}

/// In which form results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for a terminal
    Table,
    /// JSON
    Json,
    /// CSV
    Csv,
    /// Markdown
    Md,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On terminals
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List GPUs of the catalogue, or check catalogue files
    Gpus(Gpus),
    /// List models of the catalogue
    Models(Models),
}

#[derive(Debug, Args)]
pub(crate) struct Gpus {
    /// Only those whose name, alias, vendor or generation holds this
    pub(crate) pattern: Option<String>,
    /// Check this catalogue file, or all that are in use, and say every problem
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with = "pattern")]
    pub(crate) check: Option<Option<PathBuf>>,
}

#[derive(Debug, Args)]
pub(crate) struct Models {
    /// Only those whose name or alias holds this
    pub(crate) pattern: Option<String>,
}

//! Flags of every command.

use crate::app::Format;
use clap::{Args, ValueEnum, builder::BoolishValueParser};

/// Flags of every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Never touch the network
    #[arg(
        long,
        global = true,
        value_parser = BoolishValueParser::new(),
        env = "GPUWISE_OFFLINE",
        hide_env_values = true,
        help_heading = "Global options"
    )]
    pub offline: bool,
    /// Form of the result [default: table; of predict: csv]
    #[arg(
        long,
        global = true,
        value_enum,
        env = "GPUWISE_FORMAT",
        hide_env_values = true,
        help_heading = "Global options"
    )]
    pub format: Option<FormatName>,
    /// Whether to colour; `auto` colours on terminals unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, help_heading = "Global options")]
    pub color: Colour,
    /// Seed of what is drawn at random; the same seed gives the same result
    #[arg(
        long,
        global = true,
        default_value_t = 0,
        env = "GPUWISE_SEED",
        hide_env_values = true,
        help_heading = "Global options"
    )]
    pub seed: u64,
}

/// Forms of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    /// Text for a terminal
    Table,
    /// JSON
    Json,
    /// CSV
    Csv,
    /// Markdown
    Md,
    /// FOCUS 1.2 CSV, of `gpuwise statement` alone
    Focus,
    /// A page that prints well, of `gpuwise statement` alone
    Html,
}

impl FormatName {
    pub const fn format(self) -> Format {
        match self {
            Self::Table => Format::Table,
            Self::Json => Format::Json,
            Self::Csv | Self::Focus | Self::Html => Format::Csv,
            Self::Md => Format::Md,
        }
    }
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On terminals
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

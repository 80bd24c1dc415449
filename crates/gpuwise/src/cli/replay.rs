//! Flags of `gpuwise replay`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Trace: openb, openb:VARIANT, or a directory with files of the same form
    ///
    /// Traces are looked for in `fleet` under $GPUWISE_DATA, else under ../shared/data.
    #[arg(value_name = "NAME|PATH")]
    pub(crate) trace: String,
    /// Policies, side by side [default: all published ones]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) policy: Vec<String>,
    /// Seeds of the order of arrival: 42..46, or 42,44 [default: all that the trace has]
    #[arg(long, value_name = "SEEDS")]
    pub(crate) seeds: Option<String>,
    /// Variants of the trace [default: default, or all of a directory that has none of this name]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) variant: Vec<String>,
    /// Say how many decisions were made in a second
    #[arg(long)]
    pub(crate) timing: bool,
}

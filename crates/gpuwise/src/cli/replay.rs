//! Flags of `gpuwise replay`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Trace: openb, openb:VARIANT, genai, or a directory with files of the same form
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
    /// GPUs on which the serving day (genai) is run [default: the fewest on which nobody waits longer]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) gpus: Option<u32>,
    /// Base models that a host of 8 GPUs keeps in its memory on the serving day [default: 14]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(crate) host_models: Option<u32>,
}

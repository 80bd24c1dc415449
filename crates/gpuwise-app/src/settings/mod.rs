//! What people may say of a question: one struct for each command, whose fields are its flags, the
//! keys of a project file and the arguments of the Python package. Each is a name, a form, a help text
//! and a default, said once.

#[cfg(feature = "bench")]
mod bench;
mod check;
mod composed;
pub mod file;
mod fleet;
mod global;
mod measure;
mod media;
mod memory;
mod operators;
mod optimize;
mod place;
mod plan;
mod redfish;
mod replay;
mod simulate;
mod table;
mod tco;
mod train;
mod workload;

#[cfg(feature = "bench")]
pub use bench::{Bench, InterfaceName, ServerFlags};
pub use check::{Check, CurrentFlags, JobFlags};
pub use composed::{ChoiceName, Composed};
pub use fleet::{FleetCheck, FleetCommand, FleetImport, FleetMig, ProfilesFlag};
pub use global::{Colour, FormatName, Global};
pub use measure::MeasureFlags;
pub use media::{InputFlags, MediaFlags};
pub use memory::{LayoutFlags, Memory};
pub use operators::{
    KeepOut, OperatorsCheck, OperatorsCommand, OperatorsFit, OperatorsPredict, OperatorsShow,
};
pub use optimize::{
    AdviseFlags, CacheName, Form, Fusion, MakeFlags, Optimize, RecipeName, SparseName,
};
pub use place::{Capacity, HowFlags, Lint, Place};
pub use plan::{
    EngineFlags, LimitFlags, MarketFlags, Plan, RuleName, SloFlags, TermsName, TrafficFlags,
};
pub use redfish::RedfishFlags;
pub use replay::{Durations, Replay};
pub use simulate::{
    ChangeFlags, ClusterFlags, EffortFlags, Load, RouterName, RunResultFlags, SchedulingName,
    SharingName, Simulate, Validate,
};

pub use table::Table;
pub use tco::{MoneyFlags, Tco};
pub use train::{AlignmentFlags, MachineFlags, MethodFlags, OffloadName, ReliabilityFlags, Train};
pub use workload::{FromLog, FromMetrics, Workload, WorkloadFrom};

pub use crate::app::Format;
use crate::error::Problem;
use crate::model::Numbers;
use clap::{Args, ValueEnum};
use std::{ffi::OsString, path::PathBuf};

/// Settings as their flags say them, such as `["meta-llama/Llama-3.1-8B", "--rate", "4/s"]`; what is
/// not said is as usual.
///
/// # Errors
/// When a flag is not known, or its value is not of its form.
pub fn parse<T: Args>(
    flags: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> anyhow::Result<T> {
    parse_with("gpuwise", flags, &file::Files::default())
}

/// The same of a command, where files stand in for what is not said.
///
/// # Errors
/// As [`parse`], and when a file says what is no flag of the command.
pub fn parse_with<T: Args>(
    command: &str,
    flags: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    files: &file::Files,
) -> anyhow::Result<T> {
    let bare = clap::Command::new(command.to_owned()).no_binary_name(true);
    let definition = files.apply_to(command, T::augment_args(bare))?;
    let parsed = definition
        .try_get_matches_from(flags)
        .and_then(|matches| T::from_arg_matches(&matches));
    parsed.map_err(|error| refused(&error))
}

/// What the parser of flags refused, as an error with hints.
pub fn refused(error: &clap::Error) -> anyhow::Error {
    let said = error.to_string();
    let mut lines = said.lines().filter(|line| !line.trim().is_empty());
    let what = lines.next().unwrap_or_default();
    let tips = lines.filter_map(|line| line.trim().strip_prefix("tip: "));
    let what = what.trim_start_matches("error: ");
    tips.fold(Problem::new(what), Problem::hint).into()
}

/// The model of a command: a name, or numbers.
#[derive(Debug, Clone, Default, Args)]
pub struct ModelFlags {
    /// Name or alias of the catalogue, hub id, directory with config.json, safetensors or GGUF file
    #[arg(value_name = "MODEL")]
    pub model: Option<String>,
    #[command(flatten, next_help_heading = "A model by numbers")]
    pub numbers: Numbers,
}

#[derive(Debug, Args)]
pub struct Gpus {
    /// Only those whose name, alias, vendor or generation holds this
    pub pattern: Option<String>,
    /// Check these catalogue files, or all that are in use, and say every problem
    #[arg(long, value_name = "FILE", num_args = 0.., conflicts_with = "pattern")]
    pub check: Option<Vec<PathBuf>>,
}

#[derive(Debug, Args)]
pub struct Models {
    /// Only those whose name or alias holds this
    pub pattern: Option<String>,
}

#[derive(Debug, Args)]
pub struct Offers {
    /// Only of this GPU
    pub gpu: Option<String>,
    /// Only of these providers
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub provider: Vec<String>,
    /// Only in regions that begin with one of these
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub region: Vec<String>,
    /// At most this much an hour for the instance, such as 20USD
    #[arg(long, value_name = "MONEY")]
    pub max_price: Option<String>,
    /// In which order
    #[arg(long, value_enum, default_value_t = OfferOrder::GpuPrice)]
    pub sort: OfferOrder,
    /// Under which terms to compare prices
    #[arg(long, value_enum, default_value_t = TermsName::OnDemand)]
    pub terms: TermsName,
    /// A price list of one's own (CSV with these columns)
    #[arg(long, value_name = "FILE")]
    pub prices: Vec<PathBuf>,
}

/// The order of offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OfferOrder {
    /// Price of one GPU
    GpuPrice,
    /// Price of the instance
    Price,
    /// Provider, then instance
    Provider,
    /// GPU, then price of one
    Gpu,
}

#[derive(Debug, Args)]
pub struct Evidence {
    #[command(flatten)]
    pub model: ModelFlags,
    /// On this GPU, else on one of its generation or of similar bandwidth
    #[arg(long, value_name = "GPU")]
    pub gpu: Option<String>,
    /// Only of metrics whose name holds this, such as ttft or throughput
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// Measurements to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub top: u16,
}

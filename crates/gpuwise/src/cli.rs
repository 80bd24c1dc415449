//! The command line.

use crate::commands::{accuracy, calibrate, predict};
use crate::model::Numbers;
use clap::{Args, Parser, Subcommand, ValueEnum};
use gpuwise_domain::{deployment::Objective, offer::Terms};
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
    /// Find the GPUs that a model and a promise need, ranked, with what each costs
    Plan(Box<Plan>),
    /// Say what fills a GPU's memory, byte by byte, and whether a model fits
    Memory(Box<Memory>),
    /// List GPUs of the catalogue, or check catalogue files
    Gpus(Gpus),
    /// List models of the catalogue
    Models(Models),
    /// List what can be rented, with prices
    Offers(Offers),
    /// Show the published measurements nearest to a model and GPU, beside our figures
    Evidence(Box<Evidence>),
    /// Answer many questions at once
    Predict(predict::Flags),
    /// Compare predictions with measured values, by GPU, model and metric
    Accuracy(accuracy::Flags),
    /// Correct predictions by rows measured on your own system, or refit the constants
    Calibrate(calibrate::Flags),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page of gpuwise or of one command
    Man(Man),
}

/// The model of a command: a name, or numbers.
#[derive(Debug, Args)]
pub(crate) struct ModelFlags {
    /// Name or alias of the catalogue, hub id, directory with config.json, safetensors or GGUF file
    #[arg(value_name = "MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten, next_help_heading = "A model by numbers")]
    pub(crate) numbers: Numbers,
}

/// Sizes a model under a workload: which GPUs, how many, rented where, with which settings.
///
/// Exit code 0: deployments keep the promise. 1: none does; what is short and the cheapest cure are
/// said. 2: the input is wrong.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) model: ModelFlags,
    #[command(flatten, next_help_heading = "Traffic")]
    pub(crate) traffic: TrafficFlags,
    #[command(flatten, next_help_heading = "Promise")]
    pub(crate) promise: PromiseFlags,
    #[command(flatten, next_help_heading = "Limits")]
    pub(crate) limits: LimitFlags,
    #[command(flatten, next_help_heading = "Engine and precision")]
    pub(crate) engine: EngineFlags,
    #[command(flatten, next_help_heading = "Result")]
    pub(crate) result: ResultFlags,
}

#[derive(Debug, Args)]
pub(crate) struct TrafficFlags {
    /// Requests that come at random, such as 8, 8/s or 600/min
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<String>,
    /// Squared coefficient of variation of the gaps between them; 1 is Poisson
    #[arg(long, value_name = "CV2")]
    pub(crate) burstiness: Option<String>,
    /// Requests in flight at all times, in place of a rate
    #[arg(long, value_name = "N")]
    pub(crate) concurrency: Option<String>,
    /// Input sequence length: mean tokens of a prompt, such as 2000 or 2k
    #[arg(long, value_name = "TOKENS")]
    pub(crate) isl: Option<String>,
    /// Output sequence length: mean tokens generated
    #[arg(long, value_name = "TOKENS")]
    pub(crate) osl: Option<String>,
    /// Share of prompt tokens that the prefix cache holds, such as 0.3 or 30%
    #[arg(long, value_name = "SHARE")]
    pub(crate) prefix_hit: Option<String>,
    /// A trace of requests (Azure, BurstGPT, Mooncake, ShareGPT, or arrival_s,isl,osl; also .gz)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// A workload file (.toml, .json, .yaml); flags win over it
    #[arg(long, value_name = "FILE")]
    pub(crate) workload: Option<PathBuf>,
    /// A launch command that runs already, such as 'vllm serve MODEL -tp 4': is it the right size?
    #[arg(long, value_name = "COMMAND")]
    pub(crate) from: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PromiseFlags {
    /// Time to first token, such as p95:1s or mean:400ms
    #[arg(long, value_name = "TARGET")]
    pub(crate) ttft: Option<String>,
    /// Time per output token after the first, such as p95:40ms
    #[arg(long, value_name = "TARGET")]
    pub(crate) tpot: Option<String>,
    /// From request to last token, such as p99:30s
    #[arg(long, value_name = "TARGET")]
    pub(crate) e2e: Option<String>,
    /// Output tokens a second in all, at least, such as 5000/s
    #[arg(long, value_name = "RATE")]
    pub(crate) throughput: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LimitFlags {
    /// Only these GPUs; repeat, or separate by commas
    #[arg(long, value_name = "GPU", value_delimiter = ',')]
    pub(crate) gpu: Vec<String>,
    /// Only these providers
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) provider: Vec<String>,
    /// Only regions that begin with one of these
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) region: Vec<String>,
    /// Hosts already owned, as GPU and how many, such as H100:8
    #[arg(long, value_name = "GPU:N", value_delimiter = ',')]
    pub(crate) owned: Vec<String>,
    /// At most this much an hour, such as 20USD
    #[arg(long, value_name = "MONEY")]
    pub(crate) budget: Option<String>,
    /// At most this much power for all GPUs, such as 10kW
    #[arg(long, value_name = "POWER")]
    pub(crate) power: Option<String>,
    /// Replicas beyond what the load needs
    #[arg(long, value_name = "N")]
    pub(crate) spare: Option<String>,
    /// Quality that a lower precision may lose, such as 1%; what is unknown is left out then
    #[arg(long, value_name = "PERCENT")]
    pub(crate) max_quality_loss: Option<String>,
    /// A price list of one's own (CSV with the columns of `gpuwise offers --format csv`)
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Vec<PathBuf>,
    /// Under which terms to rent
    #[arg(long, value_enum, default_value_t = TermsName::OnDemand)]
    pub(crate) terms: TermsName,
}

/// The engine and number formats of a command.
#[derive(Debug, Args)]
pub(crate) struct EngineFlags {
    /// vllm, sglang, trtllm, llamacpp or transformers, with its release if need be: vllm@0.20
    #[arg(long, value_name = "NAME[@RELEASE]")]
    pub(crate) engine: Option<String>,
    /// Weight formats to choose from, such as bf16, fp8, int4, nvfp4 [default: as published, lower
    /// ones offered beside]
    #[arg(long, value_name = "FORMAT", value_delimiter = ',')]
    pub(crate) precision: Vec<String>,
    /// Format of the key-value cache, such as fp16 or fp8
    #[arg(long, value_name = "FORMAT", value_delimiter = ',')]
    pub(crate) kv: Vec<String>,
    /// Tokens drafted a step by prediction layers or a draft model
    #[arg(long, value_name = "N")]
    pub(crate) draft_tokens: Option<u32>,
    /// LoRA adapters served beside the base, and their largest rank, such as 4@16
    #[arg(long, value_name = "N@RANK")]
    pub(crate) lora: Option<String>,
    /// Longest context to serve [default: the longest request]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) context: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ResultFlags {
    /// What to rank by
    #[arg(long, value_enum, default_value_t = ObjectiveName::Cost)]
    pub(crate) objective: ObjectiveName,
    /// Deployments to show
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) top: u16,
    /// Let a replica span hosts
    #[arg(long)]
    pub(crate) multi_host: bool,
    /// Also try prefill and decode on pools of their own
    #[arg(long)]
    pub(crate) disaggregated: bool,
    /// Leave MIG slices out
    #[arg(long)]
    pub(crate) no_slices: bool,
    /// Show how every number came about
    #[arg(long)]
    pub(crate) explain: bool,
    /// Show why a GPU is not among the deployments
    #[arg(long, value_name = "GPU", value_delimiter = ',')]
    pub(crate) why_not: Vec<String>,
    /// Show a rule of thumb beside the result
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) rule: Option<RuleName>,
    /// Print the launch command or manifest of the picked deployment, and nothing else
    #[arg(long, value_name = "FORM", value_parser = ["vllm", "sglang", "trtllm", "llamacpp", "docker", "k8s"])]
    pub(crate) emit: Option<String>,
    /// Save the picked deployment as a document that later steps read
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Which of the deployments to emit or save
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) pick: u16,
    /// Write a report into one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// Terms of renting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TermsName {
    /// Pay by the hour
    OnDemand,
    /// Committed in advance
    Reserved,
    /// May be taken away
    Spot,
}

impl From<TermsName> for Terms {
    fn from(name: TermsName) -> Self {
        match name {
            TermsName::OnDemand => Self::OnDemand,
            TermsName::Reserved => Self::Reserved,
            TermsName::Spot => Self::Spot,
        }
    }
}

/// What to rank by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectiveName {
    /// Money an hour
    Cost,
    /// Time from request to last token
    Latency,
    /// Joules per output token
    Energy,
}

impl From<ObjectiveName> for Objective {
    fn from(name: ObjectiveName) -> Self {
        match name {
            ObjectiveName::Cost => Self::Cost,
            ObjectiveName::Latency => Self::Latency,
            ObjectiveName::Energy => Self::Energy,
        }
    }
}

/// Rules of thumb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuleName {
    /// Parameters × bits / 8 × 1.25
    Liqid,
}

/// Says what fills the memory of a GPU when it serves a model: weights by kind, cache, activations,
/// context, graphs; and whether so many requests of such a length fit.
///
/// Exit code 0: it fits. 1: it does not; what is short and the cheapest cure are said. 2: the input
/// is wrong.
#[derive(Debug, Args)]
pub(crate) struct Memory {
    #[command(flatten)]
    pub(crate) model: ModelFlags,
    /// GPUs, also with a MIG profile ("A100 SXM4 80GB 3g.40gb") [default: those that are rented out]
    #[arg(long, value_name = "GPU", value_delimiter = ',')]
    pub(crate) gpu: Vec<String>,
    /// Longest request in tokens, prompt and output together
    #[arg(long, value_name = "TOKENS")]
    pub(crate) context: Option<String>,
    /// Requests of that length at once
    #[arg(long, value_name = "N")]
    pub(crate) concurrency: Option<String>,
    #[command(flatten, next_help_heading = "Parallel layout")]
    pub(crate) layout: LayoutFlags,
    #[command(flatten, next_help_heading = "Engine and precision")]
    pub(crate) engine: MemoryEngineFlags,
    /// Show how every number came about
    #[arg(long)]
    pub(crate) explain: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LayoutFlags {
    /// Tensor-parallel ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) tp: Option<u32>,
    /// Pipeline stages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) pp: Option<u32>,
    /// Attention data-parallel groups
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) dp: Option<u32>,
    /// Expert-parallel groups
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) ep: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct MemoryEngineFlags {
    /// vllm, sglang, trtllm, llamacpp or transformers, with its release if need be: vllm@0.20
    #[arg(long, value_name = "NAME[@RELEASE]")]
    pub(crate) engine: Option<String>,
    /// Weight format, such as bf16, fp8, int4, nvfp4 [default: as published]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) precision: Option<String>,
    /// Format of the key-value cache, such as fp16 or fp8
    #[arg(long, value_name = "FORMAT")]
    pub(crate) kv: Option<String>,
    /// Share of memory that the engine may take [default: the engine's]
    #[arg(long, value_name = "SHARE")]
    pub(crate) memory_fraction: Option<String>,
    /// Tokens of a step at most [default: the engine's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) max_batched_tokens: Option<u64>,
    /// Sequences of a step at most [default: the engine's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) max_seqs: Option<u64>,
    /// Without CUDA graphs
    #[arg(long)]
    pub(crate) eager: bool,
    /// Tokens drafted a step by prediction layers or a draft model
    #[arg(long, value_name = "N")]
    pub(crate) draft_tokens: Option<u32>,
    /// LoRA adapters served beside the base, and their largest rank, such as 4@16
    #[arg(long, value_name = "N@RANK")]
    pub(crate) lora: Option<String>,
}

/// Lists GPUs, each with where its facts come from; one that is named alone in full.
///
/// Rows are added or replaced by files of the catalogue's form in $GPUWISE_CATALOGUE (a file, a
/// directory, or several of them), or in `catalogue` in the user's configuration directory.
#[derive(Debug, Args)]
pub(crate) struct Gpus {
    /// Only those whose name, alias, vendor or generation holds this
    pub(crate) pattern: Option<String>,
    /// Check this catalogue file, or all that are in use, and say every problem
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with = "pattern")]
    pub(crate) check: Option<Option<PathBuf>>,
}

/// Lists models, each with where its shape comes from; one that is named alone in full.
#[derive(Debug, Args)]
pub(crate) struct Models {
    /// Only those whose name or alias holds this
    pub(crate) pattern: Option<String>,
}

/// Lists instances that are rented out, with what they cost an hour; unknown prices come last.
#[derive(Debug, Args)]
pub(crate) struct Offers {
    /// Only of this GPU
    pub(crate) gpu: Option<String>,
    /// Only of these providers
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) provider: Vec<String>,
    /// Only in regions that begin with one of these
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) region: Vec<String>,
    /// At most this much an hour for the instance, such as 20USD
    #[arg(long, value_name = "MONEY")]
    pub(crate) max_price: Option<String>,
    /// In which order
    #[arg(long, value_enum, default_value_t = OfferOrder::GpuPrice)]
    pub(crate) sort: OfferOrder,
    /// Under which terms to compare prices
    #[arg(long, value_enum, default_value_t = TermsName::OnDemand)]
    pub(crate) terms: TermsName,
    /// A price list of one's own (CSV with these columns)
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Vec<PathBuf>,
}

/// The order of offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OfferOrder {
    /// Price of one GPU
    GpuPrice,
    /// Price of the instance
    Price,
    /// Provider, then instance
    Provider,
    /// GPU, then price of one
    Gpu,
}

/// Shows the published measurements nearest to a question, each with its source, beside our figure
/// for exactly that row. They are evidence, never the prediction.
///
/// Exit code 1: none is near.
#[derive(Debug, Args)]
pub(crate) struct Evidence {
    #[command(flatten)]
    pub(crate) model: ModelFlags,
    /// On this GPU, else on one of its generation or of similar bandwidth
    #[arg(long, value_name = "GPU")]
    pub(crate) gpu: Option<String>,
    /// Only of metrics whose name holds this, such as ttft or throughput
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Option<String>,
    /// Measurements to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) top: u16,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The command; without it, gpuwise itself
    pub(crate) name: Option<String>,
}

//! Flags of `gpuwise plan`.

use super::{LayoutFlags, MediaFlags, ModelFlags};
use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use gpuwise_domain::{deployment::Objective, offer::Terms};
use gpuwise_view::launch::Form;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub model: ModelFlags,
    #[command(flatten, next_help_heading = "Traffic")]
    pub traffic: TrafficFlags,
    #[command(flatten, next_help_heading = "SLO")]
    pub slo: SloFlags,
    #[command(flatten, next_help_heading = "Diffusion, vision and embedding models")]
    pub media: MediaFlags,
    #[command(flatten, next_help_heading = "Limits")]
    pub limits: LimitFlags,
    #[command(flatten, next_help_heading = "Engine and precision")]
    pub engine: EngineFlags,
    #[command(flatten, next_help_heading = "Layout of a replica [default: any]")]
    pub layout: LayoutFlags,
    #[command(flatten, next_help_heading = "Result")]
    pub result: ResultFlags,
}

impl Plan {
    /// The plan of what may take the place of what is checked.
    pub fn of(check: &super::Check) -> Self {
        Self {
            model: check.model.clone(),
            traffic: check.traffic.clone(),
            slo: check.slo.clone(),
            media: MediaFlags::default(),
            limits: check.limits.clone(),
            engine: check.engine.clone(),
            layout: LayoutFlags::default(),
            result: ResultFlags::usual(),
        }
    }

    /// The plan of a model in one format of its weights.
    pub fn in_format(model: &str, format: &str, asked: &super::AdviseFlags) -> Self {
        Self {
            model: ModelFlags {
                model: Some(model.to_owned()),
                ..ModelFlags::default()
            },
            traffic: asked.traffic.clone(),
            slo: asked.slo.clone(),
            media: MediaFlags::default(),
            limits: asked.limits.clone(),
            engine: EngineFlags {
                engine: asked.engine.clone(),
                precision: vec![format.to_owned()],
                ..EngineFlags::default()
            },
            layout: LayoutFlags::default(),
            result: ResultFlags::usual(),
        }
    }
}

impl ResultFlags {
    /// Where no flag says anything else.
    fn usual() -> Self {
        Self {
            objective: ObjectiveName::Cost,
            top: 5,
            multi_host: false,
            disaggregated: false,
            simulate: false,
            no_slices: false,
            explain: false,
            why_not: Vec::new(),
            rule: None,
            emit: None,
            save: None,
            pick: 1,
            html: None,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct TrafficFlags {
    /// Poisson arrivals, such as 8, 8/s or 600/min
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,
    /// Squared coefficient of variation of the gaps between them; 1 is Poisson
    #[arg(long, value_name = "CV2")]
    pub burstiness: Option<String>,
    /// Concurrent requests, kept at all times, in place of a rate
    #[arg(long, value_name = "N")]
    pub concurrency: Option<String>,
    /// Input sequence length in tokens: 2000 or 2k in the mean, of the usual spread; or constant:2000,
    /// mean:2000,p95:6000, 500..4000
    #[arg(long, value_name = "TOKENS")]
    pub isl: Option<String>,
    /// Output sequence length, in the same forms
    #[arg(long, value_name = "TOKENS")]
    pub osl: Option<String>,
    /// Share of prompt tokens that the prefix cache holds, such as 0.3 or 30%
    #[arg(long, value_name = "SHARE")]
    pub prefix_hit: Option<String>,
    /// A trace of requests (Azure, BurstGPT, Mooncake, ShareGPT, or arrival_s,isl,osl; also .gz)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// A workload file (.toml, .json, .yaml); flags win over it
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// What runs already, as a launch command such as 'vllm serve MODEL -tp 4', or a file with one or with a manifest
    /// (Deployment, LeaderWorkerSet, KServe, Dynamo, values of llm-d): is it the right size?
    #[arg(long, value_name = "COMMAND|FILE")]
    pub from: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct SloFlags {
    /// All targets at once, such as ttft=p95:1s,tpot=p95:40ms (also e2e, throughput)
    #[arg(long, value_name = "TARGETS", value_delimiter = ',')]
    pub slo: Vec<String>,
    /// Time to first token, such as p95:1s or mean:400ms
    #[arg(long, value_name = "TARGET")]
    pub ttft: Option<String>,
    /// Time per output token after the first, such as p95:40ms
    #[arg(long, value_name = "TARGET")]
    pub tpot: Option<String>,
    /// From request to last token, such as p99:30s
    #[arg(long, value_name = "TARGET")]
    pub e2e: Option<String>,
    /// Output tokens a second in all, at least, such as 5000/s
    #[arg(long, value_name = "RATE")]
    pub throughput: Option<String>,
}

/// Which GPUs may be taken, and from whom, at what prices.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct MarketFlags {
    /// Only these GPUs; repeat, or separate by commas
    #[arg(long, value_name = "GPU", value_delimiter = ',')]
    pub gpu: Vec<String>,
    /// Only these providers
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub provider: Vec<String>,
    /// Only regions that begin with one of these
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub region: Vec<String>,
    /// GPUs already owned, as GPU and how many, such as H100:8
    #[arg(long, value_name = "GPU:N", value_delimiter = ',')]
    pub owned: Vec<String>,
    /// A fabric of pooled GPUs (TOML): hosts composed on it are candidates too
    #[arg(long, value_name = "FILE")]
    pub fabric: Option<PathBuf>,
    /// A price list of one's own (CSV with the columns of `gpuwise offers --format csv`)
    #[arg(long, value_name = "FILE")]
    pub prices: Vec<PathBuf>,
    /// Under which terms to rent
    #[arg(long, value_enum, default_value_t = TermsName::OnDemand)]
    pub terms: TermsName,
}

#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct LimitFlags {
    #[command(flatten)]
    pub market: MarketFlags,
    /// At most this much an hour, such as 20USD
    #[arg(long, value_name = "MONEY")]
    pub budget: Option<String>,
    /// At most this much power for all GPUs, such as 10kW
    #[arg(long, value_name = "POWER")]
    pub power: Option<String>,
    /// Replicas beyond what the load needs
    #[arg(long, value_name = "N")]
    pub spare: Option<String>,
    /// Quality that a lower precision may lose, such as 1%; what is unknown is left out then
    #[arg(long, value_name = "PERCENT")]
    pub max_quality_loss: Option<String>,
}

/// The engine and number formats of a command.
#[derive(Debug, Clone, Default, Args)]
pub struct EngineFlags {
    /// vllm, sglang, trtllm, llamacpp or transformers, with its release if need be: vllm@0.20
    #[arg(long, value_name = "NAME[@RELEASE]")]
    pub engine: Option<String>,
    /// Weight formats to choose from, such as bf16, fp8, int4, nvfp4 [default: as published, lower
    /// ones offered beside]
    #[arg(long, value_name = "FORMAT", value_delimiter = ',')]
    pub precision: Vec<String>,
    /// Format of the key-value cache, such as fp16 or fp8 [default: as the checkpoint asks, else 16 bits]
    #[arg(long, value_name = "FORMAT", value_delimiter = ',')]
    pub kv: Vec<String>,
    /// Host memory of each GPU that keeps prefixes its KV cache has no room for, such as 64GiB
    #[arg(long, value_name = "BYTES")]
    pub kv_offload: Option<String>,
    /// Tokens drafted a step by prediction layers or a draft model
    #[arg(long, value_name = "N")]
    pub draft_tokens: Option<u32>,
    /// The model that drafts them, named as a model is [default: the model's own prediction layers]
    #[arg(long, value_name = "MODEL")]
    pub draft_model: Option<String>,
    /// Share of drafted tokens that are accepted, such as 0.6 or 60% [default: 0.7]
    #[arg(long, value_name = "SHARE")]
    pub acceptance: Option<String>,
    /// LoRA adapters served beside the base, and their largest rank, such as 4@16
    #[arg(long, value_name = "N@RANK")]
    pub lora: Option<String>,
    /// Longest context to serve [default: the longest request]
    #[arg(long, value_name = "TOKENS")]
    pub context: Option<String>,
}

#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct ResultFlags {
    /// What to rank by
    #[arg(long, value_enum, default_value_t = ObjectiveName::Cost)]
    pub objective: ObjectiveName,
    /// Deployments to show
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub top: u16,
    /// Let a replica span hosts
    #[arg(long)]
    pub multi_host: bool,
    /// Also try prefill and decode on pools of their own
    #[arg(long)]
    pub disaggregated: bool,
    /// Try the deployments under the traffic, request by request, and leave out those that break
    #[arg(long)]
    pub simulate: bool,
    /// Leave MIG slices out
    #[arg(long)]
    pub no_slices: bool,
    /// Show how every number came about
    #[arg(long)]
    pub explain: bool,
    /// Show why a GPU is not among the deployments
    #[arg(long, value_name = "GPU", value_delimiter = ',')]
    pub why_not: Vec<String>,
    /// Show a rule of thumb beside the result
    #[arg(long, value_enum, value_name = "NAME")]
    pub rule: Option<RuleName>,
    /// Print the launch command or manifest of the picked deployment, and nothing else
    #[arg(long, value_name = "FORM", value_parser = PossibleValuesParser::new(Form::all().map(Form::name)))]
    pub emit: Option<String>,
    /// Save the picked deployment as a document that later steps read
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Which of the deployments to emit or save
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub pick: u16,
    /// Write a report into one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Terms of renting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum TermsName {
    /// Pay by the hour
    #[default]
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
pub enum ObjectiveName {
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
pub enum RuleName {
    /// Parameters × bits / 8 × 1.25
    Liqid,
}

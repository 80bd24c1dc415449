//! What sizing recommends: deployments with their memory, speed and cost, and why others are not
//! recommended.

use crate::{
    answer::Answer,
    engine::{EngineKind, Release},
    estimate::{Basis, Derivation, Estimate},
    fix::Fix,
    layout::Layout,
    limit::{Limit, LimitingFactor, ServingCause},
    offer::{Offer, Terms},
    precision::CacheFormat,
    provider::Provider,
    reason::Reason,
    workload::Workload,
};
use alloc::{string::String, vec::Vec};
use gpuwise_units::{Bytes, HourlyPrice, Percentile};

/// The answer to "which GPUs does this model need under this traffic?".
///
/// Of its deployments one of a kind each (GPU, layout and precision) is there.
pub type Sizing = Answer<ServingQuestion, Deployment, ServingCharts>;

/// What is to be served, as understood.
#[derive(Debug, Clone, PartialEq)]
pub struct ServingQuestion {
    pub model: ModelSummary,
    /// The traffic, the SLO and the limits.
    pub workload: Workload,
    pub objective: Objective,
}

/// What is drawn of a plan for serving.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServingCharts {
    /// Cost, latency and energy of every feasible candidate, for the front.
    pub points: Vec<FrontPoint>,
    /// Load against latency of the best deployment.
    pub curve: Vec<LoadPoint>,
}

/// A model in a few figures.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelSummary {
    /// As the user named it, or the catalogue's name for it.
    pub name: String,
    pub origin: String,
    /// `model_type` of its configuration.
    pub model_type: String,
    /// Parameters of everything that is loaded.
    pub parameters: u64,
    /// Parameters that one token uses.
    pub active_parameters: u64,
    pub layers: u64,
    /// Weight format as published.
    pub published: String,
    pub weight_bytes: Bytes,
    /// Bytes that one token adds to the key-value cache of the whole model at 16 bits.
    pub cache_bytes_per_token: u64,
    /// Longest context, where stated.
    pub max_context: Option<u64>,
    /// What was assumed because its configuration does not say.
    pub assumptions: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Objective {
    #[default]
    Cost,
    Latency,
    /// Joules per output token.
    Energy,
}

impl Objective {
    /// The word for people and flags.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Latency => "latency",
            Self::Energy => "energy",
        }
    }
}

/// One way of serving the model, with everything that starting it needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    /// The model, as [`ModelSummary::name`].
    pub model: String,
    pub engine: EngineKind,
    /// Its release; `None` where the engine has none that we know.
    pub release: Option<Release>,
    /// Catalogue name of the GPU.
    pub gpu: String,
    /// MIG profile, where each rank runs on a slice.
    pub slice: Option<String>,
    /// How the model is spread; with a prefill pool this is the decode pool.
    pub layout: Layout,
    /// Workers that compute prompts only, in disaggregated serving.
    pub prefill: Option<PrefillPool>,
    /// Weight format, such as `bf16` or `fp8`.
    pub weights: String,
    /// Whether the weights are as published (else they are quantized for this).
    pub weights_published: bool,
    /// Format of the key-value cache.
    pub cache: String,
    /// What the weight format costs in quality.
    pub quality: Quality,
    /// Engine settings that were assumed.
    pub settings: Settings,
    /// Draft tokens a step by prediction layers or a draft model; 0: none.
    pub draft_tokens: u32,
    /// Share of drafted tokens that are accepted; `None`: nothing drafts.
    pub acceptance: Option<f64>,
    /// The model that drafts; `None`: prediction layers of the model itself, where anything drafts.
    pub draft_model: Option<String>,
    /// Host memory of each GPU that keeps prefixes which its cache has no room for; 0: none.
    pub host_cache: Bytes,
    /// LoRA adapters served beside the base, and their largest rank.
    pub adapters: Option<Adapters>,
    /// Where it is rented; `None` where no offer has this GPU.
    pub rental: Option<Rental>,
    /// Memory of the fullest GPU.
    pub memory: MemoryReport,
    /// Latency and throughput under the workload.
    pub figures: Figures,
    /// What it costs; parts are unknown where the price is.
    pub cost: Cost,
    pub basis: Basis,
    /// What limits it; `None` where a saved document does not say it in a form that is known.
    pub bottleneck: Option<Limit<ServingCause>>,
    /// How much more it sustains.
    pub headroom: Headroom,
    pub derivations: Vec<Derivation>,
}

impl Deployment {
    /// GPUs or slices in all, spares and prefill workers included.
    pub fn devices(&self) -> u32 {
        let prefill = self.prefill.as_ref().map_or(0, |p| p.layout.gpus());
        self.layout.gpus() + prefill
    }

    /// The cache's format as people read it: 16 bits are those of the weights.
    /// The cache's format by the name that engines' arguments are found by: 16 bits are one of them.
    pub fn cache_key(&self) -> &str {
        CacheFormat::by_name(&self.cache).map_or(&self.cache, |format| format.name)
    }

    pub fn cache_shown(&self) -> &str {
        cache_shown(&self.cache, &self.weights)
    }
}

/// The name of a cache's format beside weights of another: an engine that computes in FP16 keeps FP16.
pub fn cache_shown<'a>(cache: &'a str, weights: &str) -> &'a str {
    if cache == "bf16" && weights == "fp16" {
        "fp16"
    } else {
        cache
    }
}

/// A deployment as it is saved: with what it was sized for.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    pub deployment: Deployment,
    /// The traffic, the SLO and the limits; `None` where they were not saved.
    pub workload: Option<Workload>,
}

/// Workers that compute prompts only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefillPool {
    /// How the model is spread in them; `replicas` is the number of workers.
    pub layout: Layout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adapters {
    /// How many are loaded concurrently.
    pub count: u32,
    pub rank: u32,
}

/// Settings of an engine, as it would be launched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Tokens of a step at most.
    pub batched_tokens: u64,
    /// Sequences of a step at most.
    pub sequences: u64,
    pub max_context: u64,
    /// Share of memory that the engine may take.
    pub memory_fraction: f64,
    /// Tokens of a cache block.
    pub block: u64,
    /// Whether steps run without CUDA graphs.
    pub eager: bool,
}

/// What a lower precision costs, as an evaluation found.
#[derive(Debug, Clone, PartialEq)]
pub enum Quality {
    /// The weights are as published, and nobody measured what that lost.
    Published,
    /// Lost percent of the baseline's score in a named evaluation.
    Loss {
        /// Percent of the baseline; negative is a gain.
        percent: f64,
        /// Evaluation, the model that was evaluated, and the scheme.
        evaluation: String,
        /// Whether it is that of this very model, or of its nearest relative.
        same_model: bool,
        source: String,
        /// Whether the user measured it, rather than somebody who published it.
        measured: bool,
    },
    /// No published evaluation was found.
    Unknown,
}

/// Instances that are rented or owned.
#[derive(Debug, Clone, PartialEq)]
pub struct Rental {
    pub provider: Provider,
    pub instance: String,
    pub region: String,
    /// Under which terms the price is.
    pub terms: Terms,
    pub instances: u32,
    /// GPUs of one instance, in thousandths.
    pub gpu_thousandths: u32,
    /// GPUs (or slices) paid for and idle.
    pub idle: u32,
    /// The price of one instance; unknown is not 0.
    pub price: Option<HourlyPrice>,
    /// Day of the price list.
    pub date: String,
    pub source: String,
}

impl Rental {
    /// Whether it is one's own: nothing more is paid for it.
    pub fn is_owned(&self) -> bool {
        self.provider.is_owned()
    }

    /// So many instances of an offer, `idle` of whose GPUs or slices nothing runs on.
    pub fn of(offer: &Offer, terms: Terms, instances: u32, idle: u32) -> Self {
        Self {
            provider: offer.provider.clone().into(),
            instance: offer.instance.clone(),
            region: offer.region.clone(),
            terms,
            instances,
            gpu_thousandths: offer.gpu_thousandths,
            idle,
            price: offer.price(terms),
            date: offer.date.clone(),
            source: offer.source.clone(),
        }
    }

    /// The day of its price list; `None`: the list does not say one.
    pub fn priced_at(&self) -> Option<&str> {
        self.date
            .starts_with(|c: char| c.is_ascii_digit())
            .then_some(self.date.as_str())
    }
}

/// Memory of the fullest GPU or slice, byte by byte.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MemoryReport {
    pub device: String,
    pub reported: Option<Bytes>,
    /// What a program sees.
    pub visible: Bytes,
    /// Whether that is a fact of the catalogue, or estimated.
    pub visible_known: bool,
    /// What the engine may use.
    pub budget: Bytes,
    pub weights: Vec<MemoryPart>,
    /// Everything else but the cache.
    pub overheads: Vec<MemoryPart>,
    /// What remains for the key-value cache or state; 0 where it does not fit.
    pub cache: Bytes,
    /// What is short, where weights and overheads do not fit.
    pub shortfall: Bytes,
    /// Tokens that the cache holds, as the engine reports them.
    pub cache_tokens: u64,
    /// Concurrent requests of the asked length that fit.
    pub sequences: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MemoryPart {
    pub name: String,
    pub bytes: Bytes,
    /// Whether it lies outside of the engine's budget.
    pub outside_budget: bool,
    pub formula: String,
}

impl MemoryReport {
    pub fn weight_bytes(&self) -> Bytes {
        Bytes::new(self.weights.iter().map(|part| part.bytes.count()).sum())
    }

    pub fn overhead_bytes(&self) -> Bytes {
        Bytes::new(self.overheads.iter().map(|part| part.bytes.count()).sum())
    }
}

/// What users see, with 80 % ranges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Seconds to first token at `ttft_at`.
    pub ttft: Estimate,
    /// The percentile; `None` is the mean.
    pub ttft_at: Option<Percentile>,
    /// Seconds per output token after the first.
    pub tpot: Estimate,
    /// The percentile; `None` is the mean.
    pub tpot_at: Option<Percentile>,
    /// Seconds from request to last token.
    pub end_to_end: Estimate,
    /// The percentile; `None` is the mean.
    pub end_to_end_at: Option<Percentile>,
    /// Requests a second, all replicas.
    pub requests: Estimate,
    /// Output tokens a second, all replicas.
    pub output_throughput: Estimate,
    /// Concurrent sequences decoding on one attention group, in the mean.
    pub running: f64,
    /// Load over the most that keeps the SLO (0 to 1); with a closed load over the most that fits.
    pub utilization: f64,
    /// Watts of all GPUs, where their limit is known.
    pub power: Option<Estimate>,
    /// Joules of all GPUs per output token.
    pub joules_per_token: Option<Estimate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// All instances, an hour; unknown where a price is.
    pub per_hour: Option<HourlyPrice>,
    /// Currency units per 10⁶ input tokens.
    pub per_million_input: Option<f64>,
    /// Currency units per 10⁶ output tokens.
    pub per_million_output: Option<f64>,
}

/// How much more a deployment sustains.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Headroom {
    /// The largest rate (requests a second) that keeps the SLO.
    pub rate: f64,
    /// That over the asked rate; with a closed load, requests that fit over those asked.
    pub factor: f64,
    /// What breaks first beyond it.
    pub limited_by: Option<LimitingFactor>,
}

/// A feasible candidate on the cost–latency front.
#[derive(Debug, Clone, PartialEq)]
pub struct FrontPoint {
    /// `2 × H100 SXM5 80GB TP2 fp8`.
    pub label: String,
    pub gpu: String,
    /// All instances, an hour; unknown where a price is.
    pub per_hour: Option<HourlyPrice>,
    /// Seconds to first token at the asked percentile.
    pub ttft: f64,
    /// Seconds per output token at the asked percentile.
    pub tpot: f64,
    /// Seconds from request to last token.
    pub end_to_end: f64,
    /// Joules per output token.
    pub joules_per_token: Option<f64>,
    /// Whether no other point is cheaper and faster.
    pub on_front: bool,
}

/// A point of the load–latency curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadPoint {
    /// Requests a second (or in flight, where the load is closed).
    pub load: f64,
    /// Seconds to first token at the asked percentile.
    pub ttft: Estimate,
    /// Seconds per output token at the asked percentile.
    pub tpot: Estimate,
    /// Whether the SLO is kept.
    pub kept: bool,
}

/// A candidate that is not there.
#[derive(Debug, Clone, PartialEq)]
pub struct Dropped {
    /// `4 × L40S TP4 bf16`.
    pub label: String,
    pub gpu: String,
    pub test: Test,
    pub shortfall: Reason,
    /// What would fix it, the least change first.
    pub fixes: Vec<Fix>,
    /// How near it came: needed over had; the smaller the nearer.
    pub ratio: f64,
}

/// The tests that a candidate passes, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Test {
    /// Engine and hardware support it.
    Support,
    /// Heads, layers, experts and batches divide.
    Layout,
    /// Weights, overheads and one request fit.
    Memory,
    /// The rate can be served at all.
    Throughput,
    /// Time to first token.
    Ttft,
    /// Time per output token.
    Tpot,
    EndToEnd,
    /// A training run ends in time.
    Deadline,
    /// Budget, power, provider, region, quality.
    Limits,
    /// It works, but others are better.
    Dominated,
}

impl Test {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Support => "support",
            Self::Layout => "layout",
            Self::Memory => "memory",
            Self::Throughput => "throughput",
            Self::Ttft => "TTFT",
            Self::Tpot => "TPOT",
            Self::EndToEnd => "end to end",
            Self::Deadline => "deadline",
            Self::Limits => "limits",
            Self::Dominated => "dominated",
        }
    }
}

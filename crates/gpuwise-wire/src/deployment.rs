//! Saved deployments.

use crate::{
    mirror::{Mirror, document, variants, words},
    quantities::{ByteCount, EngineName, HourlyPriceText, Real, ReleaseText, Statistic},
};
use gpuwise_domain::{
    deployment::{
        Adapters, Cost, Deployment, Figures, Headroom, MemoryPart, MemoryReport, PrefillPool,
        Quality, Rental, Settings,
    },
    derivation::{Derivation, Figure, Unit},
    estimate::{Basis, Estimate},
    layout::Layout,
    limit::{Limit, LimitingFactor, ServingCause},
    offer::Terms,
    provider::Provider,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

document! {
    /// One way of serving a model, with everything that starting it needs.
    DeploymentDocument = Deployment {
        /// The model.
        model(model): String,
        /// The engine.
        engine(engine): EngineName,
        /// Its release; null where none is known.
        release(release): Option<ReleaseText>,
        /// Catalogue name of the GPU.
        gpu(gpu): String,
        /// MIG profile, where each rank runs on a slice.
        slice(slice): Option<String>,
        /// How the model is spread; with a prefill pool this is the decode pool.
        layout(layout): LayoutDocument,
        /// Workers that compute prompts only.
        prefill(prefill): Option<PrefillDocument>,
        /// Weight format, such as `bf16` or `fp8`.
        weights(weights): String,
        /// Whether the weights are as published.
        weights_published(weights_published): bool,
        /// Format of the key-value cache.
        cache(cache): String,
        /// What the weight format costs in quality.
        quality(quality): QualityDocument,
        /// Engine settings that were assumed.
        settings(settings): SettingsDocument,
        /// Draft tokens a step; 0: none.
        draft_tokens(draft_tokens): u32,
        /// Share of drafted tokens that are accepted; null where nothing drafts, or the usual 0.7.
        #[serde(default)]
        acceptance(acceptance): Option<Real>,
        /// The model that drafts; null where prediction layers of the model itself do, or nothing.
        #[serde(default)]
        draft_model(draft_model): Option<String>,
        /// Host memory of each GPU that keeps prefixes which its cache has no room for; 0: none.
        #[serde(default)]
        host_cache_bytes(host_cache): ByteCount,
        /// LoRA adapters served beside the base.
        adapters(adapters): Option<AdaptersDocument>,
        /// Where it is rented; null where no offer has this GPU.
        rental(rental): Option<RentalDocument>,
        /// Memory of the fullest GPU.
        memory(memory): MemoryDocument,
        /// Latency and throughput under the workload, with 80 % ranges.
        figures(figures): FiguresDocument,
        /// What it costs; parts are null where the price is unknown.
        cost(cost): CostDocument,
        /// On what the figures rest.
        basis(basis): BasisWord,
        /// What limits it.
        bottleneck(bottleneck): LimitDocument,
        /// How much more it sustains.
        headroom(headroom): HeadroomDocument,
        /// How its figures came about.
        derivations(derivations): Vec<DerivationDocument>,
    }
}

document! {
    /// The parallel layout of one replica, and how many replicas there are.
    LayoutDocument = Layout {
        /// Independent copies of the engine, spares included.
        replicas(replicas): u32,
        /// Tensor-parallel ranks of attention (TP).
        tensor(tensor): u32,
        /// Pipeline stages (PP).
        pipeline(pipeline): u32,
        /// Attention data-parallel groups within a replica (DP attention).
        attention_data(attention_data): u32,
        /// Expert-parallel groups (EP).
        expert(expert): u32,
        /// Decode context parallel ranks (DCP).
        decode_context(decode_context): u32,
    }
}

document! {
    /// Workers that compute prompts only.
    PrefillDocument = PrefillPool {
        /// How the model is spread in them; `replicas` is the number of workers.
        layout(layout): LayoutDocument,
    }
}

document! {
    /// LoRA adapters.
    AdaptersDocument = Adapters {
        /// How many are loaded concurrently.
        count(count): u32,
        /// Their largest rank.
        rank(rank): u32,
    }
}

document! {
    /// Settings of an engine.
    SettingsDocument = Settings {
        /// Tokens of a step at most.
        batched_tokens(batched_tokens): u64,
        /// Sequences of a step at most.
        sequences(sequences): u64,
        /// Longest context in tokens; 0: the model's own.
        max_context_tokens(max_context): u64,
        /// Share of memory that the engine may take.
        memory_fraction(memory_fraction): Real,
        /// Tokens of a cache block.
        block_tokens(block): u64,
        /// Whether steps run without CUDA graphs.
        eager(eager): bool,
    }
}

variants! {
    /// What a lower precision costs.
    #[serde(tag = "kind")]
    QualityDocument = Quality {
        /// The weights are as published: nothing is lost.
        Published {}
        /// Lost percent of the baseline's score in a named evaluation.
        Loss {
            /// Percent of the baseline; negative is a gain.
            percent(percent): Real,
            /// Evaluation, the model that was evaluated, and the scheme.
            evaluation(evaluation): String,
            /// Whether it is that of this very model.
            same_model(same_model): bool,
            /// Where it was published.
            source(source): String,
            /// Whether the user measured it.
            #[serde(default)]
            measured(measured): bool,
        }
        /// No published evaluation was found.
        Unknown {}
    }
}

document! {
    /// Instances that are rented or owned.
    RentalDocument = Rental {
        /// Who rents it out.
        provider(provider): ProviderName,
        /// The instance shape.
        instance(instance): String,
        /// The region.
        region(region): String,
        /// Under which terms the price is.
        terms(terms): TermsWord,
        /// How many instances.
        instances(instances): u32,
        /// GPUs of one instance, in thousandths.
        gpu_thousandths(gpu_thousandths): u32,
        /// GPUs or slices paid for and idle.
        idle_gpus(idle): u32,
        /// The price of one instance an hour; null where it is unknown.
        price_per_hour(price): Option<HourlyPriceText>,
        /// Day of the price list.
        date(date): String,
        /// Where the price comes from.
        source(source): String,
    }
}

words! {
    /// The terms of renting.
    TermsWord = Terms {
        OnDemand = "on_demand",
        Reserved = "reserved",
        Spot = "spot",
    }
}

/// Who has the machines: `owned`, `running`, or who rents them out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub(crate) struct ProviderName(String);

impl Mirror for ProviderName {
    type Noun = Provider;

    fn of(noun: &Provider) -> Self {
        Self(noun.name().into())
    }

    fn noun(self) -> Provider {
        self.0.into()
    }
}

document! {
    /// Memory of the fullest GPU or slice.
    MemoryDocument = MemoryReport {
        /// GPU or slice.
        device(device): String,
        /// What the driver reports.
        reported_bytes(reported): Option<ByteCount>,
        /// What a program sees.
        visible_bytes(visible): ByteCount,
        /// Whether that is a fact of the catalogue, or estimated.
        visible_known(visible_known): bool,
        /// What the engine may use.
        budget_bytes(budget): ByteCount,
        /// Weights by kind.
        weights(weights): Vec<MemoryPartDocument>,
        /// Everything else but the cache.
        overheads(overheads): Vec<MemoryPartDocument>,
        /// What remains for the key-value cache or state.
        cache_bytes(cache): ByteCount,
        /// What is short, where weights and overheads do not fit.
        shortfall_bytes(shortfall): ByteCount,
        /// Tokens that the cache holds.
        cache_tokens(cache_tokens): u64,
        /// Concurrent requests of the asked length that fit.
        sequences(sequences): Real,
    }
}

document! {
    /// A part of memory.
    MemoryPartDocument = MemoryPart {
        /// What it is.
        name(name): String,
        /// How much.
        bytes(bytes): ByteCount,
        /// Whether it lies outside of the engine's budget.
        outside_budget(outside_budget): bool,
        /// How it is computed.
        formula(formula): String,
    }
}

document! {
    /// A figure with its 80 % range.
    EstimateDocument = Estimate {
        /// The central figure.
        value(value): Real,
        /// The lower end.
        low(low): Real,
        /// The upper end.
        high(high): Real,
    }
}

document! {
    /// What users see.
    FiguresDocument = Figures {
        /// Time to first token.
        ttft_seconds(ttft): EstimateDocument,
        /// At which percentile.
        ttft_at(ttft_at): Statistic,
        /// Time per output token after the first.
        tpot_seconds(tpot): EstimateDocument,
        /// At which percentile.
        tpot_at(tpot_at): Statistic,
        /// From request to last token.
        end_to_end_seconds(end_to_end): EstimateDocument,
        /// At which percentile.
        end_to_end_at(end_to_end_at): Statistic,
        /// Requests a second, all replicas.
        requests_per_second(requests): EstimateDocument,
        /// Output tokens a second, all replicas.
        output_tokens_per_second(output_throughput): EstimateDocument,
        /// Concurrent sequences decoding on one attention group, in the mean.
        running_sequences(running): Real,
        /// Load over the most that keeps the SLO (0 to 1).
        utilization(utilization): Real,
        /// Power of all GPUs, where their limit is known.
        power_watts(power): Option<EstimateDocument>,
        /// Energy of all GPUs per output token.
        joules_per_output_token(joules_per_token): Option<EstimateDocument>,
    }
}

document! {
    /// What a deployment costs.
    CostDocument = Cost {
        /// All instances; null where a price is unknown.
        total_per_hour(per_hour): Option<HourlyPriceText>,
        /// Currency units of `total_per_hour` per 10⁶ input tokens.
        input_per_million_tokens(per_million_input): Option<Real>,
        /// Currency units of `total_per_hour` per 10⁶ output tokens.
        output_per_million_tokens(per_million_output): Option<Real>,
    }
}

document! {
    /// How much more a deployment sustains.
    HeadroomDocument = Headroom {
        /// The largest rate that keeps the SLO.
        rate_per_second(rate): Real,
        /// That over the asked rate.
        factor(factor): Real,
        /// What breaks first beyond it.
        limited_by(limited_by): Option<BeyondWord>,
    }
}

words! {
    /// What breaks first where more is asked of a deployment than it sustains.
    BeyondWord = LimitingFactor {
        Ttft = "TTFT",
        Tpot = "TPOT",
        EndToEnd = "end-to-end latency",
        /// The cache is full, or as many sequences run as the engine lets.
        Sequences = "KV cache and the engine's limit on sequences",
        /// Queues grow without bound.
        Throughput = "throughput: the queue grows",
    }
}

words! {
    /// What the GPUs' time of a deployment goes to.
    ServingCauseWord = ServingCause {
        Prompts = "prompts",
        Weights = "weights",
        Experts = "experts",
        Cache = "cache",
        Collectives = "collectives",
        Launches = "launches",
        Drafts = "drafts",
    }
}

/// What limits a deployment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum LimitDocument {
    /// What takes the largest share of the GPUs' time.
    Stated(ShareDocument),
    /// A clause, as documents had it until 2026-11; it is not read.
    Words(String),
}

/// What takes the largest share of the GPUs' time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShareDocument {
    /// What takes it.
    cause: ServingCauseWord,
    /// Its share (0 to 1).
    share: Real,
}

impl Mirror for LimitDocument {
    type Noun = Option<Limit<ServingCause>>;

    fn of(noun: &Self::Noun) -> Self {
        match noun {
            Some(limit) => Self::Stated(ShareDocument {
                cause: Mirror::of(&limit.cause),
                share: Mirror::of(&limit.share),
            }),
            None => Self::Words(String::new()),
        }
    }

    fn noun(self) -> Self::Noun {
        match self {
            Self::Stated(limit) => Some(Limit {
                cause: limit.cause.noun(),
                share: limit.share.noun(),
            }),
            Self::Words(_) => None,
        }
    }
}

words! {
    /// On what a figure rests.
    BasisWord = Basis {
        Exact = "exact",
        MeasuredNearby = "measured_nearby",
        Calibrated = "calibrated",
        Transferred = "transferred",
        Extrapolated = "extrapolated",
    }
}

document! {
    /// A number with its unit.
    FigureDocument = Figure {
        /// The number, in the base unit.
        value(value): Real,
        /// The unit.
        unit(unit): UnitWord,
    }
}

words! {
    /// In what a figure is counted and written.
    UnitWord = Unit {
        /// A plain number: a count, a share or a factor.
        Number = "number",
        Bytes = "bytes",
        ByteCount = "bytes exactly",
        Tokens = "tokens",
        Seconds = "seconds",
        Microseconds = "seconds, small",
        BytesPerSecond = "bytes/s",
        Flop = "FLOP",
        FlopPerSecond = "FLOP/s",
        Watts = "W",
        RequestsPerSecond = "requests/s",
        ConcurrentRequests = "concurrent requests",
        MoneyPerHour = "money/h",
    }
}

document! {
    /// How a number came about.
    DerivationDocument = Derivation {
        /// What it is.
        name(name): String,
        /// Its value with its unit.
        value(value): String,
        /// The same as a number, where it was kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        figure(figure): Option<FigureDocument>,
        /// The formula over the inputs; empty for a fact.
        formula(formula): String,
        /// Where a fact comes from; empty for what follows from inputs.
        source(source): String,
        /// What it was computed from.
        #[schema(no_recursion)]
        inputs(inputs): Vec<DerivationDocument>,
    }
}

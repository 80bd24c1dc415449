//! Questions about memory: sizes that arithmetic gives, and what engines log.

mod ranges;
mod read;

use super::{precision::cache, reading::Refusal};
use gpuwise_domain::{
    catalogue::Catalogue,
    engine::EngineKind,
    estimate::Basis,
    layout::Layout,
    model::Architecture,
    question::{Load, Question},
};
use gpuwise_size::{
    memory::{CacheShape, MemoryPlan, Part, cache_shape, published_bytes},
    setup::Setup,
};
use gpuwise_units::significant;
use ranges::Spread;
use read::{Read, number, read};

const GIB: f64 = 1073741824.0;

#[derive(Debug, Clone, PartialEq)]
pub struct MemoryAnswer {
    /// The figure in the question's unit.
    pub value: f64,
    /// The lower end of its 80 % range.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    pub basis: Basis,
    /// How the question was read, and what the figure is.
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Metric {
    Parameters,
    WeightBytes,
    FileBytes,
    TokenBytes,
    CacheTokens,
    CacheTokensOfStated,
    CacheBytes,
    CacheOfContext,
    WeightsPerGpu,
    Activations,
    NonTorch,
    TotalPerGpu,
    PeakPerGpu,
    OutOfMemory,
}

impl Metric {
    fn by_metric(metric: &str) -> Option<Self> {
        Some(match metric {
            "parameter_count" => Self::Parameters,
            "weight_bytes" => Self::WeightBytes,
            "model_size_file" => Self::FileBytes,
            "kv_bytes_per_token" => Self::TokenBytes,
            "kv_cache_capacity" => Self::CacheTokens,
            "kv_cache_capacity_given_memory" => Self::CacheTokensOfStated,
            "kv_cache_memory_per_gpu" => Self::CacheBytes,
            "kv_cache_size" => Self::CacheOfContext,
            "weights_memory_per_gpu" => Self::WeightsPerGpu,
            "activation_peak_per_gpu" => Self::Activations,
            "non_torch_memory_per_gpu" => Self::NonTorch,
            "total_gpu_memory" => Self::TotalPerGpu,
            "peak_memory_per_gpu" => Self::PeakPerGpu,
            "oom" => Self::OutOfMemory,
            _ => return None,
        })
    }

    /// Whether the answer depends on a GPU.
    const fn needs_gpu(self) -> bool {
        matches!(
            self,
            Self::CacheTokens
                | Self::CacheBytes
                | Self::TotalPerGpu
                | Self::PeakPerGpu
                | Self::OutOfMemory
        )
    }
}

/// Answers a question about memory; `None` where the metric is not one of memory.
///
/// The value is in the question's own unit, with an 80 % range.
///
/// # Errors
/// Inside: when the GPU is unknown, or the row states too little or is about training.
pub fn predict_memory(
    question: &Question,
    architecture: &Architecture,
    catalogue: &Catalogue,
) -> Option<Result<MemoryAnswer, Refusal>> {
    let wanted = Metric::by_metric(&question.metric)?;
    Some(answer(wanted, question, architecture, catalogue))
}

fn answer(
    wanted: Metric,
    question: &Question,
    architecture: &Architecture,
    catalogue: &Catalogue,
) -> Result<MemoryAnswer, Refusal> {
    let adjusted = read::adjusted(question, architecture);
    let read = read(question, &adjusted, catalogue, wanted.needs_gpu())?;
    let plan = read.plan();
    let setup = &read.setup;
    let say = |value: f64, spread: Spread, what: &str| read.said(question, value, spread, what);
    Ok(match wanted {
        Metric::Parameters => {
            let stored = adjusted.stored.as_ref().map(|stored| stored.elements);
            let count = stored.unwrap_or(adjusted.parameters().0);
            say(
                count as f64,
                ranges::EXACT,
                "every tensor once, a tied head once",
            )
        }
        Metric::WeightBytes => say(
            published_bytes(setup),
            ranges::EXACT,
            "elements × bytes of their format",
        ),
        Metric::FileBytes => say(
            published_bytes(setup),
            ranges::FILE,
            "elements × bytes of their format",
        ),
        Metric::TokenBytes => {
            let format = cache(question);
            let bytes = adjusted.cache_elements_per_token() as f64 * format.bytes_per_element();
            say(
                bytes,
                ranges::EXACT,
                "elements of the layers that keep the whole context × bytes of each",
            )
        }
        Metric::CacheOfContext => {
            let tokens = context(question, setup);
            let what = format!("bytes per token in all layers × a context of {tokens} tokens");
            say(context_bytes(setup, tokens), ranges::EXACT, &what)
        }
        Metric::CacheTokensOfStated => {
            let gib = number(question, "kv_cache_memory_per_gpu_gib").ok_or_else(|| {
                Refusal::Unstated("the row states no kv_cache_memory_per_gpu_gib".into())
            })?;
            let logged = logged(&read, &plan.cache_shape);
            let spread = ranges::given(&plan.cache_shape);
            let what = logged.say("stated bytes ÷ bytes per token");
            let mut answer = say(logged.tokens(gib * GIB), spread, &what);
            let (least, most) = logged.forms(gib * GIB);
            answer.low = answer.low.min(least);
            answer.high = answer.high.max(most);
            answer
        }
        Metric::CacheTokens | Metric::CacheBytes => cache_left(wanted, question, &read, &plan),
        Metric::WeightsPerGpu => {
            let kept = plan.overhead(Part::Rotary) + plan.overhead(Part::Allocator);
            let what = "weights, table of positions, allocator blocks";
            say(plan.weight_bytes() + kept, ranges::weights(setup), what)
        }
        Metric::Activations => {
            let what = "the profile's peak beyond the weights";
            let mut answer = say(
                plan.overhead(Part::Activations),
                ranges::activations(read.settled),
                what,
            );
            if let Some(other) = setup.engine_model().peak_without_sampling(setup) {
                answer.low = answer.low.min(0.9 * other / read::scale(&question.unit));
                answer
                    .reason
                    .push_str("; ranks that do not sample log less");
            }
            answer
        }
        Metric::NonTorch => {
            let what = "contexts, kernels and collectives";
            say(plan.overhead(Part::NonTorch), ranges::NON_TORCH, what)
        }
        Metric::TotalPerGpu => say(plan.visible, ranges::VISIBLE, "memory that a program sees"),
        Metric::PeakPerGpu => {
            let (bytes, spread, what) = peak(question, setup, &plan);
            say(bytes, spread, &what)
        }
        Metric::OutOfMemory => out_of_memory(question, &read, &plan),
    })
}

/// The most that a GPU holds while it serves. Engines that reserve their cache fill the share of
/// memory that they are given; the others hold weights, buffers and what the concurrent requests keep.
fn peak(question: &Question, setup: &Setup<'_>, plan: &MemoryPlan) -> (f64, Spread, String) {
    let reserves = matches!(
        setup.engine.kind,
        EngineKind::Vllm | EngineKind::Sglang | EngineKind::TensorRtLlm
    );
    if reserves {
        let graphs = plan.overheads.iter();
        let graphs = graphs.filter(|part| part.outside_budget && part.kind == Part::Graphs);
        let graphs: f64 = graphs.map(|part| part.bytes).sum();
        let bytes = (plan.budget + graphs).min(plan.visible);
        let what =
            "the engine fills the share of memory that it is given, and keeps graphs beside it";
        return (bytes, ranges::RESERVED, what.into());
    }
    let tokens = context(question, setup);
    let requests = match question.load {
        Load::InFlight(requests) => requests.max(1.0),
        _ => 1.0,
    };
    let inside = plan.overheads.iter().filter(|part| !part.outside_budget);
    let inside: f64 = inside.map(|part| part.bytes).sum();
    let cached = requests * plan.cache_shape.sequence_bytes(tokens);
    let what = format!(
        "weights, buffers and {} of {tokens} tokens",
        if requests > 1.0 {
            format!("{requests} requests")
        } else {
            "one request".into()
        }
    );
    let bytes = (plan.weight_bytes() + inside + cached).min(plan.visible);
    (bytes, ranges::GROWN, what)
}

/// How an engine logs the tokens of its cache.
struct Logged<'a> {
    /// The cache as the release logs it.
    shape: &'a CacheShape,
    /// The same as releases before 0.21 do, where the row states no release.
    earlier: Option<CacheShape>,
    /// Whether the row states a month, whose newest release may not be the one that ran.
    of_month: bool,
}

/// Where a row states no release of vLLM, its log may have either form for models whose layers keep
/// different things: the one that most releases have, and the lower, is told; of a month that of its newest release.
fn logged<'a>(read: &Read<'_>, shape: &'a CacheShape) -> Logged<'a> {
    let earlier = shape.reported_by_groups().filter(|_| !read.release_stated);
    Logged {
        shape,
        earlier,
        of_month: read.setup.engine.release.is_some(),
    }
}

impl Logged<'_> {
    fn tokens(&self, bytes: f64) -> f64 {
        if self.of_month {
            return self.shape.reported_tokens(bytes);
        }
        self.forms(bytes).0
    }

    /// By the form that gives less, and by the one that gives more.
    fn forms(&self, bytes: f64) -> (f64, f64) {
        let own = self.shape.reported_tokens(bytes);
        let other = self.earlier.as_ref();
        let other = other.map_or(own, |shape| shape.reported_tokens(bytes));
        (own.min(other), own.max(other))
    }

    /// What is said of the figure, and of the form it has.
    fn say(&self, what: &str) -> String {
        match self.earlier {
            Some(_) if self.of_month => format!(
                "{what}; as the newest release of that month logs it, the requests of the longest context that fit \
                 (releases before 0.21 log blocks ÷ groups of layers, which the range reaches)"
            ),
            Some(_) => format!(
                "{what}; as releases before 0.21 log it, blocks ÷ groups of layers (no release is stated; later ones log \
                 the requests of the longest context that fit, up to the range's end)"
            ),
            None => what.into(),
        }
    }
}

/// Bytes or tokens that a profile leaves to the cache. What the profile may find more or less is a
/// share of the budget, so that a small rest is uncertain and a large one is not.
fn cache_left(
    wanted: Metric,
    question: &Question,
    read: &Read<'_>,
    plan: &MemoryPlan,
) -> MemoryAnswer {
    let (below, above) = ranges::left(read);
    let logged = logged(read, &plan.cache_shape);
    let figure = |bytes: f64| match wanted {
        Metric::CacheTokens => logged.tokens(bytes.max(0.0)),
        _ => bytes.max(0.0),
    };
    let spread = Spread {
        basis: Basis::Calibrated,
        ..ranges::EXACT
    };
    // Whoever logged a cache had one: where our sum leaves none, the smallest that serves is meant.
    let left = plan.served_cache();
    let mut what = format!(
        "{} GiB of {} GiB that the engine may use",
        significant(left / GIB, 4),
        significant(plan.budget / GIB, 4)
    );
    if plan.cache < left {
        what.push_str(
            ", read as the least that serves: by our sum weights and overheads leave none",
        );
    }
    let mut answer = read.said(question, figure(left), spread, &what);
    let scale = read::scale(&question.unit);
    answer.low = figure(left - below * plan.budget) / scale;
    answer.high = figure(left + above * plan.budget) / scale;
    if wanted == Metric::CacheTokens {
        let ends = |bytes: f64| logged.forms(bytes.max(0.0));
        answer.low = answer.low.min(ends(left - below * plan.budget).0);
        answer.high = answer.high.max(ends(left + above * plan.budget).1);
        answer.reason = logged.say(&answer.reason);
    }
    // The first engine's ranks log what each has; the smallest decides the tokens.
    if wanted == Metric::CacheBytes
        && let Some(other) = read.setup.engine_model().peak_without_sampling(&read.setup)
    {
        let more = plan.cache + (plan.overhead(Part::Activations) - other).max(0.0);
        answer.high = answer.high.max(figure(more + above * plan.budget) / scale);
    }
    if !read.settled || plan.cache < left {
        answer.basis = Basis::Extrapolated;
    }
    answer
}

/// The context that a run allocates its cache for: as set, else what the row's tokens need.
fn context(question: &Question, setup: &Setup<'_>) -> f64 {
    let asked = question.input.unwrap_or(0.0) + question.output.unwrap_or(0.0);
    number(question, "n_ctx").unwrap_or(if setup.settings.max_context > 0 {
        setup.settings.max_context as f64
    } else {
        asked.max(512.0)
    })
}

/// Bytes of the whole model's cache for one context, in all layers.
fn context_bytes(setup: &Setup<'_>, tokens: f64) -> f64 {
    let whole = Setup {
        layout: Layout::SINGLE,
        ..setup.clone()
    };
    let shape = cache_shape(&whole);
    shape.all_token_bytes() * tokens + shape.state_bytes()
}

/// Whether a run ends out of memory: 1 where the fullest GPU lacks room for weights, overheads and
/// one context. Within 7 % of what it sees both are possible.
fn out_of_memory(question: &Question, read: &Read<'_>, plan: &MemoryPlan) -> MemoryAnswer {
    let setup = &read.setup;
    let tokens = context(question, setup);
    let needed = plan.cache_shape.sequence_bytes(tokens);
    let left = plan.cache - needed;
    let value = if left < 0.0 { 1.0 } else { 0.0 };
    let sure = left.abs() > ranges::FITS * plan.visible;
    let what = format!(
        "the fullest GPU has {} GiB {} after weights, overheads and {tokens} tokens",
        significant(left.abs() / GIB, 3),
        if left < 0.0 { "too little" } else { "left" },
    );
    let spread = Spread {
        basis: Basis::Calibrated,
        ..ranges::EXACT
    };
    let mut answer = read.said(question, value, spread, &what);
    if !sure {
        (answer.low, answer.high) = (0.0, 1.0);
    }
    answer
}

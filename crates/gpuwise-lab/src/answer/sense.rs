//! What a row may state: figures that no system has are refused with the reason; what contradicts
//! itself or is only roughly known is answered in one reading, with the word for it.

use super::reading::{Reading, Refusal};
use gpuwise_domain::{
    catalogue::folded,
    engine::Engine,
    gpu::Gpu,
    layout::Layout,
    question::{Load, Question},
};
use gpuwise_size::memory::{MemoryPlan, plan};
use gpuwise_size::metric::Metric;

/// Ranks of one kind that a row may state; more are a slip.
const MOST_RANKS: f64 = 1024.0;
const MOST_GPUS: u32 = 1_000_000;
/// Tokens of a request, and concurrent requests or a second.
const MOST: f64 = 1e9;
/// Weights over memory from which no other reading of the GPU (two dies, a part of a board) explains
/// them.
const TOO_HEAVY: f64 = 1.5;
/// Where a GPU's row comes from when a question states its figures.
pub const STATED_GPU: &str = "stated in the row";
/// How an architecture says that it stands for a model that is not known.
pub const STAND_IN: &str = "the model is not known";

/// Refuses figures that no system has.
pub(super) fn possible(question: &Question) -> Result<(), Refusal> {
    let number = |key: &str| question.extra(key).and_then(|v| v.parse::<f64>().ok());
    let ranks = [
        ("tp", question.tensor.map(f64::from)),
        ("pp", question.pipeline.map(f64::from)),
        ("dp", question.data.map(f64::from)),
    ];
    let extra = RANK_KEYS.iter().map(|key| (*key, number(key)));
    for (name, value) in ranks.into_iter().chain(extra) {
        if let Some(value) = value.filter(|v| !(0.0..=MOST_RANKS).contains(v)) {
            return Err(Refusal::Impossible(format!(
                "`{name}` is {value}: from 1 to {MOST_RANKS} ranks are answered"
            )));
        }
    }
    let product = [question.tensor, question.pipeline, question.data]
        .iter()
        .map(|ranks| u64::from(ranks.unwrap_or(1)))
        .product::<u64>();
    if product > u64::from(MOST_GPUS) {
        return Err(Refusal::Impossible(format!(
            "`tp`, `pp` and `dp` make {product} GPUs: at most {MOST_GPUS} are answered"
        )));
    }
    for key in POSITIVE {
        let text = question.extra(key).unwrap_or("1");
        let value = text.parse::<f64>().unwrap_or(1.0);
        if !(value.is_finite() && value > 0.0) {
            return Err(Refusal::Impossible(format!(
                "`{key}` is {text}: it must be above 0, or left out for the engine's default"
            )));
        }
    }
    for key in SHARES {
        let text = question.extra(key).unwrap_or("1");
        let value = text.parse::<f64>().unwrap_or(1.0);
        if value > 1.0 {
            return Err(Refusal::Impossible(format!(
                "`{key}` is {text}: a share of the memory is at most 1"
            )));
        }
    }
    if let Some(gpus) = question.gpus.filter(|gpus| *gpus > MOST_GPUS) {
        return Err(Refusal::Impossible(format!(
            "`num_gpus` is {gpus}: at most {MOST_GPUS} are answered"
        )));
    }
    for (name, tokens) in [("isl", question.input), ("osl", question.output)] {
        if let Some(tokens) = tokens.filter(|tokens| *tokens > MOST) {
            return Err(Refusal::Impossible(format!(
                "`{name}` is {tokens:e} tokens: no model has such a context"
            )));
        }
    }
    let most = match &question.load {
        Load::Unstated => 0.0,
        Load::InFlight(requests) => *requests,
        Load::Rate(stages) => stages.iter().copied().fold(0.0, f64::max),
    };
    if most > MOST {
        return Err(Refusal::Impossible(format!(
            "the load is {most:e} requests: at most {MOST:e} are answered"
        )));
    }
    Ok(())
}

/// Settings that no engine starts with at 0 or below.
const POSITIVE: [&str; 10] = [
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "block_size",
    "gpu_memory_utilization",
    "mem_fraction_static",
    "gpu_memory_gib",
    "kv_cache_memory_per_gpu_gib",
    "slo_ttft_ms",
    "slo_tpot_ms",
];
const SHARES: [&str; 2] = ["gpu_memory_utilization", "mem_fraction_static"];

/// Ranks in `extra`.
const RANK_KEYS: [&str; 14] = [
    "moe_tp",
    "moe_ep",
    "prefill_tp_size",
    "prefill_attention_dp_size",
    "prefill_moe_tp_size",
    "prefill_moe_ep_size",
    "prefill_pp_size",
    "prefill_num_workers",
    "decode_tp_size",
    "decode_attention_dp_size",
    "decode_moe_tp_size",
    "decode_moe_ep_size",
    "decode_pp_size",
    "decode_num_workers",
];

/// What is read into the names of a row, and whether that makes its answer doubtful.
pub(super) fn names(
    question: &Question,
    gpu: &Gpu,
    engine: Option<&Engine>,
) -> (Vec<String>, bool) {
    let mut notes = Vec::new();
    let mut doubtful = false;
    if gpu.announced {
        notes.push(format!(
            "{} is only announced: its figures may change",
            gpu.name
        ));
        doubtful = true;
    }
    if gpu.source == STATED_GPU {
        notes.push("the GPU is not known: a rough answer from its figures in the row".into());
        doubtful = true;
    }
    let cores_stated = folded(&question.gpu).contains("core") || question.gpu.contains("GB");
    if gpu.vendor == "Apple" && !cores_stated && folded(&question.gpu) != folded(&gpu.name) {
        notes.push(format!(
            "{} read as {} with {} GB, the smallest variant of the chip",
            question.gpu, gpu.name, gpu.memory_marketing_gb
        ));
    }
    if engine.is_none() && !question.engine.is_empty() {
        notes.push(format!(
            "engine {:?} is not known: read as vLLM",
            question.engine
        ));
    }
    (notes, doubtful)
}

/// Notes on a layout that takes more GPUs than the row states.
pub(super) fn layout(question: &Question, layout: &Layout) -> Option<String> {
    let stated = question.gpus?;
    let needed = layout.replica_gpus();
    (needed > stated).then(|| {
        format!("the layout takes {needed} GPUs, more than the {stated} stated: read as {needed}")
    })
}

/// Lengths that can be computed: at least one token each.
pub(super) fn lengths(
    (input, output): (Option<f64>, Option<f64>),
    wanted: Metric,
    notes: &mut Vec<String>,
) -> Result<(Option<f64>, Option<f64>), Refusal> {
    let between = matches!(
        wanted,
        Metric::Tpot(_)
            | Metric::OutputThroughput
            | Metric::OutputThroughputPerGpu
            | Metric::DecodeSpeed
    );
    if between && output.is_some_and(|tokens| tokens < 1.0) {
        return Err(Refusal::Impossible(
            "`osl` is 0: without an output token there is no time or rate of one".into(),
        ));
    }
    let mut least = |name: &str, tokens: Option<f64>| {
        if tokens.is_some_and(|tokens| tokens < 1.0) {
            notes.push(format!("`{name}` of 0 read as one token"));
        }
        tokens.map(|tokens| tokens.max(1.0))
    };
    Ok((least("isl", input), least("osl", output)))
}

/// Refuses what cannot lie in memory in any reading, and says what is close to it.
pub(super) fn fits(reading: &mut Reading<'_>) -> Result<(), Refusal> {
    let plan = plan(&reading.setup);
    let gib = |bytes: f64| format!("{:.1} GiB", bytes / 1073741824.0);
    let weights: f64 = plan.weights.iter().map(|kind| kind.bytes).sum();
    if weights > TOO_HEAVY * plan.visible {
        return Err(Refusal::Impossible(format!(
            "the weights take {} on each GPU, which has {}",
            gib(weights),
            gib(plan.visible)
        )));
    }
    if weights > plan.visible {
        reading.doubtful = true;
        reading.notes.push(format!(
            "the weights take {} on each GPU, which has {}: the answer is for a GPU that holds them",
            gib(weights),
            gib(plan.visible)
        ));
    }
    let tokens = reading.input.unwrap_or(0.0) + reading.output.unwrap_or(0.0);
    let one = plan.cache_shape.sequence_bytes(tokens);
    if one > plan.visible {
        return Err(Refusal::Impossible(format!(
            "the cache of one request of {tokens} tokens takes {} on each GPU, which has {}",
            gib(one),
            gib(plan.visible)
        )));
    }
    if plan.served_sequences(tokens) < 1.0 {
        return Err(Refusal::Impossible(format!(
            "the cache of one request of {tokens} tokens takes {} on each GPU, which has {} left beside weights and overheads",
            gib(one),
            gib(plan.cache.max(0.0))
        )));
    }
    if plan.cache < plan.served_cache() {
        reading.doubtful = true;
        reading.notes.push(
            "by our sum weights and overheads leave no cache: the least that serves is taken"
                .into(),
        );
    }
    let context = reading.setup.architecture.max_context;
    if let Some(most) = context.filter(|most| tokens > 1.05 * most.0 as f64) {
        reading.notes.push(format!(
            "{tokens} tokens are more than the {} that the model was made for",
            most.0
        ));
    }
    if let Some(note) = waiting(reading, &plan, tokens) {
        reading.notes.push(note);
    }
    Ok(())
}

/// Says how many requests fit where more are in flight by over a half.
fn waiting(reading: &Reading<'_>, plan: &MemoryPlan, tokens: f64) -> Option<String> {
    let Load::InFlight(requests) = reading.load else {
        return None;
    };
    let layout = reading.setup.layout;
    let groups = f64::from(layout.attention_data.max(1)) * f64::from(layout.replicas.max(1));
    let fit = libm::floor(plan.served_sequences(tokens) * groups);
    (requests > 1.5 * fit.max(1.0)).then(|| {
        let most = fit.max(1.0).to_string();
        format!("of {requests} requests about {most} fit into memory at their full length; the others wait")
    })
}

/// What a model that stands for an unknown one is said to be.
pub(super) fn stand_in(reading: &mut Reading<'_>) {
    let said = reading.setup.architecture.assumptions.iter();
    if let Some(said) = said.into_iter().find(|said| said.starts_with(STAND_IN)) {
        reading.notes.push(said.clone());
        reading.doubtful = true;
    }
}

//! What a row of a table means: its setup, its load and its lengths, under rules that were written
//! down before any value was looked at (`docs/decisions/0003-reading-rows.md`).

use super::{
    disaggregated::{disaggregate, pooled},
    engine::{bucket_of, engine_of},
    launched::Launched,
    layout::{StatedLayout, stated_layout},
    precision::{cache, weights},
    recipe::{is_of_sweep, recipe, tensor_only},
    sense,
    settings::settings,
};
use gpuwise_domain::{
    catalogue::Catalogue,
    engine::{Engine, EngineKind, VersionBucket},
    gpu::{Device, Gpu},
    layout::Layout,
    model::Architecture,
    precision::CacheFormat,
    question::{Benchmark, Load, Question},
    recipe::RecipeSettings,
};
use gpuwise_size::{
    knowledge::Corrections,
    metric::{Metric, Statistic},
    serving::Gather,
    setup::Setup,
    speed::StepShape,
};
use std::sync::Arc;

#[derive(Debug, Clone)]
pub struct Reading<'a> {
    /// How the model is served.
    pub setup: Setup<'a>,
    pub shape: Arc<StepShape>,
    /// The pool that computes prompts, where it is another.
    pub prefill: Option<Pool<'a>>,
    /// Whether the row states its layout (else the best that fits is taken).
    pub layout_stated: bool,
    pub load: Load,
    pub input: Option<f64>,
    pub output: Option<f64>,
    pub wanted: Metric,
    pub gpus: u32,
    /// Sequences that fit the cache and the engine's limit, on one attention group.
    pub capacity: f64,
    /// How its requests come and differ.
    pub run: Run,
    /// Sequences that the engine decodes for each request (beams).
    pub beams: f64,
    /// Bounds in seconds on time to first token and time per token that the run was driven up to.
    pub slo: Option<(f64, f64)>,
    /// Whether the row contradicts itself or lacks what decides it, so that it is answered under
    /// a reading and not fitted.
    pub doubtful: bool,
    /// Readings applied, in words.
    pub notes: Vec<String>,
}

/// The run that a row tells of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Whether all requests have one length.
    pub one_length: bool,
    /// Squared coefficient of variation of answers' lengths.
    pub output_variation: f64,
    /// How the engine gathers requests before it computes their prompts.
    pub gather: Gather,
    /// Its requests, where it ends.
    pub requests: Option<f64>,
    /// Whether it is of a published sweep that ends after nobody says how many.
    pub ends_unsaid: bool,
}

impl Run {
    fn of(question: &Question, benchmark: bool, load: &Load, recipe: &RecipeSettings) -> Self {
        let of_prompts = benchmark || is_of_prompts(question);
        let requests = requests(question, load);
        Self {
            one_length: !is_of_sweep(question) && !of_prompts,
            output_variation: if of_prompts { PROMPTS_VARIATION } else { 0.0 },
            gather: Gather {
                steps: recipe.gather_steps.unwrap_or(1.0).max(1.0),
                balanced: recipe.balanced.unwrap_or(false),
            },
            ends_unsaid: requests.is_none() && question.extra("mode").is_some(),
            requests,
        }
    }
}

/// Workers of one kind of a disaggregated deployment.
#[derive(Debug, Clone)]
pub struct Pool<'a> {
    /// How each worker serves.
    pub setup: Setup<'a>,
    pub shape: Arc<StepShape>,
    pub workers: f64,
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The metric is not one of serving a language model.
    #[error("{0}")]
    NotYet(String),
    /// The GPU is not in the catalogue.
    #[error(
        "GPU {name:?} is not in the catalogue; did you mean {like}? A rough answer needs its \
         `gpu_memory_gib`, `gpu_bandwidth_gb_s` and `gpu_tflops` (dense, 16 bits) in `extra`"
    )]
    UnknownGpu { name: String, like: String },
    /// The row does not state what is needed.
    #[error("{0}")]
    Unstated(String),
    /// The row states what no system does.
    #[error("{0}")]
    Impossible(String),
}

/// Reads a question about a model on the catalogue's GPUs.
///
/// # Errors
/// When the metric is not answered yet, the GPU is unknown, or the row states too little.
pub fn read<'a>(
    question: &Question,
    architecture: &'a Architecture,
    catalogue: &'a Catalogue,
) -> Result<Reading<'a>, Refusal> {
    let wanted = wanted(question)?;
    sense::possible(question)?;
    let gpu = catalogue
        .gpu(&question.gpu)
        .ok_or_else(|| Refusal::UnknownGpu {
            name: question.gpu.clone(),
            like: catalogue.gpus_like(&question.gpu).join(", "),
        })?;
    let device = Device::whole(gpu);
    let named = engine_of(&question.engine);
    let (mut notes, unsure) = sense::names(question, gpu, named.as_ref());
    let mut engine = named.unwrap_or_else(|| Engine::newest(EngineKind::Vllm));
    if question.extra("mode") == Some("disagg") {
        // The version is that of the orchestrator's image.
        engine.release = None;
    }
    let bucket = bucket_of(&engine, gpu, question);
    let recipe = recipe(question, catalogue, &engine, gpu);
    let stated = started(question, architecture, gpu, &engine, &recipe);
    notes.extend(stated.notes);
    let benchmark = question.extra("benchmark").and_then(|name| {
        catalogue
            .benchmarks
            .iter()
            .find(|b| name.starts_with(b.prefix.as_str()))
    });
    let layout = laid_out(
        &engine,
        stated
            .layout
            .unwrap_or(Layout::tensor(question.gpus.unwrap_or(1))),
    );
    notes.extend(
        stated
            .layout
            .and_then(|layout| sense::layout(question, &layout)),
    );
    let mut setup = Setup {
        architecture,
        device,
        weights: weights(question, architecture, &mut notes),
        cache: served_cache(question, bucket, &recipe),
        settings: settings(question, &engine, &device, layout, &recipe),
        bucket,
        engine,
        layout,
        draft: None,
        adapters: None,
        corrections: Corrections::default(),
    };
    let stated_lengths = lengths(question, benchmark, &mut notes);
    let (input, output) = sense::lengths(stated_lengths, wanted, &mut notes)?;
    let load = load(question, setup.engine.kind, wanted);
    if let (Load::InFlight(batch), EngineKind::LlamaCpp) = (&question.load, setup.engine.kind)
        && is_static(wanted)
    {
        // Throughput times latency is the length of one request in these tables: what they call the
        // batch is how many tokens of its prompt are computed at once.
        let usual = setup.settings.batched_tokens as f64;
        setup.settings.batched_tokens = batch.clamp(1.0, usual) as u64;
    }
    if stated.layout.is_none() && setup.engine.kind != EngineKind::LlamaCpp {
        setup.layout = smallest_layout(&setup, question.gpus.unwrap_or(1));
        setup.settings = settings(
            question,
            &setup.engine,
            &setup.device,
            setup.layout,
            &recipe,
        );
    }
    let mut reading = Reading {
        prefill: None,
        shape: Arc::new(StepShape::new(&setup)),
        layout_stated: stated.layout.is_some(),
        run: Run::of(question, benchmark.is_some(), &load, &recipe),
        load,
        input,
        output,
        wanted,
        gpus: stated.gpus.unwrap_or(layout.gpus()),
        capacity: 0.0,
        beams: benchmark.map_or(1.0, |b| b.beams),
        slo: slo(question),
        // A trace is no steady load: its rows are for those who follow requests one by one.
        doubtful: stated.doubtful || unsure || question.extra("trace").is_some(),
        notes,
        setup,
    };
    if question.extra("mode") == Some("disagg") {
        disaggregate(question, &recipe, &mut reading);
    } else if let Some(gpus) = stated.pool {
        pooled(question, &recipe, &mut reading, gpus);
    }
    reading.shape = Arc::new(StepShape::new(&reading.setup));
    fitted(question, reading)
}

/// The layout that was started: by the row's launch command, by its benchmark's launch script, or as
/// the row states it.
fn started(
    question: &Question,
    architecture: &Architecture,
    gpu: &Gpu,
    engine: &Engine,
    recipe: &RecipeSettings,
) -> StatedLayout {
    let domain = gpu.scale_up.as_ref().map_or(8, |link| link.domain);
    let stated = stated_layout(question, architecture.has_experts(), domain);
    let Some(launched) = Launched::of(question) else {
        return tensor_only(question, recipe, stated);
    };
    // One server on as many of the host's GPUs as its flags say.
    let layout = launched.layout(engine.kind);
    StatedLayout {
        doubtful: stated.doubtful,
        ..StatedLayout::plain(Some(layout), Some(layout.gpus()), Vec::new())
    }
}

/// A reading whose weights and requests fit, with the sequences that its cache holds.
fn fitted<'a>(question: &Question, mut reading: Reading<'a>) -> Result<Reading<'a>, Refusal> {
    if pages(&reading.setup) {
        let said = "the weights take over three quarters of the unified memory, which systems do not lend to the GPU: parts are read from disk again and again";
        reading.notes.push(said.into());
        reading.doubtful = true;
    }
    sense::fits(&mut reading)?;
    sense::stand_in(&mut reading);
    let (input, output) = (reading.input.unwrap_or(0.0), reading.output.unwrap_or(0.0));
    reading.capacity = capacity(&reading.setup, input, output);
    if reading.run.ends_unsaid && reading.setup.settings.memory_fraction < LARGEST_FRACTION {
        enlarge(question, &mut reading);
    }
    Ok(reading)
}

/// Whether the weights exceed what a system with unified memory lends to its GPU by default: three
/// quarters (Metal's recommended working set on Macs of 36 GB and more; two thirds below).
fn pages(setup: &Setup<'_>) -> bool {
    let gpu = setup.device.gpu;
    let share = if gpu.memory_marketing_gb >= 36.0 {
        0.75
    } else {
        2.0 / 3.0
    };
    let weights = setup.architecture.layers.iter();
    let bytes: f64 = weights
        .flat_map(|run| run.layer.tensors.iter().map(move |t| (run.count, t)))
        .map(|(count, tensor)| count as f64 * setup.weights.bytes(tensor) as f64)
        .sum();
    setup.engine.kind == EngineKind::LlamaCpp
        && gpu.vendor == "Apple"
        && bytes > share * gpu.memory_marketing_gb * 1e9
}

/// The cache format that a row means. TensorRT-LLM's recipe for FP8 and FP4 checkpoints quantizes the
/// cache too, and its performance tables and submissions are made with it.
fn served_cache(
    question: &Question,
    bucket: VersionBucket,
    recipe: &RecipeSettings,
) -> CacheFormat {
    let precision = question.precision.to_ascii_lowercase();
    let quantized = precision.contains("fp8") || precision.contains("fp4");
    if precision.contains("kv") {
        return cache(question);
    }
    if bucket.quantized_cache && quantized {
        return CacheFormat::FP8;
    }
    recipe.cache.unwrap_or(cache(question))
}

/// The layout as an engine understands it: llama.cpp deals whole layers out over GPUs since 2024;
/// before, it split every matrix by rows.
fn laid_out(engine: &Engine, layout: Layout) -> Layout {
    let by_layers = engine.month.is_none_or(|month| month.year >= 2024);
    if engine.kind != EngineKind::LlamaCpp || !by_layers {
        return layout;
    }
    Layout {
        tensor: 1,
        pipeline: layout.tensor * layout.pipeline,
        ..layout
    }
}

/// Input and output tokens of a request.
fn lengths(
    question: &Question,
    benchmark: Option<&Benchmark>,
    notes: &mut Vec<String>,
) -> (Option<f64>, Option<f64>) {
    let stated = question.extra("tokens").and_then(|v| v.parse::<f64>().ok());
    let input = question.input.or(benchmark.map(|b| b.input)).or(stated);
    let mut output = question.output.or(benchmark.map(|b| b.output)).or(stated);
    if question.metric == "e2e_latency" && output == Some(1.0) {
        // The row repeats the lengths of its companion that times the first token.
        notes.push("one output token read as as many as the prompt has".into());
        output = input;
    }
    // Lengths drawn from 0.8 to 1 of the nominal ones.
    let scale = if is_of_sweep(question) { 0.9 } else { 1.0 };
    (
        input.map(|tokens| tokens * scale),
        output.map(|tokens| tokens * scale),
    )
}

/// The load that a row means.
fn load(question: &Question, engine: EngineKind, wanted: Metric) -> Load {
    let scenario = question.extra("scenario").unwrap_or("");
    match &question.load {
        // By the benchmark's rules the next request is sent when the last one is answered.
        Load::Unstated if scenario.eq_ignore_ascii_case("SingleStream") => Load::InFlight(1.0),
        // One request, whose prompt is computed in parts of the batch.
        Load::InFlight(_) if engine == EngineKind::LlamaCpp && is_of_a_batch(wanted) => {
            Load::InFlight(1.0)
        }
        stated => stated.clone(),
    }
}

/// Whether a metric is timed over a static batch.
const fn is_static(wanted: Metric) -> bool {
    matches!(
        wanted,
        Metric::BatchLatency | Metric::BatchThroughput | Metric::BatchFirstToken
    )
}

/// Whether a metric is one of a static batch, and not of requests that a server answers.
const fn is_of_a_batch(wanted: Metric) -> bool {
    !matches!(
        wanted,
        Metric::Ttft(_)
            | Metric::Tpot(_)
            | Metric::EndToEnd(_)
            | Metric::RequestThroughput
            | Metric::OutputThroughput
    )
}

/// The fewest tensor-parallel ranks that leave the cache a third of the memory, and as many
/// replicas as there are GPUs for.
pub(crate) fn smallest_layout(setup: &Setup<'_>, gpus: u32) -> Layout {
    let mut tensor = 1;
    while tensor < gpus.min(8) {
        let mut candidate = setup.clone();
        candidate.layout = Layout::tensor(tensor);
        let plan = gpuwise_size::memory::plan(&candidate);
        if plan.cache > 0.33 * plan.budget {
            break;
        }
        tensor *= 2;
    }
    Layout {
        replicas: (gpus / tensor).max(1),
        ..Layout::tensor(tensor)
    }
}

/// The bounds that a benchmark's rules set.
fn slo(question: &Question) -> Option<(f64, f64)> {
    let seconds = |key: &str| {
        question
            .extra(key)
            .and_then(|v| v.parse::<f64>().ok())
            .map(|ms| ms / 1e3)
    };
    Some((seconds("slo_ttft_ms")?, seconds("slo_tpot_ms")?))
}

/// Sequences that one attention group runs at once: what the cache holds by the engine's rule of
/// admission, at most the engine's limit, at least one.
fn capacity(setup: &Setup<'_>, input: f64, output: f64) -> f64 {
    let plan = gpuwise_size::memory::plan(setup);
    let limit = setup.settings.sequences as f64;
    let held = gpuwise_size::memory::held(setup.engine.kind, input, output, 0.0);
    libm::floor(plan.served_sequences(held)).clamp(1.0, limit)
}

/// The share of memory that published launch scripts let an engine use at most.
const LARGEST_FRACTION: f64 = 0.95;

/// A published sweep that does not say with which share of memory it was launched was launched with
/// one that holds its load, as far as such a share is in use.
fn enlarge(question: &Question, reading: &mut Reading<'_>) {
    let stated = ["gpu_memory_utilization", "mem_fraction_static", "script"];
    let Load::InFlight(requests) = reading.load else {
        return;
    };
    if reading.capacity * reading.groups() >= requests
        || stated.iter().any(|key| question.extra(key).is_some())
    {
        return;
    }
    let mut larger = reading.setup.clone();
    larger.settings.memory_fraction = LARGEST_FRACTION;
    let (input, output) = (reading.input.unwrap_or(0.0), reading.output.unwrap_or(0.0));
    let capacity = capacity(&larger, input, output);
    if capacity > reading.capacity {
        reading.notes.push(format!(
            "the load needs a larger share of memory than the engine's own: {LARGEST_FRACTION} is taken"
        ));
        reading.capacity = capacity;
        reading.setup = larger;
    }
}

/// Whether lengths are means over real prompts: no whole numbers.
fn is_of_prompts(question: &Question) -> bool {
    let broken = |tokens: Option<f64>| tokens.is_some_and(|t| (t - libm::round(t)).abs() > 1e-9);
    broken(question.input) || broken(question.output)
}

/// Squared coefficient of variation of the answers in Azure's conversations of 2023.
const PROMPTS_VARIATION: f64 = 0.6;

/// Requests of a run, where it ends: as stated, or by the harness that made the row.
fn requests(question: &Question, load: &Load) -> Option<f64> {
    let stated = question.extra("requests").or(question.extra("prompts"));
    if let Some(count) = stated.and_then(|v| v.parse::<f64>().ok()) {
        return (count >= 1.0).then_some(count);
    }
    match load {
        Load::InFlight(in_flight) if is_of_sweep(question) => Some(SWEEP_ROUNDS * in_flight),
        _ => None,
    }
}

/// InferenceX sends ten times as many prompts as it keeps in flight (`--num-prompts $(( $CONC * 10 ))`
/// and `--random-range-ratio 0.8` in the benchmark client's configuration of its README).
const SWEEP_ROUNDS: f64 = 10.0;

fn wanted(question: &Question) -> Result<Metric, Refusal> {
    let metric = question.metric.as_str();
    let statistic = |suffix: &str| -> Option<Statistic> {
        if suffix == "mean" {
            return Some(Statistic::Mean);
        }
        let percent: f64 = suffix.strip_prefix('p')?.parse().ok()?;
        (percent > 0.0 && percent < 100.0).then_some(Statistic::Quantile(percent / 100.0))
    };
    if let Some((name, suffix)) = metric.split_once('_')
        && let Some(statistic) = statistic(suffix)
    {
        match name {
            "ttft" => return Ok(Metric::Ttft(statistic)),
            "tpot" | "itl" => return Ok(Metric::Tpot(statistic)),
            "e2e" | "latency" => return Ok(Metric::EndToEnd(statistic)),
            _ => {}
        }
    }
    Ok(match metric {
        "output_throughput" => Metric::OutputThroughput,
        "output_throughput_per_gpu" => Metric::OutputThroughputPerGpu,
        "request_throughput" | "sample_throughput" => Metric::RequestThroughput,
        "total_throughput" => Metric::TotalThroughput,
        "total_token_throughput" => Metric::BatchThroughput,
        "batch_latency" | "e2e_latency" => Metric::BatchLatency,
        "ttft_batch" | "first_token_latency" => Metric::BatchFirstToken,
        "prompt_eval_speed" | "prompt_eval_speed_1024" => Metric::PromptSpeed,
        "decode_speed" | "decode_speed_1024" => Metric::DecodeSpeed,
        other => {
            return Err(Refusal::NotYet(format!(
                "metric {other:?} is not answered yet"
            )));
        }
    })
}

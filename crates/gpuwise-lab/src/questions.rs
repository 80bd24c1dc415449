//! Questions of tables, and their answers.

use crate::{
    Loaded,
    answer::{Answer, STATED_GPU, about_memory, about_training_time, from_outcome, read, solve},
    fit::Sample,
    media, spread,
};
use gpuwise_domain::{
    engine::{Engine, EngineKind, Release},
    estimate::Basis,
    facts::EngineFacts,
    gpu::{Gpu, PeakRates},
    model::Architecture,
    question::Question,
};
use gpuwise_operators::Operators;
use gpuwise_size::{
    knowledge::Knowledge,
    setup::Setup,
    support::{castable, obstacle_of},
};
use gpuwise_units::{Bytes, BytesPerSecond, FlopPerSecond};
use std::{collections::BTreeMap, num::NonZero, path::PathBuf, sync::Arc, thread};

/// A row and the table that it stands in.
#[derive(Debug, Clone)]
pub struct QuestionRow {
    pub source: String,
    /// The folder of the table: traces that rows name lie beside it.
    pub folder: PathBuf,
    pub question: Question,
    /// Why the row cannot be read as it stands.
    pub problem: Option<String>,
}

/// Why a model of speech has no answer of a language model.
const TAKES_AUDIO: &str = "the model goes from speech to text and is asked by windows of audio: sample_throughput, \
                           or output_throughput with the tokens of a window as osl";

/// Models by the names that rows give them, or why there is none.
pub type Models = BTreeMap<String, Result<Architecture, String>>;

/// Rows with what is known of what they name.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    pub asked: &'a [QuestionRow],
    pub models: &'a Models,
    pub loaded: &'a Loaded,
}

/// What fits stand on beside rows, and who hears how far they are.
pub struct FitInputs<'a> {
    /// Tables of timed matmuls (system, dtype, m, n, k, ms).
    pub matmuls: &'a [String],
    /// Measured functions of operators.
    pub operators: Arc<Operators>,
    pub say: &'a dyn Fn(&str),
}

/// The catalogue with the GPUs that rows describe by their figures and it does not know.
pub fn with_stated_gpus(asked: &[QuestionRow], mut loaded: Loaded) -> Loaded {
    for row in asked {
        let question = &row.question;
        if question.gpu.is_empty() || loaded.catalogue.gpu(&question.gpu).is_some() {
            continue;
        }
        loaded.catalogue.gpus.extend(stated_gpu(question));
    }
    loaded
}

/// A GPU of which the row states memory, bandwidth and the dense rate of 16-bit matmuls.
fn stated_gpu(question: &Question) -> Option<Gpu> {
    let positive = |key: &str| {
        let value = question.extra(key)?.parse::<f64>().ok()?;
        (1e-3..=1e7).contains(&value).then_some(value)
    };
    let memory = positive("gpu_memory_gib")?;
    let bandwidth = positive("gpu_bandwidth_gb_s")?;
    let rate = FlopPerSecond::new(positive("gpu_tflops")? * 1e12);
    Some(Gpu {
        name: question.gpu.clone(),
        vendor: "unknown".into(),
        generation: "unknown".into(),
        compute_capability: None,
        aliases: Vec::new(),
        units: None,
        l2: None,
        memory_kind: String::new(),
        memory_marketing_gb: memory * 1.073_741_824,
        memory_reported: Some(Bytes::from_mib((memory * 1024.0) as u64)),
        memory_visible: None,
        bandwidth: BytesPerSecond::new(bandwidth * 1e9),
        peak: PeakRates {
            fp16: Some(rate),
            bf16: Some(rate),
            ..PeakRates::default()
        },
        scale_up: None,
        bridge: None,
        host_link: None,
        power_limit: None,
        idle_power: None,
        mig: false,
        announced: false,
        form_factor: String::new(),
        launch: String::new(),
        source: STATED_GPU.into(),
        notes: String::new(),
    })
}

/// The question with the catalogue's name of its model, so that rows and plans that name one model
/// differently speak of the same.
pub fn canonical(question: &Question, loaded: &Loaded) -> Question {
    let model = loaded.models.entry(&question.model).map(|entry| &entry.id);
    let network = || {
        loaded
            .networks
            .entry(&question.model)
            .map(|entry| &entry.id)
    };
    Question {
        model: model.or_else(network).unwrap_or(&question.model).clone(),
        ..question.clone()
    }
}

/// Answers rows, in order, over all threads.
///
/// `facts` are those of every engine that is known.
pub fn answers(rows: Rows<'_>, knowledge: &Knowledge, facts: &[EngineFacts]) -> Vec<Answer> {
    let Rows {
        asked,
        models,
        loaded,
    } = rows;
    let walks = media::walks(asked, loaded);
    let walks = &walks;
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let size = asked.len().div_ceil(threads).max(1);
    spread(asked.len().div_ceil(size), |number| {
        let rows = asked.chunks(size).nth(number).unwrap_or_default();
        some_answers(rows, models, walks, facts, (loaded, knowledge))
    })
}

/// The answer, with what keeps the setup from starting where the engine's facts know of it: what is
/// predicted is how fast it would be.
fn starting(mut answer: Answer, setup: &Setup<'_>, facts: &[EngineFacts]) -> Answer {
    let facts = facts.iter().find(|facts| facts.engine == setup.engine.kind);
    let cast = castable(setup.clone(), facts);
    if let Some(obstacle) = obstacle_of(&cast, facts, false) {
        say_first(&mut answer, format!("would not start: {}", obstacle.what));
    }
    if let Some((known, release)) = facts.and_then(|facts| newer(&setup.engine, facts)) {
        let [major, minor, _] = release.numbers;
        let [known_major, known_minor, _] = known.latest.numbers;
        if (major, minor) > (known_major, known_minor + 1) {
            answer.basis = answer.basis.map(|_| Basis::Extrapolated);
        }
        say_first(
            &mut answer,
            format!(
                "{} is newer than {}, the newest whose settings are known: read as that",
                setup.engine.written,
                match known.latest.numbers {
                    [0, 0, build] => format!("b{build}"),
                    _ => known.latest.to_string(),
                }
            ),
        );
    }
    answer
}

/// The release of an engine where it is newer than its facts. TensorRT counts its own versions.
fn newer<'a>(engine: &Engine, facts: &'a EngineFacts) -> Option<(&'a EngineFacts, Release)> {
    let lower = engine.written.to_ascii_lowercase();
    let release = match engine.kind {
        EngineKind::LlamaCpp => {
            let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
            let build = words.find_map(|word| word.strip_prefix('b')?.parse().ok())?;
            Release {
                numbers: [0, 0, build],
            }
        }
        EngineKind::TensorRtLlm if !lower.contains("llm") => return None,
        _ => engine.release?,
    };
    (release > facts.latest).then_some((facts, release))
}

fn say_first(answer: &mut Answer, said: String) {
    answer.reason = if answer.reason.is_empty() {
        said
    } else {
        format!("{said}; {}", answer.reason)
    };
}

/// Answers rows; those that one run answers are solved once.
fn some_answers(
    rows: &[QuestionRow],
    models: &Models,
    walks: &media::Walks,
    facts: &[EngineFacts],
    (loaded, knowledge): (&Loaded, &Knowledge),
) -> Vec<Answer> {
    let mut solved = BTreeMap::new();
    rows.iter()
        .map(|row| {
            let question = &row.question;
            if let Some(problem) = &row.problem {
                return Answer::none(problem.clone());
            }
            let known = models
                .get(&question.model)
                .and_then(|model| model.as_ref().ok());
            if let Some(answer) = about_training_time(question, known, &loaded.catalogue) {
                return answer;
            }
            if let Some(answer) = media::answer(question, loaded, walks, &loaded.media) {
                return answer;
            }
            let architecture = match models.get(&question.model) {
                Some(Ok(architecture)) => architecture,
                Some(Err(why)) => return Answer::none(why.clone()),
                None => return Answer::none("no model is named"),
            };
            if let Some(answer) = about_memory(question, architecture, &loaded.catalogue) {
                return answer;
            }
            if architecture.takes_audio() {
                return Answer::none(TAKES_AUDIO);
            }
            // Rows of the user's own are found by the catalogue's name of a model.
            let named = canonical(question, loaded);
            let reading = match read(question, architecture, &loaded.catalogue) {
                Ok(reading) => reading.corrected(knowledge, &named.model),
                Err(refusal) => return Answer::none(refusal.to_string()),
            };
            let sample = Sample {
                source: String::new(),
                question,
                reading,
                measured: f64::NAN,
            };
            let constants = knowledge.constants(sample.reading.setup.engine.kind);
            let outcome = solved
                .entry(sample.run())
                .or_insert_with(|| solve(&sample.reading, constants));
            match outcome {
                Some(outcome) => {
                    let answer = from_outcome(&named, &sample.reading, outcome, knowledge);
                    starting(answer, &sample.reading.setup, facts)
                }
                None => Answer::none(
                    "the row states no lengths, and names no benchmark whose lengths are known",
                ),
            }
        })
        .collect()
}

//! Tables of questions: reading them, finding their models, and answering them.

use crate::{
    catalogue::{Loaded, engine_facts},
    error::Problem,
    media,
};
use gpuwise_domain::{
    engine::{Engine, EngineKind, Release},
    estimate::Basis,
    facts::EngineFacts,
    gpu::{Gpu, PeakRates},
    model::Architecture,
    question::Question,
};
use gpuwise_read::question::read_question_rows;
use gpuwise_size::{
    answer::{Answer, STATED_GPU, about_memory, about_training_time, from_outcome, read, solve},
    fit::Sample,
    knowledge::Knowledge,
    setup::Setup,
    support::{castable, obstacle_of},
};
use gpuwise_units::{Bytes, BytesPerSecond, FlopPerSecond};
use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    num::NonZero,
    path::{Path, PathBuf},
    thread,
};

/// A row and the table that it stands in.
#[derive(Debug, Clone)]
pub struct Asked {
    pub source: String,
    /// The folder of the table: traces that rows name lie beside it.
    pub folder: PathBuf,
    pub question: Question,
    /// Why the row cannot be read as it stands.
    pub problem: Option<String>,
}

/// Reads tables of questions; `.gz` is unpacked, `-` is standard input, a directory stands for its
/// CSV files.
///
/// # Errors
/// When a file cannot be read or a row is wrong.
pub fn read_tables(paths: &[PathBuf]) -> anyhow::Result<Vec<Asked>> {
    rows_of(paths, true)
}

/// The same where rows that are wrong are kept with the reason.
///
/// # Errors
/// When a file cannot be read or is no table of questions.
pub fn read_rows(paths: &[PathBuf]) -> anyhow::Result<Vec<Asked>> {
    rows_of(paths, false)
}

fn rows_of(paths: &[PathBuf], strict: bool) -> anyhow::Result<Vec<Asked>> {
    let mut out = Vec::new();
    for path in files(paths)? {
        let text = read_text(&path)?;
        let source = source_name(&path);
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        let wrong = |error| Problem::new(format!("{}", path.display())).because(error);
        let rows = read_question_rows(&text).map_err(wrong)?;
        if let Some(error) = rows
            .iter()
            .find_map(|row| row.problem.clone().filter(|_| strict))
        {
            return Err(wrong(error).into());
        }
        out.extend(rows.into_iter().map(|row| Asked {
            source: source.clone(),
            folder: folder.clone(),
            question: row.question,
            problem: row.problem.map(|problem| problem.to_string()),
        }));
    }
    Ok(out)
}

fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    for path in paths {
        if !path.is_dir() {
            out.push(path.clone());
            continue;
        }
        let unreadable =
            |error| Problem::new(format!("cannot read {}", path.display())).because(error);
        let mut found = Vec::new();
        for entry in fs::read_dir(path).map_err(unreadable)? {
            let file = entry.map_err(unreadable)?.path();
            let name = file.to_string_lossy();
            if name.ends_with(".csv") || name.ends_with(".csv.gz") {
                found.push(file);
            }
        }
        found.sort();
        out.extend(found);
    }
    Ok(out)
}

/// The text of a file, unpacked.
///
/// # Errors
/// When it cannot be read.
pub fn read_text(path: &Path) -> anyhow::Result<String> {
    let cannot = |error| Problem::new(format!("cannot read {}", path.display())).because(error);
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(cannot)?;
    } else {
        bytes = fs::read(path).map_err(cannot)?;
    }
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(bytes.as_slice())
            .read_to_end(&mut unpacked)
            .map_err(cannot)?;
        bytes = unpacked;
    }
    String::from_utf8(bytes).map_err(|error| {
        Problem::new(format!("{} is not text in UTF-8", path.display()))
            .because(error)
            .into()
    })
}

/// The table's name: the file's, without folder and endings.
fn source_name(path: &Path) -> String {
    let name = path
        .file_name()
        .map_or_else(|| "-".into(), |name| name.to_string_lossy().into_owned());
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".csv").unwrap_or(name).into()
}

/// Models by the names that rows give them, or why there is none.
pub type Models = BTreeMap<String, Result<Architecture, String>>;

/// The catalogue with the GPUs that rows describe by their figures and it does not know.
pub fn with_stated_gpus(asked: &[Asked], mut loaded: Loaded) -> Loaded {
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

/// Finds every model that rows name: in the catalogue, else as a path.
pub fn models_of(asked: &[Asked], loaded: &Loaded) -> Models {
    let mut out = Models::new();
    for row in asked {
        let name = &row.question.model;
        if !out.contains_key(name) {
            out.insert(name.clone(), model(name, loaded));
        }
    }
    out
}

fn model(name: &str, loaded: &Loaded) -> Result<Architecture, String> {
    match loaded.models.resolve(name) {
        Ok((_, architecture)) => Ok(architecture),
        Err(_) if Path::new(name).exists() => crate::model::resolve(name, &loaded.models, true)
            .map(|resolved| resolved.architecture)
            .map_err(|problem| format!("{problem:#}")),
        Err(error) => crate::model::stand_in(name, &loaded.models).ok_or_else(|| error.to_string()),
    }
}

/// The question with the catalogue's name of its model, so that rows and plans that name one model
/// differently speak of the same.
pub fn canonical(question: &Question, loaded: &Loaded) -> Question {
    let entry = loaded.models.entry(&question.model);
    Question {
        model: entry.map_or_else(|| question.model.clone(), |entry| entry.id.clone()),
        ..question.clone()
    }
}

/// Answers rows, in order, over all threads.
pub fn answers(
    asked: &[Asked],
    models: &Models,
    loaded: &Loaded,
    knowledge: &Knowledge,
) -> Vec<Answer> {
    let walks = media::walks(asked, loaded);
    let known = EngineKind::ALL.into_iter().map(engine_facts);
    let facts: Vec<EngineFacts> = known.filter_map(Result::ok).collect();
    let (walks, facts) = (&walks, &facts);
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let size = asked.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let workers: Vec<_> = asked
            .chunks(size)
            .map(|rows| {
                scope.spawn(move || some_answers(rows, models, walks, facts, (loaded, knowledge)))
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| match worker.join() {
                Ok(answers) => answers,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
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
    rows: &[Asked],
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
            let reading = match read(question, architecture, &loaded.catalogue) {
                Ok(reading) => reading,
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
                    let named = canonical(question, loaded);
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

//! Tables of questions: reading them, finding their models, and answering them.

use crate::{
    catalogue::{Loaded, engine_facts},
    error::Problem,
    media,
};
use gpuwise_domain::{
    engine::EngineKind, facts::EngineFacts, model::Architecture, question::Question,
};
use gpuwise_read::question::read_questions;
use gpuwise_size::{
    answer::{Answer, about_memory, about_training_time, from_outcome, read, solve},
    fit::Sample,
    knowledge::Knowledge,
    setup::Setup,
    support::{castable, obstacle_of},
};
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
pub(crate) struct Asked {
    pub(crate) source: String,
    /// The folder of the table: traces that rows name lie beside it.
    pub(crate) folder: PathBuf,
    pub(crate) question: Question,
}

/// Reads tables of questions; `.gz` is unpacked, `-` is standard input, a directory stands for its
/// CSV files.
///
/// # Errors
/// When a file cannot be read or a row is wrong.
pub(crate) fn read_tables(paths: &[PathBuf]) -> anyhow::Result<Vec<Asked>> {
    let mut out = Vec::new();
    for path in files(paths)? {
        let text = read_text(&path)?;
        let source = source_name(&path);
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        let questions = read_questions(&text)
            .map_err(|error| Problem::new(format!("{}", path.display())).because(error))?;
        out.extend(questions.into_iter().map(|question| Asked {
            source: source.clone(),
            folder: folder.clone(),
            question,
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
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
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
pub(crate) type Models = BTreeMap<String, Result<Architecture, String>>;

/// Finds every model that rows name: in the catalogue, else as a path.
pub(crate) fn models_of(asked: &[Asked], loaded: &Loaded) -> Models {
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
        Err(error) => Err(error.to_string()),
    }
}

/// The question with the catalogue's name of its model, so that rows and plans that name one model
/// differently speak of the same.
pub(crate) fn canonical(question: &Question, loaded: &Loaded) -> Question {
    let entry = loaded.models.entry(&question.model);
    Question {
        model: entry.map_or_else(|| question.model.clone(), |entry| entry.id.clone()),
        ..question.clone()
    }
}

/// Answers rows, in order, over all threads.
pub(crate) fn answers(
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
        let reason = format!("would not start: {}", obstacle.what);
        answer.reason = if answer.reason.is_empty() {
            reason
        } else {
            format!("{reason}; {}", answer.reason)
        };
    }
    answer
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

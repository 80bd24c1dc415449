//! Tables of questions: reading them, finding their models, and answering them.

use crate::{
    catalogue::{Loaded, all_engine_facts},
    error::Problem,
};
use gpuwise_domain::model::Architecture;
use gpuwise_lab::{FitInputs, answer::Answer};
pub use gpuwise_lab::{Models, QuestionRow, Rows, canonical, with_stated_gpus};
use gpuwise_read::question::read_question_rows;
use gpuwise_size::knowledge::Knowledge;
use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

/// Reads tables of questions; `.gz` is unpacked, `-` is standard input, a directory stands for its
/// CSV files.
///
/// # Errors
/// When a file cannot be read or a row is wrong.
pub fn read_tables(paths: &[PathBuf]) -> anyhow::Result<Vec<QuestionRow>> {
    rows_of(paths, true)
}

/// The same where rows that are wrong are kept with the reason.
///
/// # Errors
/// When a file cannot be read or is no table of questions.
pub fn read_rows(paths: &[PathBuf]) -> anyhow::Result<Vec<QuestionRow>> {
    rows_of(paths, false)
}

/// A table of questions that is no file; a row that is wrong is an error.
///
/// # Errors
/// When it is no such table, or a row is wrong.
pub fn read_text_table(source: &str, text: &str) -> anyhow::Result<Vec<QuestionRow>> {
    let wrong = |error| Problem::new(source.to_owned()).because(error);
    let rows = read_question_rows(text).map_err(wrong)?;
    let row = |row: gpuwise_read::question::QuestionRow| match row.problem {
        Some(problem) => Err(wrong(problem)),
        None => Ok(QuestionRow {
            source: source.to_owned(),
            folder: PathBuf::new(),
            question: row.question,
            problem: None,
        }),
    };
    Ok(rows.into_iter().map(row).collect::<Result<_, _>>()?)
}

fn rows_of(paths: &[PathBuf], strict: bool) -> anyhow::Result<Vec<QuestionRow>> {
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
        out.extend(rows.into_iter().map(|row| QuestionRow {
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
        if found.is_empty() {
            return Err(
                Problem::new(format!("{}: no table is in it", path.display()))
                    .hint(
                        "tables end in .csv or .csv.gz; `gpuwise example questions.csv` prints one",
                    )
                    .into(),
            );
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

/// Finds every model that rows name: in the catalogue, else as a path.
pub fn models_of(asked: &[QuestionRow], loaded: &Loaded) -> Models {
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
        Err(_) if Path::new(name).exists() => crate::model::resolve(name, loaded, true)
            .map(|resolved| resolved.architecture)
            .map_err(|problem| format!("{problem:#}")),
        Err(error) => match crate::media::known(name, loaded) {
            Some(network) => {
                let problem: anyhow::Error = crate::media::no_language_model(&network).into();
                Err(format!(
                    "{problem}: {}",
                    crate::error::hints(&problem).join("; ")
                ))
            }
            None => crate::model::stand_in(name, &loaded.models).ok_or_else(|| error.to_string()),
        },
    }
}

/// Answers rows, in order, over all threads.
pub fn answers(rows: Rows<'_>, knowledge: &Knowledge) -> Vec<Answer> {
    // Without them nothing is said of what would not start.
    let facts = all_engine_facts(rows.loaded).unwrap_or_default();
    gpuwise_lab::answers(rows, knowledge, &facts)
}

/// Calls with what fits stand on, tables of timed matmuls among it.
///
/// # Errors
/// When a table cannot be read, and as the call.
pub fn with_known<T>(
    loaded: &Loaded,
    matmuls: &[PathBuf],
    call: impl FnOnce(&FitInputs<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let texts = matmuls
        .iter()
        .map(|file| read_text(file))
        .collect::<anyhow::Result<Vec<_>>>()?;
    call(&FitInputs {
        matmuls: &texts,
        operators: crate::operators::measured(loaded)?,
        say: &crate::progress::say,
    })
}

//! What predictions rest on: the fitted constants that the binary carries, and the user's own rows.

use crate::{
    catalogue::{Loaded, user_directory},
    error::Problem,
    fitting::{ConstantsFile, read_file, read_knowledge},
    questions::{Asked, canonical, models_of, read_tables},
};
use gpuwise_size::{
    answer::{figure, observation, read, solve},
    knowledge::{Knowledge, Observation},
};
use std::path::PathBuf;

const EMBEDDED: &str = include_str!("../../../catalogue/constants.toml");

/// Where a user's measured rows are kept.
pub fn feedback_file() -> Option<PathBuf> {
    user_directory().map(|directory| directory.join("measured.csv"))
}

/// The constants, corrected by the user's rows where there are any.
///
/// # Errors
/// When the user's file of rows cannot be read.
pub fn load(loaded: &Loaded) -> anyhow::Result<Knowledge> {
    let mut knowledge = fitted()?;
    let Some(file) = feedback_file().filter(|file| file.is_file()) else {
        return Ok(knowledge);
    };
    let rows = read_tables(std::slice::from_ref(&file)).map_err(|error| {
        Problem::new("the rows that were measured here cannot be read")
            .because(error)
            .hint(format!("correct or remove {}", file.display()))
    })?;
    knowledge.feedback.observations = observations(&rows, loaded, &knowledge);
    Ok(knowledge)
}

/// The constants that the binary carries.
///
/// # Errors
/// Never in a release: a test reads them.
pub fn fitted() -> anyhow::Result<Knowledge> {
    read_knowledge("catalogue/constants.toml", EMBEDDED)
}

/// A row that says something, by its place among the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The row's place, from 0.
    pub row: usize,
    /// What it says.
    pub observation: Observation,
}

/// Rows with a measured value as observations of ln(measured / predicted); rows that cannot be
/// answered say nothing.
pub fn observations(rows: &[Asked], loaded: &Loaded, knowledge: &Knowledge) -> Vec<Observation> {
    let observed = observed(rows, loaded, knowledge);
    observed.into_iter().map(|row| row.observation).collect()
}

/// The same with the places of their rows.
pub fn observed(rows: &[Asked], loaded: &Loaded, knowledge: &Knowledge) -> Vec<Observed> {
    let models = models_of(rows, loaded);
    let each = rows.iter().enumerate().filter_map(|(row, asked)| {
        let question = &asked.question;
        let architecture = models.get(&question.model)?.as_ref().ok()?;
        let reading = read(question, architecture, &loaded.catalogue).ok()?;
        let constants = knowledge.constants(reading.setup.engine.kind);
        let scale = if question.unit == "ms" { 1e-3 } else { 1.0 };
        let measured = question.value.filter(|value| *value > 0.0)? * scale;
        let outcome = solve(&reading, constants)?;
        let predicted = figure(&reading, &outcome, constants);
        let residual = (measured / predicted).ln();
        let named = canonical(question, loaded);
        residual.is_finite().then(|| Observed {
            row,
            observation: Observation {
                predicted: Some(predicted),
                ..observation(&named, &reading, Some(&outcome), residual)
            },
        })
    });
    each.collect()
}

/// The file of constants that the binary carries, with what they were fitted on.
///
/// # Errors
/// Never in a release: a test reads it.
pub fn file() -> anyhow::Result<ConstantsFile> {
    read_file("catalogue/constants.toml", EMBEDDED)
}

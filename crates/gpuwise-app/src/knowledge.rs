//! What predictions rest on: the fitted constants that the binary carries, and the user's own rows.

use crate::{
    catalogue::{self, Loaded, OwnRows, user_directory},
    error::Problem,
    held_back,
    operators::measured,
    questions::{Rows, models_of, read_tables, read_text_table},
};
use gpuwise_lab::{
    fitting::{ConstantsFile, read_file, read_knowledge},
    observed,
};
use gpuwise_size::knowledge::Knowledge;
use std::path::PathBuf;

/// Where a user's measured rows are kept.
pub fn feedback_file() -> Option<PathBuf> {
    user_directory().map(|directory| directory.join("measured.csv"))
}

/// The constants, corrected by the user's rows where there are any.
///
/// # Errors
/// When the user's file of rows cannot be read.
pub fn load(loaded: &Loaded) -> anyhow::Result<Knowledge> {
    let mut knowledge = fitted(loaded)?;
    let mut rows = Vec::new();
    if let Some(file) = feedback_file().filter(|file| file.is_file()) {
        rows = read_tables(std::slice::from_ref(&file)).map_err(|error| {
            Problem::new("the rows that were measured here cannot be read")
                .because(error)
                .hint(format!("correct or remove {}", file.display()))
        })?;
    }
    for text in &loaded.measured {
        rows.extend(read_text_table("measured", text)?);
    }
    if rows.is_empty() {
        return Ok(knowledge);
    }
    let models = models_of(&rows, loaded);
    let rows = Rows {
        asked: &rows,
        models: &models,
        loaded,
    };
    let observed = observed(rows, &knowledge);
    knowledge.feedback.observations = held_back::applied(rows.asked, &observed);
    Ok(knowledge)
}

/// The fitted constants: a file of the user's catalogue in place of the one that the binary carries.
///
/// # Errors
/// When the user's file cannot be read.
pub fn fitted(loaded: &Loaded) -> anyhow::Result<Knowledge> {
    let (file, text) = catalogue::file(loaded, OwnRows::Constants);
    read_knowledge(file, text, &measured(loaded)?)
}

/// The file of constants, with what they were fitted on.
///
/// # Errors
/// When the user's file cannot be read.
pub fn file(loaded: &Loaded) -> anyhow::Result<ConstantsFile> {
    let (file, text) = catalogue::file(loaded, OwnRows::Constants);
    read_file(file, text)
}

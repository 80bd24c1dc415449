//! What predictions rest on: the fitted constants that the binary carries, and the user's own rows.

use crate::{
    catalogue::{Loaded, user_directory},
    error::Problem,
    operators::measured,
    questions::{Rows, models_of, read_tables},
};
use gpuwise_lab::{
    fitting::{ConstantsFile, read_file, read_knowledge},
    observations,
};
use gpuwise_size::knowledge::Knowledge;
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
    let models = models_of(&rows, loaded);
    let rows = Rows {
        asked: &rows,
        models: &models,
        loaded,
    };
    knowledge.feedback.observations = observations(rows, &knowledge);
    Ok(knowledge)
}

/// The constants that the binary carries.
///
/// # Errors
/// Never in a release: a test reads them.
pub fn fitted() -> anyhow::Result<Knowledge> {
    read_knowledge("catalogue/constants.toml", EMBEDDED, &measured()?)
}

/// The file of constants that the binary carries, with what they were fitted on.
///
/// # Errors
/// Never in a release: a test reads it.
pub fn file() -> anyhow::Result<ConstantsFile> {
    read_file("catalogue/constants.toml", EMBEDDED)
}

//! Catalogue files to nouns: TOML for GPUs, CSV for what comes in long lists, JSON for models.
//!
//! Every row has a source, and every error names the file, the line or row, and the field.

mod balance;
mod costs;
mod engines;
mod evidence;
mod gpus;
mod media;
mod mig;
mod models;
mod networks;
mod recipes;
mod sharing;
pub mod tables;
mod training;

pub use balance::read_balance;
pub use costs::{cost_key, read_costs};
pub use engines::read_engine_facts;
pub use evidence::read_evidence;
pub use gpus::read_gpus;
pub use media::read_media_benchmarks;
pub use mig::read_mig_boards;
pub use models::{ModelCatalogue, ModelEntry, ResolveError};
pub use networks::{NetworkCatalogue, NetworkEntry, PartEntry};
pub use recipes::read_recipes;
pub use sharing::{read_sharing_means, read_vgpu_profiles};
pub use tables::{
    read_benchmarks, read_hosts, read_mig_profiles, read_offers, read_quality, read_size_classes,
};
pub use training::read_training_facts;

use crate::config::parse_lenient;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A row of a file and the noun that it becomes: `column: type => field`, or `=> field = value` of the
/// columns by their names.
macro_rules! row {
    ($(#[$meta:meta])* $name:ident => $noun:ty {
        $($(#[$column_meta:meta])* $column:ident: $kind:ty => $field:ident $(= $value:expr)?,)*
    }) => {
        #[derive(serde::Deserialize)]
        $(#[$meta])*
        struct $name {
            $($(#[$column_meta])* $column: $kind,)*
        }

        impl From<$name> for $noun {
            fn from(row: $name) -> Self {
                let $name { $($column,)* } = row;
                Self { $($field: row!(@ $column $($value)?),)* }
            }
        }
    };
    (@ $column:ident) => { $column };
    (@ $column:ident $value:expr) => { $value };
}
use row;

fn nouns<R, N: From<R>>(rows: impl IntoIterator<Item = R>) -> Vec<N> {
    rows.into_iter().map(N::from).collect()
}

/// The items of a JSON file that is a list of these.
fn listed(file: &str, text: &str, what: &str) -> Result<Vec<Value>, CatalogueError> {
    match parse_lenient(text) {
        Ok(Value::Array(items)) => Ok(items),
        Ok(_) => Err(CatalogueError::new(
            file,
            "file",
            format!("expected a list of {what}"),
        )),
        Err(error) => Err(CatalogueError::new(file, "file", error.to_string())),
    }
}

/// Up to three different ids, nearest first.
fn three<'e>(ranked: impl Iterator<Item = (usize, &'e str)>) -> Vec<String> {
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_unstable();
    let mut out: Vec<String> = Vec::new();
    for (_, id) in ranked {
        if out.len() < 3 && !out.iter().any(|known| known == id) {
            out.push(id.into());
        }
    }
    out
}

/// Reads a TOML file of the catalogue's kind.
///
/// # Errors
/// When the text is not of this form; with the line.
pub fn from_toml<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, CatalogueError> {
    toml::from_str(text).map_err(|error| {
        let place = format!("line {}", toml_line(text, &error));
        CatalogueError::new(file, place, error.message())
    })
}

/// The line, from 1, on which a TOML text is wrong.
pub fn toml_line(text: &str, error: &toml::de::Error) -> usize {
    let before = error.span().and_then(|span| text.get(..span.start));
    before.map_or(1, |before| before.matches('\n').count() + 1)
}

/// What is wrong with a catalogue file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {place}: {problem}")]
pub struct CatalogueError {
    /// The file as the user knows it.
    pub file: String,
    /// Line, or name of the row.
    pub place: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl CatalogueError {
    pub fn new(file: &str, place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            place: place.into(),
            problem: problem.into(),
        }
    }
}

//! Thresholds of findings that a user replaces: `findings.toml` of a catalogue of one's own.

use gpuwise_domain::profile::finding::Threshold;
use serde::{Deserialize, de::IgnoredAny};

/// A file of thresholds that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {what}")]
pub struct ThresholdsError {
    pub file: String,
    pub line: usize,
    pub what: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    threshold: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    value: f64,
    unit: Option<String>,
    /// For those who read the file.
    #[serde(default, rename = "meaning")]
    _meaning: IgnoredAny,
    #[serde(default, rename = "source")]
    _source: IgnoredAny,
}

/// Reads thresholds; `file` is named in errors; which names there are is asked by those who use
/// them.
///
/// # Errors
/// Where the text is no such TOML, with its line.
pub fn read(file: &str, text: &str) -> Result<Vec<Threshold>, ThresholdsError> {
    let parsed: File = toml::from_str(text).map_err(|error| ThresholdsError {
        file: file.to_owned(),
        line: crate::catalogue::toml_line(text, &error),
        what: error.message().to_owned(),
    })?;
    Ok(parsed
        .threshold
        .into_iter()
        .map(|row| Threshold {
            name: row.name,
            value: row.value,
            unit: row.unit,
        })
        .collect())
}

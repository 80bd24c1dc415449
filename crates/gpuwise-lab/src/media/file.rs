//! `media.toml`: fitted constants of diffusion, vision and embedding models, with what they were fitted on.

use anyhow::{Context as _, bail};
use gpuwise_size::media::{Constants, PARAMETERS};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MediaFile {
    /// Rows that it was fitted on, and how many different runs they are.
    pub rows: u64,
    pub runs: u64,
    /// Rows that were set aside, and numbers that could move.
    pub set_aside: u64,
    pub freedoms: u64,
    /// Generations of hardware among the rows.
    pub generations: Vec<String>,
    /// Factors of the 80 % range, on a generation that was measured and on any other.
    pub range: [f64; 2],
    pub far_range: [f64; 2],
    pub constant: Vec<ConstantRow>,
    #[serde(default)]
    pub error: Vec<ErrorRow>,
}

/// A constant: its value, and factors where they differ from 1.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConstantRow {
    pub key: String,
    pub value: f64,
    pub unit: String,
    pub meaning: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_generation: BTreeMap<String, f64>,
}

/// How well constants that were refitted without a GPU predict its rows.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ErrorRow {
    pub benchmark: String,
    pub metric: String,
    pub questions: u64,
    pub mean_percent: f64,
    pub median_percent: f64,
}

/// The constants in the text of `catalogue/media.toml`.
///
/// # Errors
/// When it is not of this form or misses a constant.
pub fn read_constants(file: &str, text: &str) -> anyhow::Result<Constants> {
    let read = toml::from_str(text).with_context(|| format!("{file}: no file of constants"))?;
    constants(&read).with_context(|| file.to_owned())
}

fn constants(file: &MediaFile) -> anyhow::Result<Constants> {
    let mut out = Constants {
        by_generation: file
            .generations
            .iter()
            .map(|name| (name.clone(), PARAMETERS.map(|_| 1.0)))
            .collect(),
        range: file.range.into(),
        far_range: file.far_range.into(),
        ..Constants::default()
    };
    for (at, info) in PARAMETERS.iter().enumerate() {
        let Some(row) = file.constant.iter().find(|row| row.key == info.key) else {
            bail!("constant {:?} is missing", info.key);
        };
        if !(row.value.is_finite() && row.value > 0.0) {
            bail!(
                "constant {:?} is {}; it must be positive",
                info.key,
                row.value
            );
        }
        out.values[at] = row.value;
        for (name, factors) in &mut out.by_generation {
            if let Some(factor) = row.by_generation.get(name) {
                factors[at] = *factor;
            }
        }
    }
    Ok(out)
}

/// Five significant digits: more would be noise, and the file is read by people.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

pub(crate) fn constant_rows(constants: &Constants) -> Vec<ConstantRow> {
    PARAMETERS
        .iter()
        .enumerate()
        .map(|(at, info)| ConstantRow {
            key: info.key.into(),
            value: rounded(constants.values[at]),
            unit: info.unit.into(),
            meaning: info.meaning.into(),
            by_generation: constants
                .by_generation
                .iter()
                .filter(|(_, factors)| (factors[at] - 1.0).abs() > 5e-5)
                .map(|(name, factors)| (name.clone(), rounded(factors[at])))
                .collect(),
        })
        .collect()
}

/// The text of the file.
pub(crate) fn write(file: &MediaFile) -> anyhow::Result<String> {
    let head = "# Fitted constants of diffusion, vision and embedding models. Written by `gpuwise calibrate --refit-media`;\n\
                # not edited by hand. Factors by generation multiply the value. Errors are of constants refitted\n\
                # without the row's GPU; rows are read and set aside by docs/decisions/0018.\n\n";
    Ok(format!("{head}{}", toml::to_string(file)?))
}

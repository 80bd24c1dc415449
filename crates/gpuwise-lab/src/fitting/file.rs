//! `constants.toml`: fitted constants with their ranges, what they were fitted on, and how well.

use anyhow::{Context, anyhow, bail};
use gpuwise_domain::{engine::EngineKind, estimate::Basis};
use gpuwise_operators::Operators;
use gpuwise_size::{
    constants::{Constants, PARAMETERS},
    knowledge::{
        ArchitectureClass, Cell, Cells, Feedback, FittedCell, Knowledge, MetricClass, Range,
        RangeRow, Ranges, Regime,
    },
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConstantsFile {
    /// Sets of constants: `serving`, and `local` for llama.cpp.
    pub set: Vec<ConstantSet>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConstantSet {
    pub name: String,
    /// Rows that it was fitted on, and how many different questions they ask.
    pub rows: u64,
    pub questions: u64,
    /// Timed matmuls beside them.
    pub matmuls: u64,
    /// Numbers that could move.
    pub freedoms: u64,
    pub generations: Vec<String>,
    pub buckets: Vec<String>,
    #[serde(default)]
    pub joints: Vec<String>,
    /// Tables that the rows come from, with their number.
    pub sources: BTreeMap<String, u64>,
    pub constant: Vec<ConstantRow>,
    #[serde(default)]
    pub cell: Vec<CellRow>,
    #[serde(default)]
    pub range: Vec<RangeCell>,
    #[serde(default)]
    pub error: Vec<ErrorRow>,
}

/// A constant: its base value, and factors where they differ from 1.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConstantRow {
    pub key: String,
    pub value: f64,
    pub unit: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_generation: BTreeMap<String, f64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_bucket: BTreeMap<String, f64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_joint: BTreeMap<String, f64>,
}

/// What was measured of a GPU under an engine version bucket.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellRow {
    pub gpu: String,
    /// Under what the constants of its silicon are kept.
    pub silicon: String,
    pub engine: String,
    pub bucket: String,
    /// Rows by class of architectures, weight format and kind of load: `dense fp8 served`.
    pub seen: BTreeMap<String, u64>,
}

/// Factors of an 80 % range.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangeCell {
    pub class: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bucket: String,
    /// The grade of the questions that it is for.
    pub basis: String,
    pub low: f64,
    pub high: f64,
    pub rows: u64,
    /// Groups that were left out for it.
    pub groups: u64,
}

/// How well constants predict what they have not seen.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorRow {
    /// What was left out: `configuration`, `gpu`, `model`, `engine`, `source`, or `nothing`.
    pub left_out: String,
    pub class: String,
    pub questions: u64,
    /// Mean and median of |predicted − measured| / measured, in percent.
    pub mean_percent: f64,
    pub median_percent: f64,
    /// Mean of ln(predicted / measured), in percent: 0 where too high and too low cancel.
    pub bias_percent: f64,
}

/// Reads the file as it is.
///
/// # Errors
/// When it is not of this form.
pub fn read_file(file: &str, text: &str) -> anyhow::Result<ConstantsFile> {
    toml::from_str(text).with_context(|| format!("{file} is not a file of constants"))
}

/// Reads the file into what predictions rest on.
///
/// # Errors
/// When it is not of this form or misses a constant.
pub fn read_knowledge(
    file: &str,
    text: &str,
    operators: &Arc<Operators>,
) -> anyhow::Result<Knowledge> {
    let parsed = read_file(file, text)?;
    let mut ranges = Ranges::default();
    let mut cells = Cells::default();
    let mut serving = None;
    let mut local = None;
    for set in &parsed.set {
        let mut constants = constants_of(file, set)?;
        if set.name == "serving" {
            constants.operators = Some(Arc::clone(operators));
        }
        ranges.rows.extend(ranges_of(file, set)?);
        cells.rows.extend(cells_of(file, set)?);
        match set.name.as_str() {
            "serving" => serving = Some(constants),
            "local" => local = Some(constants),
            other => bail!("{file}: set {other:?} is not known; it is `serving` or `local`"),
        }
    }
    Ok(Knowledge {
        serving: serving.ok_or_else(|| anyhow!("{file}: the set `serving` is missing"))?,
        local: local.ok_or_else(|| anyhow!("{file}: the set `local` is missing"))?,
        cells,
        ranges,
        feedback: Feedback::default(),
    })
}

fn constants_of(file: &str, set: &ConstantSet) -> anyhow::Result<Constants> {
    let names = |list: &'_ [String]| -> Vec<String> { list.to_vec() };
    let (generations, buckets) = (names(&set.generations), names(&set.buckets));
    let as_str = |list: &[String]| -> Vec<&'static str> { list.iter().map(|_| "").collect() };
    let mut constants =
        Constants::prior(&as_str(&generations), &as_str(&buckets)).with_joints(set.joints.clone());
    for (at, info) in PARAMETERS.iter().enumerate() {
        let Some(row) = set.constant.iter().find(|row| row.key == info.key) else {
            if info.is_local() && set.name != "local" {
                continue;
            }
            bail!(
                "{file}: constant {:?} is missing in set {:?}",
                info.key,
                set.name
            );
        };
        constants.base[at] = logarithm(file, &row.key, row.value)?;
        for (index, generation) in generations.iter().enumerate() {
            if let Some(factor) = row.by_generation.get(generation) {
                constants.by_generation[at][index] = logarithm(file, &row.key, *factor)?;
            }
        }
        for (index, bucket) in buckets.iter().enumerate() {
            if let Some(factor) = row.by_bucket.get(bucket) {
                constants.by_bucket[at][index] = logarithm(file, &row.key, *factor)?;
            }
        }
        for (index, joint) in set.joints.iter().enumerate() {
            if let Some(factor) = row.by_joint.get(joint) {
                constants.by_joint[at][index] = logarithm(file, &row.key, *factor)?;
            }
        }
    }
    constants.generations = generations;
    constants.buckets = buckets;
    Ok(constants)
}

fn logarithm(file: &str, key: &str, value: f64) -> anyhow::Result<f64> {
    if value.is_finite() && value > 0.0 {
        return Ok(libm::log(value));
    }
    bail!("{file}: constant {key:?} is {value}; it must be positive")
}

fn ranges_of(file: &str, set: &ConstantSet) -> anyhow::Result<Vec<RangeRow>> {
    set.range
        .iter()
        .map(|cell| {
            let class = MetricClass::by_key(&cell.class)
                .ok_or_else(|| anyhow!("{file}: metric class {:?} is not known", cell.class))?;
            let basis = [Basis::Calibrated, Basis::Transferred, Basis::Extrapolated]
                .into_iter()
                .find(|basis| basis.name() == cell.basis)
                .ok_or_else(|| anyhow!("{file}: basis {:?} is not known", cell.basis))?;
            Ok(RangeRow {
                local: set.name == "local",
                class,
                bucket: cell.bucket.clone(),
                basis,
                range: Range {
                    low: cell.low,
                    high: cell.high,
                },
                rows: cell.rows,
                groups: cell.groups,
            })
        })
        .collect()
}

fn cells_of(file: &str, set: &ConstantSet) -> anyhow::Result<Vec<FittedCell>> {
    let mut out = Vec::new();
    for row in &set.cell {
        let engine = EngineKind::ALL
            .into_iter()
            .find(|kind| kind.name() == row.engine)
            .ok_or_else(|| anyhow!("{file}: engine {:?} is not known", row.engine))?;
        for (seen, rows) in &row.seen {
            let unknown = || anyhow!("{file}: {seen:?} is not `architecture format load`");
            let (architecture, rest) = seen.split_once(' ').ok_or_else(unknown)?;
            let (weights, regime) = rest.rsplit_once(' ').ok_or_else(unknown)?;
            out.push(FittedCell {
                cell: Cell {
                    gpu: row.gpu.clone(),
                    silicon: row.silicon.clone(),
                    engine: engine.name(),
                    bucket: row.bucket.clone(),
                    weights: weights.into(),
                    architecture: ArchitectureClass::by_key(architecture).ok_or_else(unknown)?,
                    regime: Regime::by_key(regime).ok_or_else(unknown)?,
                },
                rows: *rows,
            });
        }
    }
    Ok(out)
}

pub(crate) fn cell_rows(cells: &Cells) -> Vec<CellRow> {
    let mut out: BTreeMap<(&str, &str, &str, &str), BTreeMap<String, u64>> = BTreeMap::new();
    for FittedCell { cell, rows } in &cells.rows {
        let seen = format!(
            "{} {} {}",
            cell.architecture.key(),
            cell.weights,
            cell.regime.key()
        );
        *out.entry((&cell.gpu, &cell.silicon, cell.engine, &cell.bucket))
            .or_default()
            .entry(seen)
            .or_default() += rows;
    }
    out.into_iter()
        .map(|((gpu, silicon, engine, bucket), seen)| CellRow {
            gpu: gpu.into(),
            silicon: silicon.into(),
            engine: engine.into(),
            bucket: bucket.into(),
            seen,
        })
        .collect()
}

/// Five significant digits: more would be noise, and the file is read by people.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

pub(crate) fn constant_rows(constants: &Constants, set: &str) -> Vec<ConstantRow> {
    let factors = |names: &[String], logs: &[f64]| -> BTreeMap<String, f64> {
        names
            .iter()
            .zip(logs)
            .filter(|(_, log)| log.abs() > 5e-5)
            .map(|(name, log)| (name.clone(), rounded(log.exp())))
            .collect()
    };
    PARAMETERS
        .iter()
        .enumerate()
        .filter(|(_, info)| set == "local" || !info.is_local())
        .map(|(at, info)| ConstantRow {
            key: info.key.into(),
            value: rounded(constants.base[at].exp()),
            unit: info.unit.into(),
            by_generation: factors(&constants.generations, &constants.by_generation[at]),
            by_bucket: factors(&constants.buckets, &constants.by_bucket[at]),
            by_joint: factors(&constants.joints, &constants.by_joint[at]),
        })
        .collect()
}

pub(crate) fn range_cells(ranges: &Ranges) -> Vec<RangeCell> {
    ranges
        .rows
        .iter()
        .map(|row| RangeCell {
            class: row.class.key().into(),
            bucket: row.bucket.clone(),
            basis: row.basis.name().into(),
            low: rounded(row.range.low),
            high: rounded(row.range.high),
            rows: row.rows,
            groups: row.groups,
        })
        .collect()
}

/// The text of the file.
pub(crate) fn write(file: &ConstantsFile) -> anyhow::Result<String> {
    let head = "# Fitted constants of the speed model. Written by `gpuwise calibrate --refit`; not edited by hand.\n\
                # What each means and its prior: docs/reference/constants.md. Factors by generation and by\n\
                # engine version bucket multiply the value. Errors are of constants refitted without what was left out.\n\n";
    Ok(format!("{head}{}", toml::to_string(file)?))
}

//! Refitting everything from tables of rows.

use super::{
    Anchor, Evaluator, Folded, Folds, Material,
    file::{ConstantSet, ConstantsFile, ErrorRow, cell_rows, constant_rows, range_cells, write},
    folds::unique,
    ranges::ranges,
    read_anchors,
};
use crate::{FitInputs, Loaded, Rows};
use crate::{
    answer::read,
    fit::{LeaveOut, Sample, contradictory, freedom_count},
};
use gpuwise_domain::{engine::EngineKind, estimate::Basis};
use gpuwise_size::{
    constants::Constants,
    knowledge::{Knowledge, MetricClass},
};
use std::{collections::BTreeMap, sync::Arc};

/// A prediction by constants that had not seen its group.
#[derive(Debug, Clone)]
pub struct Unseen {
    /// In the row's unit.
    pub value: f64,
    pub identity: String,
    pub group: String,
    pub bucket: String,
    pub freedoms: usize,
    /// How it stands to the rows that stayed.
    pub basis: Basis,
    class: MetricClass,
    engine: EngineKind,
}

impl Unseen {
    /// With the range that is shown for such a row.
    pub fn with_range(&self, knowledge: &Knowledge) -> (f64, f64, f64) {
        let range = knowledge
            .ranges
            .get(self.class, self.engine, &self.bucket, self.basis);
        (self.value, self.value * range.low, self.value * range.high)
    }
}

/// Rows that can be fitted, with their places among those asked.
fn samples(rows: Rows<'_>, local: bool) -> (Vec<Sample<'_>>, Vec<usize>) {
    let Rows {
        asked,
        models,
        loaded,
    } = rows;
    let mut samples = Vec::new();
    let mut places = Vec::new();
    for (at, row) in asked.iter().enumerate() {
        let question = &row.question;
        let Some(Ok(architecture)) = models.get(&question.model) else {
            continue;
        };
        let Ok(reading) = read(question, architecture, &loaded.catalogue) else {
            continue;
        };
        let Some(value) = question.value.filter(|value| *value > 0.0) else {
            continue;
        };
        if reading.doubtful || reading.setup.engine_model().is_local() != local {
            continue;
        }
        let scale = if question.unit == "ms" { 1e-3 } else { 1.0 };
        let sample = Sample {
            source: row.source.clone(),
            question,
            reading,
            measured: value * scale,
        };
        if sample.defies_physics() {
            continue;
        }
        samples.push(sample);
        places.push(at);
    }
    consistent(samples, places)
}

/// Without runs whose rows contradict each other.
fn consistent(samples: Vec<Sample<'_>>, places: Vec<usize>) -> (Vec<Sample<'_>>, Vec<usize>) {
    let aside = contradictory(&samples, &Constants::prior(&[], &[]));
    let kept = samples.into_iter().zip(places).zip(aside);
    kept.filter_map(|(row, aside)| (!aside).then_some(row))
        .unzip()
}

fn anchors<'a>(tables: &[String], loaded: &'a Loaded) -> anyhow::Result<Vec<Anchor<'a>>> {
    let mut out = Vec::new();
    for table in tables {
        out.extend(read_anchors(table, &loaded.catalogue)?);
    }
    Ok(out)
}

fn material<'a>(
    rows: Rows<'a>,
    known: &FitInputs<'_>,
    local: bool,
) -> anyhow::Result<(Material<'a>, Vec<usize>)> {
    let (samples, places) = samples(rows, local);
    let anchors = if local {
        Vec::new()
    } else {
        anchors(known.matmuls, rows.loaded)?
    };
    let operators = Arc::clone(&known.operators);
    let material = Material {
        samples,
        anchors,
        operators,
    };
    Ok((material, places))
}

fn progress<'a>(
    known: &'a FitInputs<'_>,
    what: &'static str,
) -> impl Fn(&str, usize, usize) + use<'a> {
    move |group, number, of| (known.say)(&format!("{what}: {number} of {of}, without {group}"))
}

/// Predictions of all rows by constants fitted without their group, for each way of grouping;
/// `None` where a row cannot be fitted.
///
/// # Errors
/// When a table of timed matmuls cannot be read.
pub fn left_out(
    rows: Rows<'_>,
    known: &FitInputs<'_>,
    ways: &[LeaveOut],
) -> anyhow::Result<Vec<Vec<Option<Unseen>>>> {
    let mut out: Vec<Vec<Option<Unseen>>> = vec![vec![None; rows.asked.len()]; ways.len()];
    for local in [false, true] {
        let (material, places) = material(rows, known, local)?;
        if material.samples.is_empty() {
            continue;
        }
        (known.say)(&format!("fitting {} rows", material.samples.len()));
        let full = material.fit();
        let freedoms = freedom_count(&full, &material.rows(&full));
        let folds = Folds::new(&material, &full);
        for (by, out) in ways.iter().zip(&mut out) {
            let folded = folds.leave_out(*by, &progress(known, "refitting"));
            for (at, (sample, place)) in material.samples.iter().zip(&places).enumerate() {
                out[*place] = unseen(sample, &folded, at, freedoms);
            }
        }
    }
    Ok(out)
}

fn unseen(sample: &Sample<'_>, folded: &Folded, at: usize, freedoms: usize) -> Option<Unseen> {
    let value = folded.predicted[at];
    let scale = if sample.question.unit == "ms" {
        1e3
    } else {
        1.0
    };
    value.is_finite().then(|| Unseen {
        value: value * scale,
        identity: format!("{}|{}", sample.source, sample.identity()),
        group: folded.group[at].clone(),
        bucket: sample.reading.setup.bucket.key.into(),
        freedoms,
        basis: folded.basis[at],
        class: sample.class(),
        engine: sample.reading.setup.engine.kind,
    })
}

/// Refits the sets of constants that rows are given for, with their ranges, as the text of
/// `constants.toml`.
///
/// Sets that no row was measured of stay as they are shipped.
///
/// # Errors
/// When a table of timed matmuls cannot be read.
pub fn refit(
    rows: Rows<'_>,
    known: &FitInputs<'_>,
    shipped: &ConstantsFile,
) -> anyhow::Result<String> {
    let mut sets = Vec::new();
    for (name, local) in [("serving", false), ("local", true)] {
        let (material, _) = material(rows, known, local)?;
        if material.samples.is_empty() {
            sets.extend(shipped.set.iter().filter(|set| set.name == name).cloned());
            continue;
        }
        sets.push(set(name, &material, known));
    }
    write(&ConstantsFile { set: sets })
}

fn set(name: &str, material: &Material<'_>, known: &FitInputs<'_>) -> ConstantSet {
    (known.say)(&format!("fitting {name}: {} rows", material.samples.len()));
    let full = material.fit();
    (known.say)(&format!("slopes of {name}"));
    let folds = Folds::new(material, &full);
    let folded: Vec<Folded> = [
        (LeaveOut::Configuration, "configurations"),
        (LeaveOut::Gpu, "GPUs"),
        (LeaveOut::Model, "model families"),
        (LeaveOut::Source, "tables"),
    ]
    .into_iter()
    .map(|(by, what)| folds.leave_out(by, &progress(known, what)))
    .collect();
    let mut error = Vec::new();
    for one in &folded {
        error.extend(error_rows(material, one.by.name(), &one.predicted));
    }
    error.extend(error_rows(material, "nothing", &inside(material, &full)));
    let ranges = ranges(&material.samples, &folded, name == "local");
    let mut sources: BTreeMap<String, u64> = BTreeMap::new();
    for sample in &material.samples {
        *sources.entry(sample.source.clone()).or_default() += 1;
    }
    ConstantSet {
        name: name.into(),
        rows: material.samples.len() as u64,
        questions: unique(&material.samples).len() as u64,
        matmuls: material.anchors.len() as u64,
        freedoms: freedom_count(&full, &material.rows(&full)) as u64,
        generations: full.generations.clone(),
        buckets: full.buckets.clone(),
        joints: full.joints.clone(),
        sources,
        constant: constant_rows(&full, name),
        cell: cell_rows(&folds.cells()),
        range: range_cells(&ranges),
        error,
    }
}

fn inside(material: &Material<'_>, constants: &Constants) -> Vec<f64> {
    let all: Vec<usize> = (0..material.samples.len()).collect();
    let logarithms = Evaluator::new(material).logarithms(constants, &all);
    logarithms.into_iter().map(f64::exp).collect()
}

fn error_rows(material: &Material<'_>, left_out: &str, predicted: &[f64]) -> Vec<ErrorRow> {
    let unique = unique(&material.samples);
    MetricClass::ALL
        .into_iter()
        .filter_map(|class| {
            let ratios: Vec<f64> = unique
                .values()
                .filter(|(at, _)| {
                    material.samples[*at].class() == class && predicted[*at].is_finite()
                })
                .map(|(at, measured)| predicted[*at] / measured)
                .collect();
            let count = ratios.len() as f64;
            let mut errors: Vec<f64> = (ratios.iter())
                .map(|ratio| (ratio - 1.0).abs() * 100.0)
                .collect();
            errors.sort_by(f64::total_cmp);
            let median = *errors.get(errors.len() / 2)?;
            let bias = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / count;
            let tenth = |value: f64| (value * 10.0).round() / 10.0;
            Some(ErrorRow {
                left_out: left_out.into(),
                class: class.key().into(),
                questions: errors.len() as u64,
                mean_percent: tenth(errors.iter().sum::<f64>() / count),
                median_percent: tenth(median),
                bias_percent: tenth(bias * 100.0),
            })
        })
        .collect()
}

//! Refitting everything from tables of rows.

use super::{
    Anchor, Evaluator, Material, cross_validate, errors_to_ranges,
    file::{ConstantSet, ConstantsFile, ErrorRow, constant_rows, range_cells, write},
    folds::unique,
    is_local, read_anchors,
};
use crate::{
    catalogue::Loaded,
    output,
    questions::{Asked, Models, read_text},
};
use gpuwise_size::{
    answer::read,
    constants::Constants,
    fit::{LeaveOut, Sample, freedom_count},
    knowledge::{Knowledge, MetricClass, Ranges},
};
use std::{collections::BTreeMap, path::PathBuf};

/// What is left out together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LeftOut {
    /// All rows of a GPU
    Gpu,
    /// All rows of an architecture family, quantized variants included
    Model,
    /// All rows of an engine (as its constants are kept)
    Engine,
    /// A fifth of the configurations
    Configuration,
}

impl LeftOut {
    pub(crate) const fn name(self) -> &'static str {
        self.of().name()
    }

    const fn of(self) -> LeaveOut {
        match self {
            Self::Gpu => LeaveOut::Gpu,
            Self::Model => LeaveOut::Model,
            Self::Engine => LeaveOut::Engine,
            Self::Configuration => LeaveOut::Configuration,
        }
    }
}

/// A prediction by constants that had not seen its group.
#[derive(Debug, Clone)]
pub(crate) struct Unseen {
    /// In the row's unit.
    pub(crate) value: f64,
    pub(crate) identity: String,
    pub(crate) group: String,
    pub(crate) profile: String,
    pub(crate) freedoms: usize,
    class: MetricClass,
}

impl Unseen {
    /// With the range that is shown for such a row.
    pub(crate) fn with_range(&self, knowledge: &Knowledge, by: LeftOut) -> (f64, f64, f64) {
        let far = by != LeftOut::Configuration;
        let range = knowledge.ranges.get(self.class, &self.profile, far);
        (self.value, self.value * range.low, self.value * range.high)
    }
}

/// Rows that can be fitted, with their places among those asked.
fn samples<'a>(
    asked: &'a [Asked],
    models: &'a Models,
    loaded: &'a Loaded,
    local: bool,
) -> (Vec<Sample<'a>>, Vec<usize>) {
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
        if reading.doubtful || is_local(reading.setup.engine.kind) != local {
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
    (samples, places)
}

fn anchors<'a>(files: &[PathBuf], loaded: &'a Loaded) -> anyhow::Result<Vec<Anchor<'a>>> {
    let mut out = Vec::new();
    for file in files {
        out.extend(read_anchors(&read_text(file)?, &loaded.catalogue)?);
    }
    Ok(out)
}

fn material<'a>(
    asked: &'a [Asked],
    models: &'a Models,
    loaded: &'a Loaded,
    matmuls: &[PathBuf],
    local: bool,
) -> anyhow::Result<(Material<'a>, Vec<usize>)> {
    let (samples, places) = samples(asked, models, loaded, local);
    let anchors = if local {
        Vec::new()
    } else {
        anchors(matmuls, loaded)?
    };
    Ok((Material { samples, anchors }, places))
}

fn progress(what: &'static str) -> impl Fn(&str, usize, usize) {
    move |group, number, of| output::say(&format!("{what}: {number} of {of}, without {group}"))
}

/// Predictions of all rows by constants refitted without their group; `None` where a row cannot be
/// fitted.
pub(crate) fn left_out(
    asked: &[Asked],
    models: &Models,
    loaded: &Loaded,
    matmuls: &[PathBuf],
    by: LeftOut,
) -> anyhow::Result<Vec<Option<Unseen>>> {
    let mut out: Vec<Option<Unseen>> = vec![None; asked.len()];
    for local in [false, true] {
        let (material, places) = material(asked, models, loaded, matmuls, local)?;
        if material.samples.is_empty() {
            continue;
        }
        let full = material.fit(None, None);
        let freedoms = freedom_count(&full, &material.rows(&full));
        let folded = cross_validate(&material, &full, by.of(), &progress("refitting"));
        for ((sample, place), value) in material.samples.iter().zip(places).zip(folded.predicted) {
            let scale = if sample.question.unit == "ms" {
                1e3
            } else {
                1.0
            };
            out[place] = value.is_finite().then(|| Unseen {
                value: value * scale,
                identity: format!("{}|{}", sample.source, sample.identity()),
                group: sample.fold(by.of()),
                profile: sample.reading.setup.profile.clone(),
                freedoms,
                class: sample.class(),
            });
        }
    }
    Ok(out)
}

/// Refits the sets of constants that rows are given for, with their ranges, as the text of
/// `constants.toml`.
pub(crate) fn refit(
    asked: &[Asked],
    models: &Models,
    loaded: &Loaded,
    matmuls: &[PathBuf],
) -> anyhow::Result<String> {
    let mut sets = Vec::new();
    for (name, local) in [("serving", false), ("local", true)] {
        let (material, _) = material(asked, models, loaded, matmuls, local)?;
        if material.samples.is_empty() {
            // Nothing was measured of these engines: their constants stay.
            let shipped = crate::knowledge::file()?.set;
            sets.extend(shipped.into_iter().filter(|set| set.name == name));
            continue;
        }
        sets.push(set(name, &material));
    }
    write(&ConstantsFile { set: sets })
}

fn set(name: &str, material: &Material<'_>) -> ConstantSet {
    output::say(&format!("fitting {name}: {} rows", material.samples.len()));
    let full = material.fit(None, None);
    let mut error = Vec::new();
    let mut ranges = Ranges::default();
    if !material.samples.is_empty() {
        let fold =
            |by: LeaveOut, what: &'static str| cross_validate(material, &full, by, &progress(what));
        let configurations = fold(LeaveOut::Configuration, "configurations");
        let gpus = fold(LeaveOut::Gpu, "GPUs");
        let families = fold(LeaveOut::Model, "model families");
        ranges = errors_to_ranges(
            &material.samples,
            &configurations.predicted,
            &[&gpus.predicted, &families.predicted],
        );
        for (by, folded) in [
            (LeaveOut::Configuration, &configurations),
            (LeaveOut::Gpu, &gpus),
            (LeaveOut::Model, &families),
        ] {
            error.extend(error_rows(material, by.name(), &folded.predicted));
        }
        error.extend(error_rows(material, "nothing", &inside(material, &full)));
    }
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
        profiles: full.profiles.clone(),
        sources,
        constant: constant_rows(&full, name),
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
            let mut errors: Vec<f64> = unique
                .values()
                .filter(|(at, _)| {
                    material.samples[*at].class() == class && predicted[*at].is_finite()
                })
                .map(|(at, measured)| (predicted[*at] - measured).abs() / measured * 100.0)
                .collect();
            errors.sort_by(f64::total_cmp);
            let median = *errors.get(errors.len() / 2)?;
            let tenth = |value: f64| (value * 10.0).round() / 10.0;
            Some(ErrorRow {
                left_out: left_out.into(),
                class: class.key().into(),
                questions: errors.len() as u64,
                mean_percent: tenth(errors.iter().sum::<f64>() / errors.len() as f64),
                median_percent: tenth(median),
            })
        })
        .collect()
}

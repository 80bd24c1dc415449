//! Judging constants on what they have not seen.

use super::{Evaluator, Material};
use gpuwise_size::{
    constants::Constants,
    fit::{LeaveOut, Sample},
    knowledge::{MetricClass, Range, RangeRow, Ranges},
};
use std::collections::{BTreeMap, BTreeSet};

/// Steps of a fold's fit, from where the fit of all rows ended.
const FOLD_STEPS: usize = 6;
/// Unique rows below which an engine profile gets no range of its own.
const OWN_RANGE: usize = 60;

/// Predictions that had not seen their group.
pub(crate) struct Folded {
    /// The predicted value of each sample in SI units; NaN where there is none.
    pub(crate) predicted: Vec<f64>,
}

/// Leaves out one group after another, refits everything without it, and predicts it.
pub(crate) fn cross_validate(
    material: &Material<'_>,
    full: &Constants,
    by: LeaveOut,
    progress: &dyn Fn(&str, usize, usize),
) -> Folded {
    let folds = folds_of(material, by);
    let groups: BTreeSet<&String> = folds.iter().collect();
    let mut predicted = vec![f64::NAN; material.samples.len()];
    for (number, group) in groups.iter().enumerate() {
        progress(group, number + 1, groups.len());
        // A GPU's timed matmuls are left out with its rows.
        let gpus: BTreeSet<&str> = (0..material.samples.len())
            .filter(|at| folds[*at] == **group)
            .map(|at| material.samples[at].reading.setup.device.gpu.name.as_str())
            .collect();
        let training = material.subset(
            |at| folds[at] != **group,
            |anchor| by != LeaveOut::Gpu || !gpus.contains(anchor.matmul.device.gpu.name.as_str()),
        );
        if training.samples.is_empty() {
            continue;
        }
        let constants = training.fit(Some(full), Some(FOLD_STEPS));
        let left: Vec<usize> = (0..material.samples.len())
            .filter(|at| folds[*at] == **group)
            .collect();
        let values = Evaluator::new(material).logarithms(&constants, &left);
        for (at, value) in left.iter().zip(values) {
            predicted[*at] = value.exp();
        }
    }
    Folded { predicted }
}

/// Each sample's group. Groups of fewer rows than a hundredth of all are left out together: they
/// hardly move the constants, and each would cost a fit.
fn folds_of(material: &Material<'_>, by: LeaveOut) -> Vec<String> {
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for sample in &material.samples {
        *sizes.entry(sample.fold(by)).or_default() += 1;
    }
    let least = material.samples.len() / 100;
    material
        .samples
        .iter()
        .map(|sample| {
            let fold = sample.fold(by);
            if sizes.get(&fold).is_some_and(|size| *size < least) {
                "the small groups".into()
            } else {
                fold
            }
        })
        .collect()
}

/// Ranges from errors on configurations left out, and wider ones from whole GPUs and models left out.
pub(crate) fn errors_to_ranges(samples: &[Sample<'_>], near: &[f64], far: &[&[f64]]) -> Ranges {
    let mut rows = Vec::new();
    let unique = unique(samples);
    for class in MetricClass::ALL {
        let residuals = |predicted: &[f64], profile: Option<&str>| -> Vec<f64> {
            unique
                .values()
                .filter(|(at, _)| samples[*at].class() == class)
                .filter(|(at, _)| profile.is_none_or(|p| samples[*at].reading.setup.profile == p))
                .filter(|(at, _)| predicted[*at].is_finite())
                .map(|(at, measured)| (measured / predicted[*at]).ln())
                .collect()
        };
        let mut push = |profile: &str, extrapolated: bool, values: Vec<f64>| {
            if let Some(range) = range(&values) {
                rows.push(RangeRow {
                    class,
                    profile: profile.into(),
                    extrapolated,
                    range,
                    rows: values.len() as u64,
                });
            }
        };
        push("", false, residuals(near, None));
        let wide: Vec<f64> = far
            .iter()
            .flat_map(|predicted| residuals(predicted, None))
            .collect();
        push("", true, wide);
        let profiles: BTreeSet<&str> = samples
            .iter()
            .map(|s| s.reading.setup.profile.as_str())
            .collect();
        for profile in profiles {
            let own = residuals(near, Some(profile));
            if own.len() >= OWN_RANGE {
                push(profile, false, own);
            }
        }
    }
    Ranges { rows }
}

/// The first sample of each question and the geometric mean of its measured values.
pub(crate) fn unique(samples: &[Sample<'_>]) -> BTreeMap<String, (usize, f64)> {
    let mut sums: BTreeMap<String, (usize, f64, f64)> = BTreeMap::new();
    for (at, sample) in samples.iter().enumerate() {
        let entry = sums.entry(sample.identity()).or_insert((at, 0.0, 0.0));
        entry.1 += sample.measured.ln();
        entry.2 += 1.0;
    }
    sums.into_iter()
        .map(|(key, (at, sum, count))| (key, (at, (sum / count).exp())))
        .collect()
}

/// The 10 % and 90 % quantiles, opened a little for what is finite in the sample.
fn range(values: &[f64]) -> Option<Range> {
    if values.len() < 8 {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quantile = |fraction: f64| {
        let at = fraction * (sorted.len() - 1) as f64;
        let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
        below + (above - below) * at.fract()
    };
    let widen = 1.0 + 1.0 / (values.len() as f64).sqrt() * 0.5;
    Some(Range {
        low: (quantile(0.09) * widen).exp().min(0.98),
        high: (quantile(0.91) * widen).exp().max(1.02),
    })
}

//! Ranges by conformal prediction: quantiles of ln(measured / predicted) over rows that the
//! predicting constants had not seen, for each grade of basis over the rows that had that grade
//! without what was left out.
//!
//! Rows of one GPU, family or table err together, and some have thousands of rows. So groups count
//! alike, small ones less (`1 / (rows + SHRINK)` for each of their rows), and quantiles are taken
//! further out for what is finite: by a row, and by a part of a group, for the next question comes
//! from another group.

use super::Folded;
use crate::fit::{LeaveOut, Sample};
use gpuwise_domain::estimate::Basis;
use gpuwise_size::knowledge::{MetricClass, Range, RangeRow, Ranges};
use std::collections::{BTreeMap, BTreeSet};

/// A group of so many rows counts half of what a large one does.
const SHRINK: f64 = 20.0;
/// How much of a group the question itself counts as, beyond all rows: of a whole group nothing
/// finite would cover 80 % with fewer than ten groups.
const NEW_GROUP: f64 = 0.2;
/// What an engine version bucket needs for a range of its own.
const OWN_ROWS: usize = 40;
const OWN_GROUPS: usize = 3;
/// Fewer rows say nothing.
const LEAST_ROWS: usize = 8;
/// The grades, from firm to loose.
const GRADES: [Basis; 3] = [Basis::Calibrated, Basis::Transferred, Basis::Extrapolated];

/// A residual that tells of a grade.
#[derive(Debug, Clone)]
struct Residual<'a> {
    class: MetricClass,
    bucket: &'a str,
    basis: Basis,
    /// What was left out, and which; of configurations, the table and the GPU.
    group: (&'static str, &'a str, &'a str),
    /// ln(measured / predicted)
    value: f64,
}

/// Every question's residuals, once for each kind of folds, under the grade that they tell of.
fn residuals<'a>(samples: &'a [Sample<'_>], folds: &'a [Folded]) -> Vec<Residual<'a>> {
    let mut questions: BTreeMap<(&str, String), (usize, f64, f64)> = BTreeMap::new();
    for (at, sample) in samples.iter().enumerate() {
        let entry = questions
            .entry((&sample.source, sample.identity()))
            .or_insert((at, 0.0, 0.0));
        entry.1 += sample.measured.ln();
        entry.2 += 1.0;
    }
    let mut out = Vec::new();
    for folded in folds {
        for (at, sum, count) in questions.values() {
            let predicted = folded.predicted[*at];
            let Some(basis) = tells_of(folded.by, folded.basis[*at]) else {
                continue;
            };
            if !predicted.is_finite() || predicted <= 0.0 {
                continue;
            }
            out.push(Residual {
                class: samples[*at].class(),
                bucket: samples[*at].reading.setup.bucket.key,
                basis,
                group: match folded.by {
                    LeaveOut::Configuration => (
                        folded.by.name(),
                        &samples[*at].source,
                        &samples[*at].reading.setup.device.gpu.name,
                    ),
                    by => (by.name(), &folded.group[*at], ""),
                },
                value: sum / count - predicted.ln(),
            });
        }
    }
    out
}

/// Of which grade a fold's rows tell: that which they had by the rows that stayed. Rows of
/// configurations tell of calibrated figures alone, and rows of families of looser ones alone.
fn tells_of(by: LeaveOut, basis: Basis) -> Option<Basis> {
    let told = match by {
        LeaveOut::Configuration => basis == Basis::Calibrated,
        LeaveOut::Model | LeaveOut::Engine => basis > Basis::Calibrated,
        LeaveOut::Gpu | LeaveOut::Source => true,
    };
    told.then_some(basis)
}

/// The ranges that residuals of all folds give.
pub(crate) fn ranges(samples: &[Sample<'_>], folds: &[Folded], local: bool) -> Ranges {
    let residuals = residuals(samples, folds);
    let buckets: BTreeSet<&str> = residuals.iter().map(|one| one.bucket).collect();
    let mut rows = Vec::new();
    for class in MetricClass::ALL {
        for bucket in core::iter::once("").chain(buckets.iter().copied()) {
            // A looser grade is never narrower than a firmer one.
            let mut firmer: Option<Range> = None;
            for basis in GRADES {
                let values: Vec<&Residual<'_>> = residuals
                    .iter()
                    .filter(|one| one.class == class && one.basis == basis)
                    .filter(|one| bucket.is_empty() || one.bucket == bucket)
                    .collect();
                let groups = groups(&values);
                let (least_rows, least_groups) = if bucket.is_empty() {
                    (LEAST_ROWS, 1)
                } else {
                    (OWN_ROWS, OWN_GROUPS)
                };
                if values.len() < least_rows || groups < least_groups {
                    continue;
                }
                let range = range(&values);
                let range = firmer.map_or(range, |firmer| range.joined(firmer));
                firmer = Some(range);
                rows.push(RangeRow {
                    local,
                    class,
                    bucket: bucket.into(),
                    basis,
                    range,
                    rows: values.len() as u64,
                    groups: groups as u64,
                });
            }
        }
    }
    Ranges { rows }
}

fn groups(values: &[&Residual<'_>]) -> usize {
    let names: BTreeSet<_> = values.iter().map(|one| one.group).collect();
    names.len()
}

/// The 10 % and 90 % quantiles over groups that count alike.
fn range(values: &[&Residual<'_>]) -> Range {
    let mut sizes: BTreeMap<_, f64> = BTreeMap::new();
    for one in values {
        *sizes.entry(one.group).or_default() += 1.0;
    }
    let mut weighted: Vec<(f64, f64)> = values
        .iter()
        .map(|one| (one.value, 1.0 / (sizes[&one.group] + SHRINK)))
        .collect();
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = weighted.iter().map(|(_, weight)| weight).sum();
    let squares: f64 = weighted.iter().map(|(_, weight)| weight * weight).sum();
    // The question itself lies beyond all rows, with the weight of one and that part of a group.
    let own = squares / total + NEW_GROUP * total / (sizes.len() as f64 + 1.0);
    let beyond = (0.1 * (total + own) - own).max(0.0);
    let low = quantile(weighted.iter().copied(), beyond);
    let high = quantile(weighted.iter().rev().copied(), beyond);
    Range {
        low: low.exp().min(0.98),
        high: high.exp().max(1.02),
    }
}

/// The first value with more than so much weight up to it.
fn quantile(weighted: impl Iterator<Item = (f64, f64)>, beyond: f64) -> f64 {
    let mut sum = 0.0;
    let mut last = f64::NAN;
    for (value, weight) in weighted {
        sum += weight;
        last = value;
        if sum > beyond {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn residual(group: &'static str, value: f64) -> Residual<'static> {
        Residual {
            class: MetricClass::Tpot,
            bucket: "vllm",
            basis: Basis::Calibrated,
            group: ("gpu", group, ""),
            value,
        }
    }

    fn of(rows: &[Residual<'_>]) -> Range {
        range(&rows.iter().collect::<Vec<_>>())
    }

    /// Twenty groups of fifty rows, evenly from -0.5 to 0.5.
    fn even() -> Vec<Residual<'static>> {
        let names = [
            "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q",
            "r", "s", "t",
        ];
        let rows = (0..1000).map(|at| residual(names[at % 20], at as f64 / 999.0 - 0.5));
        rows.collect()
    }

    #[test]
    fn eight_of_ten_rows_and_a_little_more_lie_inside() {
        let range = of(&even());
        let rows = even();
        let inside = rows
            .iter()
            .filter(|one| (range.low.ln()..=range.high.ln()).contains(&one.value))
            .count();
        assert!((800..860).contains(&inside), "{inside}");
    }

    #[test]
    fn a_group_of_many_rows_counts_as_one_group() {
        let mut rows = even();
        // One more group, of as many rows as all others, far off on one side.
        rows.extend((0..1000).map(|_| residual("large", 2.0)));
        let high = of(&rows).high.ln();
        assert!(high < 2.0, "{high}");
        let low = of(&rows).low.ln();
        assert!((low + 0.40).abs() < 0.06, "{low}");
    }

    #[test]
    fn a_range_need_not_be_symmetric() {
        let rows: Vec<_> = even()
            .into_iter()
            .map(|one| Residual {
                value: one.value.max(-0.1),
                ..one
            })
            .collect();
        let range = of(&rows);
        assert!((range.low.ln() + 0.1).abs() < 1e-9 && range.high.ln() > 0.35);
    }

    #[test]
    fn few_groups_open_a_range_more_than_many() {
        let few: Vec<_> = even()
            .into_iter()
            .map(|one| Residual {
                group: ("gpu", if one.value < 0.0 { "a" } else { "b" }, ""),
                ..one
            })
            .collect();
        assert!(of(&few).high > of(&even()).high);
    }
}

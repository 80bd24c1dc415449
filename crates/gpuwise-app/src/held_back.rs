//! What rows of one's own are worth, on points that they have not seen.

use gpuwise_domain::{engine::EngineKind, estimate::Basis};
use gpuwise_lab::{Observed, QuestionRow, answer::engine_of};
use gpuwise_size::knowledge::{Feedback, MeasuredSystem, MetricClass, Observation, Range, Ranges};
use gpuwise_units::math;
use std::collections::{BTreeMap, BTreeSet};

/// With so many points or more, half are held back at once; with fewer, one after another.
const MANY: usize = 10;

/// One group of rows: a system, and a class of metrics.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeldBackGroup {
    pub(crate) gpu: String,
    pub(crate) model: String,
    pub(crate) weights: String,
    pub(crate) engine: String,
    pub(crate) class: MetricClass,
    /// Loads that were measured.
    pub(crate) points: usize,
    pub(crate) rows: usize,
    /// Mean of measured over predicted.
    pub(crate) ratio: f64,
    /// Mean error before, and of points that were held back after; `None` with one point.
    pub(crate) before: f64,
    pub(crate) after: Option<f64>,
    /// Whether predictions are corrected by them.
    pub(crate) applied: bool,
    /// Whether figures move with what they correct: nothing is faster than its silicon.
    pub(crate) moves: bool,
    /// Ends of the 80 % range before and after, as factors.
    pub(crate) range: [(f64, f64); 2],
}

/// A point is one load of one system: its rows are held back together.
fn point(asked: &QuestionRow) -> String {
    let q = &asked.question;
    format!(
        "{}|{}|{:?}|{:?}|{:?}|{:?}|{:?}|{:?}",
        q.model, q.gpu, q.tensor, q.pipeline, q.data, q.input, q.output, q.load
    )
}

/// Rows of a system and a class of metrics, each with its point.
type Members<'a> = Vec<(String, &'a Observation)>;
type Groups<'a> = BTreeMap<(MeasuredSystem, MetricClass), Members<'a>>;

/// A factor of a thousand either way, give or take so many times, is another unit.
const UNIT: f64 = 1e3;
const AROUND: f64 = 3.0;

/// Whether so many times what is predicted is another unit, and no error.
pub(crate) fn is_another_unit(factor: f64) -> bool {
    let off = (factor.ln().abs() / UNIT.ln()).round();
    off >= 1.0 && (factor.ln().abs() - off * UNIT.ln()).abs() <= AROUND.ln()
}

/// Rows that predictions are corrected by: not those that would make points worse that were held back, nor those that
/// are off by a unit.
pub(crate) fn applied(asked: &[QuestionRow], observed: &[Observed]) -> Vec<Observation> {
    let groups = groups(asked, observed).into_values();
    let applied = groups.filter(|rows| is_applied(rows, after(rows)));
    applied.flatten().map(|(_, seen)| seen.clone()).collect()
}

fn is_applied(rows: &Members<'_>, after: Option<f64>) -> bool {
    let mut residuals: Vec<f64> = rows.iter().map(|(_, seen)| seen.residual).collect();
    residuals.sort_by(f64::total_cmp);
    let middle = math::median(&residuals).unwrap_or(0.0);
    after.is_none_or(|after| after <= before(rows)) && !is_another_unit(middle.exp())
}

/// The mean error of rows as they are predicted without them.
fn before(rows: &Members<'_>) -> f64 {
    let errors = rows.iter().map(|(_, seen)| error(seen.residual));
    errors.sum::<f64>() / rows.len().max(1) as f64
}

fn groups<'a>(asked: &[QuestionRow], observed: &'a [Observed]) -> Groups<'a> {
    let mut groups = Groups::new();
    for row in observed {
        let seen = &row.observation;
        let key = (seen.system.clone(), seen.class);
        let place = asked.get(row.row).map_or(String::new(), point);
        groups.entry(key).or_default().push((place, seen));
    }
    groups
}

/// Tries rows on each other, by system and class of metrics; those groups that some row of `new` is of.
pub(crate) fn tried(
    asked: &[QuestionRow],
    observed: &[Observed],
    ranges: &Ranges,
    new: impl Fn(usize) -> bool,
) -> Vec<HeldBackGroup> {
    let fresh: Vec<&Observation> = observed
        .iter()
        .filter(|row| new(row.row))
        .map(|row| &row.observation)
        .collect();
    let is_new = |rows: &Members<'_>| {
        let mut rows = rows.iter();
        rows.any(|(_, seen)| fresh.iter().any(|one| std::ptr::eq(*one, *seen)))
    };
    groups(asked, observed)
        .into_iter()
        .filter(|(_, rows)| is_new(rows))
        .map(|((system, class), rows)| {
            let points: BTreeSet<&str> = rows.iter().map(|(place, _)| place.as_str()).collect();
            let count = rows.len() as f64;
            let after = after(&rows);
            let mean = rows.iter().map(|(_, seen)| seen.residual).sum::<f64>() / count;
            let bucket = &system.bucket;
            let kind = engine_of(bucket).map_or(EngineKind::Vllm, |engine| engine.kind);
            let range = ranges.get(class, kind, bucket, Basis::Calibrated);
            let all = Feedback {
                observations: rows.iter().map(|(_, seen)| (*seen).clone()).collect(),
            };
            // In the middle of those at its rows.
            let told = rows.iter().map(|(_, seen)| {
                let narrowed = all.narrowed(&system, class, &seen.place);
                narrowed.map_or(range, |narrowed| narrowed.of(range))
            });
            let told: Vec<_> = told.collect();
            let moves = rows
                .iter()
                .any(|(_, seen)| all.narrowed(&system, class, &seen.place).is_some());
            let middle = |end: fn(&Range) -> f64| {
                (told.iter().map(|range| end(range).ln()).sum::<f64>() / count).exp()
            };
            let named = shown(asked, observed, &system.model);
            HeldBackGroup {
                points: points.len(),
                rows: rows.len(),
                ratio: mean.exp(),
                before: before(&rows),
                after,
                applied: moves && is_applied(&rows, after),
                moves,
                range: [
                    (range.low, range.high),
                    (middle(|range| range.low), middle(|range| range.high)),
                ],
                gpu: system.gpu,
                model: named,
                weights: system.weights,
                engine: system.bucket,
                class,
            }
        })
        .collect()
}

/// A model as its rows name it, without its publisher: observations fold names.
fn shown(asked: &[QuestionRow], observed: &[Observed], model: &str) -> String {
    observed
        .iter()
        .find(|row| row.observation.system.model == model)
        .and_then(|row| asked.get(row.row))
        .map_or(model, |asked| asked.question.model.as_str())
        .rsplit('/')
        .next()
        .unwrap_or(model)
        .to_owned()
}

/// |predicted − measured| / measured, from ln(measured / predicted).
fn error(residual: f64) -> f64 {
    ((-residual).exp() - 1.0).abs()
}

/// The mean error of rows whose point was held back.
fn after(rows: &Members<'_>) -> Option<f64> {
    let points: BTreeSet<&str> = rows.iter().map(|(place, _)| place.as_str()).collect();
    if points.len() < 2 {
        return None;
    }
    let fold = |place: &str| {
        let number = points.iter().position(|known| *known == place).unwrap_or(0);
        if points.len() >= MANY {
            number % 2
        } else {
            number
        }
    };
    let errors: Vec<f64> = rows
        .iter()
        .map(|(place, seen)| {
            let held = fold(place);
            let others = Feedback {
                observations: rows
                    .iter()
                    .filter(|(other, _)| fold(other) != held)
                    .map(|(_, seen)| (*seen).clone())
                    .collect(),
            };
            error(left(seen, &others))
        })
        .collect();
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}

/// ln(measured / predicted) of a row as it is predicted with others, as far as its figure moves with steps.
fn left(seen: &Observation, others: &Feedback) -> f64 {
    let corrections = others.corrections(&seen.system, seen.place.layout);
    if seen.class.is_first_token() {
        return seen.linear - corrections.of_waits(&seen.place).ln();
    }
    let steps = corrections.of_steps(&seen.place).ln();
    let prompts = corrections.of_prompts(&seen.place).ln();
    seen.linear - seen.sensitivity.steps * steps - seen.sensitivity.prompts * prompts
}

#[cfg(test)]
mod tests {
    use super::is_another_unit;

    #[test]
    fn a_thousand_either_way_is_a_unit_and_twenty_are_not() {
        for (factor, expected) in [
            (1e-3, true),
            (4e-4, true),
            (1.9e3, true),
            (1.2e6, true),
            (1.0, false),
            (20.0, false),
            (0.05, false),
            (200.0, false),
        ] {
            assert_eq!(is_another_unit(factor), expected, "{factor}");
        }
    }
}

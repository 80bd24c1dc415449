//! What rows of one's own are worth, on points that they have not seen.

use gpuwise_domain::{engine::EngineKind, estimate::Basis};
use gpuwise_lab::{Observed, QuestionRow, answer::engine_of};
use gpuwise_size::knowledge::{Feedback, MetricClass, Observation, Ranges};
use std::collections::{BTreeMap, BTreeSet};

/// With so many points or more, half are held back at once; with fewer, one after another.
const MANY: usize = 10;

/// One group of rows: a system, and a class of metrics.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HeldBackGroup {
    pub(super) gpu: String,
    pub(super) model: String,
    pub(super) weights: String,
    pub(super) engine: String,
    pub(super) class: MetricClass,
    /// Loads that were measured.
    pub(super) points: usize,
    pub(super) rows: usize,
    /// Mean of measured over predicted.
    pub(super) ratio: f64,
    /// Mean error before, and of points that were held back after; `None` with one point.
    pub(super) before: f64,
    pub(super) after: Option<f64>,
    /// Ends of the 80 % range before and after, as factors.
    pub(super) range: [(f64, f64); 2],
}

/// A point is one load of one system: its rows are held back together.
fn point(asked: &QuestionRow) -> String {
    let q = &asked.question;
    format!(
        "{}|{}|{:?}|{:?}|{:?}|{:?}|{:?}|{:?}",
        q.model, q.gpu, q.tensor, q.pipeline, q.data, q.input, q.output, q.load
    )
}

/// GPU, model, weights, engine version bucket and class of metrics.
type System = (String, String, String, String, MetricClass);

/// Tries rows on each other, by system and class of metrics.
pub(super) fn tried(
    asked: &[QuestionRow],
    observed: &[Observed],
    ranges: &Ranges,
) -> Vec<HeldBackGroup> {
    let mut groups: BTreeMap<System, Vec<(String, &Observation)>> = BTreeMap::new();
    for row in observed {
        let seen = &row.observation;
        let key = (
            seen.gpu.clone(),
            seen.model.clone(),
            seen.weights.clone(),
            seen.bucket.clone(),
            seen.class,
        );
        let place = asked.get(row.row).map_or(String::new(), point);
        groups.entry(key).or_default().push((place, seen));
    }
    groups
        .into_iter()
        .map(|((gpu, model, weights, engine, class), rows)| {
            let points: BTreeSet<&str> = rows.iter().map(|(place, _)| place.as_str()).collect();
            let count = rows.len() as f64;
            let errors = rows.iter().map(|(_, seen)| error(seen.residual, 0.0));
            let mean = rows.iter().map(|(_, seen)| seen.residual).sum::<f64>() / count;
            let kind = engine_of(&engine).map_or(EngineKind::Vllm, |engine| engine.kind);
            let range = ranges.get(class, kind, &engine, Basis::Calibrated);
            let all = Feedback {
                observations: rows.iter().map(|(_, seen)| (*seen).clone()).collect(),
            };
            let widths: Vec<f64> = rows
                .iter()
                .filter_map(|(_, seen)| Some(all.correction(seen)?.width))
                .collect();
            let width = widths.iter().sum::<f64>() / widths.len().max(1) as f64;
            let named = shown(asked, observed, &model);
            HeldBackGroup {
                points: points.len(),
                rows: rows.len(),
                ratio: mean.exp(),
                before: errors.sum::<f64>() / count,
                after: after(&rows, &points),
                range: [
                    (range.low, range.high),
                    (range.low.powf(width), range.high.powf(width)),
                ],
                gpu,
                model: named,
                weights,
                engine,
                class,
            }
        })
        .collect()
}

/// A model as its rows name it, without its publisher: observations fold names.
fn shown(asked: &[QuestionRow], observed: &[Observed], model: &str) -> String {
    observed
        .iter()
        .find(|row| row.observation.model == model)
        .and_then(|row| asked.get(row.row))
        .map_or(model, |asked| asked.question.model.as_str())
        .rsplit('/')
        .next()
        .unwrap_or(model)
        .to_owned()
}

/// |predicted − measured| / measured after a shift, from ln(measured / predicted).
fn error(residual: f64, shift: f64) -> f64 {
    ((shift - residual).exp() - 1.0).abs()
}

/// The mean error of rows whose point was held back.
fn after(rows: &[(String, &Observation)], points: &BTreeSet<&str>) -> Option<f64> {
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
        .filter_map(|(place, seen)| {
            let held = fold(place);
            let others = Feedback {
                observations: rows
                    .iter()
                    .filter(|(other, _)| fold(other) != held)
                    .map(|(_, seen)| (*seen).clone())
                    .collect(),
            };
            Some(error(seen.residual, others.correction(seen)?.shift))
        })
        .collect();
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}

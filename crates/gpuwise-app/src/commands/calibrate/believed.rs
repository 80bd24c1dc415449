//! Whether what was measured can be what was asked for: not in another unit, and not read twice.

use super::keep::cells;
use crate::{error::Problem, held_back::is_another_unit, questions::QuestionRow};
use gpuwise_lab::Observed;
use gpuwise_size::knowledge::MetricClass;
use gpuwise_units::{math, significant};
use std::collections::{BTreeMap, BTreeSet};

/// So many times what is predicted, or one in so many, in the middle of a file, is no error of a prediction.
const IMPLAUSIBLE: f64 = 20.0;

/// Rows of one file, or of one metric of it: the first of them, and what each is of its prediction, as logarithms.
type Found<'a> = (&'a QuestionRow, Vec<f64>);

/// Refuses files whose figures are in another unit than they say, or of something else.
///
/// # Errors
/// Which file and metric, how far off, and what unit it is likely to be.
pub(super) fn plausible(asked: &[QuestionRow], observed: &[Observed]) -> anyhow::Result<()> {
    let mut files: BTreeMap<&str, Found<'_>> = BTreeMap::new();
    let mut metrics: BTreeMap<(&str, &str), Found<'_>> = BTreeMap::new();
    for one in observed {
        let Some(row) = asked.get(one.row) else {
            continue;
        };
        timed(row, one.observation.class)?;
        let residual = one.observation.residual;
        let metric = row.question.metric.as_str();
        let of_metric = metrics.entry((&row.source, metric));
        of_metric.or_insert((row, Vec::new())).1.push(residual);
        // Whatever gets faster, a rate rises and a time falls.
        let far = residual.abs();
        files
            .entry(&row.source)
            .or_insert((row, Vec::new()))
            .1
            .push(far);
    }
    for (row, residuals) in metrics.into_values() {
        let factor = middle(&residuals);
        if is_another_unit(factor) {
            return Err(refused(row, residuals.len(), factor));
        }
    }
    for (row, far) in files.into_values() {
        if middle(&far) > IMPLAUSIBLE {
            let own = observed.iter().filter(|one| {
                asked.get(one.row).is_some_and(|other| {
                    other.source == row.source && other.question.metric == row.question.metric
                })
            });
            let own: Vec<f64> = own.map(|one| one.observation.residual).collect();
            return Err(refused(row, own.len(), middle(&own)));
        }
    }
    Ok(())
}

/// Whether a time is in a unit of times: one that is not known would be taken for seconds.
fn timed(row: &QuestionRow, class: MetricClass) -> anyhow::Result<()> {
    let rate = matches!(
        class,
        MetricClass::Throughput
            | MetricClass::BatchThroughput
            | MetricClass::PromptSpeed
            | MetricClass::DecodeSpeed
    );
    let question = &row.question;
    if rate || matches!(question.unit.as_str(), "ms" | "s") {
        return Ok(());
    }
    let what = format!(
        "{}: {} of {} is in {:?}, and nothing is kept",
        row.source, question.metric, question.id, question.unit
    );
    Err(Problem::new(what)
        .hint("write `ms` or `s` as its unit")
        .into())
}

/// The median of factors that are given as logarithms.
fn middle(logarithms: &[f64]) -> f64 {
    let mut sorted = logarithms.to_vec();
    sorted.sort_by(f64::total_cmp);
    math::median(&sorted).unwrap_or(0.0).exp()
}

fn refused(row: &QuestionRow, rows: usize, factor: f64) -> anyhow::Error {
    let question = &row.question;
    let (metric, unit) = (&question.metric, &question.unit);
    let of = if rows == 1 {
        "1 row".to_owned()
    } else {
        format!("{rows} rows")
    };
    let times = if factor > 1e6 {
        "more than a million".to_owned()
    } else {
        significant(factor, 2)
    };
    let what = format!(
        "{}: {metric} is {} times what is predicted ({of}, the first {}): not believed, and nothing is kept",
        row.source, times, question.id
    );
    let hint = match likely(unit, factor) {
        Some(likely) => format!("the values look like {likely}, and the unit is said to be {unit}: write what they are"),
        None => "check model, GPU, engine, load and unit of these rows; a GPU that is slower than its catalogue row says is a row of your own".to_owned(),
    };
    Problem::new(what).hint(hint).into()
}

/// The unit in which such values are what is predicted.
fn likely(unit: &str, factor: f64) -> Option<&'static str> {
    let near = |of: f64| (factor / of).ln().abs() <= 3_f64.ln();
    match unit {
        "ms" if near(1e-3) => Some("seconds"),
        "ms" if near(1e3) => Some("microseconds"),
        "ms" if near(1e6) => Some("nanoseconds"),
        "s" if near(1e3) => Some("milliseconds"),
        "s" if near(1e6) => Some("microseconds"),
        "ms" | "s" => None,
        _ if near(1e-3) => Some("thousands of it"),
        _ if near(60.0) => Some("a number a minute"),
        _ if near(1e3) => Some("thousandths of it"),
        _ => None,
    }
}

/// Rows that are neither among those that were kept nor before among themselves, and how many of each file are.
///
/// # Errors
/// When what was kept is no table.
pub(super) fn once(
    kept: &str,
    asked: Vec<QuestionRow>,
) -> anyhow::Result<(Vec<QuestionRow>, BTreeMap<String, usize>)> {
    let mut seen: BTreeSet<Vec<String>> = BTreeSet::new();
    for record in csv::Reader::from_reader(kept.as_bytes()).records() {
        // A name says nothing of what was measured.
        seen.insert(record?.iter().skip(1).map(str::to_owned).collect());
    }
    let mut again = BTreeMap::new();
    let mut new = Vec::new();
    for row in asked {
        let measured = row.question.value.is_some();
        if measured && !seen.insert(cells(&row.question).into_iter().skip(1).collect()) {
            *again.entry(row.source.clone()).or_default() += 1;
        } else {
            new.push(row);
        }
    }
    Ok((new, again))
}

//! The refit of the constants, and each GPU left out in turn.

use super::{
    Walks, about,
    file::{ErrorRow, MediaFile, constant_rows, rounded, write},
    fit::{Row, fit, freedom_count},
    question::Reading,
    reading, walks,
};
use crate::{
    Loaded, QuestionRow,
    accuracy::{Compared, errors},
};
use anyhow::bail;
use gpuwise_size::media::Constants;
use std::collections::{BTreeMap, BTreeSet};

/// A row that can be answered, by its place among those asked.
struct Seen<'a> {
    place: usize,
    reading: Reading<'a>,
    measured: f64,
    /// Equal for rows of one run.
    run: String,
    /// The benchmark and its scenario.
    group: String,
}

/// A figure by constants that had not seen its GPU.
#[derive(Debug, Clone)]
pub struct Unseen {
    /// In the row's unit.
    pub value: f64,
    /// The benchmark, its scenario, and whether it was set aside.
    pub group: String,
    /// Whether a rate, of which a small one is a slow one.
    rate: bool,
}

impl Unseen {
    /// Puts the figure and the range that is shown for it into a row.
    pub fn put_into(&self, row: &mut Compared, constants: &Constants) {
        let (low, high) = constants.range;
        let (low, high) = if self.rate {
            (low, high)
        } else {
            (1.0 / high, 1.0 / low)
        };
        row.predicted = Some((self.value, self.value * low, self.value * high));
    }
}

fn seen<'a>(asked: &[QuestionRow], loaded: &'a Loaded, walks: &'a Walks) -> Vec<Seen<'a>> {
    let row = |(place, row): (usize, &QuestionRow)| {
        let question = &row.question;
        let reading = reading(question, loaded, walks)?.ok()?;
        let scale = if question.unit == "ms" { 1e-3 } else { 1.0 };
        let measured = question.value.filter(|value| *value > 0.0)? * scale;
        let benchmark = about(question, loaded)?.prefix.clone();
        let run = &reading.run;
        let scenario = question
            .extra("scenario")
            .unwrap_or("offline")
            .to_ascii_lowercase();
        Some(Seen {
            place,
            measured,
            run: format!(
                "{benchmark}|{}|{}|{:?}|{:?}",
                run.device.gpu.name, run.devices, run.numbers, run.wanted
            ),
            group: format!("{benchmark} {scenario}"),
            reading,
        })
    };
    asked.iter().enumerate().filter_map(row).collect()
}

/// Rows to fit: one for each run, weighted by the root of its number of rows.
fn rows<'a>(seen: &[&Seen<'a>]) -> Vec<Row<'a>> {
    let mut runs: BTreeMap<&str, (&Seen<'a>, f64, f64)> = BTreeMap::new();
    for one in seen {
        let entry = runs.entry(&one.run).or_insert((one, 0.0, 0.0));
        entry.1 += one.measured.ln();
        entry.2 += 1.0;
    }
    runs.into_values()
        .map(|(one, sum, count)| Row {
            run: one.reading.run.clone(),
            target: sum / count,
            weight: count.sqrt(),
        })
        .collect()
}

/// Each row's figure by constants that were refitted without its GPU; `None` where it is of another
/// kind or not answered.
pub fn left_out(asked: &[QuestionRow], loaded: &Loaded) -> Vec<Option<Unseen>> {
    let walks = walks(asked, loaded);
    let seen = seen(asked, loaded, &walks);
    let mut out = vec![None; asked.len()];
    let gpus: BTreeSet<&str> = seen.iter().map(|one| gpu(one)).collect();
    for name in gpus {
        let others: Vec<&Seen<'_>> = seen
            .iter()
            .filter(|one| gpu(one) != name && one.reading.set_aside.is_empty())
            .collect();
        let constants = fit(&rows(&others));
        for one in seen.iter().filter(|one| gpu(one) == name) {
            let rate = asked[one.place].question.unit != "ms";
            let scale = if rate { 1.0 } else { 1e3 };
            let aside = if one.reading.set_aside.is_empty() {
                ""
            } else {
                ", set aside"
            };
            out[one.place] = one.reading.run.figure(&constants).map(|figure| Unseen {
                value: figure * scale,
                group: format!("{}{aside}", one.group),
                rate,
            });
        }
    }
    out
}

fn gpu<'a>(one: &Seen<'a>) -> &'a str {
    &one.reading.run.device.gpu.name
}

/// Fits the constants to measured rows, and says how well they predict GPUs that they have not
/// seen: the text of `media.toml`.
///
/// # Errors
/// When there is no row to fit.
pub fn refit(asked: &[QuestionRow], loaded: &Loaded, say: &dyn Fn(&str)) -> anyhow::Result<String> {
    let walks = walks(asked, loaded);
    let seen = seen(asked, loaded, &walks);
    let kept: Vec<&Seen<'_>> = seen
        .iter()
        .filter(|one| one.reading.set_aside.is_empty())
        .collect();
    if kept.is_empty() {
        bail!("no row is about a diffusion, vision or embedding model");
    }
    let fitted = rows(&kept);
    let constants = fit(&fitted);
    say(&format!(
        "fitted {} runs; leaving out each GPU",
        fitted.len()
    ));
    let unseen = left_out(asked, loaded);
    let places: BTreeSet<usize> = kept.iter().map(|one| one.place).collect();
    let compared: Vec<(Compared, String)> = asked
        .iter()
        .enumerate()
        .filter(|(place, _)| places.contains(place))
        .filter_map(|(place, row)| {
            let Unseen { value, group, .. } = unseen[place].clone()?;
            Some((compared(row, value, &group), group))
        })
        .collect();
    let (range, far_range) = ranges(&compared);
    let file = MediaFile {
        rows: kept.len() as u64,
        runs: fitted.len() as u64,
        set_aside: (seen.len() - kept.len()) as u64,
        freedoms: freedom_count(&fitted) as u64,
        generations: constants
            .by_generation
            .iter()
            .map(|(name, _)| name.clone())
            .collect(),
        range,
        far_range,
        constant: constant_rows(&constants),
        error: error_rows(&compared),
    };
    write(&file)
}

fn compared(row: &QuestionRow, value: f64, benchmark: &str) -> Compared {
    let question = &row.question;
    Compared {
        identity: format!(
            "{:?}",
            gpuwise_domain::question::Question {
                id: String::new(),
                value: None,
                ..question.clone()
            }
        ),
        source: row.source.clone(),
        metric: question.metric.clone(),
        gpu: question.gpu.clone(),
        model: benchmark.into(),
        engine: question.engine.clone(),
        measured: question.value.unwrap_or(f64::NAN),
        predicted: Some((value, value, value)),
        basis: None,
        in_sample: false,
    }
}

fn error_rows(compared: &[(Compared, String)]) -> Vec<ErrorRow> {
    let groups: BTreeSet<(&str, &str)> = compared
        .iter()
        .map(|(row, benchmark)| (benchmark.as_str(), row.metric.as_str()))
        .collect();
    groups
        .into_iter()
        .map(|(benchmark, metric)| {
            let of = compared
                .iter()
                .filter(|(row, own)| own == benchmark && row.metric == metric);
            let errors = errors(of.map(|(row, _)| row));
            ErrorRow {
                benchmark: benchmark.into(),
                metric: metric.into(),
                questions: errors.questions as u64,
                mean_percent: rounded(errors.mean),
                median_percent: rounded(errors.median),
            }
        })
        .collect()
}

/// The 80 % range of measured over predicted on unseen GPUs; further where the generation is unseen
/// too: twice as far, in logarithm.
fn ranges(compared: &[(Compared, String)]) -> ([f64; 2], [f64; 2]) {
    let mut ratios: Vec<f64> = compared
        .iter()
        .filter_map(|(row, _)| {
            let (value, _, _) = row.predicted?;
            let ratio = row.measured / value;
            // A latency is slow where a rate is low.
            Some(if row.metric.starts_with("latency") {
                1.0 / ratio
            } else {
                ratio
            })
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = (share * (ratios.len().saturating_sub(1)) as f64).round() as usize;
        ratios.get(place).copied().unwrap_or(1.0)
    };
    let (low, high) = (at(0.1).min(0.9), at(0.9).max(1.1));
    (
        [rounded(low), rounded(high)],
        [rounded(low * low), rounded(high * high)],
    )
}

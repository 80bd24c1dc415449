//! Measured rows as trials: one workload on several GPUs, with what was predicted of each.

use super::tiers::price_of;
use crate::{catalogue::Loaded, questions::QuestionRow};
use gpuwise_domain::question::{Load, Question};
use gpuwise_measure::tier::workloads::{Performance, Trial};
use std::collections::{BTreeMap, BTreeSet};

/// A predicted value with its 80 % range.
pub(super) type Predicted = Option<(f64, f64, f64)>;

/// A value with its 80 % range.
type Range = (f64, f64, f64);

/// Standard deviations from end to end of an 80 % range of a normal.
const EIGHTY: f64 = 2.563_103_131;

/// Rates of throughput rows, without an SLO: MLPerf and static batches. `predicted` stands beside
/// `asked`.
pub(super) fn throughputs(
    asked: &[QuestionRow],
    predicted: &[Predicted],
    loaded: &Loaded,
) -> Vec<Trial> {
    let mut sums: BTreeMap<(String, String, Layout), Sum> = BTreeMap::new();
    for (row, predicted) in asked.iter().zip(predicted) {
        let q = &row.question;
        if !matches!(
            q.metric.as_str(),
            "output_throughput" | "total_token_throughput"
        ) {
            continue;
        }
        let (Some(key), Some(measured)) = (key(q, loaded), q.value) else {
            continue;
        };
        let group = format!(
            "{}|{}|{}|{}|{:?}|{:?}|{:?}",
            row.source,
            q.model,
            q.extra("benchmark").unwrap_or_default(),
            q.extra("scenario").unwrap_or_default(),
            whole(q.input).filter(|_| q.extra("scenario").is_none()),
            whole(q.output).filter(|_| q.extra("scenario").is_none()),
            in_flight(&q.load)
        );
        let sum = sums.entry((group, key, layout(q)));
        sum.or_insert_with(|| Sum::of(q)).add(measured, *predicted);
    }
    let stated: BTreeSet<(String, String)> = (sums.keys())
        .filter(|(.., layout)| *layout != Layout::default())
        .map(|(group, key, _)| (group.clone(), key.clone()))
        .collect();
    sums.into_iter()
        .filter_map(|((group, key, layout), sum)| {
            let told = (group, key);
            // What stood on several GPUs in a way that is not said is no candidate beside what is said.
            let vague = layout == Layout::default() && stated.contains(&told);
            (!vague).then(|| sum.trial(told.0, loaded))
        })
        .collect()
}

/// Ranks by tensor, pipeline and data, as far as they are stated.
type Layout = [Option<u32>; 3];

/// How several GPUs share a model; one GPU has but one layout, stated or not.
fn layout(q: &Question) -> Layout {
    [q.tensor, q.pipeline, q.data].map(|ranks| ranks.filter(|_| q.gpus != Some(1)))
}

/// Rows of mean first-token and per-token times at so many concurrent requests; the SLO has two
/// limits, in this order.
pub(super) fn latencies(
    asked: &[QuestionRow],
    predicted: &[Predicted],
    loaded: &Loaded,
) -> Vec<Trial> {
    let mut pairs: BTreeMap<(String, String), [Option<Sum>; 2]> = BTreeMap::new();
    for (row, predicted) in asked.iter().zip(predicted) {
        let q = &row.question;
        let which = match q.metric.as_str() {
            "ttft_mean" => 0,
            "tpot_mean" => 1,
            _ => continue,
        };
        let (Some(gpu), Some(measured)) = (loaded.catalogue.gpu(&q.gpu), q.value) else {
            continue;
        };
        let (Load::InFlight(_), Some(_), Some(_)) = (&q.load, q.input, q.output) else {
            continue;
        };
        let group = format!(
            "{}|{}|{:?}|{:?}",
            row.source,
            q.model,
            whole(q.input),
            whole(q.output)
        );
        let key = format!(
            "{}|{:?}|{:?}|{:?}|{:?}|{}|{}|{:?}|{:?}",
            gpu.name, q.gpus, q.tensor, q.pipeline, q.data, q.precision, q.engine, q.load, q.extra
        );
        let pair = pairs.entry((group, key)).or_default();
        if let Some(place) = pair.get_mut(which) {
            place
                .get_or_insert_with(|| Sum::of(q))
                .add(measured, *predicted);
        }
    }
    pairs
        .into_iter()
        .filter_map(|((group, _), [first, each])| pair(group, &first?, &each?, loaded))
        .collect()
}

fn pair(group: String, first: &Sum, each: &Sum, loaded: &Loaded) -> Option<Trial> {
    let in_flight = in_flight(&first.question.load)?;
    let output = first.question.output?;
    let performance = |ttft: Range, tpot: Range| Performance {
        rate: in_flight * output / (ttft.0 + (output - 1.0).max(0.0) * tpot.0),
        latencies: vec![ttft.0, tpot.0],
        ranges: [ttft, tpot].map(|(_, low, high)| (low, high)).to_vec(),
        // Most of a request is its output: the per-token range is the rate's.
        spread: (tpot.2 / tpot.1).ln() / EIGHTY,
    };
    let seconds = |milliseconds: f64| milliseconds * 1e-3;
    let exact = |sum: &Sum| {
        let value = seconds(sum.measured());
        (value, value, value)
    };
    let measured = performance(exact(first), exact(each));
    let ranged = |sum: &Sum| {
        let (value, low, high) = sum.predicted()?;
        Some((seconds(value), seconds(low), seconds(high)))
    };
    let predicted = ranged(first)
        .zip(ranged(each))
        .map(|(ttft, tpot)| performance(ttft, tpot));
    let mut trial = first.trial(group, loaded);
    trial.measured = measured;
    trial.predicted = predicted;
    Some(trial)
}

fn whole(value: Option<f64>) -> Option<u64> {
    value.map(|value| value.round() as u64)
}

fn in_flight(load: &Load) -> Option<f64> {
    match load {
        Load::InFlight(count) => Some(*count),
        _ => None,
    }
}

/// Rows that are one candidate but for their layout: a GPU, a count, a precision and an engine, whoever
/// measured it. The software is told by its first word, for submitters list versions of everything.
fn key(q: &Question, loaded: &Loaded) -> Option<String> {
    let gpu = loaded.catalogue.gpu(&q.gpu)?;
    let engine = q.engine.split([' ', ',']).next().unwrap_or_default();
    Some(format!(
        "{}|{:?}|{}|{}",
        gpu.name,
        q.gpus,
        q.precision,
        engine.to_lowercase()
    ))
}

/// Rows of one candidate: geometric means.
struct Sum {
    question: Question,
    measured: f64,
    rows: f64,
    predicted: f64,
    low: f64,
    high: f64,
    said: f64,
}

impl Sum {
    fn of(question: &Question) -> Self {
        Self {
            question: question.clone(),
            measured: 0.0,
            rows: 0.0,
            predicted: 0.0,
            low: 0.0,
            high: 0.0,
            said: 0.0,
        }
    }

    fn add(&mut self, measured: f64, predicted: Predicted) {
        if measured <= 0.0 {
            return;
        }
        self.measured += measured.ln();
        self.rows += 1.0;
        if let Some((value, low, high)) =
            predicted.filter(|(value, low, _)| *value > 0.0 && *low > 0.0)
        {
            self.predicted += value.ln();
            self.low += low.ln();
            self.high += high.ln();
            self.said += 1.0;
        }
    }

    fn measured(&self) -> f64 {
        (self.measured / self.rows).exp()
    }

    fn predicted(&self) -> Predicted {
        let mean = |sum: f64| (sum / self.said).exp();
        (self.said > 0.0).then(|| (mean(self.predicted), mean(self.low), mean(self.high)))
    }

    fn trial(&self, group: String, loaded: &Loaded) -> Trial {
        let gpu = loaded.catalogue.gpu(&self.question.gpu);
        let name = gpu.map_or_else(|| self.question.gpu.clone(), |gpu| gpu.name.clone());
        let gpus = self.question.gpus.unwrap_or(1);
        let each = price_of(&loaded.catalogue.offers, &name).map(|(each, _)| each);
        let rate = |rate: f64, spread: f64| Performance {
            rate,
            latencies: Vec::new(),
            ranges: Vec::new(),
            spread,
        };
        Trial {
            group,
            hourly: each.map(|each| each * f64::from(gpus)),
            gpu: name,
            gpus,
            measured: rate(self.measured(), 0.0),
            predicted: self
                .predicted()
                .map(|(value, low, high)| rate(value, (high / low).ln() / EIGHTY)),
        }
    }
}

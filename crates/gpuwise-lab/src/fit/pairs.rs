//! Rows of one run that contradict each other: what is set aside by what two of them say together.

use super::Sample;
use crate::answer::{Reading, limits};
use gpuwise_domain::question::Load;
use gpuwise_size::{
    constants::Constants,
    metric::{Metric, Statistic},
};
use std::collections::BTreeMap;

/// Means that one run measured.
#[derive(Debug, Clone, Copy, Default)]
struct Means {
    ttft: Option<f64>,
    tpot: Option<f64>,
}

/// Share of peak at which prompts surely are computed where nothing else holds them up.
const SLOW: f64 = 0.25;

/// Which samples are of a run whose mean times to first token and per output token cannot both hold
/// at the concurrent requests that it states:
///
/// - its requests end faster than the silicon computes them, by Little's law;
/// - its requests wait longer than they take to answer, although by our sum the cache holds all of
///   them and their prompts, at a quarter of peak, do not take so long: the server ran fewer at once.
pub fn contradictory(samples: &[Sample<'_>], constants: &Constants) -> Vec<bool> {
    let mut runs: BTreeMap<String, Means> = BTreeMap::new();
    for sample in samples {
        let means = match sample.reading.wanted {
            Metric::Ttft(Statistic::Mean) => Means {
                ttft: Some(sample.measured),
                tpot: None,
            },
            Metric::Tpot(Statistic::Mean) => Means {
                ttft: None,
                tpot: Some(sample.measured),
            },
            _ => continue,
        };
        let run = runs.entry(sample.run()).or_default();
        run.ttft = run.ttft.or(means.ttft);
        run.tpot = run.tpot.or(means.tpot);
    }
    let mut out = vec![false; samples.len()];
    for (sample, out) in samples.iter().zip(&mut out) {
        if let Some(Means {
            ttft: Some(ttft),
            tpot: Some(tpot),
        }) = runs.get(&sample.run())
        {
            *out = contradict(&sample.reading, *ttft, *tpot, constants);
        }
    }
    out
}

fn contradict(reading: &Reading<'_>, ttft: f64, tpot: f64, constants: &Constants) -> bool {
    let (Load::InFlight(requests), None, Some(output)) =
        (&reading.load, &reading.prefill, reading.output)
    else {
        return false;
    };
    let most = |output: f64| {
        let asked = Reading {
            wanted: Metric::RequestThroughput,
            output: Some(output),
            ..reading.clone()
        };
        limits(&asked, constants).1
    };
    let answer = (output - 1.0).max(0.0) * tpot;
    if requests / (ttft + answer) > most(output) {
        return true;
    }
    let prompts = requests / (SLOW * most(1.0));
    ttft > answer && ttft > prompts && reading.capacity * reading.groups() >= *requests
}

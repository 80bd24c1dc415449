//! Tier choice judged on whole workloads: what was measured of one workload on several GPUs.

use super::{
    choice::{Cost, choose_under_slo, keeps},
    regret::{Case, Decided},
};
use std::collections::BTreeMap;

/// A workload on one tier, measured and predicted.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Trials of one group are candidates of one decision.
    pub group: String,
    pub gpu: String,
    pub gpus: u32,
    /// USD an hour for all of them; unknown ones are no candidates.
    pub hourly: Option<f64>,
    pub measured: Performance,
    /// What was predicted, by what had not seen it; `None` where nothing is said.
    pub predicted: Option<Performance>,
}

/// How a workload runs on a tier.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Performance {
    /// Units of work a second: tokens, samples.
    pub rate: f64,
    /// Latencies, in the order of the SLO's limits; seconds.
    pub latencies: Vec<f64>,
    /// 80 % ranges of the latencies: both ends the latency itself where it was measured.
    pub ranges: Vec<(f64, f64)>,
    /// Spread of ln(actual/predicted) of the rate.
    pub spread: f64,
}

impl Performance {
    /// The chance that all latencies keep to their limits.
    fn keeps(&self, limits: &[f64]) -> f64 {
        let latencies = self.latencies.iter().zip(&self.ranges).zip(limits);
        latencies
            .map(|((latency, (low, high)), limit)| keeps((*latency, *low, *high), *limit))
            .product()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chooser {
    /// The cheapest by prediction among those that are likely to keep the SLO, the surest of those that
    /// cost about as much.
    Prediction,
    /// The lowest price an hour on which the workload fits, whatever becomes of it.
    CheapestThatFits,
    /// The GPU whose name begins so, in the count and with the software that are predicted to be the
    /// cheapest.
    Always(&'static str),
}

/// A decision about one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub group: String,
    /// What became of it; `None` where the chooser had nothing to choose.
    pub decided: Option<Decided>,
}

/// Decisions about every group that was measured on `least` different GPUs, two of them with prices,
/// under the limits on latencies; groups in which nothing keeps the SLO are left out.
pub fn decide(trials: &[Trial], limits: &[f64], least: usize, chooser: Chooser) -> Vec<Verdict> {
    let mut groups: BTreeMap<&str, Vec<&Trial>> = BTreeMap::new();
    for trial in trials {
        groups.entry(&trial.group).or_default().push(trial);
    }
    groups
        .into_iter()
        .filter_map(|(group, trials)| {
            let different = |trials: &[&Trial]| {
                let mut gpus: Vec<&str> = trials.iter().map(|trial| trial.gpu.as_str()).collect();
                gpus.sort_unstable();
                gpus.dedup();
                gpus.len()
            };
            let measured_on = different(&trials);
            let trials: Vec<&Trial> = trials.into_iter().filter(|t| t.hourly.is_some()).collect();
            if measured_on < least || different(&trials) < 2 {
                return None;
            }
            let case = case(&trials, limits);
            case.actual.iter().flatten().next()?;
            let decided = match chooser {
                Chooser::Prediction => {
                    let chosen = choose_under_slo(&case.predicted, &chances(&trials, limits));
                    chosen.and_then(|choice| case.judge(choice.chosen, choice.expected_regret))
                }
                Chooser::CheapestThatFits => first(&trials).and_then(|at| case.judge(at, 0.0)),
                Chooser::Always(prefix) => {
                    always(&trials, limits, prefix).and_then(|at| case.judge(at, 0.0))
                }
            };
            Some(Verdict {
                group: group.into(),
                decided,
            })
        })
        .collect()
}

/// Costs of a unit of work: predicted ones of all, and of those that kept the SLO what they cost.
fn case(trials: &[&Trial], limits: &[f64]) -> Case {
    let cost = |trial: &Trial, performance: &Performance| {
        let cost = trial.hourly? / 3600.0 / performance.rate;
        (cost.is_finite() && cost > 0.0).then_some(cost)
    };
    Case {
        predicted: trials
            .iter()
            .map(|trial| {
                let performance = trial.predicted.as_ref()?;
                Some(Cost {
                    value: cost(trial, performance)?,
                    spread: performance.spread,
                })
            })
            .collect(),
        actual: trials
            .iter()
            .map(|trial| {
                let kept = trial.measured.keeps(limits) >= 0.5;
                cost(trial, &trial.measured).filter(|_| kept)
            })
            .collect(),
    }
}

/// Chances that trials keep the SLO, as predicted.
fn chances(trials: &[&Trial], limits: &[f64]) -> Vec<f64> {
    let chance = |trial: &&Trial| trial.predicted.as_ref().map_or(0.0, |p| p.keeps(limits));
    trials.iter().map(chance).collect()
}

/// What a chooser takes who predicts nothing: the first of the lowest price an hour.
fn first(trials: &[&Trial]) -> Option<usize> {
    trials
        .iter()
        .enumerate()
        .filter_map(|(at, trial)| Some((at, trial.hourly?)))
        .min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))
        .map(|(at, _)| at)
}

/// The cheapest by prediction among trials on one GPU, else the first of them.
fn always(trials: &[&Trial], limits: &[f64], prefix: &str) -> Option<usize> {
    let mut own = case(trials, limits);
    for (trial, predicted) in trials.iter().zip(&mut own.predicted) {
        if !trial.gpu.starts_with(prefix) {
            *predicted = None;
        }
    }
    let chosen = choose_under_slo(&own.predicted, &chances(trials, limits));
    let cheapest = chosen.map(|choice| choice.chosen);
    cheapest.or_else(|| {
        trials
            .iter()
            .position(|trial| trial.gpu.starts_with(prefix))
    })
}

//! Tier choice judged on whole workloads: what was measured of one workload on several GPUs.

use super::{
    choice::Cost,
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
    /// What latencies hardly exceed: the upper ends of their ranges where they are predicted.
    pub cautious: Vec<f64>,
    /// Spread of ln(actual/predicted) of the rate.
    pub spread: f64,
}

impl Performance {
    fn keeps(&self, limits: &[f64], cautious: bool) -> bool {
        let latencies = if cautious {
            &self.cautious
        } else {
            &self.latencies
        };
        latencies
            .iter()
            .zip(limits)
            .all(|(latency, limit)| latency <= limit)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chooser {
    /// The cheapest by prediction among those predicted to keep the SLO.
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
            let case = case(&trials, limits, true);
            case.actual.iter().flatten().next()?;
            let decided = match chooser {
                // Where nothing is sure to keep the SLO, what is likely to.
                Chooser::Prediction => case
                    .decide()
                    .or_else(|| self::case(&trials, limits, false).decide()),
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

/// Costs of a unit of work, where the SLO is kept; predictions must keep it at the upper ends of
/// their ranges where `cautious`.
fn case(trials: &[&Trial], limits: &[f64], cautious: bool) -> Case {
    let cost = |trial: &Trial, performance: &Performance, cautious: bool| {
        let cost = trial.hourly? / 3600.0 / performance.rate;
        (performance.keeps(limits, cautious) && cost.is_finite() && cost > 0.0).then_some(cost)
    };
    Case {
        predicted: trials
            .iter()
            .map(|trial| {
                let performance = trial.predicted.as_ref()?;
                Some(Cost {
                    value: cost(trial, performance, cautious)?,
                    spread: performance.spread,
                })
            })
            .collect(),
        actual: trials
            .iter()
            .map(|trial| cost(trial, &trial.measured, false))
            .collect(),
    }
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
    let mut own = case(trials, limits, false);
    for (trial, predicted) in trials.iter().zip(&mut own.predicted) {
        if !trial.gpu.starts_with(prefix) {
            *predicted = None;
        }
    }
    let cheapest = super::choice::choose(&own.predicted).map(|choice| choice.chosen);
    cheapest.or_else(|| {
        trials
            .iter()
            .position(|trial| trial.gpu.starts_with(prefix))
    })
}

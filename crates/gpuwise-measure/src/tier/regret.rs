//! What choices cost, against the best that was to be had.

use super::choice::{Cost, choose};
use crate::learn::{mean, quantile};

/// How much more than the best also counts as the best.
pub const TIE: f64 = 0.05;

/// One decision with what every candidate really cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Case {
    /// Predicted costs; `None` where nothing is said, or where the SLO would be missed.
    pub predicted: Vec<Option<Cost>>,
    /// Real costs of the same candidates; `None` where the SLO was missed, or nobody measured.
    pub actual: Vec<Option<f64>>,
}

/// What became of a decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decided {
    /// The candidate that was chosen.
    pub chosen: usize,
    /// Its cost over the best's, less 1; `None` where it missed the SLO.
    pub regret: Option<f64>,
    /// What was expected of the regret before.
    pub expected: f64,
}

impl Case {
    /// The choice by predictions, judged; `None` where nothing could be chosen or nothing was
    /// measured.
    pub fn decide(&self) -> Option<Decided> {
        let choice = choose(&self.predicted)?;
        self.judge(choice.chosen, choice.expected_regret)
    }

    pub fn judge(&self, chosen: usize, expected: f64) -> Option<Decided> {
        let best = self
            .actual
            .iter()
            .flatten()
            .copied()
            .fold(f64::INFINITY, f64::min);
        best.is_finite().then(|| Decided {
            chosen,
            regret: self
                .actual
                .get(chosen)
                .copied()
                .flatten()
                .map(|cost| cost / best - 1.0),
            expected,
        })
    }
}

/// What a number of decisions cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// Decisions that were taken and kept the SLO.
    pub decisions: usize,
    /// Share of those within [`TIE`] of the best.
    pub top: f64,
    pub mean: f64,
    /// Regret that one in twenty exceeds.
    pub p95: f64,
    /// Decisions that missed the SLO.
    pub missed: usize,
}

/// What these decisions cost, those that missed their SLO counted apart.
pub fn judge<'a>(decisions: impl Iterator<Item = &'a Decided>) -> Judgement {
    let mut regrets = Vec::new();
    let mut missed = 0;
    for decided in decisions {
        match decided.regret {
            Some(regret) => regrets.push(regret),
            None => missed += 1,
        }
    }
    let near = regrets.iter().filter(|regret| **regret <= TIE).count();
    Judgement {
        decisions: regrets.len(),
        top: near as f64 / regrets.len() as f64,
        mean: mean(&regrets),
        p95: quantile(&regrets, 0.95),
        missed,
    }
}

/// Risk and coverage: what is lost when only the decisions of the least expected regret are taken, for
/// each of these shares of all.
pub fn risk_coverage(decisions: &[Decided], shares: &[f64]) -> Vec<(f64, Judgement)> {
    let mut order: Vec<&Decided> = decisions.iter().collect();
    order.sort_by(|a, b| a.expected.total_cmp(&b.expected));
    shares
        .iter()
        .map(|share| {
            let count = libm::round(share * order.len() as f64) as usize;
            (*share, judge(order.iter().take(count).copied()))
        })
        .collect()
}

//! One thing that is forecast: who was right of it lately, and how far off all were.

use super::{
    LEVELS,
    conformal::Conformal,
    experts::{EXPERTS, Expert, Said},
    regression::Regression,
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What is less is nothing: one request in thirty thousand years. Errors of a series that has long been at rest never
/// shrink to none.
const NOTHING: f64 = 1e-12;

/// What is left of an error's weight after the next one: the last hundred count.
const KEPT: f64 = 0.99;
/// How steeply weights fall with errors.
const STEEP: i32 = 6;
/// Of the size of errors: the share of a new one when it is larger, and when it is smaller.
const GROWS: f64 = 0.25;
const SHRINKS: f64 = 0.06;
/// The smallest size, in shares of the level.
const LEAST: f64 = 0.01;
/// Errors beyond so many times their size are taken as this.
const FARTHEST: f64 = 12.0;
/// Beyond so many times the size of errors, twice in a row, things have changed.
const BROKEN: f64 = 6.0;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Target {
    horizon: u32,
    /// Whether it is the highest value until then, not the value then.
    highest: bool,
    /// What was said for periods that have not come yet, the oldest first.
    open: VecDeque<Made>,
    /// The last readings, to find the highest.
    recent: VecDeque<Option<f64>>,
    losses: [f64; EXPERTS],
    mixed: f64,
    size: f64,
    known: bool,
    conformal: Conformal,
    /// Of the value then alone: experts are asked once for both.
    regression: Option<Regression>,
    beyond: u32,
}

/// A forecast that was made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Made {
    said: Said,
    mix: f64,
    point: f64,
    size: f64,
    scores: [f64; LEVELS.len()],
    weights: [f64; EXPERTS],
    gated: bool,
    /// Whether it is held against anybody.
    counts: bool,
}

/// What is said now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    pub(super) point: f64,
    pub(super) quantiles: [f64; LEVELS.len()],
    pub(super) weights: [f64; EXPERTS],
    pub(super) gated: bool,
}

impl Target {
    pub(super) fn at(horizon: u32) -> Self {
        Self {
            horizon,
            highest: false,
            open: VecDeque::new(),
            recent: VecDeque::new(),
            losses: [0.0; EXPERTS],
            mixed: 0.0,
            size: 0.0,
            known: false,
            conformal: Conformal::default(),
            regression: Some(Regression::default()),
            beyond: 0,
        }
    }

    pub(super) fn highest(horizon: u32) -> Self {
        Self {
            highest: true,
            regression: None,
            ..Self::at(horizon)
        }
    }

    pub(super) const fn horizon(&self) -> u32 {
        self.horizon
    }

    pub(super) const fn regression(&self) -> Option<&Regression> {
        self.regression.as_ref()
    }

    /// Whether what came was far off twice in a row.
    pub(super) const fn broke(&self) -> bool {
        self.beyond >= 2
    }

    /// What came in this period, held against what was said of it.
    pub(super) fn score(&mut self, reading: Option<f64>) {
        self.recent.push_back(reading);
        if self.recent.len() > self.horizon as usize {
            self.recent.pop_front();
        }
        if self.open.len() < self.horizon as usize {
            return;
        }
        let Some(made) = self.open.pop_front().filter(|made| made.counts) else {
            return;
        };
        let came = if self.highest {
            let all = self.recent.iter().copied();
            // The highest of what was seen is no more than the highest.
            all.collect::<Option<Vec<f64>>>()
                .map(|all| all.into_iter().fold(0.0, f64::max))
        } else {
            reading
        };
        let Some(came) = came else {
            self.beyond = 0;
            return;
        };
        for (loss, said) in self.losses.iter_mut().zip(&made.said.all) {
            *loss = *loss * KEPT + (said - came).abs();
        }
        self.mixed = self.mixed * KEPT + (made.mix - came).abs();
        if let Some(regression) = &mut self.regression {
            let came_by = (came - made.said.last) / made.said.scale;
            regression.learn(&made.said.features, came_by);
        }
        let error = came - made.point;
        self.resize(error.abs());
        let size = made.size.max(f64::MIN_POSITIVE);
        self.conformal
            .learn((error / size).clamp(-FARTHEST, FARTHEST), &made.scores);
        let far = error.abs() > BROKEN * size;
        self.beyond = if far && self.known {
            self.beyond + 1
        } else {
            0
        };
        if self.broke() {
            self.conformal.forget();
            self.losses = [0.0; EXPERTS];
            self.mixed = 0.0;
            self.size = self.size.max(error.abs());
        }
    }

    fn resize(&mut self, error: f64) {
        let share = if error > self.size { GROWS } else { SHRINKS };
        self.size = if self.known {
            self.size + share * (error - self.size)
        } else {
            error
        };
        self.known = true;
    }

    /// The experts' words become a forecast.
    pub(super) fn say(&mut self, said: Said, level: f64, counts: bool) {
        let weights = self.weights(said.apart);
        let mix: f64 = weights
            .iter()
            .zip(&said.all)
            .map(|(weight, one)| weight * one)
            .sum();
        let last = self.losses[Expert::Last as usize];
        let gated = self.mixed > last;
        let point = if gated { said.last } else { mix };
        let usual = if self.known { self.size } else { 0.3 * point };
        let size = usual.max(LEAST * point.max(level)).max(f64::MIN_POSITIVE);
        self.open.push_back(Made {
            said,
            mix,
            point,
            size,
            scores: self.conformal.quantiles(),
            weights,
            gated,
            counts,
        });
    }

    /// By how wrong each was, the last value being as good as the best before anything is known. Who says nothing of
    /// its own counts nothing.
    fn weights(&self, apart: bool) -> [f64; EXPERTS] {
        let least = self.losses.iter().copied().fold(f64::INFINITY, f64::min);
        let mut weights = self.losses.map(|loss| {
            if loss <= 0.0 {
                1.0
            } else {
                (least / loss).powi(STEEP)
            }
        });
        if !apart {
            weights[Expert::Clients as usize] = 0.0;
        }
        if self.losses.iter().all(|loss| *loss <= 0.0) {
            weights = [0.0; EXPERTS];
            weights[Expert::Last as usize] = 1.0;
        }
        let all: f64 = weights.iter().sum();
        weights.map(|weight| weight / all)
    }

    pub(super) fn said(&self) -> Option<Range> {
        let made = self.open.back()?;
        Some(Range {
            point: made.point,
            quantiles: made.scores.map(|score| {
                let value = made.point + score * made.size;
                if value < NOTHING { 0.0 } else { value }
            }),
            weights: made.weights,
            gated: made.gated,
        })
    }
}

//! Fitting the constants of a training step.
//!
//! As for serving: residuals are logarithms, every constant is pulled to its prior, outliers count
//! linearly (Huber), steps are damped (Levenberg–Marquardt), and the same rows give the same
//! constants, bit by bit.

use super::{
    constants::{TRAINING_PARAMETERS, TrainingConstants},
    parts::step_parts,
    system::TrainingSystem,
    work::StepWork,
};
use crate::fit::solve_symmetric;
use alloc::{vec, vec::Vec};
use gpuwise_domain::training::TrainingSetup;

/// Residual (in logarithm) beyond which a row counts linearly; also what one row's error is measured
/// in against the priors' standard deviations.
const HUBER: f64 = 0.15;
const STEPS: usize = 60;
const DELTA: f64 = 1e-3;

/// A measured run.
#[derive(Debug, Clone)]
pub struct FitRow {
    /// Its work.
    pub work: StepWork,
    /// Its setup.
    pub setup: TrainingSetup,
    /// What it ran on.
    pub system: TrainingSystem,
    /// Tokens a second and GPU that were measured.
    pub measured: f64,
}

impl FitRow {
    /// Tokens a second and GPU under some constants.
    pub fn predicted(&self, constants: &TrainingConstants) -> f64 {
        let seconds = step_parts(&self.work, &self.setup, &self.system, constants).total();
        self.work.tokens / self.work.gpus / seconds
    }

    fn residual(&self, constants: &TrainingConstants) -> f64 {
        libm::log(self.predicted(constants) / self.measured)
    }
}

/// Fits constants to rows, from their priors.
pub fn fit_training(rows: &[&FitRow]) -> TrainingConstants {
    let count = TRAINING_PARAMETERS.len();
    let mut constants = TrainingConstants::default();
    let mut residuals = residuals(rows, &constants);
    let mut cost = cost(&residuals, &constants);
    let mut damping = 1e-2;
    for _ in 0..STEPS {
        let slopes = slopes(rows, &constants, &residuals);
        let (normal, gradient) = normal(&residuals, &slopes, &constants);
        let mut gain = 0.0;
        for _ in 0..6 {
            let mut damped = normal.clone();
            for at in 0..count {
                damped[at * count + at] *= 1.0 + damping;
            }
            let step = solve_symmetric(damped, gradient.iter().map(|g| -g).collect());
            let mut candidate = constants.clone();
            for (logarithm, delta) in candidate.logarithms.iter_mut().zip(&step) {
                *logarithm += delta.clamp(-0.5, 0.5);
            }
            let next = self::residuals(rows, &candidate);
            let next_cost = self::cost(&next, &candidate);
            if next_cost < cost {
                gain = (cost - next_cost) / cost;
                (constants, residuals, cost) = (candidate, next, next_cost);
                damping = (damping * 0.3).max(1e-6);
                break;
            }
            damping *= 4.0;
        }
        if gain < 1e-6 {
            break;
        }
    }
    constants
}

fn residuals(rows: &[&FitRow], constants: &TrainingConstants) -> Vec<f64> {
    rows.iter().map(|row| row.residual(constants)).collect()
}

fn slopes(rows: &[&FitRow], constants: &TrainingConstants, residuals: &[f64]) -> Vec<Vec<f64>> {
    (0..TRAINING_PARAMETERS.len())
        .map(|at| {
            let mut shifted = constants.clone();
            if let Some(logarithm) = shifted.logarithms.get_mut(at) {
                *logarithm += DELTA;
            }
            rows.iter()
                .zip(residuals)
                .map(|(row, residual)| (row.residual(&shifted) - residual) / DELTA)
                .collect()
        })
        .collect()
}

fn normal(
    residuals: &[f64],
    slopes: &[Vec<f64>],
    constants: &TrainingConstants,
) -> (Vec<f64>, Vec<f64>) {
    let count = slopes.len();
    let weights: Vec<f64> = residuals
        .iter()
        .map(|residual| (HUBER / libm::fabs(*residual).max(HUBER)) / (HUBER * HUBER))
        .collect();
    let mut normal = vec![0.0; count * count];
    let mut gradient = vec![0.0; count];
    for (i, left) in slopes.iter().enumerate() {
        for (j, right) in slopes.iter().enumerate() {
            normal[i * count + j] = (0..residuals.len())
                .map(|row| weights[row] * left[row] * right[row])
                .sum();
        }
        gradient[i] = (0..residuals.len())
            .map(|row| weights[row] * left[row] * residuals[row])
            .sum();
        let (departure, spread) = departure(constants, i);
        normal[i * count + i] += 1.0 / (spread * spread);
        gradient[i] += departure / (spread * spread);
    }
    (normal, gradient)
}

fn departure(constants: &TrainingConstants, at: usize) -> (f64, f64) {
    let info = &TRAINING_PARAMETERS[at];
    (
        constants.logarithms[at] - libm::log(info.prior),
        info.spread,
    )
}

fn cost(residuals: &[f64], constants: &TrainingConstants) -> f64 {
    let rows: f64 = residuals
        .iter()
        .map(|residual| {
            let size = libm::fabs(*residual);
            let size = if size.is_finite() { size } else { 3.0 };
            if size <= HUBER {
                0.5 * size * size
            } else {
                HUBER * (size - 0.5 * HUBER)
            }
        })
        .sum();
    let priors: f64 = (0..TRAINING_PARAMETERS.len())
        .map(|at| {
            let (departure, spread) = departure(constants, at);
            0.5 * departure * departure / (spread * spread)
        })
        .sum();
    rows / (HUBER * HUBER) + priors
}

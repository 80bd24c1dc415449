//! Fitting the constants of a training step.
//!
//! As for serving: residuals are logarithms, every constant is pulled to its prior, outliers count
//! linearly (Huber), steps are damped (Levenberg–Marquardt), and the same rows give the same
//! constants, bit by bit.

use gpuwise_domain::training::TrainingSetup;
use gpuwise_size::{
    solve::solve_symmetric,
    training::time::{
        StepWork, TRAINING_PARAMETERS, TrainingConstants, TrainingSystem, step_parts,
    },
};

/// Residual (in logarithm) beyond which a row counts linearly; also what one row's error is measured
/// in against the priors' standard deviations.
const HUBER: f64 = 0.15;
const STEPS: usize = 60;
const DELTA: f64 = 1e-3;

#[derive(Debug, Clone)]
pub struct FitRow {
    pub work: StepWork,
    pub setup: TrainingSetup,
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
    let priors: Vec<Prior> = TRAINING_PARAMETERS
        .iter()
        .map(|info| Prior {
            logarithm: libm::log(info.prior),
            spread: info.spread,
        })
        .collect();
    let residuals = |logarithms: &[f64]| {
        let constants = TrainingConstants {
            logarithms: logarithms.to_vec(),
        };
        rows.iter().map(|row| row.residual(&constants)).collect()
    };
    TrainingConstants {
        logarithms: least_squares(&priors, &residuals),
    }
}

/// What is known of a constant before any data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prior {
    pub(super) logarithm: f64,
    /// Standard deviation of that.
    pub(super) spread: f64,
}

/// Logarithms of constants that make residuals small, near their priors.
///
/// `residuals` gives the logarithm of predicted over measured for every row.
pub(super) fn least_squares(priors: &[Prior], residuals: &dyn Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let count = priors.len();
    let mut logarithms: Vec<f64> = priors.iter().map(|prior| prior.logarithm).collect();
    let mut here = residuals(&logarithms);
    let mut cost = total_cost(&here, &logarithms, priors);
    let mut damping = 1e-2;
    for _ in 0..STEPS {
        let slopes = slopes(&logarithms, &here, residuals);
        let (normal, gradient) = normal(&here, &slopes, &logarithms, priors);
        let mut gain = 0.0;
        for _ in 0..6 {
            let mut damped = normal.clone();
            for at in 0..count {
                damped[at * count + at] *= 1.0 + damping;
            }
            let step = solve_symmetric(damped, gradient.iter().map(|g| -g).collect());
            let candidate: Vec<f64> = logarithms
                .iter()
                .zip(&step)
                .map(|(logarithm, delta)| logarithm + delta.clamp(-0.5, 0.5))
                .collect();
            let next = residuals(&candidate);
            let next_cost = total_cost(&next, &candidate, priors);
            if next_cost < cost {
                gain = (cost - next_cost) / cost;
                (logarithms, here, cost) = (candidate, next, next_cost);
                damping = (damping * 0.3).max(1e-6);
                break;
            }
            damping *= 4.0;
        }
        if gain < 1e-6 {
            break;
        }
    }
    logarithms
}

fn slopes(
    logarithms: &[f64],
    here: &[f64],
    residuals: &dyn Fn(&[f64]) -> Vec<f64>,
) -> Vec<Vec<f64>> {
    (0..logarithms.len())
        .map(|at| {
            let mut shifted = logarithms.to_vec();
            shifted[at] += DELTA;
            residuals(&shifted)
                .iter()
                .zip(here)
                .map(|(moved, residual)| (moved - residual) / DELTA)
                .collect()
        })
        .collect()
}

fn normal(
    residuals: &[f64],
    slopes: &[Vec<f64>],
    logarithms: &[f64],
    priors: &[Prior],
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
        let variance = priors[i].spread * priors[i].spread;
        normal[i * count + i] += 1.0 / variance;
        gradient[i] += (logarithms[i] - priors[i].logarithm) / variance;
    }
    (normal, gradient)
}

fn total_cost(residuals: &[f64], logarithms: &[f64], priors: &[Prior]) -> f64 {
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
    let departures: f64 = logarithms
        .iter()
        .zip(priors)
        .map(|(logarithm, prior)| {
            let departure = (logarithm - prior.logarithm) / prior.spread;
            0.5 * departure * departure
        })
        .sum();
    rows / (HUBER * HUBER) + departures
}

//! Fitting the constants to measured rows.
//!
//! Residuals are logarithms of predicted over measured. Every constant is pulled to its prior and
//! every correction to 1 (ridge), outliers count less (Huber), and steps are damped
//! (Levenberg–Marquardt). Too high and too low by the same factor count alike. The same rows give
//! the same constants, bit by bit.

mod left_out;
mod pairs;
mod sample;
mod slopes;

pub use left_out::Slopes;
pub use pairs::contradictory;
pub use sample::{LeaveOut, Sample, family, rows};

use gpuwise_size::constants::Constants;
use slopes::{by_row, freedoms, jacobian, moved, step, total_cost, touched_rows};

/// A row to fit: where it stands, and its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Index of its generation among the constants', if it has one.
    pub generation: Option<usize>,
    /// Index of its engine version bucket, if it has one.
    pub bucket: Option<usize>,
    /// Index of what was measured together with it, if it has corrections.
    pub joint: Option<usize>,
    pub weight: f64,
    /// Logarithm of the measured value.
    pub target: f64,
}

/// Which numbers of the constants a fit moves. Base values and corrections by generation and bucket
/// are fitted first, so that they say what carries over; corrections of what was measured together
/// then take what they leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moving {
    /// Base values, and corrections by generation and by bucket.
    Shared,
    /// Corrections of what was measured together.
    Joints,
}

/// How long and how hard to fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort<'a> {
    pub moving: Moving,
    /// Steps at most.
    pub steps: usize,
    /// Residual (in logarithm) beyond which a row counts linearly.
    pub huber: f64,
    /// How much further each generation may lie from the others than its prior says: 1, or more
    /// where engines are hardly tuned for it.
    pub generation_scales: &'a [f64],
}

/// Fits constants to rows.
///
/// `predict` gives the logarithms of the predicted values of the rows with these indices under
/// some constants (`NaN` where there is none); it may work in parallel.
pub fn fit(
    start: &Constants,
    rows: &[Row],
    effort: Effort<'_>,
    predict: &dyn Fn(&Constants, &[usize]) -> Vec<f64>,
) -> Constants {
    let freedoms = freedoms(start, rows, effort.moving);
    let all: Vec<usize> = (0..rows.len()).collect();
    let mut constants = start.clone();
    let mut predicted = predict(&constants, &all);
    let mut cost = total_cost(&constants, rows, &predicted, effort);
    let mut damping = 1e-2;
    // Rows that a freedom touches; those that it turned out not to move are dropped.
    let mut touched: Vec<Vec<usize>> = freedoms
        .iter()
        .map(|freedom| touched_rows(*freedom, rows))
        .collect();
    for _ in 0..effort.steps {
        let columns = jacobian(&constants, &freedoms, &touched, &predicted, predict);
        for (kept, column) in touched.iter_mut().zip(&columns) {
            let moved = |at: &usize| column.slopes.get(*at).is_some_and(|slope| *slope != 0.0);
            *kept = (0..column.rows.len())
                .filter(moved)
                .map(|at| column.rows[at])
                .collect();
        }
        let slopes = by_row(&columns, rows.len());
        let mut improved = false;
        for _ in 0..6 {
            let step = step(
                &constants, rows, &freedoms, &slopes, &predicted, effort, damping,
            );
            let candidate = moved(&constants, &freedoms, &step);
            let next = predict(&candidate, &all);
            let next_cost = total_cost(&candidate, rows, &next, effort);
            if next_cost < cost {
                let gain = (cost - next_cost) / cost;
                constants = candidate;
                predicted = next;
                cost = next_cost;
                damping = (damping * 0.3).max(1e-6);
                improved = gain > 1e-5;
                break;
            }
            damping *= 4.0;
        }
        if !improved {
            break;
        }
    }
    constants
}

/// How many numbers may move: base values and corrections that rows can tell.
pub fn freedom_count(start: &Constants, rows: &[Row]) -> usize {
    freedoms(start, rows, Moving::Shared).len() + freedoms(start, rows, Moving::Joints).len()
}

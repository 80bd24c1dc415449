//! Fitting the constants to measured rows.
//!
//! Residuals are logarithms of predicted over measured. Every constant is pulled to its prior and
//! every correction to 1 (ridge), outliers count less (Huber), and steps are damped
//! (Levenberg–Marquardt). The same rows give the same constants, bit by bit.

mod sample;
pub(crate) mod solve;

pub use sample::{LeaveOut, Sample, family, rows};

use crate::constants::{Constants, PARAMETERS};
use alloc::{vec, vec::Vec};
pub(crate) use solve::solve_symmetric;

/// A row to fit: where it stands, and its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Index of its generation among the constants', if it has one.
    pub generation: Option<usize>,
    /// Index of its engine profile, if it has one.
    pub profile: Option<usize>,
    /// How much it counts.
    pub weight: f64,
    /// Logarithm of the measured value.
    pub target: f64,
    /// How much more a prediction that is too high counts than one that is too low by the same
    /// factor: 0 alike, 1 as in a mean relative error.
    pub asymmetry: f64,
}

/// One number that may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Freedom {
    Base(usize),
    Generation(usize, usize),
    Profile(usize, usize),
}

/// How long and how hard to fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort<'a> {
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
    let freedoms = freedoms(start, rows);
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
        let mut improved = false;
        for _ in 0..6 {
            let step = step(
                &constants, rows, &freedoms, &columns, &predicted, effort, damping,
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
    freedoms(start, rows).len()
}

fn freedoms(constants: &Constants, rows: &[Row]) -> Vec<Freedom> {
    let mut out = Vec::new();
    let seen_generation = |g: usize| rows.iter().any(|row| row.generation == Some(g));
    let seen_profile = |p: usize| rows.iter().any(|row| row.profile == Some(p));
    let generations: Vec<usize> = (0..constants.generations.len())
        .filter(|g| seen_generation(*g))
        .collect();
    let profiles: Vec<usize> = (0..constants.profiles.len())
        .filter(|p| seen_profile(*p))
        .collect();
    for (at, info) in PARAMETERS.iter().enumerate() {
        if info.spread > 0.0 {
            out.push(Freedom::Base(at));
        }
        if info.generation_spread > 0.0 {
            out.extend(generations.iter().map(|g| Freedom::Generation(at, *g)));
        }
        if info.engine_spread > 0.0 {
            out.extend(profiles.iter().map(|p| Freedom::Profile(at, *p)));
        }
    }
    out
}

/// Departure of a freedom from its prior, in standard deviations, and the derivative of that.
fn prior(constants: &Constants, freedom: Freedom, scales: &[f64]) -> (f64, f64) {
    let (value, spread) = match freedom {
        Freedom::Base(at) => (
            constants.base[at] - libm::log(PARAMETERS[at].default),
            PARAMETERS[at].spread,
        ),
        Freedom::Generation(at, g) => (
            constants.by_generation[at][g],
            scales.get(g).unwrap_or(&1.0) * PARAMETERS[at].generation_spread,
        ),
        Freedom::Profile(at, p) => (constants.by_profile[at][p], PARAMETERS[at].engine_spread),
    };
    (value / spread, 1.0 / spread)
}

fn moved(constants: &Constants, freedoms: &[Freedom], step: &[f64]) -> Constants {
    let mut out = constants.clone();
    for (freedom, delta) in freedoms.iter().zip(step) {
        // No constant leaps by more than a factor of 1.65 at once.
        let delta = delta.clamp(-0.5, 0.5);
        match *freedom {
            Freedom::Base(at) => out.base[at] += delta,
            Freedom::Generation(at, g) => out.by_generation[at][g] += delta,
            Freedom::Profile(at, p) => out.by_profile[at][p] += delta,
        }
    }
    out
}

/// A column of the Jacobian: the rows that the freedom touches, and its derivative there.
struct Column {
    rows: Vec<usize>,
    slopes: Vec<f64>,
}

fn touched_rows(freedom: Freedom, rows: &[Row]) -> Vec<usize> {
    let here = |row: &Row| match freedom {
        Freedom::Base(_) => true,
        Freedom::Generation(_, generation) => row.generation == Some(generation),
        Freedom::Profile(_, profile) => row.profile == Some(profile),
    };
    (0..rows.len()).filter(|at| here(&rows[*at])).collect()
}

fn jacobian(
    constants: &Constants,
    freedoms: &[Freedom],
    touched: &[Vec<usize>],
    predicted: &[f64],
    predict: &dyn Fn(&Constants, &[usize]) -> Vec<f64>,
) -> Vec<Column> {
    const DELTA: f64 = 1e-3;
    freedoms
        .iter()
        .zip(touched)
        .map(|(freedom, touched)| {
            let rows: Vec<usize> = touched
                .iter()
                .copied()
                .filter(|at| predicted[*at].is_finite())
                .collect();
            if rows.is_empty() {
                return Column {
                    rows,
                    slopes: Vec::new(),
                };
            }
            let shifted = moved(constants, core::slice::from_ref(freedom), &[DELTA]);
            let values = predict(&shifted, &rows);
            let slopes = rows
                .iter()
                .zip(&values)
                .map(|(row, value)| {
                    let slope = (value - predicted[*row]) / DELTA;
                    if slope.is_finite() { slope } else { 0.0 }
                })
                .collect();
            Column { rows, slopes }
        })
        .collect()
}

fn step(
    constants: &Constants,
    rows: &[Row],
    freedoms: &[Freedom],
    columns: &[Column],
    predicted: &[f64],
    effort: Effort<'_>,
    damping: f64,
) -> Vec<f64> {
    let count = freedoms.len();
    let mut normal = vec![0.0; count * count];
    let mut gradient = vec![0.0; count];
    // Row-wise dense products: a row touches few columns.
    let mut by_row: Vec<Vec<(usize, f64)>> = vec![Vec::new(); rows.len()];
    for (column, data) in columns.iter().enumerate() {
        for (row, slope) in data.rows.iter().zip(&data.slopes) {
            if *slope != 0.0 {
                by_row[*row].push((column, *slope));
            }
        }
    }
    for (index, entries) in by_row.iter().enumerate() {
        let residual = predicted[index] - rows[index].target;
        if !residual.is_finite() {
            continue;
        }
        let weight = rows[index].weight * row_weight(residual, rows[index].asymmetry, effort);
        for (a, (i, si)) in entries.iter().enumerate() {
            gradient[*i] += weight * si * residual;
            for (j, sj) in &entries[a..] {
                normal[i * count + j] += weight * si * sj;
            }
        }
    }
    for i in 0..count {
        for j in 0..i {
            normal[i * count + j] = normal[j * count + i];
        }
        let (departure, slope) = prior(constants, freedoms[i], effort.generation_scales);
        gradient[i] += departure * slope;
        normal[i * count + i] += slope * slope;
        normal[i * count + i] *= 1.0 + damping;
    }
    let negative: Vec<f64> = gradient.iter().map(|g| -g).collect();
    solve_symmetric(normal, negative)
}

/// Outliers count linearly, and high predictions count more than low ones if asked.
fn row_weight(residual: f64, asymmetry: f64, effort: Effort<'_>) -> f64 {
    let size = libm::fabs(residual);
    let outlier = if size <= effort.huber {
        1.0
    } else {
        effort.huber / size
    };
    outlier * side(residual, asymmetry)
}

fn side(residual: f64, asymmetry: f64) -> f64 {
    let factor = libm::exp(asymmetry * residual).clamp(0.5, 2.0);
    if factor.is_finite() { factor } else { 1.0 }
}

fn total_cost(constants: &Constants, rows: &[Row], predicted: &[f64], effort: Effort<'_>) -> f64 {
    let huber = effort.huber;
    let mut cost = 0.0;
    for (row, value) in rows.iter().zip(predicted) {
        let residual = libm::fabs(value - row.target);
        // A row without a prediction costs as much as one that is wrong by e.
        let residual = if residual.is_finite() { residual } else { 1.0 };
        cost += row.weight
            * side(value - row.target, row.asymmetry)
            * if residual <= huber {
                0.5 * residual * residual
            } else {
                huber * (residual - 0.5 * huber)
            };
    }
    for freedom in freedoms(constants, rows) {
        let (departure, _) = prior(constants, freedom, effort.generation_scales);
        cost += 0.5 * departure * departure;
    }
    cost
}

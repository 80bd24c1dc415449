//! How predictions move with each number that may move, and the normal equations of a step.

use super::{Effort, Moving, Row};
use gpuwise_size::{
    constants::{Constants, PARAMETERS},
    solve::solve_symmetric,
};

/// One number that may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freedom {
    Base(usize),
    Generation(usize, usize),
    Bucket(usize, usize),
    Joint(usize, usize),
}

pub(super) fn freedoms(constants: &Constants, rows: &[Row], moving: Moving) -> Vec<Freedom> {
    match moving {
        Moving::Shared => shared(constants, rows),
        Moving::Joints => joints(constants, rows),
    }
}

fn joints(constants: &Constants, rows: &[Row]) -> Vec<Freedom> {
    let seen: Vec<usize> = (0..constants.joints.len())
        .filter(|j| rows.iter().any(|row| row.joint == Some(*j)))
        .collect();
    let corrected = (0..PARAMETERS.len()).filter(|at| PARAMETERS[*at].joint_spread() > 0.0);
    corrected
        .flat_map(|at| seen.iter().map(move |j| Freedom::Joint(at, *j)))
        .collect()
}

fn shared(constants: &Constants, rows: &[Row]) -> Vec<Freedom> {
    let mut out = Vec::new();
    let seen_generation = |g: usize| rows.iter().any(|row| row.generation == Some(g));
    let seen_bucket = |p: usize| rows.iter().any(|row| row.bucket == Some(p));
    let generations: Vec<usize> = (0..constants.generations.len())
        .filter(|g| seen_generation(*g))
        .collect();
    let buckets: Vec<usize> = (0..constants.buckets.len())
        .filter(|p| seen_bucket(*p))
        .collect();
    for (at, info) in PARAMETERS.iter().enumerate() {
        if info.spread > 0.0 {
            out.push(Freedom::Base(at));
        }
        if info.generation_spread > 0.0 {
            out.extend(generations.iter().map(|g| Freedom::Generation(at, *g)));
        }
        if info.engine_spread > 0.0 {
            out.extend(buckets.iter().map(|p| Freedom::Bucket(at, *p)));
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
        Freedom::Bucket(at, p) => (constants.by_bucket[at][p], PARAMETERS[at].engine_spread),
        Freedom::Joint(at, j) => (constants.by_joint[at][j], PARAMETERS[at].joint_spread()),
    };
    (value / spread, 1.0 / spread)
}

pub(super) fn moved(constants: &Constants, freedoms: &[Freedom], step: &[f64]) -> Constants {
    let mut out = constants.clone();
    for (freedom, delta) in freedoms.iter().zip(step) {
        // No constant leaps by more than a factor of 1.65 at once.
        let delta = delta.clamp(-0.5, 0.5);
        match *freedom {
            Freedom::Base(at) => out.base[at] += delta,
            Freedom::Generation(at, g) => out.by_generation[at][g] += delta,
            Freedom::Bucket(at, p) => out.by_bucket[at][p] += delta,
            Freedom::Joint(at, j) => out.by_joint[at][j] += delta,
        }
    }
    out
}

/// A column of the Jacobian: the rows that the freedom touches, and its derivative there.
pub(super) struct Column {
    pub(super) rows: Vec<usize>,
    pub(super) slopes: Vec<f64>,
}

pub(super) fn touched_rows(freedom: Freedom, rows: &[Row]) -> Vec<usize> {
    let here = |row: &Row| match freedom {
        Freedom::Base(_) => true,
        Freedom::Generation(_, generation) => row.generation == Some(generation),
        Freedom::Bucket(_, bucket) => row.bucket == Some(bucket),
        Freedom::Joint(_, joint) => row.joint == Some(joint),
    };
    (0..rows.len()).filter(|at| here(&rows[*at])).collect()
}

pub(super) fn jacobian(
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

/// Slopes by row: a row touches few freedoms.
pub(super) fn by_row(columns: &[Column], rows: usize) -> Vec<Vec<(usize, f64)>> {
    let mut out: Vec<Vec<(usize, f64)>> = vec![Vec::new(); rows];
    for (column, data) in columns.iter().enumerate() {
        for (row, slope) in data.rows.iter().zip(&data.slopes) {
            if *slope != 0.0 {
                out[*row].push((column, *slope));
            }
        }
    }
    out
}

/// The step that the normal equations give, damped; rows without weight say nothing.
pub(super) fn step(
    constants: &Constants,
    rows: &[Row],
    freedoms: &[Freedom],
    slopes: &[Vec<(usize, f64)>],
    predicted: &[f64],
    effort: Effort<'_>,
    damping: f64,
) -> Vec<f64> {
    let count = freedoms.len();
    let mut normal = vec![0.0; count * count];
    let mut gradient = vec![0.0; count];
    for (index, entries) in slopes.iter().enumerate() {
        let residual = predicted[index] - rows[index].target;
        if !residual.is_finite() || rows[index].weight <= 0.0 {
            continue;
        }
        let weight = rows[index].weight * row_weight(residual, effort);
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

fn row_weight(residual: f64, effort: Effort<'_>) -> f64 {
    let size = libm::fabs(residual);
    if size <= effort.huber {
        1.0
    } else {
        effort.huber / size
    }
}

/// Puts a freedom where its prior has it.
pub(super) fn at_prior(constants: &mut Constants, freedom: Freedom) {
    match freedom {
        Freedom::Base(at) => constants.base[at] = libm::log(PARAMETERS[at].default),
        Freedom::Generation(at, g) => constants.by_generation[at][g] = 0.0,
        Freedom::Bucket(at, p) => constants.by_bucket[at][p] = 0.0,
        Freedom::Joint(at, j) => constants.by_joint[at][j] = 0.0,
    }
}

/// What rows and departures from priors cost together.
pub(super) fn total_cost(
    constants: &Constants,
    rows: &[Row],
    predicted: &[f64],
    effort: Effort<'_>,
) -> f64 {
    let huber = effort.huber;
    let mut cost = 0.0;
    for (row, value) in rows.iter().zip(predicted) {
        if row.weight <= 0.0 {
            continue;
        }
        let residual = libm::fabs(value - row.target);
        // A row without a prediction costs as much as one that is wrong by e.
        let residual = if residual.is_finite() { residual } else { 1.0 };
        cost += row.weight
            * if residual <= huber {
                0.5 * residual * residual
            } else {
                huber * (residual - 0.5 * huber)
            };
    }
    for freedom in freedoms(constants, rows, effort.moving) {
        let (departure, _) = prior(constants, freedom, effort.generation_scales);
        cost += 0.5 * departure * departure;
    }
    cost
}

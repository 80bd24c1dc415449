//! Fitting the constants of diffusion, vision and embedding models to measured rows, in logarithms.

use super::question::Run;
use gpuwise_size::{
    media::{Constants, PARAMETERS, constants::COUNT},
    solve::solve_symmetric,
};

/// A row to fit: equal runs are one, with the mean of their logarithms.
#[derive(Debug, Clone)]
pub struct Row<'a> {
    pub run: Run<'a>,
    /// Logarithm of the measured figure, in SI units.
    pub target: f64,
    pub weight: f64,
}

/// Steps at most.
const STEPS: usize = 12;
/// Residual, in logarithm, beyond which a row counts linearly.
const HUBER: f64 = 0.3;
/// How exact a row is taken to be: standard deviation of its logarithm.
const NOISE: f64 = 0.125;

/// A number that may move: a constant, or its correction for a generation.
type Freedom = (Option<usize>, usize);

/// Fits every constant, starting from the priors. The same rows give the same constants.
pub fn fit(rows: &[Row<'_>]) -> Constants {
    let mut constants = start(rows);
    let freedoms = freedoms(&constants);
    let mut predicted = predict(&constants, rows);
    let mut cost = total(&constants, &freedoms, rows, &predicted);
    let mut damping = 1e-2;
    for _ in 0..STEPS {
        let columns: Vec<Vec<f64>> = freedoms
            .iter()
            .map(|freedom| slopes(&constants, *freedom, rows, &predicted))
            .collect();
        let mut gained = 0.0;
        for _ in 0..6 {
            let step = step(&constants, &freedoms, rows, &columns, &predicted, damping);
            let mut next = constants.clone();
            for (freedom, delta) in freedoms.iter().zip(&step) {
                shift(&mut next, *freedom, delta.clamp(-0.5, 0.5));
            }
            let values = predict(&next, rows);
            let next_cost = total(&next, &freedoms, rows, &values);
            if next_cost < cost {
                gained = (cost - next_cost) / cost;
                (constants, predicted, cost) = (next, values, next_cost);
                damping *= 0.3;
                break;
            }
            damping *= 4.0;
        }
        if gained < 1e-5 {
            break;
        }
    }
    constants
}

/// How many numbers may move for these rows.
pub fn freedom_count(rows: &[Row<'_>]) -> usize {
    freedoms(&start(rows)).len()
}

fn start(rows: &[Row<'_>]) -> Constants {
    let mut generations: Vec<String> = rows
        .iter()
        .map(|row| row.run.device.gpu.generation.clone())
        .collect();
    generations.sort();
    generations.dedup();
    Constants {
        by_generation: generations
            .into_iter()
            .map(|name| (name, [1.0; COUNT]))
            .collect(),
        ..Constants::default()
    }
}

fn freedoms(constants: &Constants) -> Vec<Freedom> {
    let mut out = Vec::new();
    for (at, info) in PARAMETERS.iter().enumerate() {
        if info.spread > 0.0 {
            out.push((None, at));
        }
        if info.generation_spread > 0.0 {
            out.extend((0..constants.by_generation.len()).map(|g| (Some(g), at)));
        }
    }
    out
}

fn slot(constants: &mut Constants, (generation, at): Freedom) -> Option<&mut f64> {
    match generation {
        None => constants.values.get_mut(at),
        Some(g) => constants
            .by_generation
            .get_mut(g)
            .and_then(|(_, factors)| factors.get_mut(at)),
    }
}

fn shift(constants: &mut Constants, freedom: Freedom, delta: f64) {
    if let Some(value) = slot(constants, freedom) {
        *value *= libm::exp(delta);
    }
}

/// Departure from the prior in standard deviations, and its slope.
fn prior(constants: &Constants, (generation, at): Freedom) -> (f64, f64) {
    let Some(info) = PARAMETERS.get(at) else {
        return (0.0, 0.0);
    };
    let (value, spread) = match generation {
        None => (constants.values[at] / info.default, info.spread),
        Some(g) => (constants.by_generation[g].1[at], info.generation_spread),
    };
    (libm::log(value) / spread, 1.0 / spread)
}

fn predict(constants: &Constants, rows: &[Row<'_>]) -> Vec<f64> {
    rows.iter()
        .map(|row| row.run.figure(constants).map_or(f64::NAN, libm::log))
        .collect()
}

fn slopes(
    constants: &Constants,
    freedom: Freedom,
    rows: &[Row<'_>],
    predicted: &[f64],
) -> Vec<f64> {
    const DELTA: f64 = 1e-3;
    let generation = freedom
        .0
        .and_then(|g| constants.by_generation.get(g))
        .map(|(name, _)| name.clone());
    let mut shifted = constants.clone();
    shift(&mut shifted, freedom, DELTA);
    let slope = |(row, value): (&Row<'_>, &f64)| {
        let own = generation
            .as_ref()
            .is_none_or(|name| *name == row.run.device.gpu.generation);
        if !own {
            return 0.0;
        }
        let moved = row.run.figure(&shifted).map_or(f64::NAN, libm::log);
        let slope = (moved - value) / DELTA;
        if slope.is_finite() { slope } else { 0.0 }
    };
    rows.iter().zip(predicted).map(slope).collect()
}

fn step(
    constants: &Constants,
    freedoms: &[Freedom],
    rows: &[Row<'_>],
    columns: &[Vec<f64>],
    predicted: &[f64],
    damping: f64,
) -> Vec<f64> {
    let count = freedoms.len();
    let mut normal = vec![0.0; count * count];
    let mut gradient = vec![0.0; count];
    for (index, row) in rows.iter().enumerate() {
        let residual = predicted[index] - row.target;
        if !residual.is_finite() {
            continue;
        }
        let size = libm::fabs(residual);
        let outlier = if size <= HUBER { 1.0 } else { HUBER / size };
        let weight = row.weight * outlier / (NOISE * NOISE);
        for i in 0..count {
            let slope = columns[i][index];
            if slope == 0.0 {
                continue;
            }
            gradient[i] -= weight * slope * residual;
            for j in 0..count {
                normal[i * count + j] += weight * slope * columns[j][index];
            }
        }
    }
    for (i, freedom) in freedoms.iter().enumerate() {
        let (departure, slope) = prior(constants, *freedom);
        gradient[i] -= departure * slope;
        normal[i * count + i] += slope * slope;
        normal[i * count + i] *= 1.0 + damping;
    }
    solve_symmetric(normal, gradient)
}

fn total(constants: &Constants, freedoms: &[Freedom], rows: &[Row<'_>], predicted: &[f64]) -> f64 {
    let departures: f64 = freedoms
        .iter()
        .map(|freedom| prior(constants, *freedom).0)
        .map(|departure| 0.5 * departure * departure)
        .sum();
    let residuals = rows.iter().zip(predicted).map(|(row, value)| {
        let size = libm::fabs(value - row.target);
        let size = if size.is_finite() { size } else { 1.0 };
        let cost = if size <= HUBER {
            0.5 * size * size
        } else {
            HUBER * (size - HUBER / 2.0)
        };
        row.weight * cost / (NOISE * NOISE)
    });
    departures + residuals.sum::<f64>()
}

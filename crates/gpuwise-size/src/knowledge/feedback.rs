//! A user's own measured rows as corrections.
//!
//! Each row gives r = ln(measured / predicted) for a GPU, an engine, a model, a precision and a
//! class of metrics. What r is elsewhere is the mean of a Gaussian process that passes near the rows.
//! All rows of a deployment share a level and a trend over what was predicted, and more the nearer
//! they are: over the logarithms of the load per GPU, of input over output tokens, and of what was
//! predicted; another layout shares half of that. So rows that say the same do not count as many,
//! and what is off where requests wait is not carried to where they do not. Before any row, r is 0.
//!
//! The constants were chosen on published sweeps by some draws of five points of a deployment, and
//! judged by others (`benches/feedback.py`). The range narrows as far as the rows say something of
//! the question.

use super::ranges::MetricClass;
use crate::solve::solve_symmetric;
use alloc::{string::String, vec::Vec};
use gpuwise_domain::layout::Layout;

/// One measured row against its prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Catalogue name of the GPU.
    pub gpu: String,
    pub bucket: String,
    /// The model, folded as the catalogue folds names.
    pub model: String,
    pub weights: String,
    pub class: MetricClass,
    /// ln(measured / predicted).
    pub residual: f64,
    /// Sequences in flight per GPU, as the load states them or as a rate keeps them.
    pub load: Option<f64>,
    /// What was predicted, in SI units, where it is known.
    pub predicted: Option<f64>,
    /// Input over output tokens, where stated.
    pub shape: Option<f64>,
    /// The layout, replicas left aside.
    pub layout: Layout,
}

/// A user's own rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Feedback {
    /// In the order given.
    pub observations: Vec<Observation>,
}

/// Variance that all rows share, over that which only near ones do.
const LEVEL: f64 = 0.3;
/// Variance of the trend over the logarithm of what was predicted.
const TREND: f64 = 0.1;
/// Logarithms of load, of input over output, and of what was predicted, after which rows share 1/e
/// of the rest.
const LOAD: f64 = 5.0;
const SHAPE: f64 = 3.0;
const PREDICTED: f64 = 3.0;
/// What another layout shares of the rest.
const OTHER_LAYOUT: f64 = 0.5;
/// Variance of one row's own.
const NOISE: f64 = 0.05;
/// Rows that are asked at most: the nearest.
const ROWS: usize = 32;
/// What remains of the range's width (in logarithm) when rows say all that they can.
const NARROWEST: f64 = 0.64;

/// How a question stands to a user's rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correction {
    /// Added to the logarithm of the figure.
    pub shift: f64,
    /// Factor on the width (in logarithm) of the range.
    pub width: f64,
    /// Rows of this very deployment.
    pub rows: usize,
}

impl Feedback {
    /// The correction for a question; `None` where no row has the GPU, engine, model and precision
    /// and metric class.
    pub fn correction(&self, question: &Observation) -> Option<Correction> {
        let own = self.of_class(question, question.class);
        // Where no tail was measured, it moves with the mean.
        own.or_else(|| self.of_class(question, question.class.mean()?))
    }

    fn of_class(&self, question: &Observation, class: MetricClass) -> Option<Correction> {
        let like = |row: &&Observation| {
            row.gpu == question.gpu
                && row.bucket == question.bucket
                && row.model == question.model
                && row.weights == question.weights
                && row.class == class
        };
        let mut rows: Vec<&Observation> = self.observations.iter().filter(like).collect();
        let count = rows.len();
        if count == 0 {
            return None;
        }
        let middle = Middle::of(&rows, question);
        let with = |row: &Observation| middle.shared(row, question);
        rows.sort_by(|a, b| with(b).total_cmp(&with(a)));
        rows.truncate(ROWS);
        let covariance = |i: usize, j: usize| {
            let own = if i == j { NOISE } else { 0.0 };
            middle.shared(rows[i], rows[j]) + own
        };
        let size = rows.len();
        let pairs = (0..size).flat_map(|i| (0..size).map(move |j| (i, j)));
        let covariances = pairs.map(|(i, j)| covariance(i, j)).collect();
        let asked: Vec<f64> = rows.iter().map(|row| with(row)).collect();
        // What each row counts: K⁻¹·k, of the rows' covariance K and theirs with the question, k.
        let counts = solve_symmetric(covariances, asked.clone());
        // Of the variance of the question, what the rows leave.
        let explained: f64 = counts.iter().zip(&asked).map(|(count, k)| count * k).sum();
        let unsaid = (1.0 - explained / middle.shared(question, question)).clamp(0.0, 1.0);
        Some(Correction {
            shift: rows
                .iter()
                .zip(&counts)
                .map(|(row, count)| count * row.residual)
                .sum(),
            width: NARROWEST + (1.0 - NARROWEST) * unsaid,
            rows: count,
        })
    }
}

/// The middle of rows: where those stand that do not say, and where the trend turns about.
struct Middle([f64; 3]);

impl Middle {
    fn of(rows: &[&Observation], question: &Observation) -> Self {
        let places: Vec<[Option<f64>; 3]> = rows.iter().map(|row| row.place()).collect();
        let known = |axis: usize| places.iter().filter_map(move |place| place[axis]);
        let asked = question.place();
        Self([0, 1, 2].map(|axis| {
            let rows = mean(known(axis));
            rows.or(asked[axis]).unwrap_or(0.0)
        }))
    }

    /// From the middle along each axis.
    fn place(&self, row: &Observation) -> [f64; 3] {
        let place = row.place();
        [0, 1, 2].map(|axis| place[axis].map_or(0.0, |at| at - self.0[axis]))
    }

    /// Covariance of what two runs leave.
    fn shared(&self, a: &Observation, b: &Observation) -> f64 {
        let (at, to) = (self.place(a), self.place(b));
        let axes = at.iter().zip(&to).zip([LOAD, SHAPE, PREDICTED]);
        let far: f64 = axes.map(|((a, b), reach)| libm::fabs(a - b) / reach).sum();
        let layout = if a.layout == b.layout {
            1.0
        } else {
            OTHER_LAYOUT
        };
        LEVEL + TREND * at[2] * to[2] + layout * libm::exp(-far)
    }
}

impl Observation {
    /// Logarithms of load, of input over output, and of what was predicted.
    fn place(&self) -> [Option<f64>; 3] {
        // Rates are of requests or of tokens, which have no one axis.
        let predicted = self.predicted.filter(|_| self.class.is_latency());
        [self.load, self.shape, predicted].map(logarithm)
    }
}

fn logarithm(size: Option<f64>) -> Option<f64> {
    size.filter(|x| *x > 0.0 && x.is_finite()).map(libm::log)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), x| (sum + x, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

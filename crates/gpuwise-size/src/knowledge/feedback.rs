//! A user's own measured rows as corrections.
//!
//! Each row gives r = ln(measured / predicted) for a GPU, an engine, a model, a precision and a
//! class of metrics. A question's correction is the mean of the rows' r, each weighted by how much
//! it has in common with the question, pulled to 0 by a prior of one row's weight:
//! `shift = Σ w·r / (Σ w + λ)`, with λ the variance of rows of one deployment over that of
//! deployments. The range keeps the part of the spread that such rows do not explain.

use super::ranges::MetricClass;
use alloc::{string::String, vec::Vec};

/// One measured row against its prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Catalogue name of the GPU.
    pub gpu: String,
    /// Engine profile.
    pub profile: String,
    /// The model, folded as the catalogue folds names.
    pub model: String,
    /// Weight format.
    pub weights: String,
    /// The class of its metric.
    pub class: MetricClass,
    /// ln(measured / predicted).
    pub residual: f64,
    /// Sequences in flight per GPU, where the load states them.
    pub load: Option<f64>,
}

/// A user's own rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Feedback {
    /// In the order given.
    pub observations: Vec<Observation>,
}

/// Rows of one deployment spread less than deployments do: measured on leave-one-out of published
/// rows, the variance within a configuration is about a third of that between configurations.
const WITHIN_OVER_BETWEEN: f64 = 0.35;

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
        let mut sum = 0.0;
        let mut weights = 0.0;
        let mut rows = 0;
        for row in &self.observations {
            let same = row.gpu == question.gpu
                && row.profile == question.profile
                && row.model == question.model
                && row.weights == question.weights;
            if !same || row.class != question.class {
                continue;
            }
            // Rows at a like load say more: the weight halves for every factor of four.
            let weight = match (row.load, question.load) {
                (Some(a), Some(b)) if a > 0.0 && b > 0.0 => {
                    let octaves = libm::fabs(libm::log2(a / b));
                    libm::exp2(-octaves / 2.0)
                }
                _ => 0.5,
            };
            sum += weight * row.residual;
            weights += weight;
            rows += 1;
        }
        if rows == 0 {
            return None;
        }
        let kept = WITHIN_OVER_BETWEEN / (weights + WITHIN_OVER_BETWEEN);
        Some(Correction {
            shift: sum / (weights + WITHIN_OVER_BETWEEN),
            width: libm::sqrt(kept + (1.0 - kept) * 0.25),
            rows,
        })
    }
}

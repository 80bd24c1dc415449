//! Least squares, one reading after the other, the past counting ever less.

use serde::{Deserialize, Serialize};

/// What it goes by.
pub(super) const FEATURES: usize = 6;
pub(super) type Features = [f64; FEATURES];

/// What is left of a reading's weight after the next one.
const KEPT: f64 = 0.9985;
/// How sure it is of 0 at first: the variance of what a coefficient may be.
const PRIOR: f64 = 0.05;
/// Steps beyond this are taken as this: one reading does not undo all others.
const LARGEST: f64 = 1.0;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Regression {
    weights: Features,
    /// The inverse of the weighted second moments.
    spread: [Features; FEATURES],
}

impl Default for Regression {
    fn default() -> Self {
        let mut spread = [[0.0; FEATURES]; FEATURES];
        for (at, row) in spread.iter_mut().enumerate() {
            row[at] = PRIOR;
        }
        Self {
            weights: [0.0; FEATURES],
            spread,
        }
    }
}

fn dot(a: &Features, b: &Features) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Regression {
    pub(super) fn say(&self, features: &Features) -> f64 {
        dot(&self.weights, features).clamp(-LARGEST, LARGEST)
    }

    pub(super) fn learn(&mut self, features: &Features, came: f64) {
        let mut moved = [0.0; FEATURES];
        for (one, row) in moved.iter_mut().zip(&self.spread) {
            *one = dot(row, features);
        }
        let scale = KEPT + dot(features, &moved);
        let error = came.clamp(-LARGEST, LARGEST) - dot(&self.weights, features);
        for (weight, one) in self.weights.iter_mut().zip(&moved) {
            *weight += one / scale * error;
        }
        for (row, left) in self.spread.iter_mut().zip(&moved) {
            for (cell, right) in row.iter_mut().zip(&moved) {
                // What is never moved is not forgotten without end.
                *cell =
                    ((*cell - left * right / scale) / KEPT).clamp(-PRIOR * 100.0, PRIOR * 100.0);
            }
        }
    }
}

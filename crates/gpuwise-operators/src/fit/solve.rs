//! Penalised least squares on a grid: second differences and a pull to zero.

use crate::grid::{Corners, Grid, Point};
use alloc::{vec, vec::Vec};

/// A symmetric band matrix, its lower half by rows.
#[derive(Debug, Clone)]
pub(super) struct Band {
    width: usize,
    size: usize,
    cells: Vec<f64>,
}

impl Band {
    pub(super) fn new(size: usize, width: usize) -> Self {
        Self {
            width,
            size,
            cells: vec![0.0; size * (width + 1)],
        }
    }

    pub(super) fn add(&mut self, i: usize, j: usize, value: f64) {
        let (row, column) = if i >= j { (i, j) } else { (j, i) };
        self.cells[row * (self.width + 1) + self.width + column - row] += value;
    }

    /// Solves `A·x = b` by Cholesky's factors, in place.
    pub(super) fn solve(mut self, mut b: Vec<f64>) -> Vec<f64> {
        let (w, s) = (self.width, self.width + 1);
        for i in 0..self.size {
            let from = i.saturating_sub(w);
            for j in from..=i {
                let low = from.max(j.saturating_sub(w));
                let (left, right) = (i * s + w - i, j * s + w - j);
                let dot: f64 = self.cells[left + low..left + j]
                    .iter()
                    .zip(&self.cells[right + low..right + j])
                    .map(|(a, b)| a * b)
                    .sum();
                let rest = self.cells[left + j] - dot;
                self.cells[left + j] = if i == j {
                    libm::sqrt(rest.max(1e-12))
                } else {
                    rest / self.cells[right + j]
                };
            }
        }
        for i in 0..self.size {
            let base = i * s + w - i;
            let from = i.saturating_sub(w);
            let dot: f64 = (from..i).map(|j| self.cells[base + j] * b[j]).sum();
            b[i] = (b[i] - dot) / self.cells[base + i];
        }
        for i in (0..self.size).rev() {
            let base = i * s + w - i;
            b[i] /= self.cells[base + i];
            let value = b[i];
            let from = i.saturating_sub(w);
            let cells = &self.cells[base + from..base + i];
            for (above, cell) in b[from..i].iter_mut().zip(cells) {
                *above -= cell * value;
            }
        }
        b
    }
}

/// How strongly a surface is held.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pull {
    /// On second differences by axis.
    pub(super) smooth: f64,
    /// Strength of the ridge that pulls values to 0.
    pub(super) zero: f64,
}

fn penalty(grid: &Grid, pull: Pull) -> Band {
    let mut band = Band::new(grid.len(), grid.bandwidth());
    for i in 0..grid.len() {
        band.add(i, i, pull.zero);
    }
    for (knots, start, stride) in grid.lines() {
        for (at, around) in knots.windows(3).enumerate() {
            let (before, after) = (around[1] - around[0], around[2] - around[1]);
            let middle = start + (at + 1) * stride;
            let parts = [
                (middle - stride, 1.0 / before),
                (middle, -1.0 / before - 1.0 / after),
                (middle + stride, 1.0 / after),
            ];
            for (a, (i, x)) in parts.iter().enumerate() {
                for (j, y) in &parts[..=a] {
                    band.add(*i, *j, pull.smooth * x * y);
                }
            }
        }
    }
    band
}

/// Errors beyond this weigh less, in logarithms: spikes and changes of kernels.
const ROBUST: f64 = 0.05;
const ROUNDS: usize = 3;

/// The surface nearest to values at points.
pub(super) fn surface(grid: &Grid, points: &[(Point, f64)], pull: Pull) -> Vec<f64> {
    let start = penalty(grid, pull);
    let mut corners = Corners::default();
    let mut found = vec![0.0; grid.len()];
    for round in 0..ROUNDS {
        let mut matrix = start.clone();
        let mut right = vec![0.0; grid.len()];
        for (point, value) in points {
            grid.corners(point, &mut corners);
            let items = corners.items();
            let trust = if round == 0 {
                1.0
            } else {
                let fit: f64 = items.iter().map(|(i, w)| w * found[*i]).sum();
                ROBUST / (value - fit).abs().max(ROBUST)
            };
            for (a, (i, x)) in items.iter().enumerate() {
                if *x == 0.0 {
                    continue;
                }
                let scaled = trust * x;
                right[*i] += scaled * value;
                for (j, y) in &items[..=a] {
                    matrix.add(*i, *j, scaled * y);
                }
            }
        }
        found = matrix.solve(right);
    }
    found
}

/// Sets the knots that no point touches to 0.
pub(super) fn clear_untouched(grid: &Grid, points: &[(Point, f64)], values: &mut [f64]) {
    let mut touched = vec![false; grid.len()];
    let mut corners = Corners::default();
    for (point, _) in points {
        grid.corners(point, &mut corners);
        for (i, weight) in corners.items() {
            touched[*i] |= *weight > 0.0;
        }
    }
    // Between two that were measured, and one knot beyond, lies what they say.
    let mut within = touched.clone();
    for (knots, start, stride) in grid.lines() {
        let seen = |i: &usize| touched[start + i * stride];
        let first = (0..knots.len()).find(seen);
        let last = (0..knots.len()).rev().find(seen);
        if let (Some(first), Some(last)) = (first, last) {
            for i in first.saturating_sub(1)..=(last + 1).min(knots.len() - 1) {
                within[start + i * stride] = true;
            }
        }
    }
    for (value, within) in values.iter_mut().zip(within) {
        if !within {
            *value = 0.0;
        }
    }
}

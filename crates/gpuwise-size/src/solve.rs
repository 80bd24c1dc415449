//! Linear systems of the fits.

use alloc::vec::Vec;

/// Solves a symmetric positive definite system by Cholesky's method; a pivot that vanishes is
/// replaced by a tiny one, so that its unknown stays near zero.
pub fn solve_symmetric(mut matrix: Vec<f64>, mut right: Vec<f64>) -> Vec<f64> {
    let count = right.len();
    for column in 0..count {
        let mut pivot = matrix[column * count + column];
        for k in 0..column {
            pivot -= matrix[column * count + k] * matrix[column * count + k];
        }
        let root = libm::sqrt(pivot.max(1e-12));
        matrix[column * count + column] = root;
        for row in column + 1..count {
            let mut sum = matrix[row * count + column];
            for k in 0..column {
                sum -= matrix[row * count + k] * matrix[column * count + k];
            }
            matrix[row * count + column] = sum / root;
        }
    }
    for row in 0..count {
        let mut sum = right[row];
        for k in 0..row {
            sum -= matrix[row * count + k] * right[k];
        }
        right[row] = sum / matrix[row * count + row];
    }
    for row in (0..count).rev() {
        let mut sum = right[row];
        for k in row + 1..count {
            sum -= matrix[k * count + row] * right[k];
        }
        right[row] = sum / matrix[row * count + row];
    }
    right
}

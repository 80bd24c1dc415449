//! Constants as they would be without some of the rows, from the slopes of the fit of all.
//!
//! A fit ends where few steps lead further, and without one group of rows the end lies near. So the
//! slopes are taken once, at the end of the full fit, and each fold solves its normal equations with
//! them (the chord method): a step costs one evaluation of the rows that stay, instead of one for
//! every number that may move. Residuals are always the true model's.

use super::{
    Effort, Moving, Row,
    slopes::{
        Freedom, at_prior, by_row, freedoms, jacobian, moved, step, total_cost, touched_rows,
    },
};
use gpuwise_size::constants::Constants;

/// Steps of a fold at most.
const STEPS: usize = 4;
/// A step that brings costs down by less than this part is the last.
const LITTLE: f64 = 2e-4;
/// How often a step that leads uphill is halved.
const HALVINGS: usize = 3;

/// How predictions of all rows move with each number, where the fit of all rows ended.
#[derive(Debug, Clone)]
pub struct Slopes {
    freedoms: Vec<Freedom>,
    by_row: Vec<Vec<(usize, f64)>>,
}

impl Slopes {
    /// The slopes at some constants; `predict` as for [`fit`](super::fit).
    pub fn at(
        constants: &Constants,
        rows: &[Row],
        moving: Moving,
        predict: &dyn Fn(&Constants, &[usize]) -> Vec<f64>,
    ) -> Self {
        let all: Vec<usize> = (0..rows.len()).collect();
        let freedoms = freedoms(constants, rows, moving);
        let touched: Vec<Vec<usize>> = freedoms
            .iter()
            .map(|freedom| touched_rows(*freedom, rows))
            .collect();
        let predicted = predict(constants, &all);
        let columns = jacobian(constants, &freedoms, &touched, &predicted, predict);
        Self {
            freedoms,
            by_row: by_row(&columns, rows.len()),
        }
    }

    /// The constants without the rows that `left_out` names, from those of all rows. A number that no
    /// row that stays can tell goes back to its prior.
    pub fn without(
        &self,
        full: &Constants,
        rows: &[Row],
        left_out: &dyn Fn(usize) -> bool,
        effort: Effort<'_>,
        predict: &dyn Fn(&Constants, &[usize]) -> Vec<f64>,
    ) -> Constants {
        let mut rows = rows.to_vec();
        let mut kept = Vec::new();
        let mut told = vec![false; self.freedoms.len()];
        for (at, row) in rows.iter_mut().enumerate() {
            if left_out(at) {
                row.weight = 0.0;
                continue;
            }
            kept.push(at);
            for (freedom, _) in &self.by_row[at] {
                told[*freedom] = true;
            }
        }
        let all = rows.len();
        let predicted = |constants: &Constants| -> Vec<f64> {
            let mut out = vec![f64::NAN; all];
            for (at, value) in kept.iter().zip(predict(constants, &kept)) {
                out[*at] = value;
            }
            out
        };
        let mut constants = full.clone();
        for (freedom, _) in self.freedoms.iter().zip(&told).filter(|(_, told)| !**told) {
            at_prior(&mut constants, *freedom);
        }
        let mut values = predicted(&constants);
        let mut cost = total_cost(&constants, &rows, &values, effort);
        for _ in 0..effort.steps.min(STEPS) {
            let mut step = step(
                &constants,
                &rows,
                &self.freedoms,
                &self.by_row,
                &values,
                effort,
                0.0,
            );
            let mut gain = 0.0;
            for _ in 0..=HALVINGS {
                let candidate = moved(&constants, &self.freedoms, &step);
                let next = predicted(&candidate);
                let next_cost = total_cost(&candidate, &rows, &next, effort);
                if next_cost < cost {
                    gain = (cost - next_cost) / cost;
                    (constants, values, cost) = (candidate, next, next_cost);
                    break;
                }
                for delta in &mut step {
                    *delta *= 0.5;
                }
            }
            if gain < LITTLE {
                break;
            }
        }
        constants
    }
}

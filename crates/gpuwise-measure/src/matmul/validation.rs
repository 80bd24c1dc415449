//! Predictions of shapes and of processors that the model has not seen.

use super::{
    MatmulModel, Settings, Timing, Timings,
    elsewhere::{Abstention, Carry, carried, weights},
};
use gpuwise_domain::profile::matmul::{MatmulPrecision, MatmulShape};
use gpuwise_units::RandomStream;
use std::collections::{BTreeMap, BTreeSet};

/// A prediction of a row that was left out, in the order of the rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unseen {
    pub seconds: f64,
    /// How rough it is around there, as |ln|.
    pub roughness: f64,
}

/// The fold of a shape: every processor and precision of it fall together.
pub fn fold(shape: MatmulShape, folds: u64, seed: u64) -> u64 {
    let entity = u64::from(shape.m)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(u64::from(shape.n))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(u64::from(shape.k));
    RandomStream::new(seed, "shapes left out", entity).below(folds.max(1))
}

/// Every row predicted by a model that has not seen its shape, in any precision on any processor.
pub fn unseen_shapes(timings: &Timings, folds: u64, settings: &Settings) -> Vec<Option<Unseen>> {
    let fold_of: Vec<u64> = timings
        .rows
        .iter()
        .map(|row| fold(row.shape, folds, settings.seed))
        .collect();
    let mut out = vec![None; timings.rows.len()];
    for left in 0..folds {
        let train: Vec<&Timing> = timings
            .rows
            .iter()
            .zip(&fold_of)
            .filter(|(_, fold)| **fold != left)
            .map(|(row, _)| row)
            .collect();
        let model = MatmulModel::fit_rows(&timings.processors, &train, settings);
        for (at, row) in timings.rows.iter().enumerate() {
            if fold_of[at] == left {
                out[at] = model
                    .predict(row.processor, row.precision, row.shape)
                    .map(|said| Unseen {
                        seconds: said.seconds,
                        roughness: said.roughness,
                    });
            }
        }
    }
    out
}

type Weights = Vec<(usize, f64)>;

/// Seconds of every product on every processor, by precision and shape.
pub type ByShape = BTreeMap<(MatmulPrecision, MatmulShape), Vec<Option<f64>>>;

pub fn by_shape(timings: &Timings) -> ByShape {
    let mut out = ByShape::new();
    for row in &timings.rows {
        let seconds = out
            .entry((row.precision, row.shape))
            .or_insert_with(|| vec![None; timings.processors.len()]);
        seconds[row.processor] = Some(row.seconds);
    }
    out
}

/// Every row predicted from the other processors alone, or why not; `same` says which processors are
/// left out together (a whole architecture, say). `seconds` holds what donors take: measured, or
/// predicted where the shape is unseen too.
pub fn unseen_processors(
    timings: &Timings,
    seconds: &ByShape,
    carry: &Carry,
    same: impl Fn(usize, usize) -> bool,
) -> Vec<Result<Unseen, Abstention>> {
    let mut known: BTreeMap<(usize, MatmulPrecision), Result<Weights, Abstention>> =
        BTreeMap::new();
    let there: BTreeSet<(MatmulPrecision, usize)> = timings
        .rows
        .iter()
        .map(|row| (row.precision, row.processor))
        .collect();
    timings
        .rows
        .iter()
        .map(|row| {
            let target = &timings.processors[row.processor];
            let weights = known
                .entry((row.processor, row.precision))
                .or_insert_with(|| {
                    let donors: Vec<_> = timings
                        .processors
                        .iter()
                        .enumerate()
                        .filter(|(at, _)| *at != row.processor && !same(*at, row.processor))
                        .filter(|(at, _)| there.contains(&(row.precision, *at)))
                        .collect();
                    weights(target, &donors, row.precision, carry)
                });
            let weights = weights.as_ref().map_err(Clone::clone)?;
            let times = seconds.get(&(row.precision, row.shape));
            let donors: Vec<_> = weights
                .iter()
                .filter_map(|(at, weight)| {
                    let seconds = (*times?.get(*at)?)?;
                    Some((*weight, seconds, &timings.processors[*at]))
                })
                .collect();
            carried(target, &donors, row.precision, row.shape)
                .map(|(seconds, spread)| Unseen {
                    seconds,
                    roughness: spread,
                })
                .ok_or(Abstention::Nothing(row.precision.name()))
        })
        .collect()
}

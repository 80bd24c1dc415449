//! Products predicted by operator functions that have not seen their shape, their chip, or both.

use super::timings::{Timing, Timings};
use gpuwise_domain::profile::matmul::{MatmulPrecision, MatmulShape};
use gpuwise_operators::{
    Basis,
    fit::{Samples, kept},
};
use gpuwise_units::RandomStream;
use std::collections::{BTreeMap, BTreeSet};

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum LeftOut:
        /// The words for people.
        name
    {
        /// Whole shapes, a fifth at a time, on every GPU and in every precision at once.
        Shapes = "shapes",
        /// Whole chips, with every board that has one.
        Gpus = "a GPU",
        /// Whole architectures, one at a time.
        Architectures = "an architecture",
        /// Whole chips and shapes at once.
        GpusAndShapes = "a GPU and shapes",
    }
}

/// A prediction of a row that was left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unseen {
    pub seconds: f64,
    pub basis: Basis,
}

pub const FOLDS: u64 = 5;

/// The fold of a shape: every processor and precision of it fall together.
pub fn fold(shape: MatmulShape, seed: u64) -> u64 {
    let entity = u64::from(shape.m)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(u64::from(shape.n))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(u64::from(shape.k));
    RandomStream::new(seed, "shapes left out", entity).below(FOLDS)
}

/// Rows that are judged together, and those that what judges them was fitted to.
struct Part<'a> {
    judged: Box<dyn Fn(&Timing) -> bool + 'a>,
    seen: Box<dyn Fn(&Timing) -> bool + 'a>,
}

impl<'a> Part<'a> {
    /// Rows that are left out, and judged.
    fn out(out: impl Fn(&Timing) -> bool + Copy + 'a) -> Self {
        Self {
            judged: Box::new(out),
            seen: Box::new(move |row| !out(row)),
        }
    }
}

fn parts(timings: &Timings, left_out: LeftOut, seed: u64) -> Vec<Part<'_>> {
    let folds = || (0..FOLDS).map(move |left| move |row: &Timing| fold(row.shape, seed) == left);
    let groups = |same: fn(&Timings, usize, usize) -> bool| {
        let all = 0..timings.processors.len();
        let first = all.filter(move |at| !(0..*at).any(|before| same(timings, before, *at)));
        first.map(move |at| move |row: &Timing| same(timings, at, row.processor))
    };
    match left_out {
        LeftOut::Shapes => folds().map(Part::out).collect(),
        LeftOut::Gpus => groups(Timings::twins).map(Part::out).collect(),
        LeftOut::Architectures => groups(Timings::kin).map(Part::out).collect(),
        LeftOut::GpusAndShapes => groups(Timings::twins)
            .flat_map(|chip| folds().map(move |shape| (chip, shape)))
            .map(|(chip, shape)| Part {
                judged: Box::new(move |row| chip(row) && shape(row)),
                seen: Box::new(move |row| !chip(row) && !shape(row)),
            })
            .collect(),
    }
}

/// Every row predicted by functions that were fitted without what is left out with it; `None` where
/// nothing of its vendor was seen.
pub fn unseen(
    timings: &Timings,
    samples: &Samples,
    left_out: LeftOut,
    seed: u64,
) -> Vec<Option<Unseen>> {
    let mut out = vec![None; timings.rows.len()];
    for part in parts(timings, left_out, seed) {
        let known: Vec<bool> = timings.rows.iter().map(|row| (part.seen)(row)).collect();
        let vendors: BTreeSet<&str> = timings
            .rows
            .iter()
            .zip(&known)
            .filter(|(_, known)| **known)
            .map(|(row, _)| timings.processors[row.processor].vendor.as_str())
            .collect();
        let functions = kept(samples, |at| known[at]);
        let rows = timings.rows.iter().zip(&samples.rows).zip(&mut out);
        for ((row, sample), out) in rows.filter(|((row, _), _)| (part.judged)(row)) {
            let vendor = timings.processors[row.processor].vendor.as_str();
            if !vendors.contains(vendor) {
                continue;
            }
            *out = functions.of_sample(samples, sample).map(|said| Unseen {
                seconds: said.seconds,
                basis: said.basis,
            });
        }
    }
    out
}

/// Seconds of every product on every processor, by precision and shape.
pub type ByShape = BTreeMap<(MatmulPrecision, MatmulShape), Vec<Option<f64>>>;

/// The rows by shape.
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

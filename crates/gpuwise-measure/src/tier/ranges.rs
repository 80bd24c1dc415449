//! Ranges of predictions of what was left out, from errors of what stood alike.

use super::{
    carried::{WIDEST, trusted},
    products::Stated,
    timings::Timings,
    unseen::{LeftOut, Unseen, fold},
};
use crate::learn::quantile;
use gpuwise_domain::profile::matmul::MatmulPrecision;
use gpuwise_operators::Basis;

/// How near anything stood of which times were seen; errors of what stood alike make a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stood {
    Generation,
    Family,
    /// Nothing of its family was seen: what carries is the law alone.
    Elsewhere,
}

impl Stood {
    fn by(basis: Basis) -> Self {
        match basis {
            basis if basis <= Basis::Generation => Self::Generation,
            basis if trusted(basis) => Self::Family,
            _ => Self::Elsewhere,
        }
    }
}

/// Other chips that must have stood as alone as one of which no family was seen, before their errors tell
/// of its own.
const LONE: usize = 3;

/// Predictions with ranges that 80 % of the errors of others lie between that stood alike: on the same
/// GPU in other folds where shapes were left out, on other chips of which as near a one was seen where
/// chips were. Of two chips that tell of each other, which is left out is chance, and so is the sign of
/// the error: it counts both ways. Where the range is too wide, or too few stood so, nothing is said.
pub(super) fn ranged(
    timings: &Timings,
    unseen: &[Option<Unseen>],
    left_out: LeftOut,
    seed: u64,
) -> Vec<Stated> {
    let told: Vec<Told> = timings
        .rows
        .iter()
        .zip(unseen)
        .filter_map(|(row, said)| {
            let said = said.as_ref()?;
            Some(Told {
                processor: row.processor,
                precision: row.precision,
                stood: Stood::by(said.basis),
                fold: fold(row.shape, seed),
                error: libm::log(row.seconds / said.seconds),
            })
        })
        .collect();
    let shapes = left_out == LeftOut::Shapes;
    let mut known = std::collections::BTreeMap::new();
    let mut range = |of: &Told| {
        let key = (of.processor, of.precision, of.stood);
        let key = (key, if shapes { of.fold } else { 0 });
        *known.entry(key).or_insert_with(|| {
            if shapes {
                Some(of_folds(&told, of))
            } else {
                of_chips(timings, &told, of)
            }
        })
    };
    let mut next = told.iter();
    let stated = unseen.iter().map(|said| {
        let said = said.as_ref()?;
        let (low, high) = range(next.next()?)?;
        let ends = (libm::exp(low.min(0.0)), libm::exp(high.max(0.0)));
        (ends.1 / ends.0 <= WIDEST).then_some((
            said.seconds,
            said.seconds * ends.0,
            said.seconds * ends.1,
        ))
    });
    stated.collect()
}

/// How far a prediction lay off, and how it stood.
struct Told {
    processor: usize,
    precision: MatmulPrecision,
    stood: Stood,
    fold: u64,
    /// ln(measured / predicted).
    error: f64,
}

/// Of other folds on the same GPU.
fn of_folds(told: &[Told], of: &Told) -> (f64, f64) {
    let own = told.iter().filter(|other| {
        (other.processor, other.precision) == (of.processor, of.precision) && other.fold != of.fold
    });
    let errors: Vec<f64> = own.map(|other| other.error).collect();
    (quantile(&errors, 0.1), quantile(&errors, 0.9))
}

/// Of other chips that stood alike; of all others where none did.
fn of_chips(timings: &Timings, told: &[Told], of: &Told) -> Option<(f64, f64)> {
    let others = told.iter().filter(|other| {
        other.precision == of.precision && !timings.twins(other.processor, of.processor)
    });
    let (mut alike, rest): (Vec<_>, Vec<_>) = others.partition(|other| other.stood == of.stood);
    let mut chips: Vec<usize> = Vec::new();
    for other in &alike {
        if !chips
            .iter()
            .any(|chip| timings.twins(*chip, other.processor))
        {
            chips.push(other.processor);
        }
    }
    if of.stood == Stood::Elsewhere && chips.len() < LONE {
        return None;
    }
    if alike.is_empty() {
        alike = rest;
    }
    let both = alike.iter().flat_map(|other| [other.error, -other.error]);
    let errors: Vec<f64> = both.collect();
    Some((quantile(&errors, 0.1), quantile(&errors, 0.9)))
}

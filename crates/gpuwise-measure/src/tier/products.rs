//! Tier choice judged on timed matrix products: every GPU is a tier, every product a workload.

use super::{
    choice::Cost,
    regret::{Case, Decided},
    timings::Timings,
    unseen::ByShape,
};

use gpuwise_domain::profile::matmul::{MatmulPrecision, MatmulShape};
use std::collections::BTreeMap;

/// Spread of a time that was measured.
const MEASURED: f64 = 0.01;
/// Least spread of a time that was predicted.
const LEAST: f64 = 0.01;
/// Standard deviations from end to end of an 80 % range of a normal.
const EIGHTY: f64 = 2.563_103_131;

/// Predicted seconds with their spread, by precision and shape, processor by processor.
pub type Prediction = BTreeMap<(MatmulPrecision, MatmulShape), Vec<Option<Cost>>>;

/// A predicted time with its 80 % range; `None` where nothing is said.
pub type Stated = Option<(f64, f64, f64)>;

/// What was said of each row, by shape.
pub fn said(timings: &Timings, stated: &[Stated]) -> Prediction {
    let mut out = Prediction::new();
    for (row, stated) in timings.rows.iter().zip(stated) {
        let costs = out
            .entry((row.precision, row.shape))
            .or_insert_with(|| vec![None; timings.processors.len()]);
        costs[row.processor] = stated.map(|(value, low, high)| Cost {
            value,
            spread: (libm::log(high / low) / EIGHTY).max(LEAST),
        });
    }
    out
}

/// What was measured, as if it had been said.
pub fn measured(seconds: &ByShape) -> Prediction {
    let known = |seconds: &Option<f64>| {
        seconds.map(|value| Cost {
            value,
            spread: MEASURED,
        })
    };
    seconds
        .iter()
        .map(|(key, row)| (*key, row.iter().map(known).collect()))
        .collect()
}

/// A decision for every shape of a precision among these processors, at so much a second of each;
/// processors without a rate are no candidates. Shapes that fewer than two candidates were timed on
/// decide nothing.
pub fn decide(
    said: &Prediction,
    actual: &ByShape,
    precision: MatmulPrecision,
    rates: &[Option<f64>],
) -> Vec<Decided> {
    cases(said, actual, precision, rates)
        .filter_map(|case| case.decide())
        .collect()
}

/// The cases that [`decide`] decides.
pub fn cases<'a>(
    said: &'a Prediction,
    actual: &'a ByShape,
    precision: MatmulPrecision,
    rates: &'a [Option<f64>],
) -> impl Iterator<Item = Case> + 'a {
    actual
        .iter()
        .filter(move |((of, _), _)| *of == precision)
        .filter_map(move |(key, seconds)| {
            let said = said.get(key)?;
            let case = Case {
                predicted: said
                    .iter()
                    .zip(rates)
                    .map(|(cost, rate)| {
                        let (cost, rate) = ((*cost)?, (*rate)?);
                        Some(Cost {
                            value: cost.value * rate,
                            spread: cost.spread,
                        })
                    })
                    .collect(),
                actual: seconds
                    .iter()
                    .zip(rates)
                    .map(|(seconds, rate)| Some((*seconds)? * (*rate)?))
                    .collect(),
            };
            (case.actual.iter().flatten().count() > 1).then_some(case)
        })
}

/// As [`decide`], each processor left out in turn: its own times as `elsewhere` carries them, those of
/// all others as `known` has them. Where nothing is carried, it is no candidate and nothing is decided
/// about it.
pub fn decide_each(
    known: &Prediction,
    elsewhere: &Prediction,
    actual: &ByShape,
    precision: MatmulPrecision,
    rates: &[Option<f64>],
    left: usize,
) -> Vec<Decided> {
    let mut said = Prediction::new();
    for (key, costs) in known {
        let Some(carried) = elsewhere.get(key).and_then(|costs| *costs.get(left)?) else {
            continue;
        };
        let mut costs = costs.clone();
        if let Some(place) = costs.get_mut(left) {
            *place = Some(carried);
            said.insert(*key, costs);
        }
    }
    decide(&said, actual, precision, rates)
}

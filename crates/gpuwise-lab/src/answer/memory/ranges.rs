//! How far logged values lay from ours: the ends of 80 % ranges.
//!
//! Factors are the 10 % and 90 % points of logged over predicted, by what is asked and by whether
//! the row states the release and the limits of the step; widened where fewer than ten rows speak.

use super::read::Read;
use gpuwise_domain::{engine::EngineKind, estimate::Basis};
use gpuwise_size::{
    memory::CacheShape,
    setup::{Setup, Weights},
};

/// The ends of a range as factors on the figure, and what it rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) low: f64,
    /// For the upper end.
    pub(super) high: f64,
    pub(super) basis: Basis,
}

const fn spread(low: f64, high: f64, basis: Basis) -> Spread {
    Spread { low, high, basis }
}

pub(super) const EXACT: Spread = spread(1.0, 1.0, Basis::Exact);
/// Files hold a header besides tensors, and logs round to two places.
pub(super) const FILE: Spread = spread(0.998, 1.004, Basis::Exact);
/// What is not PyTorch's: logs of one setting differ by several times.
pub(super) const NON_TORCH: Spread = spread(0.4, 2.2, Basis::Calibrated);
/// Memory that a program sees, by driver.
pub(super) const VISIBLE: Spread = spread(0.995, 1.005, Basis::Exact);
/// What an engine that reserves its cache holds at most: no log of it was seen. Contexts and libraries
/// lie beside its share, and graphs may take several times our figure.
pub(super) const RESERVED: Spread = spread(0.97, 1.05, Basis::Extrapolated);
/// What an engine holds whose cache grows with requests: no log of it was seen.
pub(super) const GROWN: Spread = spread(0.85, 1.25, Basis::Extrapolated);
/// Share of memory within which a run may fit or not.
pub(super) const FITS: f64 = 0.07;

/// Weights as engines log them. Exports in four bits differ in what they leave as it is.
pub(super) fn weights(setup: &Setup<'_>) -> Spread {
    let published = setup.weights == Weights::published(setup.architecture);
    let four_bit = setup
        .weights
        .quantization
        .iter()
        .flat_map(|q| &q.assignments);
    let four_bit = four_bit
        .into_iter()
        .any(|a| a.format.bytes_per_element() < 0.75);
    match (published, four_bit) {
        (_, false) => spread(0.99, 1.01, Basis::Calibrated),
        (true, true) => spread(0.92, 1.03, Basis::Calibrated),
        (false, true) => spread(0.90, 1.06, Basis::Extrapolated),
    }
}

/// Peaks of a profile.
pub(super) const fn activations(settled: bool) -> Spread {
    if settled {
        spread(0.95, 1.06, Basis::Calibrated)
    } else {
        spread(0.6, 1.6, Basis::Extrapolated)
    }
}

/// Tokens in stated bytes.
pub(super) const fn given(shape: &CacheShape) -> Spread {
    if shape.pool.is_some() {
        spread(0.93, 1.07, Basis::Calibrated)
    } else {
        spread(0.985, 1.005, Basis::Calibrated)
    }
}

/// What a profile may leave less or more than ours, as shares of the budget.
///
/// Nine logged capacities of 0.15.1 lie within -0.7 % and +1.1 % of the budget. Releases whose
/// profile changed since, and towers, get twice that; where limits are not stated, the five logs of
/// 0.6 and 0.7 lie within 1.3 % but for one at 23 %; where the release is not, the five logs lie
/// between 3.2 % above and 5.3 % below.
pub(super) fn left(read: &Read<'_>) -> (f64, f64) {
    let engine = &read.setup.engine;
    let fitted = engine.at_least([0, 12, 0]) && !engine.at_least([0, 17, 0]);
    let text = read.setup.architecture.towers.is_empty();
    match (engine.kind, read.settled, read.release_stated) {
        (EngineKind::Vllm, true, _) if fitted && text => (0.02, 0.015),
        (EngineKind::Vllm, true, _) => (0.04, 0.03),
        (EngineKind::Vllm, false, true) => (0.08, 0.03),
        _ => (0.12, 0.06),
    }
}

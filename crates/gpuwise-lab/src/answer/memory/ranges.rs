//! How far logged values lay from ours: the ends of 80 % ranges.
//!
//! Factors are the 10 % and 90 % points of logged over predicted, by what is asked and by whether
//! the row states the release and the limits of the step; widened where fewer than ten rows speak.

use super::read::Read;
use gpuwise_domain::estimate::Basis;
use gpuwise_size::{
    memory::{CacheShape, StatedRun, profile_shares, weight_factors},
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

/// Weights as engines log them.
pub(super) fn weights(setup: &Setup<'_>) -> Spread {
    let (low, high) = weight_factors(setup);
    let published = setup.weights == Weights::published(setup.architecture);
    let basis = if published || high < 1.02 {
        Basis::Calibrated
    } else {
        Basis::Extrapolated
    };
    spread(low, high, basis)
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
pub(super) fn left(read: &Read<'_>) -> (f64, f64) {
    let stated = StatedRun {
        release: read.release_stated,
        limits: read.settled,
        towers: !read.setup.architecture.towers.is_empty(),
    };
    profile_shares(&read.setup.engine, stated)
}

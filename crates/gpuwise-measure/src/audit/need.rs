//! What a workload needs of a device, and whether a smaller one suffices: the one place where that is
//! decided, for an audit over days as for a watch over minutes.

use super::market::{CatalogueDevice, Market};
use gpuwise_domain::usage::rules::Rules;
use gpuwise_units::Bytes;

/// What a workload showed on one device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    pub(crate) peak: Bytes,
    /// Compute in use at the 95th percentile, 0 to 1, by the best measure there is; weaker ones are upper
    /// bounds.
    pub(crate) compute_p95: f64,
    /// The same of memory bandwidth, where known.
    pub(crate) dram_p95: Option<f64>,
    /// Whether a serving engine runs there, which takes memory at the start.
    pub(crate) engine: bool,
    /// Devices of one replica.
    pub(crate) devices: u32,
}

/// Whether a smaller device suffices.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fit<'a> {
    Smaller(Choice<'a>),
    /// None would: what is held is the right size.
    None,
    /// It cannot be told, and why.
    Untold(&'static str),
}

/// How a smaller device would have borne the load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) held: CatalogueDevice<'a>,
    /// Share of its cost by cost of what is held now; the smaller the better.
    pub(crate) cost: f64,
    /// What compute is multiplied by.
    pub(crate) scale: f64,
}

impl Choice<'_> {
    /// `3g.40gb of H100 SXM5 80GB`, or the GPU.
    pub(crate) fn title(&self) -> String {
        let gpu = &self.held.gpu.name;
        match self.held.slice {
            Some(slice) => format!("{} of {gpu}", slice.profile),
            None => gpu.clone(),
        }
    }
}

/// The cheapest device of the market that would have borne what was needed and costs enough less.
pub(crate) fn fit<'a>(
    need: &Need,
    held: &CatalogueDevice<'a>,
    market: &Market<'a>,
    rules: &Rules,
) -> Fit<'a> {
    if need.engine {
        return Fit::Untold(
            "its engine takes memory at the start, whatever it needs: `gpuwise plan` says which GPU suffices",
        );
    }
    if need.devices > 1 {
        return Fit::Untold(
            "it spans several GPUs: whether fewer suffice cannot be told from here",
        );
    }
    let Some(now) = cost(held, market) else {
        return Fit::None;
    };
    let memory = Bytes::from_f64(need.peak.as_f64() * rules.memory_headroom);
    let fits = |option: &Choice<'_>| {
        option.held.memory >= memory
            && need.compute_p95 * option.scale <= rules.compute_target
            && bandwidth_fits(need, held, &option.held, rules)
    };
    options(held, now, market)
        .into_iter()
        .filter(|option| option.cost <= 1.0 - rules.least_saving)
        .filter(fits)
        .min_by(|a, b| {
            a.cost
                .total_cmp(&b.cost)
                .then_with(|| a.held.memory.cmp(&b.held.memory))
        })
        .map_or(Fit::None, Fit::Smaller)
}

/// What a device costs, in money where there is a price; slices of an unpriced board in boards.
fn cost(held: &CatalogueDevice<'_>, market: &Market<'_>) -> Option<f64> {
    let price = market.price(&held.gpu.name);
    Some(held.share * price.map_or(1.0, |price| price.0.as_f64())).filter(|cost| *cost > 0.0)
}

/// Slices of the same board, and other boards of the market.
fn options<'a>(held: &CatalogueDevice<'a>, now: f64, market: &Market<'a>) -> Vec<Choice<'a>> {
    let mut out = Vec::new();
    let board = held.gpu;
    for slice in market.slices(board) {
        let smaller = Market::sliced(board, slice);
        let scale = match (held.device().units(), smaller.device().units()) {
            (Some(from), Some(to)) if to > 0 => f64::from(from) / f64::from(to),
            _ => held.share / smaller.share.max(1e-9),
        };
        if let Some(cost) = cost(&smaller, market) {
            out.push(Choice {
                held: smaller,
                cost: cost / now,
                scale,
            });
        }
    }
    for gpu in market.candidates().filter(|gpu| gpu.name != board.name) {
        let Some(other) = Market::whole(gpu) else {
            continue;
        };
        let priced = market.price(&gpu.name).is_some() && market.price(&board.name).is_some();
        let (Some(from), Some(to), Some(cost)) = (held.rate(), other.rate(), cost(&other, market))
        else {
            continue;
        };
        if priced {
            out.push(Choice {
                held: other,
                cost: cost / now,
                scale: from / to.max(1.0),
            });
        }
    }
    out
}

/// By DRAM activity; where that is unknown, by compute, which memory is seldom busier than.
fn bandwidth_fits(
    need: &Need,
    held: &CatalogueDevice<'_>,
    other: &CatalogueDevice<'_>,
    rules: &Rules,
) -> bool {
    let used = need.dram_p95.unwrap_or(need.compute_p95);
    used * held.bandwidth() <= rules.bandwidth_target * other.bandwidth()
}

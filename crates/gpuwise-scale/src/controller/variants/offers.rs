//! Replicas that are there and that could be, as items of which the cheapest are taken.

use super::{MixSeen, Mixed, Need, VariantSeen};
use crate::{
    cover::{Item, NEEDS, Needs},
    variant::{Variant, pools},
};

pub(super) const HOUR: f64 = 3600.0;
/// What is kept costs something, however long it would drain.
const LEAST: f64 = 1e-6;
/// The places of what is served, or warm, and of what is left when the first pool is lost.
pub(super) const TOTAL: usize = 0;
pub(super) const LOST: usize = 1;
/// Enough is left of a loss that is so many bands more than what arrives; where it is not, half a band more is wanted.
const BANDS: f64 = 2.0;
const AHEAD: f64 = 0.5;

/// Where an item comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// Serves, or wakes.
    Ready,
    /// Starts.
    Starting,
    /// Is warm, and is woken.
    Woken,
    New,
    /// Is to be warm.
    Warm,
}

impl From {
    /// Serves or is about to.
    pub(super) const fn is_there(self) -> bool {
        matches!(self, Self::Ready | Self::Starting)
    }
}

/// All that may serve, and what it is to cover.
#[derive(Debug)]
pub(super) struct Offers {
    /// The variant of each item, and where it comes from.
    pub(super) of: Vec<(usize, From)>,
    pub(super) items: Vec<Item>,
    pub(super) needs: Needs,
    /// Requests a second that arrive: less than that may not be left of a loss.
    pub(super) arrives: f64,
    /// Requests a second that are served now, or could be in seconds.
    pub(super) now: f64,
    /// GPUs of each pool that may be used.
    pub(super) gpus: Vec<u32>,
}

/// Spot pools whose loss is felt: nothing else starts within their notice.
pub(super) fn felt(controller: &Mixed) -> Vec<(&str, f64)> {
    let variants = &controller.rules.variants;
    let starts = variants.iter().enumerate();
    let soonest = starts
        .filter(|(_, one)| one.spot.is_none())
        .map(|(at, _)| controller.start(at))
        .min();
    let each = pools(variants).into_iter().filter_map(|pool| {
        let spots = variants.iter().filter(|one| one.pool == pool);
        let shares = spots.filter_map(|one| {
            let spot = one.spot?;
            let felt = soonest.is_none_or(|start| start > spot.notice);
            felt.then_some(spot.share)
        });
        Some((pool, shares.reduce(f64::max)?))
    });
    each.take(NEEDS - LOST).collect()
}

/// What stays of a variant when a pool is lost.
pub(super) fn stays(one: &Variant, (pool, share): (&str, f64)) -> f64 {
    if one.pool == pool { 1.0 - share } else { 1.0 }
}

impl Offers {
    pub(super) fn new(controller: &Mixed, need: &Need, seen: &MixSeen, gpus: &[u32]) -> Self {
        let rules = &controller.rules;
        let felt = felt(controller);
        let pools = pools(&rules.variants);
        let mut gpus: Vec<u32> = (0..pools.len())
            .map(|at| gpus.get(at).copied().unwrap_or(u32::MAX))
            .collect();
        let mut offers = Self {
            of: Vec::new(),
            items: Vec::new(),
            needs: [0.0; NEEDS],
            arrives: need.decision.demand.min(need.serve()),
            now: 0.0,
            gpus: Vec::new(),
        };
        // What is left of all that is there when each pool is lost.
        let mut left = vec![0.0; felt.len()];
        let mut now = 0.0;
        for (at, (one, seen_of)) in rules.variants.iter().zip(&seen.variants).enumerate() {
            let pool = pools.iter().position(|pool| *pool == one.pool).unwrap_or(0);
            // Those that leave hold their GPUs until they are gone.
            if let Some(free) = gpus.get_mut(pool) {
                *free = free.saturating_sub(seen_of.leaving.saturating_mul(one.gpus));
            }
            let rate = |count: u32| f64::from(count) * one.rate;
            now += rate(seen_of.ready) + rate(seen_of.waking) + rate(seen_of.warm);
            let there = rate(seen_of.serving()) + rate(seen_of.spares());
            for (left, lost) in left.iter_mut().zip(&felt) {
                *left += there * stays(one, *lost);
            }
            offers.add(controller, at, (one, seen_of), pool, seen, &felt);
        }
        offers.gpus = gpus;
        offers.now = need.serve().min(now);
        offers.needs[TOTAL] = need.serve();
        let arrives = offers.arrives;
        let band = controller.amount.band(arrives, arrives);
        let lost = offers.needs.iter_mut().skip(LOST);
        for (slot, left) in lost.zip(left) {
            // Chance alone changes nothing.
            let does = (arrives..=arrives + BANDS * band).contains(&left);
            let enough = if does { left } else { arrives + AHEAD * band };
            *slot = enough.min(need.serve());
        }
        offers
    }

    /// What of a variant is there, and what could be.
    fn add(
        &mut self,
        controller: &Mixed,
        at: usize,
        (one, seen_of): (&Variant, &VariantSeen),
        pool: usize,
        seen: &MixSeen,
        felt: &[(&str, f64)],
    ) {
        let price = one.price_with_losses(seen.now);
        let hours = controller.rules.pays_within.seconds().get() / HOUR;
        let held = price * hours;
        let drains = price * seen_of.drains() / HOUR;
        let wakes = price * one.wake.seconds().get() / HOUR;
        let starts = price * controller.start(at).seconds().get() / HOUR;
        let new = if seen_of.outage { 0 } else { u32::MAX };
        let each = [
            (
                From::Ready,
                seen_of.ready.saturating_add(seen_of.waking),
                (held - drains).max(held * LEAST),
            ),
            (From::Starting, seen_of.starting, held),
            (From::Woken, seen_of.warm, held + wakes),
            (From::New, new, held + starts),
        ];
        for (from, most, cost) in each {
            let mut covers = [0.0; NEEDS];
            covers[TOTAL] = one.rate;
            for (slot, lost) in covers.iter_mut().skip(LOST).zip(felt) {
                *slot = one.rate * stays(one, *lost);
            }
            self.of.push((at, from));
            self.items.push(Item {
                cost,
                most,
                covers,
                pool,
                gpus: one.gpus,
            });
        }
    }
}

/// So much of the first need, and nothing else.
pub(super) fn only(total: f64) -> Needs {
    let mut needs = [0.0; NEEDS];
    needs[TOTAL] = total;
    needs
}

//! Replicas that are there and that could be, as items of which the cheapest are taken.

use super::{MixSeen, Mixed, Need, VariantSeen};
use crate::{
    controller::Because,
    mix::{Item, NEEDS, Needs},
    variant::{Variant, pools},
};

const HOUR: f64 = 3600.0;
/// What is kept costs something, however long it would drain.
const LEAST: f64 = 1e-6;
/// The places of what is served, or warm, and of what is left when the first pool is lost.
const TOTAL: usize = 0;
const LOST: usize = 1;
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

/// All that may serve, and what it is to cover.
#[derive(Debug)]
pub(super) struct Offers {
    /// The variant of each item, and where it comes from.
    pub(super) of: Vec<(usize, From)>,
    pub(super) items: Vec<Item>,
    pub(super) needs: Needs,
    /// Requests a second that are served now, or could be in seconds.
    pub(super) now: f64,
    /// GPUs of each pool that may be used.
    pub(super) gpus: Vec<u32>,
}

/// Spot pools whose loss is felt: nothing else starts within their notice.
fn felt(controller: &Mixed) -> Vec<(&str, f64)> {
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
fn stays(one: &Variant, (pool, share): (&str, f64)) -> f64 {
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
                *free = free.saturating_sub(seen_of.leaving * one.gpus);
            }
            let rate = |count: u32| f64::from(count) * one.rate;
            now += rate(seen_of.ready + seen_of.waking + seen_of.warm);
            let there = rate(seen_of.serving() + seen_of.warm + seen_of.warming);
            for (left, lost) in left.iter_mut().zip(&felt) {
                *left += there * stays(one, *lost);
            }
            offers.add(controller, at, (one, seen_of), pool, seen, &felt);
        }
        offers.gpus = gpus;
        offers.now = need.serve().min(now);
        offers.needs[TOTAL] = need.serve();
        let arrives = need.decision.demand.min(need.serve());
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
                seen_of.ready + seen_of.waking,
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

    /// What may be warm, of the GPUs that those leave which serve.
    pub(super) fn warm(
        &self,
        controller: &Mixed,
        need: &Need,
        seen: &MixSeen,
        replicas: &[u32],
        woken: &[u32],
    ) -> Self {
        let rules = &controller.rules;
        let pools = pools(&rules.variants);
        let hours = rules.pays_within.seconds().get() / HOUR;
        let felt = felt(controller);
        let mut warm = Self {
            of: Vec::new(),
            items: Vec::new(),
            needs: [0.0; NEEDS],
            now: 0.0,
            gpus: self.gpus.clone(),
        };
        for (at, (one, seen_of)) in rules.variants.iter().zip(&seen.variants).enumerate() {
            let pool = pools.iter().position(|pool| *pool == one.pool).unwrap_or(0);
            let serve = replicas.get(at).copied().unwrap_or(0);
            if let Some(free) = warm.gpus.get_mut(pool) {
                *free = free.saturating_sub(serve * one.gpus);
            }
            let Some(share) = one.warm_cost else {
                continue;
            };
            let price = one.price_with_losses(seen.now);
            let starts = price * controller.start(at).seconds().get() / HOUR;
            let drains = price * seen_of.drains() / HOUR;
            let woken = woken.get(at).copied().unwrap_or(0);
            let none = seen_of.outage || need.decision.because == Because::NotReady;
            let there = seen_of.warm.saturating_sub(woken) + seen_of.warming;
            let each = [
                (there, 0.0),
                (seen_of.serving().saturating_sub(serve), drains),
                (if none { 0 } else { u32::MAX }, starts),
            ];
            for (most, beside) in each {
                let mut covers = [0.0; NEEDS];
                covers[TOTAL] = one.rate;
                for (slot, lost) in covers.iter_mut().skip(LOST).zip(&felt) {
                    *slot = one.rate * stays(one, *lost);
                }
                warm.of.push((at, From::Warm));
                warm.items.push(Item {
                    cost: price * share * hours + beside,
                    most,
                    covers,
                    pool,
                    gpus: one.gpus,
                });
            }
        }
        warm
    }

    /// Requests a second that all that there may be could serve at most, not regarding that replicas are whole.
    pub(super) fn reach(&self) -> f64 {
        let of_pool = |pool: usize| {
            let of = || self.items.iter().filter(move |item| item.pool == pool);
            let all: f64 = of()
                .map(|item| f64::from(item.most) * item.covers[TOTAL])
                .sum();
            let ratio = of().map(|item| item.covers[TOTAL] / f64::from(item.gpus.max(1)));
            let gpus = self.gpus.get(pool).copied().unwrap_or(u32::MAX);
            all.min(ratio.fold(0.0, f64::max) * f64::from(gpus))
        };
        (0..self.gpus.len()).map(of_pool).sum()
    }

    /// The same, to serve so much and to leave enough of each loss.
    pub(super) fn with_losses(&self, total: f64) -> Needs {
        let mut needs = self.needs;
        needs[TOTAL] = total;
        needs
    }

    /// The same without what is lost with a pool.
    pub(super) fn without_spot(&self) -> Self {
        let items = self.items.iter().map(|item| {
            let lost = self.needs.iter().zip(&item.covers).skip(LOST);
            let mut lost =
                lost.filter(|(need, covers)| **need > 0.0 && **covers < item.covers[TOTAL]);
            let most = if lost.next().is_some() { 0 } else { item.most };
            Item { most, ..*item }
        });
        Self {
            of: self.of.clone(),
            items: items.collect(),
            needs: self.needs,
            now: self.now,
            gpus: self.gpus.clone(),
        }
    }

    fn covered(&self, need: usize, counts: &[u32]) -> f64 {
        let each = self.items.iter().zip(counts);
        each.map(|(item, count)| {
            let covers = item.covers.get(need).copied().unwrap_or(0.0);
            covers * f64::from(*count)
        })
        .sum()
    }

    /// Of what is to be left of each loss, what these do not leave.
    pub(super) fn missing_of_losses(&self, counts: &[u32]) -> Needs {
        let mut missing = [0.0; NEEDS];
        let each = missing.iter_mut().zip(self.needs).enumerate().skip(LOST);
        for (at, (slot, need)) in each {
            *slot = (need - self.covered(at, counts)).max(0.0);
        }
        missing
    }

    /// What so many cost over the time in which a change is to pay.
    pub(super) fn cost(&self, counts: &[u32]) -> f64 {
        let each = self.items.iter().zip(counts);
        each.map(|(item, count)| item.cost * f64::from(*count))
            .sum()
    }

    /// Requests a second that are served now and would not be.
    pub(super) fn missing_now(&self, counts: &[u32]) -> f64 {
        let each = self.of.iter().zip(&self.items).zip(counts);
        let there = each.filter(|(((_, from), _), _)| matches!(from, From::Ready | From::Woken));
        let served = there.map(|((_, item), count)| item.covers[TOTAL] * f64::from(*count));
        self.now - served.sum::<f64>()
    }

    /// What serves now, or is warm, beside so many.
    pub(super) fn beside(&self, counts: &[u32]) -> Self {
        let mut gpus = self.gpus.clone();
        let each = self.items.iter().zip(counts).zip(&self.of);
        let items = each.map(|((item, count), (_, from))| {
            let there = matches!(from, From::Ready | From::Woken);
            if let Some(free) = gpus.get_mut(item.pool)
                && *from != From::New
            {
                *free = free.saturating_sub(count * item.gpus);
            }
            Item {
                most: if there { item.most - count } else { 0 },
                ..*item
            }
        });
        let items = items.collect();
        Self {
            of: self.of.clone(),
            items,
            needs: [0.0; NEEDS],
            now: 0.0,
            gpus,
        }
    }
}

/// So much of the first need, and nothing else.
pub(super) fn only(total: f64) -> Needs {
    let mut needs = [0.0; NEEDS];
    needs[TOTAL] = total;
    needs
}

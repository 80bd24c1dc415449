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
/// The places of what is served, of what is served now, and of what is left when the first pool is lost.
const TOTAL: usize = 0;
const NOW: usize = 1;
const LOST: usize = 2;

/// Where an item comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// Serves, or wakes.
    Ready,
    /// Starts.
    Starting,
    /// Is warm.
    Warm,
    New,
}

/// All that may serve, and what it is to cover.
#[derive(Debug)]
pub(super) struct Offers {
    /// The variant of each item, and where it comes from.
    pub(super) of: Vec<(usize, From)>,
    pub(super) items: Vec<Item>,
    pub(super) needs: Needs,
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
            gpus: Vec::new(),
        };
        let (mut there, mut warm_left) = (0.0, vec![0.0; felt.len()]);
        for (at, (one, seen_of)) in rules.variants.iter().zip(&seen.variants).enumerate() {
            let pool = pools.iter().position(|pool| *pool == one.pool).unwrap_or(0);
            // Those that leave hold their GPUs until they are gone.
            if let Some(free) = gpus.get_mut(pool) {
                *free = free.saturating_sub(seen_of.leaving * one.gpus);
            }
            let warm = f64::from(seen_of.warm) * one.rate;
            there += f64::from(seen_of.ready + seen_of.waking) * one.rate + warm;
            for (left, lost) in warm_left.iter_mut().zip(&felt) {
                *left += warm * stays(one, *lost);
            }
            offers.add(controller, at, (one, seen_of), pool, seen, &felt);
        }
        offers.gpus = gpus;
        offers.needs[TOTAL] = need.serve();
        offers.needs[NOW] = need.serve().min(there);
        let survives = need.decision.demand.min(need.serve());
        let lost = offers.needs.iter_mut().skip(LOST);
        for (slot, warm) in lost.zip(warm_left) {
            *slot = (survives - warm).max(0.0);
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
            (From::Warm, seen_of.warm, held + wakes),
            (From::New, new, held + starts),
        ];
        for (from, most, cost) in each {
            let mut covers = [0.0; NEEDS];
            covers[TOTAL] = one.rate;
            if matches!(from, From::Ready | From::Warm) {
                covers[NOW] = one.rate;
            }
            // What is warm counts among what is left whether it is woken or not.
            if from != From::Warm {
                for (slot, lost) in covers.iter_mut().skip(LOST).zip(felt) {
                    *slot = one.rate * stays(one, *lost);
                }
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
        let mut warm = Self {
            of: Vec::new(),
            items: Vec::new(),
            needs: [0.0; NEEDS],
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

    /// What is served in all, and what is to be left of each loss.
    pub(super) fn only(&self, total: f64, lost: bool) -> Needs {
        let mut needs = [0.0; NEEDS];
        needs[TOTAL] = total;
        let each = needs.iter_mut().zip(self.needs).skip(LOST);
        for (slot, need) in each.filter(|_| lost) {
            *slot = need.min(total);
        }
        needs
    }

    fn covered(&self, need: usize, counts: &[u32]) -> f64 {
        let each = self.items.iter().zip(counts);
        each.map(|(item, count)| {
            let covers = item.covers.get(need).copied().unwrap_or(0.0);
            covers * f64::from(*count)
        })
        .sum()
    }

    /// Whether counts leave a need uncovered.
    pub(super) fn misses(&self, counts: &[u32], needs: &Needs) -> bool {
        let mut each = needs.iter().enumerate();
        each.any(|(at, need)| self.covered(at, counts) < need - 1e-6)
    }

    /// Requests a second that are served now and would not be.
    pub(super) fn missing_now(&self, counts: &[u32]) -> f64 {
        self.needs[NOW] - self.covered(NOW, counts)
    }

    /// What serves now, or is warm, beside so many.
    pub(super) fn beside(&self, counts: &[u32]) -> Self {
        let mut gpus = self.gpus.clone();
        let each = self.items.iter().zip(counts).zip(&self.of);
        let items = each.map(|((item, count), (_, from))| {
            let there = matches!(from, From::Ready | From::Warm);
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
            gpus,
        }
    }
}

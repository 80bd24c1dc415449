//! The cheapest mix, and what is warm beside it.

use super::{
    Limit,
    choose::Question,
    counts::Counts,
    offers::{From, Offers, only},
};
use crate::cover::{Needs, Problem};

/// Steps of a search; beyond these the best mix found so far stands.
const STEPS: u64 = 20_000;
/// How often what can be served is halved in on.
const HALVES: u32 = 14;

pub(super) fn solve(offers: &Offers, needs: Needs) -> Option<Vec<u32>> {
    solve_below(offers, needs, f64::INFINITY)
}

fn solve_below(offers: &Offers, needs: Needs, below: f64) -> Option<Vec<u32>> {
    Problem {
        items: &offers.items,
        needs,
        gpus: &offers.gpus,
        below,
        steps: STEPS,
    }
    .cheapest()
}

impl Question<'_> {
    /// What serves, what stays beside it until that does, and what is warm.
    pub(super) fn cheapest(&self, offers: &Offers) -> (Counts, Option<Limit>) {
        let variants = self.rules().variants.len();
        let serve = self.need.serve();
        let found = solve(offers, only(serve));
        let short = found.is_none().then_some(Limit::Inventory);
        let serving = found.unwrap_or_else(|| most(offers, offers.reach().min(serve), |_| true));
        let alone = Counts::of(variants, offers, &serving);
        if !self.is_allowed(&alone) {
            let allowed = |counts: &[u32]| self.is_allowed(&Counts::of(variants, offers, counts));
            let counts = most(offers, serve, allowed);
            return (Counts::of(variants, offers, &counts), Some(Limit::Budget));
        }
        let (best, loss) = self.after_losses(offers, serving);
        let limit = short.or(loss);
        let serving = self.least_change(offers, &best).unwrap_or(best);
        let (kept, until_ready) = until_ready(offers, serving.clone());
        let kept = self.with_warm(offers, &kept).0;
        if until_ready && self.is_allowed(&kept) {
            return (kept, limit.or(Some(Limit::UntilReady)));
        }
        (self.with_warm(offers, &serving).0, limit)
    }

    /// What serves and what is warm beside it, over the time in which a change is to pay; `None`: not enough is left
    /// of each loss.
    pub(super) fn whole(&self, offers: &Offers, serving: &[u32]) -> Option<f64> {
        let warm = self.with_warm(offers, serving).1;
        warm.map(|cost| offers.cost(serving) + cost)
    }

    /// What serves where enough is to be left when a spot pool is lost: the same with more that is warm, or, where
    /// that costs less, what is not lost at all, or less of what may be.
    fn after_losses(&self, offers: &Offers, serving: Vec<u32>) -> (Vec<u32>, Option<Limit>) {
        let missing = offers.missing_of_losses(&serving);
        if missing.iter().all(|missing| *missing <= 1e-6) {
            return (serving, None);
        }
        let whole = |serving: &[u32]| self.whole(offers, serving);
        let mut best = whole(&serving).map(|cost| (cost, serving.clone()));
        // A search among all is long: it looks for what is cheaper than these.
        let needs = offers.with_losses(self.need.serve());
        let none_lost = solve(&offers.without_spot(), needs);
        let below = [
            best.as_ref().map(|(cost, _)| *cost),
            none_lost.as_deref().and_then(whole),
        ];
        let below = below.into_iter().flatten().fold(f64::INFINITY, f64::min);
        let less_lost = solve_below(offers, needs, below);
        for other in [none_lost, less_lost].into_iter().flatten() {
            let cost = whole(&other);
            let known = best.as_ref().map(|(cost, _)| *cost);
            if let Some(cost) = cost.filter(|cost| known.is_none_or(|known| *cost < known - 1e-9)) {
                best = Some((cost, other));
            }
        }
        match best {
            Some((_, counts)) => (counts, Some(Limit::Loss)),
            None => (serving, Some(Limit::Inventory)),
        }
    }

    /// What serves, and the cheapest that is warm beside it, of the GPUs and the money that are left; what that costs
    /// over the time in which a change is to pay, `None` where there is not enough for all that is to be warm.
    fn with_warm(&self, offers: &Offers, serving: &[u32]) -> (Counts, Option<f64>) {
        let variants = self.rules().variants.len();
        let mut counts = Counts::of(variants, offers, serving);
        let (replicas, woken) = (&counts.replicas, &counts.woken);
        let warm = offers.warm(self.controller, self.need, self.seen, replicas, woken);
        let with = |found: &[u32]| Counts {
            warm: Counts::of(variants, &warm, found).warm,
            ..counts.clone()
        };
        let allowed = |found: &[u32]| self.is_allowed(&with(found));
        let mut needs = offers.missing_of_losses(serving);
        // What serves beyond what is to be served covers as well as what is warm.
        let beyond = offers.serves(serving) - self.need.serve();
        needs[0] = (self.need.warm() - beyond.max(0.0)).max(0.0);
        let found = solve(&warm, needs).filter(|found| allowed(found));
        let cost = found.as_ref().map(|found| warm.cost(found));
        let found = found.unwrap_or_else(|| most(&warm, warm.reach().min(needs[0]), allowed));
        counts.warm = with(&found).warm;
        (counts, cost)
    }
}

/// The same, with what serves now and is to go, as far as it is needed until what is new serves; whether any is.
fn until_ready(offers: &Offers, mut counts: Vec<u32>) -> (Vec<u32>, bool) {
    let missing = offers.missing_now(&counts);
    if missing <= 1e-6 {
        return (counts, false);
    }
    let beside = offers.beside(&counts);
    let Some(kept) = solve(&beside, only(missing)) else {
        return (counts, false);
    };
    for (count, kept) in counts.iter_mut().zip(kept) {
        *count = count.saturating_add(kept);
    }
    // They hold their GPUs: what is new starts when there are others.
    let mut free = offers.gpus.clone();
    for new in [false, true] {
        for (at, (item, (_, from))) in offers.items.iter().zip(&offers.of).enumerate() {
            if (*from == From::New) != new {
                continue;
            }
            if let (Some(count), Some(free)) = (counts.get_mut(at), free.get_mut(item.pool)) {
                *count = (*count).min(*free / item.gpus.max(1));
                *free = free.saturating_sub(count.saturating_mul(item.gpus));
            }
        }
    }
    (counts, true)
}

/// What serves the most, up to so much, of what is allowed.
fn most(offers: &Offers, total: f64, allowed: impl Fn(&[u32]) -> bool) -> Vec<u32> {
    let at = |total: f64| solve(offers, only(total)).filter(|counts| allowed(counts));
    let mut best = at(total);
    let (mut low, mut high) = (0.0, total);
    for _ in 0..HALVES {
        if best.is_some() && high - low < total / f64::from(1 << HALVES) {
            break;
        }
        let middle = f64::midpoint(low, high);
        match at(middle) {
            Some(counts) => (best, low) = (Some(counts), middle),
            None => high = middle,
        }
    }
    best.unwrap_or_else(|| vec![0; offers.items.len()])
}

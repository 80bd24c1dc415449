//! What is there stays as long as nothing is much cheaper: each change costs starts, drains, and trust.

use super::{
    cheapest::solve,
    choose::Question,
    offers::{Offers, only},
};
use crate::controller::Because;

/// The best of all is taken where it is cheaper by such a share than what changes the least.
const CHEAPER: f64 = 0.06;
/// Rates that differ by less are the same.
const NOTHING: f64 = 1e-6;

impl Question<'_> {
    /// The least that could be changed of what is there: nothing, fewer of it, warm ones that are woken, or new ones
    /// beside it. `None`: the best of all is so much cheaper that it is gone to.
    pub(super) fn least_change(&self, offers: &Offers, best: &[u32]) -> Option<Vec<u32>> {
        let total = self.need.serve();
        // Where nothing can be warm, what was begun is ended before something else is begun.
        let variants = &self.rules().variants;
        let cold = variants.iter().all(|one| one.warm_cost.is_none());
        let begun = cold && self.seen.variants.iter().any(|one| one.starting > 0);
        let known = self.whole(offers, best).filter(|_| !begun);
        let most = known.map_or(f64::INFINITY, |known| known * (1.0 + CHEAPER));
        let there = offers.there();
        let enough = offers.serves(&there) >= total - NOTHING;
        let because = self.need.decision.because;
        let barely = offers.barely();
        if enough && matches!(because, Because::Band | Because::Hold) {
            let cost = self.whole(&barely, &there);
            if cost.is_some_and(|cost| cost <= most) {
                return Some(there);
            }
        }
        let none = vec![0; there.len()];
        let mut steps: Vec<(&Offers, Offers, &[u32])> = Vec::new();
        if enough {
            steps.push((offers, offers.fewer(total), &none));
            steps.push((&barely, barely.fewer(total), &none));
        }
        // Warm ones before others: they need nothing that serves meanwhile.
        let more = offers.more(total, &there);
        steps.push((offers, more.without_new(), &there));
        steps.push((offers, more, &there));
        for (by, of, beside) in steps {
            let needs = [only(of.total()), of.needs].into_iter();
            let each = needs.filter_map(|needs| solve(&of, needs)).map(|counts| {
                let each = counts.iter().zip(beside);
                each.map(|(count, beside)| count + beside).collect()
            });
            let each = each.filter_map(|counts: Vec<u32>| Some((self.whole(by, &counts)?, counts)));
            let least = each.min_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((_, counts)) = least.filter(|(cost, _)| *cost <= most) {
                return Some(counts);
            }
        }
        None
    }
}

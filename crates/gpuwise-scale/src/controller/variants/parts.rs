//! What of that which is there or could be is taken: parts of it, what it serves and costs.

use super::offers::{From, LOST, Offers, TOTAL};
use crate::cover::{Item, NEEDS, Needs};

impl Offers {
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
        self.limited(|item, _| {
            let lost = self.needs.iter().zip(&item.covers).skip(LOST);
            !lost
                .into_iter()
                .any(|(need, covers)| *need > 0.0 && *covers < item.covers[TOTAL])
        })
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

    /// The same without what would start from nothing.
    pub(super) fn without_new(&self) -> Self {
        self.limited(|_, from| from != From::New)
    }

    /// The same with some of it alone.
    fn limited(&self, may: impl Fn(&Item, From) -> bool) -> Self {
        let each = self.items.iter().zip(&self.of);
        let items = each.map(|(item, (_, from))| Item {
            most: if may(item, *from) { item.most } else { 0 },
            ..*item
        });
        Self {
            of: self.of.clone(),
            items: items.collect(),
            needs: self.needs,
            arrives: self.arrives,
            now: self.now,
            gpus: self.gpus.clone(),
        }
    }

    /// The same where so much is left of a loss as arrives, and no more.
    pub(super) fn barely(&self) -> Self {
        let mut barely = self.limited(|_, _| true);
        for need in barely.needs.iter_mut().skip(LOST) {
            *need = need.min(self.arrives);
        }
        barely
    }

    /// All that serves or is about to.
    pub(super) fn there(&self) -> Vec<u32> {
        let each = self.items.iter().zip(&self.of);
        each.map(|(item, (_, from))| if from.is_there() { item.most } else { 0 })
            .collect()
    }

    /// Requests a second that so many serve, and that are to be served.
    pub(super) fn serves(&self, counts: &[u32]) -> f64 {
        self.covered(TOTAL, counts)
    }

    pub(super) const fn total(&self) -> f64 {
        self.needs[TOTAL]
    }

    /// What serves so much of what is there.
    pub(super) fn fewer(&self, total: f64) -> Self {
        let mut fewer = self.limited(|_, from| from.is_there());
        fewer.needs = self.with_losses(total);
        fewer
    }

    /// What is warm or new, and what of so much, and of each loss, is missing of what is there.
    pub(super) fn more(&self, total: f64, there: &[u32]) -> Self {
        let mut more = self.limited(|_, from| !from.is_there());
        more.needs = self.with_losses(total);
        for (at, need) in more.needs.iter_mut().enumerate() {
            *need = (*need - self.covered(at, there)).max(0.0);
        }
        for (item, count) in self.items.iter().zip(there) {
            if let Some(free) = more.gpus.get_mut(item.pool) {
                *free = free.saturating_sub(count.saturating_mul(item.gpus));
            }
        }
        more
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
                *free = free.saturating_sub(count.saturating_mul(item.gpus));
            }
            Item {
                most: if there {
                    item.most.saturating_sub(*count)
                } else {
                    0
                },
                ..*item
            }
        });
        let items = items.collect();
        Self {
            of: self.of.clone(),
            items,
            needs: [0.0; NEEDS],
            arrives: self.arrives,
            now: 0.0,
            gpus,
        }
    }
}

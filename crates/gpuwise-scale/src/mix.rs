//! The cheapest mix of variants that serves a rate: an H100 beside three L4.

/// Replicas of one kind: a GPU type or slice, a layout, on demand or spot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Variant {
    /// Requests a second that one serves within the SLO.
    pub rate: f64,
    /// What one costs an hour.
    pub price: f64,
    /// As many as can be had.
    pub most: u32,
}

/// How many of each serve so many requests a second at the least cost; `None`: all of them together do not.
///
/// Exact: counts are tried from the variant that is cheapest a request on, and left once even the next one's price a
/// request, without rounding up, could not make a mix cheaper than the best one found.
pub fn cheapest(demand: f64, variants: &[Variant]) -> Option<Vec<u32>> {
    let mut order: Vec<usize> = (0..variants.len())
        .filter(|at| {
            variants
                .get(*at)
                .is_some_and(|one| one.rate > 0.0 && one.most > 0)
        })
        .collect();
    let a_request = |at: usize| {
        variants
            .get(at)
            .map_or(f64::INFINITY, |one| one.price / one.rate)
    };
    order.sort_by(|a, b| a_request(*a).total_cmp(&a_request(*b)).then(a.cmp(b)));
    let mut search = Search {
        variants,
        order,
        counts: vec![0; variants.len()],
        best: None,
    };
    search.from(0, demand.max(0.0), 0.0);
    search.best.map(|(_, counts)| counts)
}

struct Search<'a> {
    variants: &'a [Variant],
    order: Vec<usize>,
    counts: Vec<u32>,
    best: Option<(f64, Vec<u32>)>,
}

/// What rounding leaves of a rate is nothing.
const NOTHING: f64 = 1e-9;

impl Search<'_> {
    fn variant(&self, at: usize) -> Option<(usize, Variant)> {
        let index = *self.order.get(at)?;
        Some((index, *self.variants.get(index)?))
    }

    fn is_dearer(&self, cost: f64) -> bool {
        self.best
            .as_ref()
            .is_some_and(|(best, _)| cost >= *best - NOTHING)
    }

    /// Serves what is left with the variants from one on.
    fn from(&mut self, at: usize, left: f64, cost: f64) {
        if left <= NOTHING {
            if !self.is_dearer(cost) {
                self.best = Some((cost, self.counts.clone()));
            }
            return;
        }
        let Some((index, variant)) = self.variant(at) else {
            return;
        };
        let next = self.variant(at + 1).map(|(_, next)| next.price / next.rate);
        let enough = ((left / variant.rate - NOTHING).ceil() as u32).min(variant.most);
        for count in (0..=enough).rev() {
            let left = left - f64::from(count) * variant.rate;
            let cost = cost + f64::from(count) * variant.price;
            let least = next.map_or(0.0, |next| left.max(0.0) * next);
            if self.is_dearer(cost + least) {
                // Without any left to serve, fewer of this one may still do with others.
                if left > NOTHING {
                    break;
                }
                continue;
            }
            if let Some(slot) = self.counts.get_mut(index) {
                *slot = count;
            }
            self.from(at + 1, left, cost);
            if let Some(slot) = self.counts.get_mut(index) {
                *slot = 0;
            }
        }
    }
}

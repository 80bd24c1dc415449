//! What leases may cost at most.

use super::seen::granted;
use crate::Broker;
use gpuwise_account::{
    budget::Expected,
    period::{Interval, Month},
    prices::{Asked, PriceBook},
};
use gpuwise_domain::{
    offer::Terms,
    placement::{Job, KindId},
};
use gpuwise_units::{Currency, Money};
use std::collections::BTreeMap;

/// The most that something can cost, by month, of each currency that it may be charged in.
pub(crate) type WorstCase = BTreeMap<Currency, Vec<Expected>>;

/// What parts of a worst case come to; `None`: beyond what is kept.
pub(crate) fn total(of: &[Expected]) -> Option<Money> {
    let first = of.first()?;
    let micros: i128 = of.iter().map(|one| i128::from(one.amount.micros)).sum();
    Some(Money {
        micros: i64::try_from(micros).ok()?,
        currency: first.amount.currency,
    })
}

impl Broker {
    /// The most that a job can cost over an interval, each moment at its own price; `None`: a kind that it may get has
    /// no price for some of it.
    pub(crate) fn worst(
        &self,
        prices: &PriceBook,
        spot: bool,
        job: &Job,
        within: Interval,
    ) -> Option<WorstCase> {
        // What a worker's part costs is rounded up once more where it is counted in between.
        self.dearest(prices, spot, job, within, 1)
    }

    /// What it costs at the dearest of the kinds that it may get, with so many µ-units more for each worker's part and
    /// month.
    fn dearest(
        &self,
        prices: &PriceBook,
        spot: bool,
        job: &Job,
        within: Interval,
        more: i128,
    ) -> Option<WorstCase> {
        let each = (0..).map(KindId).zip(self.world.kinds());
        let wanted = job.worker.gpu.kinds().and(self.present);
        let mut most = WorstCase::new();
        let mut kinds = 0_u32;
        for (id, kind) in each.filter(|(id, _)| wanted.has(*id)) {
            kinds += 1;
            let (granted, isolation, count) = granted(&self.world, id, &job.worker.gpu)?;
            let asked = Asked {
                tenant: &job.tenant,
                kind: &kind.name,
                granted: &granted,
                isolation,
                class: if spot { Terms::Spot } else { Terms::OnDemand },
            };
            let parts = i128::from(job.gang.most.max(1)) * i128::from(count);
            let quoted = prices.quote(&asked, within).ok()?;
            for (currency, own) in by_month(&quoted, parts, more)? {
                // A sum beyond what is kept cannot be held.
                let sum = total(&own)?;
                let before = most.get(&currency).and_then(|known| total(known));
                if before.is_none_or(|before| before.micros < sum.micros) {
                    most.insert(currency, own);
                }
            }
        }
        (kinds > 0).then_some(most)
    }

    /// What a job costs over an interval, at the dearest of the kinds that it may get; `None`: a kind that it may get
    /// has no price, or they have prices in different currencies.
    pub fn price_of(&self, spot: bool, job: &Job, within: Interval) -> Option<Money> {
        let prices = self.accounts.books.prices();
        let costs = self.dearest(prices, spot, job, within, 0)?;
        let mut sums = costs.values();
        let only = sums.next().filter(|_| costs.len() == 1)?;
        total(only)
    }
}

/// Quotes of one part as what so many parts cost in each month, by currency.
fn by_month(quoted: &[Expected], parts: i128, more: i128) -> Option<WorstCase> {
    let mut sums: BTreeMap<(Currency, Month), (Interval, i128)> = BTreeMap::new();
    for one in quoted {
        let key = (one.amount.currency, Month::of(one.interval.start));
        let (interval, sum) = sums.entry(key).or_insert((one.interval, more));
        interval.end = one.interval.end;
        *sum += i128::from(one.amount.micros);
    }
    let mut costs = WorstCase::new();
    for ((currency, _), (interval, micros)) in sums {
        let micros = i64::try_from(micros.checked_mul(parts)?).ok()?;
        let amount = Money { micros, currency };
        let own = costs.entry(currency).or_default();
        own.push(Expected { interval, amount });
    }
    Some(costs)
}

//! What queues hold, have used and have cost: kept at every change of an assignment.

use gpuwise_domain::placement::{GpuKind, JobId, KindId, Queue, QueueId, Sharing, Weigh};
use gpuwise_units::{Currency, Money, Nanoseconds};
use std::collections::BTreeSet;

/// Nanoseconds of an hour.
const HOUR: i128 = 3_600_000_000_000;

/// What a queue and all below it hold and have used.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Account {
    /// Thousandths of GPUs held now, by kind.
    pub held_milli: Vec<u64>,
    /// Thousandths of cores held now.
    pub cpu_milli: u64,
    /// MiB of memory held now.
    pub memory_mib: u64,
    /// Its jobs that hold something, where it or a queue below has a budget.
    pub running: BTreeSet<JobId>,
    /// Thousandths of GPUs times nanoseconds since the beginning, by kind.
    pub used: Vec<u128>,
    /// Weighted GPU-seconds, those of the past counted less with their age; 0 without a half-life.
    pub past: f64,
    /// What the present period of the budget has cost: micro-units times thousandths of GPUs times
    /// nanoseconds of an hour.
    spent: i128,
    until: Nanoseconds,
}

/// What makes GPUs of different kinds comparable, as it is now.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Rates {
    /// What a GPU of each kind counts, in thousandths of the one that counts most.
    pub weights_milli: Vec<u64>,
    /// Micro-units an hour of each kind; `None`: it has no price.
    prices: Vec<Option<i64>>,
    /// The currency of all prices; `None`: there is no price, or they are in several.
    currency: Option<Currency>,
    half_life: Option<Nanoseconds>,
    period: Option<Nanoseconds>,
}

impl Rates {
    pub fn new(kinds: &[GpuKind], sharing: &Sharing) -> Self {
        let prices: Vec<Option<Money>> = kinds.iter().map(|k| k.price.map(|p| p.0)).collect();
        let mut currencies = prices.iter().flatten().map(|price| price.currency);
        let first = currencies.next();
        let currency = first.filter(|first| currencies.all(|other| other == *first));
        let values: Option<Vec<u64>> = match sharing.weigh {
            Weigh::Alike | Weigh::Dominant => None,
            Weigh::Price => currency.and_then(|_| {
                let known = prices
                    .iter()
                    .map(|price| u64::try_from((*price)?.micros).ok());
                known.collect()
            }),
            Weigh::Speed => kinds
                .iter()
                .map(|kind| kind.tflops.map(u64::from))
                .collect(),
        };
        let values = values.unwrap_or_else(|| vec![1; kinds.len()]);
        let most = values.iter().copied().max().unwrap_or(1).max(1);
        let weigh = |value: u64| (u128::from(value) * 1000).div_ceil(u128::from(most)) as u64;
        Self {
            weights_milli: values
                .into_iter()
                .map(|value| weigh(value).max(1))
                .collect(),
            prices: prices.iter().map(|price| price.map(|p| p.micros)).collect(),
            currency,
            half_life: sharing.half_life,
            period: sharing.budget_period.filter(|period| period.0 > 0),
        }
    }

    /// The currency in which all kinds are priced.
    pub const fn currency(&self) -> Option<Currency> {
        self.currency
    }

    /// Micro-units an hour of a kind; `None`: its price is not known.
    pub fn price(&self, kind: KindId) -> Option<i64> {
        self.prices.get(kind.index()).copied().flatten()
    }

    /// What so many thousandths of GPUs of a kind count, in thousandths of the kind that counts most.
    pub fn weighted(&self, kind: KindId, milli: u64) -> u64 {
        let weight = self
            .weights_milli
            .get(kind.index())
            .copied()
            .unwrap_or(1000);
        (u128::from(milli) * u128::from(weight) / 1000) as u64
    }

    /// When the period of the budget that holds this moment began.
    pub fn period_start(&self, at: Nanoseconds) -> Nanoseconds {
        self.period.map_or(Nanoseconds(0), |period| {
            Nanoseconds(at.0 / period.0 * period.0)
        })
    }

    /// When the period of the budget that holds this moment ends; `None`: never.
    pub fn period_end(&self, at: Nanoseconds) -> Option<Nanoseconds> {
        self.period.map(|period| self.period_start(at) + period)
    }
}

impl Account {
    /// One that holds nothing.
    pub fn new(kinds: usize, until: Nanoseconds) -> Self {
        Self {
            held_milli: vec![0; kinds],
            used: vec![0; kinds],
            until,
            ..Self::default()
        }
    }

    /// Counts what was held until now.
    pub fn settle(&mut self, at: Nanoseconds, rates: &Rates) {
        let span = at.0.saturating_sub(self.until.0);
        if span == 0 {
            return;
        }
        let start = rates.period_start(at);
        if start > self.until {
            self.spent = 0;
        }
        let charged = at.0 - start.max(self.until).0;
        let mut weighted = 0.0;
        for (index, held) in self.held_milli.iter().enumerate() {
            let kind = KindId(index as u32);
            if let Some(used) = self.used.get_mut(index) {
                *used += u128::from(*held) * u128::from(span);
            }
            let price = rates.price(kind).unwrap_or(0);
            self.spent += i128::from(price) * i128::from(*held) * i128::from(charged);
            weighted += rates.weighted(kind, *held) as f64 / 1000.0;
        }
        if let Some(half) = rates.half_life {
            // A constant rate r over a span t: what was there decays, and r·(1 − 2^(−t/h))·h/ln 2 comes.
            let halves = span as f64 / half.0.max(1) as f64;
            let left = libm::exp2(-halves);
            let gained = half.0 as f64 / 1e9 / core::f64::consts::LN_2 * (1.0 - left);
            self.past = self.past * left + weighted * gained;
        }
        self.until = at;
    }

    /// What the present period of the budget had cost when last settled, rounded to the nearest
    /// micro-unit.
    pub fn spent(&self, currency: Currency) -> Money {
        let per = HOUR * 1000;
        let micros = (self.spent + per / 2).div_euclid(per);
        Money {
            micros: micros.clamp(0, i128::from(i64::MAX)) as i64,
            currency,
        }
    }

    /// Weighted thousandths of GPUs held now.
    pub fn weighted_milli(&self, rates: &Rates) -> u64 {
        let kinds = self.held_milli.iter().zip((0..).map(KindId));
        kinds.map(|(held, kind)| rates.weighted(kind, *held)).sum()
    }
}

/// A queue and those above it, from below.
pub fn upwards(queues: &[Queue], queue: Option<QueueId>) -> impl Iterator<Item = QueueId> {
    std::iter::successors(queue.filter(|id| id.index() < queues.len()), |id| {
        let parent = queues.get(id.index())?.parent;
        // Parents come before their children, so this ends.
        parent.filter(|parent| parent < id)
    })
}

//! On which kind of GPU a job runs, where several would do: the one that is best for this job first.

use super::{Choice, NodeSelector, Search};
use crate::{
    fit,
    world::{StoredJob, World},
};
use gpuwise_domain::placement::{GpuAsk, KindId, Kinds, Need, Preference, Weighed};
use gpuwise_units::Money;

/// What an hour of a kind costs a job; `None`: it is not known.
pub type PriceOf = Box<dyn Fn(&StoredJob, KindId) -> Option<Money> + Send>;

/// A policy that first looks among nodes of the kind that is best for a job, then of the next.
pub struct Preferring {
    by: Preference,
    inner: Box<dyn NodeSelector>,
    prices: Option<PriceOf>,
}

impl Preferring {
    pub fn new(by: Preference, inner: Box<dyn NodeSelector>) -> Self {
        Self {
            by,
            inner,
            prices: None,
        }
    }

    /// By these prices, in place of those that the fleet's kinds state.
    #[must_use]
    pub fn by_prices(mut self, prices: PriceOf) -> Self {
        self.prices = Some(prices);
        self
    }

    fn price(&self, world: &World, job: &StoredJob, id: KindId) -> Option<Money> {
        match &self.prices {
            Some(prices) => prices(job, id),
            None => Some(world.kind(id)?.price?.0),
        }
    }
}

impl NodeSelector for Preferring {
    fn select(&mut self, world: &World, job: &StoredJob, search: Search<'_>) -> Option<Choice> {
        let tiers = self.tiers(world, job);
        if tiers.len() <= 1 {
            return self.inner.select(world, job, search);
        }
        let mut narrowed = job.clone();
        tiers.into_iter().find_map(|(weight, tier)| {
            if let GpuAsk::Whole { kinds, .. }
            | GpuAsk::Fraction { kinds, .. }
            | GpuAsk::Slice { kinds, .. } = &mut narrowed.worker.gpu
            {
                *kinds = tier;
            }
            let mut choice = self.inner.select(world, &narrowed, search)?;
            if weight != UNKNOWN {
                choice.weighed.push(weighed(self.by, weight));
            }
            Some(choice)
        })
    }
}

/// The weight of what is not known: last.
const UNKNOWN: i64 = i64::MAX;

/// What was weighed, by name.
fn weighed(by: Preference, weight: i64) -> Weighed {
    match by {
        Preference::Cheapest => ("price of an hour's work in millionths".into(), weight),
        Preference::Fastest => ("speed of the kind".into(), -weight),
    }
}

impl Preferring {
    /// The lower the better.
    fn weight(&self, world: &World, job: &StoredJob, id: KindId) -> i64 {
        let Some(kind) = world.kind(id) else {
            return UNKNOWN;
        };
        match self.by {
            Preference::Cheapest => self.price(world, job, id).map_or(UNKNOWN, |price| {
                let work = i128::from(price.micros) * 1000 / i128::from(job.speed(id).max(1));
                i64::try_from(work).unwrap_or(UNKNOWN)
            }),
            Preference::Fastest if job.speeds.is_empty() => {
                kind.tflops.map_or(UNKNOWN, |peak| -i64::from(peak))
            }
            Preference::Fastest => -i64::from(job.speed(id)),
        }
    }

    /// The kinds that a job may have, the best first; those that are equally good together.
    fn tiers(&self, world: &World, job: &StoredJob) -> Vec<(i64, Kinds)> {
        let need = match job.worker.gpu {
            GpuAsk::Whole { need, .. } => need,
            _ => Need::default(),
        };
        let kinds = fit::kinds_with(world, job.worker.gpu.kinds(), need);
        if self.by == Preference::Cheapest && !self.in_one_currency(world, job, kinds) {
            return Vec::new();
        }
        let mut tiers: Vec<(i64, Kinds)> = Vec::new();
        for id in kinds.iter() {
            let weight = self.weight(world, job, id);
            match tiers.iter_mut().find(|(known, _)| *known == weight) {
                Some((_, tier)) => *tier = tier.with(id),
                None => tiers.push((weight, Kinds::one(id))),
            }
        }
        tiers.sort_unstable_by_key(|(weight, _)| *weight);
        tiers
    }

    /// Whether prices can be compared.
    fn in_one_currency(&self, world: &World, job: &StoredJob, kinds: Kinds) -> bool {
        let prices = kinds.iter().filter_map(|id| self.price(world, job, id));
        let mut currencies = prices.map(|price| price.currency);
        let first = currencies.next();
        currencies.all(|other| Some(other) == first)
    }
}

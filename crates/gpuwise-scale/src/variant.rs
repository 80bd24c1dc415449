//! What a service's replicas may be: a GPU type or slice, a layout, on demand or spot.

use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};

/// One kind of replica.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    /// The machines it is taken from, and how many of their GPUs a replica takes.
    pub pool: String,
    pub gpus: u32,
    /// Requests a second that a replica serves within the SLO, and seconds that a request runs.
    pub rate: f64,
    pub service: f64,
    /// What a replica costs an hour, in order of time; the first holds from the beginning.
    pub prices: Vec<Price>,
    /// From nothing until a replica serves, and from warm.
    pub start: Nanoseconds,
    pub wake: Nanoseconds,
    /// What a warm replica costs beside one that serves; `None`: none can be.
    pub warm_cost: Option<f64>,
    /// On machines that may be taken away; `None`: they are not.
    pub spot: Option<Spot>,
}

/// A price from when on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub from: Nanoseconds,
    pub per_hour: f64,
}

/// How machines of a pool are taken away.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spot {
    /// Between being told and being gone.
    pub notice: Nanoseconds,
    /// The share of a pool's machines that goes at once: 1, all.
    pub share: f64,
    /// How often that happens in a day, in the mean.
    pub a_day: f64,
    /// For how long nothing of the pool can be had afterwards.
    pub outage: Nanoseconds,
}

const HOUR: f64 = 3600.0;
const HOURS_A_DAY: f64 = 24.0;

impl Variant {
    /// What a replica costs an hour at a time.
    pub fn price(&self, now: Nanoseconds) -> f64 {
        let since = self.prices.iter().rev().find(|price| price.from <= now);
        let price = since.or(self.prices.first());
        price.map_or(0.0, |price| price.per_hour)
    }

    /// The same, with what starting anew costs that interruptions take, in the mean.
    pub(crate) fn price_with_losses(&self, now: Nanoseconds) -> f64 {
        let starts = self.spot.map_or(0.0, |spot| {
            spot.a_day * spot.share / HOURS_A_DAY * self.start.seconds().get() / HOUR
        });
        self.price(now) * (1.0 + starts)
    }
}

/// The pools that variants are taken from, each once, in order of their first variant.
pub fn pools(variants: &[Variant]) -> Vec<&str> {
    let mut pools: Vec<&str> = Vec::new();
    for one in variants {
        if !pools.contains(&one.pool.as_str()) {
            pools.push(&one.pool);
        }
    }
    pools
}

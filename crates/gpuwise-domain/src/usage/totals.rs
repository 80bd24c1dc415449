//! A fleet in total and by tenant.

use super::proposal::{Side, Verdict};
use alloc::{collections::BTreeMap, string::String};
use gpuwise_units::{Currency, Money};

/// Sums over workloads that are there.
#[derive(Debug, Clone, PartialEq)]
pub struct Totals {
    /// The tenant; empty for all.
    pub tenant: String,
    pub workloads: u32,
    /// GPUs that they hold, slices as shares of theirs.
    pub gpus: f64,
    /// GPUs over-, right- and under-provisioned, and those of which it cannot be told.
    pub by_side: [f64; 4],
    pub by_verdict: BTreeMap<Verdict, u32>,
    /// What they cost an hour, as far as prices are known.
    pub hourly: Money,
    /// GPUs that the proposals free.
    pub freed: f64,
    /// Money an hour that they save.
    pub saved: Money,
    /// The same at least.
    pub saved_low: Money,
    /// The same at most.
    pub saved_high: Money,
    /// Workloads whose GPU has no price.
    pub unpriced: u32,
    /// Workloads that hold MIG instances of untold size, which count for the least that they may be.
    pub unsized_slices: u32,
}

impl Totals {
    /// Nothing yet, of this tenant.
    pub fn new(tenant: String) -> Self {
        let nothing = Money {
            micros: 0,
            currency: Currency::USD,
        };
        Self {
            tenant,
            workloads: 0,
            gpus: 0.0,
            by_side: [0.0; 4],
            by_verdict: BTreeMap::new(),
            hourly: nothing,
            freed: 0.0,
            saved: nothing,
            saved_low: nothing,
            saved_high: nothing,
            unpriced: 0,
            unsized_slices: 0,
        }
    }

    /// The share of GPUs on a side, of those of which it can be told.
    pub fn share(&self, side: Side) -> Option<f64> {
        let [over, right, under, _] = self.by_side;
        let known = over + right + under;
        let part = match side {
            Side::Over => over,
            Side::Right => right,
            Side::Under => under,
        };
        (known > 0.0).then(|| part / known)
    }
}

//! A fleet in total and by tenant.

use gpuwise_domain::usage::{
    Usage,
    proposal::{Judgement, Side, Verdict},
};
use gpuwise_units::{Currency, Money};
use std::collections::BTreeMap;

use super::Market;

/// Sums over workloads that are there.
#[derive(Debug, Clone, PartialEq)]
pub struct Totals {
    /// The tenant; empty for all.
    pub tenant: String,
    /// Workloads.
    pub workloads: u32,
    /// GPUs that they hold, slices as shares of theirs.
    pub gpus: f64,
    /// GPUs over-, right- and under-provisioned, and those of which it cannot be told.
    pub by_side: [f64; 4],
    /// Workloads by verdict.
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
}

impl Totals {
    fn new(tenant: String) -> Self {
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

    fn add(&mut self, usage: &Usage, said: &Judgement, market: &Market<'_>) {
        self.workloads += 1;
        *self.by_verdict.entry(said.verdict).or_default() += 1;
        let held = usage.asked.gpu.as_deref();
        let held = held.and_then(|gpu| market.held(gpu, usage.asked.slice.as_deref()));
        let gpus = f64::from(usage.devices()) * held.map_or(1.0, |held| held.share);
        self.gpus += gpus;
        let side = said.verdict.side().map_or(3, |side| side as usize);
        if let Some(sum) = self.by_side.get_mut(side) {
            *sum += gpus;
        }
        match held.and_then(|held| market.price(&held.gpu.name)) {
            Some(price) => plus(
                &mut self.hourly,
                price.0.times((gpus * 1e6).round() as i64, 1_000_000),
            ),
            None => self.unpriced += 1,
        }
        if let Some(saving) = said.proposal.as_ref().map(|proposal| &proposal.saving) {
            self.freed += saving.gpus;
            for (sum, part) in [
                (&mut self.saved, saving.hourly),
                (&mut self.saved_low, saving.hourly_low),
                (&mut self.saved_high, saving.hourly_high),
            ] {
                if let Some(part) = part {
                    plus(sum, part);
                }
            }
        }
    }
}

fn plus(sum: &mut Money, part: Money) {
    sum.micros = sum.micros.saturating_add(part.micros);
}

/// All in total, and each tenant, the one that could save most first.
pub fn totals(
    workloads: &[Usage],
    said: &[Judgement],
    market: &Market<'_>,
) -> (Totals, Vec<Totals>) {
    let mut all = Totals::new(String::new());
    let mut tenants: BTreeMap<&str, Totals> = BTreeMap::new();
    for (usage, said) in workloads
        .iter()
        .zip(said)
        .filter(|(usage, _)| usage.present)
    {
        all.add(usage, said, market);
        tenants
            .entry(&usage.tenant)
            .or_insert_with(|| Totals::new(usage.tenant.clone()))
            .add(usage, said, market);
    }
    let mut tenants: Vec<Totals> = tenants.into_values().collect();
    tenants.sort_by(|a, b| {
        b.saved
            .micros
            .cmp(&a.saved.micros)
            .then(b.freed.total_cmp(&a.freed))
            .then_with(|| a.tenant.cmp(&b.tenant))
    });
    (all, tenants)
}

//! A fleet in total and by tenant.

use gpuwise_domain::usage::{Usage, proposal::Judgement, totals::Totals};
use gpuwise_units::Money;
use std::collections::BTreeMap;

use super::Market;

fn add(sums: &mut Totals, usage: &Usage, said: &Judgement, market: &Market<'_>) {
    sums.workloads += 1;
    *sums.by_verdict.entry(said.verdict).or_default() += 1;
    let portion = market.portion(&usage.asked);
    let gpus = f64::from(usage.devices()) * portion.low;
    sums.gpus += gpus;
    sums.unsized_slices += u32::from(usage.asked.slice_untold);
    let side = said.verdict.side().map_or(3, |side| side as usize);
    if let Some(sum) = sums.by_side.get_mut(side) {
        *sum += gpus;
    }
    match portion.price {
        Some(price) => plus(
            &mut sums.hourly,
            price.0.times((gpus * 1e6).round() as i64, 1_000_000),
        ),
        None => sums.unpriced += 1,
    }
    if let Some(saving) = said.proposal.as_ref().map(|proposal| &proposal.saving) {
        sums.freed += saving.gpus;
        for (sum, part) in [
            (&mut sums.saved, saving.hourly),
            (&mut sums.saved_low, saving.hourly_low),
            (&mut sums.saved_high, saving.hourly_high),
        ] {
            if let Some(part) = part {
                plus(sum, part);
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
        add(&mut all, usage, said, market);
        let tenant = tenants.entry(&usage.tenant);
        let tenant = tenant.or_insert_with(|| Totals::new(usage.tenant.clone()));
        add(tenant, usage, said, market);
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

//! What a question allows of money, providers and power, whatever is rented for it.

use super::{Failure, Market, per_hour};
use alloc::vec::Vec;
use gpuwise_domain::{
    deployment::{Rental, Test},
    fix::{Fix, Flag},
    gpu::Device,
    reason::Reason,
    workload::Limits,
};
use gpuwise_units::{HourlyPrice, Watts};

/// What is to be rented: so many groups of so many devices each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sought<'a> {
    pub(crate) market: &'a Market<'a>,
    pub(crate) device: Device<'a>,
    pub(crate) groups: (u32, u32),
    /// Whether a group that is larger than any instance may extend over several.
    pub(crate) across: bool,
}

impl Sought<'_> {
    /// A price list of one's own in which it is, at most at a price for all.
    pub(crate) fn own_price(&self, at_most: Option<HourlyPrice>) -> Fix {
        let (groups, of) = self.groups;
        Fix::OwnPrice {
            gpu: self.device.gpu.name.clone(),
            gpus: whole_gpus(&self.device, groups.saturating_mul(of)),
            at_most,
        }
    }

    /// The flags that name who rents it out, where the providers and regions that are allowed do not.
    fn elsewhere(&self, limits: &Limits) -> Fix {
        let anywhere = Market {
            providers: &[],
            regions: &[],
            owned: Vec::new(),
            ..self.market.clone()
        };
        let offers = anywhere.offers(&self.device.gpu.name);
        let rental = anywhere.rent(&offers, &self.device, self.groups, self.across);
        let Some(rental) = rental.filter(|one| limits.regions.is_empty() || !one.region.is_empty())
        else {
            return self.own_price(limits.budget);
        };
        let mut flags = Vec::new();
        if !limits.providers.is_empty() {
            flags.push(Flag::new("--provider", &rental.provider));
        }
        if !limits.regions.is_empty() {
            flags.push(Flag::new("--region", &rental.region));
        }
        let hour = per_hour(&rental);
        let over = |budget: HourlyPrice| hour.filter(|hour| hour.0.micros > budget.0.micros);
        flags.extend(limits.budget.and_then(over).map(Flag::budget));
        Fix::flags(flags)
    }
}

/// Widens a limit to what a candidate that broke it keeps.
pub(crate) fn widen(limits: &mut Limits, failure: &Failure) {
    match &failure.shortfall {
        Reason::OverBudget { hour, .. } | Reason::OtherCurrency { hour, .. } => {
            limits.budget = Some(*hour);
        }
        Reason::Power { watts, .. } => limits.power = Some(Watts::new(libm::ceil(*watts))),
        Reason::NotOffered(_) => {
            let Some(Fix::Flags { flags, .. }) = failure.fixes.first() else {
                return;
            };
            for Flag { name, value } in flags {
                let stated = match *name {
                    "--provider" => &mut limits.providers,
                    "--region" => &mut limits.regions,
                    _ => continue,
                };
                *stated = value.iter().cloned().collect();
            }
        }
        _ => {}
    }
}

/// Whether a reason is a limit that can be widened.
pub(crate) const fn can_widen(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::OverBudget { .. }
            | Reason::OtherCurrency { .. }
            | Reason::Power { .. }
            | Reason::NotOffered(_)
    )
}

/// The flags that ask for other limits, money last.
pub(crate) fn widened(before: &Limits, after: &Limits) -> Vec<Flag> {
    let mut out = Vec::new();
    for (name, before, after) in [
        ("--provider", &before.providers, &after.providers),
        ("--region", &before.regions, &after.regions),
    ] {
        let changed = after.iter().filter(|_| before != after);
        out.extend(changed.map(|one| Flag::new(name, one)));
    }
    let power = after.power.filter(|_| before.power != after.power);
    out.extend(power.map(|watts| Flag::new("--power", alloc::format!("{}W", watts.get()))));
    let money = after.budget.filter(|_| before.budget != after.budget);
    out.extend(money.map(Flag::budget));
    out
}

/// GPUs that hold so many devices.
pub(crate) fn whole_gpus(device: &Device<'_>, devices: u32) -> u32 {
    device.slice.map_or(devices, |slice| {
        devices.div_ceil(slice.max_instances.max(1))
    })
}

/// Whether what is rented is within the limits on money and providers. What nobody is known to rent out
/// has no price, and what has no price is within no budget; for hosts of one's own nothing more is paid.
pub(crate) fn affordable(
    limits: &Limits,
    rental: Option<&Rental>,
    sought: &Sought<'_>,
) -> Result<(), Failure> {
    let beyond = |what, ratio, fix: Fix| Err(Failure::new(Test::Limits, what, ratio).fixed_by(fix));
    if rental.is_some_and(Rental::is_owned) {
        return Ok(());
    }
    if rental.is_none() && !(limits.providers.is_empty() && limits.regions.is_empty()) {
        let places = limits.providers.iter().chain(&limits.regions);
        let what = Reason::NotOffered(places.cloned().collect());
        return beyond(what, 1.0, sought.elsewhere(limits));
    }
    let Some(budget) = limits.budget else {
        return Ok(());
    };
    let Some(hour) = rental.and_then(per_hour) else {
        let fix = sought.own_price(Some(budget));
        return beyond(Reason::UnknownPrice { budget }, 1.0, fix);
    };
    let fix = Fix::from(Flag::budget(hour));
    if hour.0.currency != budget.0.currency {
        return beyond(Reason::OtherCurrency { hour, budget }, 1.0, fix);
    }
    if hour.0.micros <= budget.0.micros {
        return Ok(());
    }
    let ratio = hour.0.as_f64() / budget.0.as_f64().max(1e-9);
    beyond(Reason::OverBudget { hour, budget }, ratio, fix)
}

/// Whether what is drawn is within the limit on power: what is not known to be is not.
pub(crate) fn drawn(limits: &Limits, power: Option<f64>) -> Result<(), Failure> {
    match (limits.power, power) {
        (Some(cap), Some(watts)) if watts > cap.get() => {
            let most = cap.get();
            let ratio = watts / most.max(1e-9);
            let fix = Fix::flag("--power", alloc::format!("{}W", libm::ceil(watts)));
            Err(Failure::new(Test::Limits, Reason::Power { watts, most }, ratio).fixed_by(fix))
        }
        (Some(cap), None) => {
            let most = cap.get();
            Err(Failure::new(
                Test::Limits,
                Reason::UnknownPower { most },
                1.0,
            ))
        }
        _ => Ok(()),
    }
}

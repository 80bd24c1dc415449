//! What a question allows of money, providers and power, whatever is rented for it.

use super::{Failure, per_hour};
use gpuwise_domain::{
    deployment::{Rental, Test},
    fix::Fix,
    reason::Reason,
    workload::Limits,
};

/// Whether what is rented is within the limits on money and providers. What nobody is known to rent out
/// has no price, and what has no price is within no budget; for hosts of one's own nothing more is paid.
pub(crate) fn affordable(limits: &Limits, rental: Option<&Rental>) -> Result<(), Failure> {
    let beyond = |what, ratio, fix: Fix| Err(Failure::new(Test::Limits, what, ratio).fixed_by(fix));
    if rental.is_some_and(Rental::is_owned) {
        return Ok(());
    }
    if rental.is_none() && !(limits.providers.is_empty() && limits.regions.is_empty()) {
        let places = limits.providers.iter().chain(&limits.regions);
        let what = Reason::NotOffered(places.cloned().collect());
        return beyond(what, 1.0, Fix::OtherProvider);
    }
    let Some(budget) = limits.budget else {
        return Ok(());
    };
    let Some(hour) = rental.and_then(per_hour) else {
        return beyond(Reason::UnknownPrice { budget }, 1.0, Fix::OwnPrice);
    };
    if hour.0.currency != budget.0.currency {
        let what = Reason::OtherCurrency { hour, budget };
        return beyond(what, 1.0, Fix::OtherCurrency);
    }
    if hour.0.micros <= budget.0.micros {
        return Ok(());
    }
    let ratio = hour.0.as_f64() / budget.0.as_f64().max(1e-9);
    beyond(
        Reason::OverBudget { hour, budget },
        ratio,
        Fix::LargerBudget,
    )
}

/// Whether what is drawn is within the limit on power.
pub(crate) fn drawn(limits: &Limits, power: Option<f64>) -> Result<(), Failure> {
    match (limits.power, power) {
        (Some(cap), Some(watts)) if watts > cap.get() => {
            let most = cap.get();
            let ratio = watts / most.max(1e-9);
            Err(
                Failure::new(Test::Limits, Reason::Power { watts, most }, ratio)
                    .fixed_by(Fix::MorePower),
            )
        }
        _ => Ok(()),
    }
}

//! What an hour of a device costs, to those who held it and to its idleness, to the µ-unit.

use super::{Balance, Device, Overcommitted, Resource, balances};
use crate::{
    money::{amount, divide},
    period::{HOUR, Interval},
    usage::Meter,
};
use gpuwise_units::{HourlyPrice, Money};
use std::collections::BTreeMap;

/// Who bears a part of a device's cost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    Lease {
        tenant: String,
        lease: String,
    },
    System,
    /// Idle, and could have been granted.
    Free,
    /// Idle, without any of the other resource to go with it.
    Stranded,
    /// Idle within instances that nobody held.
    Held,
}

/// A part of a cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostPart {
    pub holder: Holder,
    pub cost: Money,
}

/// Divides what a device cost in a balance's time by one resource: parts sum to the cost. Where the device
/// was not there at all, its cost is nobody's and stands as free.
pub fn divide_cost(meter: &Meter, balance: &Balance, cost: Money, by: Resource) -> Vec<CostPart> {
    let parts = balance.of(by);
    let mut holders = vec![
        (Holder::Free, parts.free),
        (Holder::Stranded, parts.stranded),
        (Holder::Held, parts.held),
        (Holder::System, parts.system),
    ];
    for (place, granted) in &balance.granted {
        let Some(series) = meter.series().get(*place) else {
            continue;
        };
        let holder = Holder::Lease {
            tenant: series.tenant.clone(),
            lease: series.lease.clone(),
        };
        match holders.iter_mut().find(|(of, _)| *of == holder) {
            Some((_, sum)) => *sum += granted[by as usize],
            None => holders.push((holder, granted[by as usize])),
        }
    }
    let weights: Vec<u128> = holders.iter().map(|(_, weight)| *weight).collect();
    let costs = divide(cost, &weights);
    holders
        .into_iter()
        .zip(costs)
        .map(|((holder, _), cost)| CostPart { holder, cost })
        .filter(|part| part.cost.micros != 0)
        .collect()
}

/// What a device costs over an interval, by who bears it, in µ-units; the sum is what its hours cost. An
/// hour that was asked for in part costs that part.
///
/// # Errors
/// When more of the device was granted than there is.
pub fn costs(
    meter: &Meter,
    device: &Device,
    hourly: HourlyPrice,
    within: Interval,
    by: Resource,
) -> Result<BTreeMap<Holder, i128>, Overcommitted> {
    let mut costs = BTreeMap::new();
    for balance in balances(meter, device, within)? {
        let length = i128::from(balance.hour.length());
        // A part of an hour's price is not above it, so that it is always kept.
        let cost = amount(hourly.0, length, i128::from(HOUR)).unwrap_or(hourly.0);
        for part in divide_cost(meter, &balance, cost, by) {
            *costs.entry(part.holder).or_default() += i128::from(part.cost.micros);
        }
    }
    Ok(costs)
}

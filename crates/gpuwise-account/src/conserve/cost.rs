//! What an hour of a device costs, to those who held it and to its idleness, to the µ-unit.

use super::{Balance, Resource};
use crate::{money::divide, usage::Meter};
use gpuwise_units::Money;

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

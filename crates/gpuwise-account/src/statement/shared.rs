//! Costs that belong to nobody alone, divided by a stated rule.

use super::{Cause, Line};
use crate::{
    books::Books,
    money::divide,
    period::{Interval, Month},
    usage::Quantity,
};
use gpuwise_units::Money;
use std::collections::BTreeMap;

gpuwise_units::named! {
    /// What a shared cost is divided by, among the tenants that held or used anything in the month.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
    pub enum SharedBy:
        name
    {
        /// GPU time that was granted, by compute.
        Granted = "granted",
        /// GPU time in which multiprocessors worked, as far as it was measured.
        Used = "used",
        Even = "even",
    }
}

/// A cost of a month that is shared, such as network, storage or what was idle.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SharedCost {
    pub name: String,
    pub cost: Money,
    pub by: SharedBy,
}

/// Each tenant's part; parts sum to the cost, to the µ-unit. Empty where there is nothing to divide by:
/// then it stays with whoever paid it.
pub fn shares(books: &Books, within: Interval, shared: &SharedCost) -> BTreeMap<String, Money> {
    let meter = books.meter();
    let weights: Vec<(&str, u128)> = meter
        .tenants()
        .map(|tenant| (tenant, weight(books, tenant, within, shared.by)))
        .filter(|(_, weight)| *weight > 0)
        .collect();
    let parts: Vec<u128> = weights.iter().map(|(_, weight)| *weight).collect();
    let costs = divide(shared.cost, &parts);
    weights
        .iter()
        .zip(costs)
        .map(|((tenant, _), cost)| ((*tenant).to_owned(), cost))
        .collect()
}

fn weight(books: &Books, tenant: &str, within: Interval, by: SharedBy) -> u128 {
    let mut weight = 0_u128;
    for series in books.meter().of_tenant(tenant) {
        let cells = series.cells(within);
        let held = series.spans.length_within(within);
        weight += match by {
            SharedBy::Granted => {
                let share = series.granted.compute();
                // In billionths of a device, so that sevenths and thousandths have a common measure.
                u128::from(held) * u128::from(share.part) * 1_000_000_000 / u128::from(share.of)
            }
            SharedBy::Used => (cells.iter())
                .filter_map(|cell| cell.used.get(Quantity::SmTime))
                .map(u128::from)
                .sum(),
            SharedBy::Even if held > 0 || !cells.is_empty() => return 1,
            SharedBy::Even => 0,
        };
    }
    weight
}

/// Shared costs of months, divided once for all tenants.
#[derive(Debug, Default)]
pub(crate) struct Parts(BTreeMap<Month, Vec<Divided>>);

/// A cost's name, and each tenant's part.
type Divided = (String, BTreeMap<String, Money>);

impl Parts {
    pub(crate) fn of(books: &Books, months: impl IntoIterator<Item = Month>) -> Self {
        let divided = |month: Month| {
            let costs = books.shared(month).iter();
            let part = |cost: &SharedCost| {
                let parts = shares(books, month.interval(), cost);
                (cost.name.clone(), parts)
            };
            (month, costs.map(part).collect())
        };
        Self(months.into_iter().map(divided).collect())
    }

    /// A tenant's lines of a month.
    pub(super) fn lines(&self, tenant: &str, month: Month) -> impl Iterator<Item = Line> {
        let costs = self.0.get(&month).into_iter().flatten();
        costs.filter_map(move |(name, parts)| {
            Some(Line {
                cause: Cause::Shared(name.clone()),
                interval: month.interval(),
                item: None,
                charge: Ok(*parts.get(tenant)?),
                list: None,
            })
        })
    }
}

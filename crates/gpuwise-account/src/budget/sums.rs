//! Sums of a budget's periods.

use super::{Budget, Crossed, Expected, Standing, Warning};
use crate::{
    money::divide,
    period::{Every, Interval},
};
use gpuwise_units::{Currency, Money, Nanoseconds};
use std::collections::{BTreeMap, BTreeSet};

/// µ-units of a budget's period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Sums {
    pub(super) spent: i128,
    pub(super) reserved: i128,
}

/// Place of a budget's period: its id and the period's start.
pub(super) type Place = (String, Nanoseconds);

/// What amounts come to in each period of each budget of their currency. An amount whose time reaches over
/// several periods is divided by time, to the µ-unit.
pub(super) fn by_period(
    budgets: &BTreeMap<String, Budget>,
    of: Option<&BTreeSet<String>>,
    amounts: &[Expected],
) -> BTreeMap<Place, i128> {
    let mut sums = BTreeMap::new();
    for budget in of.into_iter().flatten().filter_map(|id| budgets.get(id)) {
        let currency = budget.amount.currency;
        let amounts = amounts.iter();
        for expected in amounts.filter(|expected| expected.amount.currency == currency) {
            let parts = periods(budget.every, expected.interval);
            let lengths: Vec<u64> = parts.iter().map(|part| part.length()).collect();
            for (part, amount) in parts.iter().zip(divide(expected.amount, &lengths)) {
                let start = budget.every.period_of(part.start).start;
                *sums.entry((budget.id.clone(), start)).or_default() += i128::from(amount.micros);
            }
        }
    }
    sums
}

/// An interval in the periods that it reaches over; an empty one stands in the period of its start.
fn periods(every: Every, interval: Interval) -> Vec<Interval> {
    let mut parts = vec![interval.within(every.period_of(interval.start))];
    while let Some(last) = parts.last().copied()
        && last.end < interval.end
        && !last.is_empty()
    {
        parts.push(interval.within(every.period_of(last.end)));
    }
    parts
}

pub(super) fn is_over(budget: &Budget, sums: Sums, crossed: Crossed) -> bool {
    let amount = i128::from(budget.amount.micros);
    match crossed {
        Crossed::Soft => budget
            .soft_milli
            .is_some_and(|milli| (sums.spent + sums.reserved) * 1000 >= amount * i128::from(milli)),
        Crossed::Hard => sums.spent > amount,
    }
}

pub(super) fn warning(budget: &Budget, period: Interval, sums: Sums, crossed: Crossed) -> Warning {
    let standing = standing(budget, period, sums);
    Warning {
        budget: budget.id.clone(),
        period,
        crossed,
        spent: standing.spent,
        reserved: standing.reserved,
        amount: budget.amount,
    }
}

pub(super) fn standing(budget: &Budget, period: Interval, sums: Sums) -> Standing {
    let money = |micros| money(micros, budget.amount.currency);
    Standing {
        period,
        spent: money(sums.spent),
        reserved: money(sums.reserved),
        left: money(i128::from(budget.amount.micros) - sums.spent - sums.reserved),
    }
}

/// What is shown of a sum; sums are kept in 128 bits.
pub(super) fn money(micros: i128, currency: Currency) -> Money {
    Money {
        micros: micros.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64,
        currency,
    }
}

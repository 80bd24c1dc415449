//! Budgets: the worst case is reserved before anything is spent.

use crate::{
    money::{divide, exact},
    period::{Every, Interval},
};
use gpuwise_units::{Currency, Money, Nanoseconds};
use std::collections::{BTreeMap, BTreeSet};

/// What a tenant may spend in each period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    pub id: String,
    pub tenant: String,
    pub amount: Money,
    pub every: Every,
    /// Thousandths of the amount from which on it is warned; `None`: never.
    pub soft_milli: Option<u32>,
    /// Whether what would go beyond it is refused; else it is only told.
    pub hard: bool,
}

/// What something costs at most, or did cost, over a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    pub interval: Interval,
    pub amount: Money,
}

/// Why nothing is reserved. Trying again without a change is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error(
        "budget `{budget}` has {} left of {} and this needs up to {}: {} too little",
        exact(*.left), exact(*.amount), exact(*.needed), exact(*.short)
    )]
    Exceeded {
        budget: String,
        period: Interval,
        amount: Money,
        /// What is neither spent nor reserved; below 0 where more was spent than there was.
        left: Money,
        needed: Money,
        short: Money,
    },
    #[error(
        "tenant `{tenant}` has no budget in {currency}: give it one, or a price in the currency of its budget"
    )]
    OtherCurrency { tenant: String, currency: Currency },
    #[error("reservation `{0}` is made already")]
    Twice(String),
}

gpuwise_units::named! {
    /// Which line of a budget was crossed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Crossed:
        name
    {
        /// Spent and reserved are above the threshold of warning.
        Soft = "soft",
        /// Spent is above the amount: what runs is drained.
        Hard = "hard",
    }
}

/// That a line was crossed just now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    pub budget: String,
    pub period: Interval,
    pub crossed: Crossed,
    pub spent: Money,
    pub reserved: Money,
    pub amount: Money,
}

/// A budget's period as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub period: Interval,
    pub spent: Money,
    pub reserved: Money,
    /// Below 0 where more was spent than there was.
    pub left: Money,
}

/// µ-units of a budget's period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sums {
    spent: i128,
    reserved: i128,
}

/// Place of a budget's period: its id and the period's start.
type Place = (String, Nanoseconds);

/// All budgets, what was spent and what is reserved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Budgets {
    all: BTreeMap<String, Budget>,
    /// By tenant: ids of its budgets.
    of: BTreeMap<String, BTreeSet<String>>,
    sums: BTreeMap<Place, Sums>,
    /// What each reservation still holds.
    reservations: BTreeMap<String, BTreeMap<Place, i128>>,
}

impl Budgets {
    /// Sets a budget, in place of one of the same id. What was spent and reserved under it stays.
    pub fn set(&mut self, budget: Budget) {
        if let Some(old) = self.all.get(&budget.id)
            && let Some(ids) = self.of.get_mut(&old.tenant)
        {
            ids.remove(&budget.id);
        }
        let ids = self.of.entry(budget.tenant.clone()).or_default();
        ids.insert(budget.id.clone());
        self.all.insert(budget.id.clone(), budget);
    }

    pub fn budget(&self, id: &str) -> Option<&Budget> {
        self.all.get(id)
    }

    /// A tenant's budgets.
    pub fn of_tenant(&self, tenant: &str) -> impl Iterator<Item = &Budget> {
        let ids = self.of.get(tenant).into_iter().flatten();
        ids.filter_map(|id| self.all.get(id))
    }

    /// How a budget stands in the period of a moment.
    pub fn standing(&self, id: &str, at: Nanoseconds) -> Option<Standing> {
        let budget = self.all.get(id)?;
        let period = budget.every.period_of(at);
        let sums = self.sums_of(&(id.into(), period.start));
        Some(standing(budget, period, sums))
    }

    /// Reserves what something costs at most, in all of the tenant's budgets or in none. A tenant without
    /// budgets is not bounded.
    ///
    /// # Errors
    /// When a hard budget would not hold it with all that is spent and reserved.
    pub fn reserve(
        &mut self,
        id: &str,
        tenant: &str,
        worst: &[Expected],
    ) -> Result<Vec<Warning>, Refusal> {
        let held = self.held(id, tenant, worst)?;
        let changes = held.iter().map(|(place, micros)| {
            let reserved = *micros;
            (place.clone(), Sums { spent: 0, reserved })
        });
        let warnings = self.change(changes.collect());
        self.reservations.insert(id.into(), held);
        Ok(warnings)
    }

    /// Whether it could be reserved, without doing it.
    ///
    /// # Errors
    /// As [`Budgets::reserve`].
    pub fn could_reserve(&self, id: &str, tenant: &str, worst: &[Expected]) -> Result<(), Refusal> {
        self.held(id, tenant, worst).map(drop)
    }

    fn held(
        &self,
        id: &str,
        tenant: &str,
        worst: &[Expected],
    ) -> Result<BTreeMap<Place, i128>, Refusal> {
        if self.reservations.contains_key(id) {
            return Err(Refusal::Twice(id.into()));
        }
        let currencies: BTreeSet<Currency> = (self.of_tenant(tenant))
            .map(|budget| budget.amount.currency)
            .collect();
        let other = worst.iter().map(|expected| expected.amount.currency);
        let mut other = other.filter(|currency| !currencies.contains(currency));
        if let (false, Some(currency)) = (currencies.is_empty(), other.next()) {
            let tenant = tenant.into();
            return Err(Refusal::OtherCurrency { tenant, currency });
        }
        let held = by_period(&self.all, self.of.get(tenant), worst);
        for ((id, start), needed) in &held {
            let Some(budget) = self.all.get(id).filter(|budget| budget.hard) else {
                continue;
            };
            let sums = self.sums_of(&(id.clone(), *start));
            let left = i128::from(budget.amount.micros) - sums.spent - sums.reserved;
            if *needed > left {
                let money = |micros| money(micros, budget.amount.currency);
                return Err(Refusal::Exceeded {
                    budget: id.clone(),
                    period: budget.every.period_of(*start),
                    amount: budget.amount,
                    left: money(left),
                    needed: money(*needed),
                    short: money(needed - left),
                });
            }
        }
        Ok(held)
    }

    /// Counts what was spent. As much of the reservation is freed, in the same periods; what was spent
    /// beyond it, or without one, counts as well.
    pub fn settle(&mut self, id: &str, tenant: &str, spent: &[Expected]) -> Vec<Warning> {
        let mut changes: BTreeMap<Place, Sums> = BTreeMap::new();
        let mut held = self.reservations.get_mut(id);
        for (place, spent) in by_period(&self.all, self.of.get(tenant), spent) {
            let left = held.as_mut().and_then(|held| held.get_mut(&place));
            let freed = left.map_or(0, |left| {
                let part = spent.clamp(0, *left);
                *left -= part;
                part
            });
            let reserved = -freed;
            changes.insert(place, Sums { spent, reserved });
        }
        self.change(changes)
    }

    /// Frees what a reservation still holds; one that is not there holds nothing.
    pub fn release(&mut self, id: &str) {
        if let Some(held) = self.reservations.remove(id) {
            let freed = held.into_iter().map(|(place, micros)| {
                let reserved = -micros;
                (place, Sums { spent: 0, reserved })
            });
            self.change(freed.collect());
        }
    }

    /// What a reservation still holds of each budget's period.
    pub fn reservation(&self, id: &str) -> impl Iterator<Item = (&Budget, Nanoseconds, Money)> {
        let held = self.reservations.get(id).into_iter().flatten();
        held.filter_map(|((id, start), micros)| {
            let budget = self.all.get(id)?;
            Some((budget, *start, money(*micros, budget.amount.currency)))
        })
    }

    /// Forgets periods that ended before a moment and hold no reservation.
    pub fn forget(&mut self, before: Nanoseconds) {
        let budgets = &self.all;
        self.sums.retain(|(id, start), sums| {
            let period = budgets.get(id).map(|budget| budget.every.period_of(*start));
            sums.reserved != 0 || period.is_some_and(|period| period.end > before)
        });
    }

    fn sums_of(&self, place: &Place) -> Sums {
        self.sums.get(place).copied().unwrap_or_default()
    }

    fn change(&mut self, changes: BTreeMap<Place, Sums>) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for (place, change) in changes {
            let before = self.sums_of(&place);
            let after = Sums {
                spent: before.spent + change.spent,
                reserved: before.reserved + change.reserved,
            };
            if let Some(budget) = self.all.get(&place.0) {
                let period = budget.every.period_of(place.1);
                let crossed = Crossed::ALL.into_iter().filter(|crossed| {
                    !is_over(budget, before, *crossed) && is_over(budget, after, *crossed)
                });
                warnings.extend(crossed.map(|crossed| warning(budget, period, after, crossed)));
            }
            self.sums.insert(place, after);
        }
        warnings
    }
}

/// What amounts come to in each period of each budget of their currency. An amount whose time reaches over
/// several periods is divided by time, to the µ-unit.
fn by_period(
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

fn is_over(budget: &Budget, sums: Sums, crossed: Crossed) -> bool {
    let amount = i128::from(budget.amount.micros);
    match crossed {
        Crossed::Soft => budget
            .soft_milli
            .is_some_and(|milli| (sums.spent + sums.reserved) * 1000 >= amount * i128::from(milli)),
        Crossed::Hard => sums.spent > amount,
    }
}

fn warning(budget: &Budget, period: Interval, sums: Sums, crossed: Crossed) -> Warning {
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

fn standing(budget: &Budget, period: Interval, sums: Sums) -> Standing {
    let money = |micros| money(micros, budget.amount.currency);
    Standing {
        period,
        spent: money(sums.spent),
        reserved: money(sums.reserved),
        left: money(i128::from(budget.amount.micros) - sums.spent - sums.reserved),
    }
}

/// What is shown of a sum; sums are kept in 128 bits.
fn money(micros: i128, currency: Currency) -> Money {
    Money {
        micros: micros.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64,
        currency,
    }
}

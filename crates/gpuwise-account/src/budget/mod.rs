//! Budgets: the worst case is reserved before anything is spent.

mod nouns;
mod sums;

pub use nouns::{Budget, Crossed, Expected, Refusal, Standing, Warning};

use gpuwise_units::{Currency, Money, Nanoseconds};
use std::collections::{BTreeMap, BTreeSet};
use sums::{Place, Sums, by_period, is_over, money, standing, warning};

/// All budgets, what was spent and what is reserved.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
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

    /// Takes a budget away, with what was spent and reserved under it: one of the same id is told both anew, by
    /// [`Budgets::restate`] and [`Budgets::hold`].
    pub fn remove(&mut self, id: &str) {
        let Some(old) = self.all.remove(id) else {
            return;
        };
        if let Some(ids) = self.of.get_mut(&old.tenant) {
            ids.remove(id);
        }
        self.sums.retain(|(of, _), _| of != id);
        for held in self.reservations.values_mut() {
            held.retain(|(of, _), _| of != id);
        }
        self.reservations.retain(|_, held| !held.is_empty());
    }

    pub fn budget(&self, id: &str) -> Option<&Budget> {
        self.all.get(id)
    }

    /// All of them, by id.
    pub fn all(&self) -> impl Iterator<Item = &Budget> {
        self.all.values()
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

    /// Holds what something costs at most from now on, in place of what its reservation held before, whether a
    /// budget is enough for it or not: that was asked of [`Budgets::could_reserve`] when it was decided.
    pub fn hold(&mut self, id: &str, tenant: &str, worst: &[Expected]) -> Vec<Warning> {
        self.release(id);
        let held = by_period(&self.all, self.of.get(tenant), worst);
        let changes = held.iter().map(|(place, micros)| {
            let reserved = *micros;
            (place.clone(), Sums { spent: 0, reserved })
        });
        let warnings = self.change(changes.collect());
        self.reservations.insert(id.into(), held);
        warnings
    }

    /// What was spent under a budget in the period of a moment is this, in place of what was counted until now:
    /// prices that hold for the past, or a budget that begins in the midst of a period, change it.
    pub fn restate(&mut self, id: &str, at: Nanoseconds, spent: &[Expected]) -> Vec<Warning> {
        let Some(budget) = self.all.get(id) else {
            return Vec::new();
        };
        let place = (budget.id.clone(), budget.every.period_of(at).start);
        let of = BTreeSet::from([budget.id.clone()]);
        let sums = by_period(&self.all, Some(&of), spent);
        let spent = sums.get(&place).copied().unwrap_or(0) - self.sums_of(&place).spent;
        let reserved = 0;
        self.change(BTreeMap::from([(place, Sums { spent, reserved })]))
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

    /// What a reservation still holds of a budget in the period of a moment, in µ-units.
    pub fn held_for(&self, id: &str, budget: &str, at: Nanoseconds) -> i128 {
        let Some(every) = self.all.get(budget).map(|budget| budget.every) else {
            return 0;
        };
        let place = (budget.to_owned(), every.period_of(at).start);
        let held = self.reservations.get(id);
        held.and_then(|held| held.get(&place)).copied().unwrap_or(0)
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

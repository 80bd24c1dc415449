//! What leases and tenants have cost.

use super::seen::record;
use crate::{Broker, Lease};
use gpuwise_account::{
    budget::Expected,
    period::{Interval, Month},
    prices::Metered,
    statement::{Line, Statement, of_lease},
    usage::{Granted, UsageRecord},
};
use gpuwise_units::{Currency, Money, Nanoseconds};
use std::collections::BTreeMap;

impl Broker {
    /// A tenant's month, with what its leases hold counted up to now.
    pub fn statement(&self, now: Nanoseconds, tenant: &str, month: Month) -> Statement {
        let leases = self.open_of(tenant);
        let holding: Vec<UsageRecord> = leases.flat_map(|lease| self.holding(now, lease)).collect();
        let books = &self.accounts.books;
        let lending = self.lending_of(now, tenant);
        let mut statement = books.live_statement(tenant, month, &holding, &lending);
        let prices = books.prices();
        if !prices.has(Metered::TokensIn) && !prices.has(Metered::TokensOut) {
            // Tokens that nobody sells are no charge whose price is missing.
            let tokens = |line: &Line| {
                line.charge.is_err()
                    && (line.item.as_ref()).is_some_and(|item| item.granted == Granted::Nothing)
            };
            statement.lines.retain(|line| !tokens(line));
        }
        statement
    }

    /// What a lease holds, up to now, as records that are not kept.
    pub(crate) fn holding(&self, now: Nanoseconds, lease: &Lease) -> Vec<UsageRecord> {
        let each = (0..).zip(self.grants.of(lease.number, now));
        each.filter_map(|(number, grant)| {
            // Ids that no kept record has.
            let id = format!("{}/{number}", lease.id());
            record(&self.world, lease, &grant, id, number)
        })
        .collect()
    }

    /// What a tenant has spent of its budget this month and what is reserved for what its leases may still cost, both
    /// in µ-units of its budget's currency; `None`: it has no budget.
    pub fn spending(&self, now: Nanoseconds, tenant: &str) -> Option<(i128, i128)> {
        let standing = self.accounts.budgets.standing(tenant, now)?;
        let (spent, reserved) = (standing.spent, standing.reserved);
        let month = Month::of(now).interval();
        let (mut going_on, mut covered) = (0, 0);
        for lease in self.open_of(tenant) {
            let mut own = 0;
            for record in self.holding(now, lease) {
                let costs = self.accounts.spent(&record);
                let this = costs.iter().filter(|cost: &&Expected| {
                    cost.interval.overlaps(month) && cost.amount.currency == spent.currency
                });
                own += this
                    .map(|cost| i128::from(cost.amount.micros))
                    .sum::<i128>();
            }
            going_on += own;
            // What goes on uses up what is held back for its own lease alone.
            let held = self.accounts.budgets.held_for(&lease.id(), tenant, now);
            covered += own.min(held);
        }
        let reserved = i128::from(reserved.micros) - covered;
        Some((i128::from(spent.micros) + going_on, reserved))
    }

    /// What a tenant has spent this month, by currency; as its budget counts it where it has one.
    pub fn spent(&self, now: Nanoseconds, tenant: &str) -> Vec<Money> {
        let totals = self.statement(now, tenant, Month::of(now)).totals();
        let each = totals.into_iter();
        let each = each.filter_map(|(currency, total)| total.money(currency));
        let Some((budget, (spent, _))) = self.budget(tenant).zip(self.spending(now, tenant)) else {
            return each.collect();
        };
        // Of its currency as the budget counts it, and what else was charged beside.
        let own = Money {
            micros: i64::try_from(spent).unwrap_or(i64::MAX),
            currency: budget.currency,
        };
        let others = each.filter(|one| one.currency != budget.currency);
        [own].into_iter().chain(others).collect()
    }

    /// A tenant's budget for a month; `None`: it has none.
    pub fn budget(&self, tenant: &str) -> Option<Money> {
        Some(self.accounts.budgets.budget(tenant)?.amount)
    }

    /// What a lease has cost within an interval, up to now, by currency; nothing: nothing of it has a price.
    pub fn cost_within(&self, now: Nanoseconds, lease: &Lease, within: Interval) -> Vec<Money> {
        let mut books = self.accounts.books.of_lease(&lease.id());
        for record in self.holding(now, lease) {
            books.hold(&record);
        }
        by_currency(&of_lease(&books, &lease.id(), within))
    }

    /// What a lease has cost until now, by currency; nothing: nothing of it has a price.
    pub fn cost_of(&self, now: Nanoseconds, lease: &Lease) -> Vec<Money> {
        let until = lease.over.as_ref().map_or(now, |over| over.at);
        self.cost_within(now, lease, Interval::new(lease.requested, until))
    }
}

/// Sums of what lines charge. Amounts of different currencies are not added.
fn by_currency(lines: &[Line]) -> Vec<Money> {
    let mut sums: BTreeMap<Currency, i64> = BTreeMap::new();
    for charge in lines.iter().filter_map(|line| line.charge.ok()) {
        let sum = sums.entry(charge.currency).or_default();
        *sum = sum.saturating_add(charge.micros);
    }
    let money = |(currency, micros)| Money { micros, currency };
    sums.into_iter().map(money).collect()
}

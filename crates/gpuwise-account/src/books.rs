//! Meter, loans, prices and what was stated, together: one state that records and months move.

use crate::{
    budget::Expected,
    lent::{Lent, Loan},
    period::{Interval, Month},
    prices::PriceBook,
    statement::{Cause, Parts, Right, SharedCost, Stated, Statement, credits, lines},
    usage::{Limits, Meter, Outcome, Reason, UsageRecord},
};
use gpuwise_units::Nanoseconds;
use std::collections::{BTreeMap, BTreeSet};

/// What was used, what it costs and what was stated of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Books {
    meter: Meter,
    prices: PriceBook,
    shared: BTreeMap<Month, Vec<SharedCost>>,
    stated: Stated,
    lent: Lent,
}

impl Books {
    pub fn new(limits: Limits) -> Self {
        Self {
            meter: Meter::new(limits),
            ..Self::default()
        }
    }

    /// Takes what is held up to now and is not over, into books that are not kept: see [`Meter::hold`].
    pub fn hold(&mut self, record: &UsageRecord) {
        self.meter.hold(record);
    }

    /// Takes a usage record: see [`Meter::record`].
    pub fn record(&mut self, now: Nanoseconds, record: &UsageRecord) -> Outcome {
        self.meter.record(now, record)
    }

    /// Takes what was used alone: see [`Meter::measure`].
    pub fn measure(&mut self, now: Nanoseconds, record: &UsageRecord) -> Outcome {
        self.meter.measure(now, record)
    }

    /// Keeps a record aside: see [`Meter::put_aside`].
    pub fn put_aside(&mut self, now: Nanoseconds, record: &UsageRecord, reason: Reason) -> Outcome {
        self.meter.put_aside(now, record, reason)
    }

    /// What was kept for a tenant was lent to another over an interval: it earns a share of what that one pays.
    pub fn lend(&mut self, loan: Loan, time: Interval) {
        self.lent.add(loan, time);
    }

    /// From now on these prices hold, for the past too: closed months are corrected. A price change within
    /// an hour that was metered already divides what was used in that hour by the time that was held on
    /// each side; granted time is always exact.
    pub fn set_prices(&mut self, prices: PriceBook) {
        self.meter.regrid(&prices.grid());
        self.prices = prices;
    }

    /// One lease's records alone and the prices, to which others can be added without changing these.
    #[must_use]
    pub fn of_lease(&self, lease: &str) -> Self {
        Self {
            meter: self.meter.only(self.meter.of_lease(lease)),
            prices: self.prices.clone(),
            ..Self::default()
        }
    }

    /// Shares a cost of a month among its tenants, in place of one of the same name.
    pub fn share(&mut self, month: Month, cost: SharedCost) {
        let costs = self.shared.entry(month).or_default();
        costs.retain(|other| other.name != cost.name);
        costs.push(cost);
    }

    /// Costs of a month that are shared.
    pub fn shared(&self, month: Month) -> &[SharedCost] {
        self.shared.get(&month).map_or(&[], Vec::as_slice)
    }

    /// A tenant's statement of a month: as it was closed, or as it stands. In the first month that is not
    /// closed, closed ones are corrected by what came since.
    pub fn statement(&self, tenant: &str, month: Month) -> Statement {
        if let Some(closed) = self.stated.statement(tenant, month) {
            return closed;
        }
        let months = self.stated.corrected().chain([month]);
        let shared = Parts::of(self, months);
        self.open_statement(tenant, month, &shared).0
    }

    /// A tenant's statement of an open month with what its leases hold up to now, of which no record came
    /// yet, and what it lends up to now. Nothing of it is kept. Shared costs are divided by what was recorded, of all tenants.
    pub fn live_statement(
        &self,
        tenant: &str,
        month: Month,
        holding: &[UsageRecord],
        lending: &[(Loan, Interval)],
    ) -> Statement {
        let mut statement = self.statement(tenant, month);
        if self.stated.open().is_some_and(|open| month < open) {
            return statement;
        }
        let mut meter = self.meter.only(self.meter.of_tenant(tenant));
        for record in holding {
            meter.hold(record);
        }
        let mut live = lines(&self.prices, meter.of_tenant(tenant), month.interval());
        let mut lent = self.lent.only(tenant);
        for (loan, time) in lending {
            lent.add(loan.clone(), *time);
        }
        live.extend(credits(&self.prices, &lent, tenant, month.interval()));
        statement.lines.retain(|line| line.cause != Cause::Usage);
        live.append(&mut statement.lines);
        statement.lines = live;
        statement
    }

    /// What a tenant's month comes to as budgets count it: what was held, each amount rounded up, and what the
    /// month's statement takes back and restates of earlier ones. Credits are no part of it: what is earned is not
    /// allowed beyond a budget. `None`: the month is closed, and stays as it was counted.
    pub fn spent(&self, tenant: &str, month: Month) -> Option<Vec<Expected>> {
        if self.stated.open().is_some_and(|open| month < open) {
            return None;
        }
        let within = month.interval();
        let mut spent = Vec::new();
        for series in self.meter.of_tenant(tenant) {
            for span in series.spans.touching(within) {
                let held = span.within(within);
                spent.extend(self.prices.priced(&series.into(), held));
            }
        }
        if self.stated.open() == Some(month) {
            let shared = Parts::of(self, self.stated.corrected());
            let right = self.stated.right(self, tenant, &shared);
            let corrections = self.stated.corrections(tenant, &right);
            let amounts = corrections.iter().filter(|line| !line.is_credit());
            spent.extend(amounts.filter_map(|line| {
                let (interval, amount) = (within, line.charge.ok()?);
                Some(Expected { interval, amount })
            }));
        }
        Some(spent)
    }

    /// A statement of a month that is not closed, and what earlier months would be stated as now.
    fn open_statement(&self, tenant: &str, month: Month, shared: &Parts) -> (Statement, Right) {
        let mut statement = Statement::with(self, tenant, month, shared);
        if self.stated.open() != Some(month) {
            return (statement, Vec::new());
        }
        let right = self.stated.right(self, tenant, shared);
        let corrections = self.stated.corrections(tenant, &right);
        statement.lines.extend(corrections);
        (statement, right)
    }

    /// Closes a month, and those before it that are open, for all tenants: statements stay as they are
    /// now, and what comes later is corrected in the first month that is open.
    pub fn close(&mut self, month: Month) {
        let mut next = self.stated.open().unwrap_or(month);
        while next <= month {
            self.close_next(next);
            next = next.next();
        }
    }

    fn close_next(&mut self, month: Month) {
        let of_meter = self.meter.tenants();
        let others = self.stated.tenants().chain(self.lent.tenants());
        let tenants: BTreeSet<&str> = of_meter.chain(others).collect();
        let shared = Parts::of(self, self.stated.corrected().chain([month]));
        let closed = tenants
            .into_iter()
            .map(|tenant| self.open_statement(tenant, month, &shared))
            .collect();
        self.stated.close(month, closed);
    }

    /// The first month that is not closed; `None`: none was ever.
    pub const fn open_month(&self) -> Option<Month> {
        self.stated.open()
    }

    /// Forgets records that ended before a month, if all before it is closed: it stays as it was stated
    /// and is not corrected any more. `false`: it is open, and nothing is forgotten.
    pub fn forget(&mut self, before: Month, now: Nanoseconds) -> bool {
        if self.stated.open().is_none_or(|open| before > open) {
            return false;
        }
        self.stated.settle(before);
        self.meter.forget(before, now);
        self.lent.forget(before.start());
        true
    }

    pub const fn meter(&self) -> &Meter {
        &self.meter
    }

    pub const fn lent(&self) -> &Lent {
        &self.lent
    }

    pub const fn prices(&self) -> &PriceBook {
        &self.prices
    }
}

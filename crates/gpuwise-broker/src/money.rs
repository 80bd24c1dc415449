//! Grants become usage records and money; budgets are held before money is spent.

mod seen;
mod worst;

use seen::record;
pub(crate) use seen::seen;

use crate::{Broker, Lease, grants::Grant};
use gpuwise_account::{
    books::Books,
    budget::{Budget, Budgets, Expected},
    period::{Every, HOUR, Interval, Month},
    prices::{Applies, Asked, Basis, LENT_USUAL, Metered, PriceBook, PriceEntry},
    statement::{Line, Statement, of_lease},
    usage::{Granted, Limits, UsageRecord, Used},
};
use gpuwise_domain::{
    offer::Terms,
    placement::{Fleet, GpuId},
};
use gpuwise_sched::world::World;
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::broker::LeaseAsk;
use std::collections::BTreeSet;

/// Who says what was granted: the broker itself.
const SOURCE: &str = "grants";

/// Prices that begin later than so long after a lease could have ended do not count for its worst case.
const AHEAD: Nanoseconds = Nanoseconds(92 * gpuwise_account::period::DAY);

/// Thousandths of a budget from which on it is warned.
const SOFT: u32 = 800;

/// What was granted, what it costs, and what budgets hold.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Accounts {
    pub(crate) books: Books,
    pub(crate) budgets: Budgets,
    records: u64,
}

/// The price of a GPU-hour from a moment on.
pub(crate) fn entry(
    id: String,
    gpu: &str,
    applies: Applies,
    amount: Money,
    from: Nanoseconds,
) -> PriceEntry {
    PriceEntry {
        id,
        sku: format!("gpu/{gpu}"),
        metered: Metered::GpuTime,
        basis: Basis::Larger,
        applies,
        valid: Interval::since(from),
        window: None,
        amount,
        per: HOUR,
        minimum_ns: 0,
        granularity_ns: 0,
        lent_milli: LENT_USUAL,
    }
}

impl Accounts {
    /// With the prices of a fleet's kinds of GPU.
    pub(crate) fn new(fleet: &Fleet) -> Self {
        // A fleet's own grants are never late, and last as long as leases do.
        let limits = Limits {
            longest: Nanoseconds(u64::MAX),
            behind: Nanoseconds(u64::MAX >> 1),
            ..Limits::default()
        };
        let mut books = Books::new(limits);
        // One price for each name: kinds of one name differ in what their nodes have.
        let mut named = BTreeSet::new();
        let priced = fleet.kinds.iter().filter(|kind| kind.price.is_some());
        let once: Vec<_> = priced.filter(|kind| named.insert(&kind.name)).collect();
        let entries = once.into_iter().filter_map(|kind| {
            let applies = Applies {
                kind: Some(kind.name.clone()),
                ..Applies::default()
            };
            let id = format!("fleet/{}", kind.name);
            // What a fleet says of its prices was so before it was told, too.
            Some(entry(
                id,
                &kind.name,
                applies,
                kind.price?.0,
                Nanoseconds(0),
            ))
        });
        if let Ok(prices) = PriceBook::new(entries.collect()) {
            books.set_prices(prices);
        }
        Self {
            books,
            budgets: Budgets::default(),
            records: 0,
        }
    }

    /// Prices and budgets, without what was metered.
    pub(crate) fn slice(&self) -> Self {
        Self {
            books: self.books.of_lease(""),
            budgets: self.budgets.clone(),
            records: self.records,
        }
    }

    /// Records what a lease had.
    pub(crate) fn add(&mut self, world: &World, lease: &Lease, grants: &[Grant]) {
        for grant in grants {
            self.records += 1;
            // Counted through all leases, so that the meter keeps one run of numbers.
            let id = self.records.to_string();
            let Some(record) = record(world, lease, grant, id, self.records) else {
                continue;
            };
            let spent = self.spent(&record);
            self.budgets.settle(&record.lease, &record.tenant, &spent);
            self.books.record(grant.end, &record);
        }
    }

    /// A record of a device that a lease has or had, without times and amounts; `None`: it never had it.
    pub(crate) fn of_device(&self, world: &World, lease: &Lease, uid: &str) -> Option<UsageRecord> {
        let has = |gpu: GpuId| {
            world
                .gpu(gpu)
                .is_some_and(|one| one.gpu.uid.to_string() == uid)
        };
        let shares = lease.place.iter().flat_map(|one| &one.gpus);
        if let Some(share) = shares.into_iter().find(|share| has(share.gpu)) {
            let grant = Grant {
                lease: lease.number,
                gpu: share.gpu,
                part: share.part,
                starting: false,
                start: Nanoseconds(0),
                end: Nanoseconds(0),
            };
            return record(world, lease, &grant, String::new(), 0);
        }
        let id = lease.id();
        let mut before = self.books.meter().of_lease(&id);
        let before = before.find(|series| series.device == uid)?;
        Some(UsageRecord {
            source: String::new(),
            id: String::new(),
            sequence: 0,
            tenant: before.tenant.clone(),
            lease: before.lease.clone(),
            device: before.device.clone(),
            kind: before.kind.clone(),
            granted: before.granted.clone(),
            isolation: before.isolation,
            class: before.class,
            start: Nanoseconds(0),
            end: Nanoseconds(0),
            used: Used::default(),
        })
    }

    /// What a record costs as budgets count it: by month and price, each amount rounded up, so that a budget
    /// never holds too little.
    fn spent(&self, record: &UsageRecord) -> Vec<Expected> {
        let asked = Asked {
            tenant: &record.tenant,
            kind: &record.kind,
            granted: &record.granted,
            isolation: record.isolation,
            class: record.class,
        };
        let held = Interval::new(record.start, record.end);
        self.books.prices().priced(&asked, held)
    }

    /// A tenant's budget is this from now on; `None`: it has none any more.
    pub(crate) fn set_budget(&mut self, tenant: &str, amount: Option<Money>) {
        let Some(amount) = amount else {
            self.budgets.remove(tenant);
            return;
        };
        self.budgets.set(Budget {
            id: tenant.to_owned(),
            tenant: tenant.to_owned(),
            amount,
            every: Every::Month,
            soft_milli: Some(SOFT),
            hard: true,
        });
    }
}

/// How long a service may take to get ready, where nobody says.
const READY: Nanoseconds = Nanoseconds(600_000_000_000);

/// For how long a lease that lasts so long may pay: a service pays while it starts, too.
pub(crate) fn paid(ask: &LeaseAsk, length: Option<Nanoseconds>) -> Option<Nanoseconds> {
    let Some(service) = &ask.service else {
        return length;
    };
    let said = service.ready_within.as_deref();
    let start = said.and_then(|text| text.parse().ok()).unwrap_or(READY);
    length.map(|length| Nanoseconds(length.0.saturating_add(start.0)))
}

/// Under which terms a lease is: one that may be stopped for others is spot.
pub(crate) fn class(lease: &Lease) -> Terms {
    if lease.ask.preemptible == Some(true) {
        Terms::Spot
    } else {
        Terms::OnDemand
    }
}

impl Broker {
    /// A tenant's month, with what its leases hold counted up to now.
    pub fn statement(&self, now: Nanoseconds, tenant: &str, month: Month) -> Statement {
        let leases = self.open_of(tenant);
        let holding: Vec<UsageRecord> = leases.flat_map(|lease| self.holding(now, lease)).collect();
        let books = &self.accounts.books;
        let lending = self.lending_of(now, tenant);
        let mut statement = books.live_statement(now, tenant, month, &holding, &lending);
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

    /// What a tenant has spent this month and what is reserved for what its leases may still cost, both in
    /// µ-units of its budget's currency; `None`: it has no budget.
    pub fn spending(&self, now: Nanoseconds, tenant: &str) -> Option<(i128, i128)> {
        let standing = self.accounts.budgets.standing(tenant, now)?;
        let (spent, reserved) = (standing.spent.micros, standing.reserved.micros);
        let month = Month::of(now).interval();
        let mut going_on = 0;
        for lease in self.open_of(tenant) {
            for record in self.holding(now, lease) {
                let costs = self.accounts.spent(&record);
                let this = costs.iter().filter(|cost| cost.interval.overlaps(month));
                going_on += this
                    .map(|cost| i128::from(cost.amount.micros))
                    .sum::<i128>();
            }
        }
        let reserved = i128::from(reserved) - going_on;
        Some((i128::from(spent) + going_on, reserved.max(0)))
    }

    /// What a lease has cost within an interval, up to now; `None`: nothing of it has a price.
    pub fn cost_within(&self, now: Nanoseconds, lease: &Lease, within: Interval) -> Option<Money> {
        let mut books = self.accounts.books.of_lease(&lease.id());
        for record in self.holding(now, lease) {
            books.record(now, &record);
        }
        let lines = of_lease(&books, &lease.id(), within);
        let charges = lines.into_iter().filter_map(|line| line.charge.ok());
        charges.reduce(|sum, more| Money {
            micros: sum.micros.saturating_add(more.micros),
            ..sum
        })
    }

    /// A tenant's budget for a month; `None`: it has none.
    pub fn budget(&self, tenant: &str) -> Option<Money> {
        Some(self.accounts.budgets.budget(tenant)?.amount)
    }

    /// What a lease has cost until now; `None`: nothing of it has a price.
    pub fn cost_of(&self, now: Nanoseconds, lease: &Lease) -> Option<Money> {
        let mut books = self.accounts.books.of_lease(&lease.id());
        for record in self.holding(now, lease) {
            books.record(now, &record);
        }
        let until = lease.over.as_ref().map_or(now, |over| over.at);
        let within = Interval::new(lease.started?, until);
        let mut total: Option<Money> = None;
        for line in of_lease(&books, &lease.id(), within) {
            if let Ok(charge) = line.charge {
                let before = total.map_or(0, |total| total.micros);
                total = Some(Money {
                    micros: before.saturating_add(charge.micros),
                    currency: charge.currency,
                });
            }
        }
        total
    }
}

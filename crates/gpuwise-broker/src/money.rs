//! Grants become usage records and money; budgets are held before money is spent.

mod costs;
mod hold;
mod seen;
mod worst;

pub(crate) use hold::Trial;
use seen::record;
pub(crate) use seen::seen;
pub(crate) use worst::total;

use crate::{
    Lease,
    grants::{Grant, parts},
};
use gpuwise_account::{
    books::Books,
    budget::{Budget, Budgets, Expected},
    period::{Every, HOUR, Interval, Month},
    prices::{Applies, Asked, Basis, BookError, LENT_USUAL, Metered, PriceBook, PriceEntry},
    usage::{Limits, Outcome, Principal, Series, UsageRecord, Used},
};
use gpuwise_domain::{
    offer::Terms,
    placement::{Fleet, GpuId},
};
use gpuwise_sched::world::World;
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::broker::LeaseAsk;
use std::collections::BTreeSet;

/// The source of what was granted: the broker itself.
const SOURCE: &str = "grants";
/// How sources of what the broker measures begin.
const MEASURED: &str = "gpuwise/";

/// Whether a source is the broker's own, so that no client may tell records of it.
pub(crate) fn is_reserved(source: &str) -> bool {
    let folded = source.trim().to_ascii_lowercase();
    folded == SOURCE || folded.starts_with(MEASURED) || folded == MEASURED.trim_end_matches('/')
}

/// Thousandths of a budget from which on it is warned.
const SOFT: u32 = 800;

/// What was granted, what it costs, and what budgets hold.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Accounts {
    pub(crate) books: Books,
    pub(crate) budgets: Budgets,
    records: u64,
    /// The first month of the log.
    begun: Month,
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
    ///
    /// # Errors
    /// When a price of the fleet is none.
    pub(crate) fn new(fleet: &Fleet, begun: Month) -> Result<Self, BookError> {
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
        books.set_prices(PriceBook::new(entries.collect())?);
        Ok(Self {
            books,
            budgets: Budgets::default(),
            records: 0,
            begun,
        })
    }

    /// Prices and budgets, without what was metered.
    pub(crate) fn slice(&self) -> Self {
        Self {
            books: self.books.of_lease(""),
            budgets: self.budgets.clone(),
            records: self.records,
            begun: self.begun,
        }
    }

    /// Records what a lease had.
    pub(crate) fn add(&mut self, world: &World, lease: &Lease, grants: &[Grant]) {
        for grant in grants {
            self.records += 1;
            // Counted through all leases, so that the meter keeps one run of numbers.
            let id = self.records.to_string();
            // One whose part is not known has no record: `Conserved` has it, and finds that it is not charged.
            let Some(record) = record(world, lease, grant, id, self.records) else {
                continue;
            };
            match self.books.record(grant.end, &record) {
                Outcome::Counted | Outcome::Correction(_) => {
                    let spent = self.spent(&record);
                    self.budgets.settle(&record.lease, &record.tenant, &spent);
                }
                // It is not charged, and so not spent: `Conserved` finds it, too.
                Outcome::Duplicate | Outcome::Aside(_) => {}
            }
        }
    }

    /// Records of the parts of a device that a lease has or had, without times and amounts; none: it never had it.
    pub(crate) fn of_device(&self, world: &World, lease: &Lease, uid: &str) -> Vec<UsageRecord> {
        let has = |gpu: GpuId| {
            world
                .gpu(gpu)
                .is_some_and(|one| one.gpu.uid.to_string() == uid)
        };
        let shares = lease.place.iter().flat_map(|one| &one.gpus);
        let own = shares.filter(|share| has(share.gpu));
        let grants = parts(own.map(|share| (share.gpu, share.part)), lease.number);
        if !grants.is_empty() {
            let each = grants.iter();
            return each
                .filter_map(|grant| record(world, lease, grant, String::new(), 0))
                .collect();
        }
        let id = lease.id();
        let before = self.books.meter().of_lease(&id);
        let before = before.filter(|series| series.device == uid);
        before.map(of_series).collect()
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

    /// A tenant's budget is this from now on; `None`: it has none any more. What was spent in the months that are
    /// open counts, also where it was spent without a budget.
    pub(crate) fn set_budget(&mut self, now: Month, tenant: &str, amount: Option<Money>) {
        let Some(amount) = amount else {
            self.budgets.remove(tenant);
            return;
        };
        let before = self.budgets.budget(tenant);
        let goes_on = before.is_some_and(|before| before.amount.currency == amount.currency);
        self.budgets.set(Budget {
            id: tenant.to_owned(),
            tenant: tenant.to_owned(),
            amount,
            every: Every::Month,
            soft_milli: Some(SOFT),
            hard: true,
        });
        if !goes_on {
            self.restate(now, tenant);
        }
    }

    /// Prices hold from now on, for the past too: what was spent of budgets is what it comes to by them.
    pub(crate) fn set_prices(&mut self, now: Month, prices: PriceBook) {
        self.books.set_prices(prices);
        let bounded: Vec<String> = self.budgets.all().map(|one| one.tenant.clone()).collect();
        for tenant in bounded {
            self.restate(now, &tenant);
        }
    }

    /// What was spent of a tenant's budget, counted anew for each month that is not closed.
    fn restate(&mut self, now: Month, tenant: &str) {
        let mut month = self.books.open_month().unwrap_or(self.begun);
        while month <= now {
            if let Some(spent) = self.books.spent(tenant, month) {
                self.budgets.restate(tenant, month.start(), &spent);
            }
            month = month.next();
        }
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

/// A part that was held, as a record without times and amounts.
fn of_series(series: &Series) -> UsageRecord {
    UsageRecord {
        principal: Principal::Broker,
        source: String::new(),
        id: String::new(),
        sequence: 0,
        tenant: series.tenant.clone(),
        lease: series.lease.clone(),
        device: series.device.clone(),
        part: series.part,
        kind: series.kind.clone(),
        granted: series.granted.clone(),
        isolation: series.isolation,
        class: series.class,
        start: Nanoseconds(0),
        end: Nanoseconds(0),
        used: Used::default(),
    }
}

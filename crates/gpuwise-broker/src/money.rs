//! Grants become usage records and money; budgets are held before money is spent.

use crate::{Broker, Lease, Refusal, grants::Grant};
use gpuwise_account::{
    books::Books,
    budget::{self, Budget, Budgets, Expected},
    period::{Every, HOUR, Interval, Month},
    prices::{Applies, Asked, Basis, LENT_USUAL, Metered, PriceBook, PriceEntry},
    statement::{Line, Statement, of_lease},
    usage::{Granted, Limits, Sharing, UsageRecord, Used},
};
use gpuwise_domain::{
    offer::Terms,
    placement::{Fleet, GpuAsk, GpuId, Job, KindId, Part},
};
use gpuwise_sched::world::World;
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::broker::LeaseAsk;

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

/// A grant as accounting sees it.
pub(crate) struct Seen {
    pub(crate) device: String,
    pub(crate) kind: String,
    pub(crate) granted: Granted,
    pub(crate) isolation: Sharing,
    pub(crate) class: Terms,
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
        let entries = fleet.kinds.iter().filter_map(|kind| {
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
        // Names of kinds are different, so that no two entries are for the same.
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

fn record(
    world: &World,
    lease: &Lease,
    grant: &Grant,
    id: String,
    sequence: u64,
) -> Option<UsageRecord> {
    let seen = seen(world, lease, grant.gpu, grant.part)?;
    Some(UsageRecord {
        source: SOURCE.into(),
        id,
        sequence,
        tenant: lease.ask.tenant.clone(),
        lease: lease.id(),
        device: seen.device,
        kind: seen.kind,
        granted: seen.granted,
        isolation: seen.isolation,
        class: seen.class,
        start: grant.start,
        end: grant.end,
        used: Used {
            start_ns: grant
                .starting
                .then(|| grant.end.0.saturating_sub(grant.start.0)),
            ..Used::default()
        },
    })
}

pub(crate) fn seen(world: &World, lease: &Lease, gpu: GpuId, part: Part) -> Option<Seen> {
    let state = world.gpu(gpu)?;
    let kind = world.kind(state.gpu.kind)?;
    let (granted, isolation) = match part {
        Part::Whole => (Granted::Whole, Sharing::Exclusive),
        Part::Fraction {
            milli,
            memory_mib,
            isolation,
        } => {
            let granted = Granted::Fraction {
                compute_milli: milli,
                memory_mib,
                of_mib: kind.memory_mib.unwrap_or(memory_mib).max(1),
            };
            (granted, isolation.into())
        }
        Part::Slice { shape, .. } => {
            let mig = kind.mig.as_ref()?;
            let shape = mig.shape(shape)?;
            let granted = Granted::Slice {
                profile: shape.profile.clone(),
                compute: shape.compute,
                of_compute: mig.compute_slices,
                memory: shape.size,
                of_memory: mig.memory_slices,
            };
            (granted, Sharing::Mig)
        }
    };
    Some(Seen {
        device: state.gpu.uid.to_string(),
        kind: kind.name.clone(),
        granted,
        isolation,
        class: class(lease),
    })
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

    /// The most that a job can cost over an interval; `None`: a kind that it may get has no price.
    pub(crate) fn worst(&self, spot: bool, job: &Job, within: Interval) -> Option<Money> {
        // What a worker's part costs is rounded up once more where a month ends or a price changes meanwhile.
        self.dearest(spot, job, within, 1)
    }

    /// What it costs at the dearest price that it may get, with so many µ-units more for each worker's part.
    fn dearest(&self, spot: bool, job: &Job, within: Interval, more: i64) -> Option<Money> {
        let each = (0..).map(KindId).zip(self.world.kinds());
        let wanted = job.worker.gpu.kinds().and(self.present);
        // Who waits starts later: any price from now on may be the one.
        let anytime = Interval::new(within.start, within.end + AHEAD);
        let mut most: Option<Money> = None;
        for (id, kind) in each.filter(|(id, _)| wanted.has(*id)) {
            let (granted, isolation, count) = granted(&self.world, id, &job.worker.gpu)?;
            let asked = Asked {
                tenant: &job.tenant,
                kind: &kind.name,
                granted: &granted,
                isolation,
                class: if spot { Terms::Spot } else { Terms::OnDemand },
            };
            let parts = i64::from(job.gang.most.max(1)) * i64::from(count);
            let prices = self.accounts.books.prices();
            let one = prices
                .dearest(&asked, u128::from(within.length()), anytime)
                .ok()?;
            let micros = one.micros.saturating_add(more).checked_mul(parts)?;
            if most.is_none_or(|most| most.micros < micros) {
                most = Some(Money { micros, ..one });
            }
        }
        most
    }

    /// From when to when a lease may cost something: its length from now, or what is left of the month.
    pub(crate) fn span(now: Nanoseconds, length: Option<Nanoseconds>) -> Interval {
        let end = length.map_or_else(|| Month::of(now).interval().end, |length| now + length);
        Interval::new(now, end)
    }

    /// What the budget holds back for a lease; `None`: its tenant has no budget, or it can cost nothing.
    pub(crate) fn hold_back(
        &self,
        spot: bool,
        job: &Job,
        interval: Interval,
    ) -> Result<Option<Money>, Refusal> {
        let bounded = self.accounts.budgets.budget(&job.tenant).is_some();
        if !bounded || matches!(job.worker.gpu, GpuAsk::None) {
            return Ok(None);
        }
        let Some(amount) = self.worst(spot, job, interval) else {
            return Err(Refusal::Unpriced {
                tenant: job.tenant.clone(),
                what: "a GPU that the lease may get has no price: add one to the fleet".into(),
            });
        };
        let worst = [Expected { interval, amount }];
        let could = self.accounts.budgets.could_reserve("", &job.tenant, &worst);
        could.map_err(|refusal| refused(&job.tenant, &refusal))?;
        Ok(Some(amount))
    }

    /// The same for a lease that may have begun: what is left of it.
    pub(crate) fn span_of(at: Nanoseconds, lease: &Lease) -> Interval {
        match lease.ends() {
            Some(end) => Interval::new(at, end),
            None => Self::span(at, paid(&lease.ask, lease.length)),
        }
    }

    /// Reserves what was held back for a lease.
    pub(crate) fn reserve(&mut self, at: Nanoseconds, lease: &Lease, amount: Money) {
        let interval = Self::span_of(at, lease);
        let worst = [Expected { interval, amount }];
        // Whether it fits was asked when it was admitted.
        let _ = self
            .accounts
            .budgets
            .reserve(&lease.id(), &lease.ask.tenant, &worst);
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

    /// What a job costs over an interval, at the dearest price that it may get; `None`: a kind that it may
    /// get has no price.
    pub fn price_of(&self, spot: bool, job: &Job, within: Interval) -> Option<Money> {
        self.dearest(spot, job, within, 0)
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

fn refused(tenant: &str, refusal: &budget::Refusal) -> Refusal {
    match refusal {
        budget::Refusal::Exceeded {
            period,
            amount,
            left,
            needed,
            ..
        } => Refusal::Budget {
            tenant: tenant.to_owned(),
            month: Month::of(period.start).to_string(),
            budget: *amount,
            left: *left,
            needed: *needed,
        },
        other => Refusal::Unpriced {
            tenant: tenant.to_owned(),
            what: other.to_string(),
        },
    }
}

/// What an ask is granted of a kind at most, and how many such parts a worker gets.
fn granted(world: &World, kind: KindId, ask: &GpuAsk) -> Option<(Granted, Sharing, u32)> {
    let kind = world.kind(kind)?;
    Some(match ask {
        GpuAsk::None => (Granted::Nothing, Sharing::Exclusive, 0),
        GpuAsk::Whole { count, .. } => (Granted::Whole, Sharing::Exclusive, *count),
        GpuAsk::Fraction {
            milli,
            memory_mib,
            isolation,
            ..
        } => {
            let granted = Granted::Fraction {
                compute_milli: *milli,
                memory_mib: memory_mib.unwrap_or(0),
                of_mib: kind.memory_mib.or(*memory_mib).unwrap_or(1).max(1),
            };
            (granted, (*isolation).into(), 1)
        }
        // Which profile it gets is the kernel's choice: at most the whole.
        GpuAsk::Slice { slice, .. } => {
            let mig = kind.mig.as_ref()?;
            let fits = |shape: &&gpuwise_domain::placement::MigShape| {
                (slice.compute == 0 || shape.compute == slice.compute)
                    && (slice.memory_slices == 0 || shape.size == slice.memory_slices)
                    && shape.memory_mib.is_none_or(|mib| mib >= slice.memory_mib)
            };
            let mut shapes: Vec<_> = mig.shapes.iter().filter(fits).collect();
            if slice.compute == 0 && slice.memory_slices == 0 {
                shapes = mig.shapes.iter().collect();
            }
            let largest = shapes
                .iter()
                .max_by_key(|shape| (shape.compute, shape.size))?;
            let granted = Granted::Slice {
                profile: largest.profile.clone(),
                compute: largest.compute,
                of_compute: mig.compute_slices,
                memory: largest.size,
                of_memory: mig.memory_slices,
            };
            (granted, Sharing::Mig, 1)
        }
    })
}

//! Whether a log is whole: it is read from its first event on, applied, and its money counted a second time.

use crate::replay::Replay;
use gpuwise_account::period::{HOUR, Month};
use gpuwise_broker::{Broker, Grant};
use gpuwise_domain::placement::{Action, Event, Part};
use gpuwise_store::{LogEntry, LogSpan, Store, StoreError};
use gpuwise_units::{Currency, Money, Nanoseconds};
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, LoggedEvent},
};
use std::collections::BTreeMap;

/// Events read at a time.
const PAGE: u32 = 2_000;

/// What a log was found to be.
#[derive(Debug)]
pub struct Checked {
    /// `None`: the log is empty.
    pub span: Option<LogSpan>,
    /// Events that were applied, from the first on.
    pub applied: u64,
    pub tenants: usize,
    pub leases: usize,
    pub money: Vec<Counted>,
    /// What is wrong, each with its event.
    pub problems: Vec<String>,
}

/// Money of one currency, counted twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    pub currency: Currency,
    /// The statements of all tenants and months, in µ-units.
    pub charged: i128,
    /// Grants by their length, share and price, in µ-units.
    pub granted: i128,
    /// How many lines of statements were rounded, each by half a µ-unit at most.
    pub lines: u64,
}

impl Counted {
    /// Whether both are the same but for rounding.
    pub fn is_conserved(&self) -> bool {
        // Sums are rounded once more for each way to share a GPU, of which there are few.
        let most = i128::from(self.lines) / 2 + 64;
        (self.charged - self.granted).abs() <= most
    }
}

/// Reads a whole log.
///
/// # Errors
/// When the database refuses. What is wrong with the log itself is among the answer's problems.
pub fn check(store: &Store) -> Result<Checked, StoreError> {
    let span = store.log_span()?;
    let mut replay = Replay::default();
    let mut tally = Tally::default();
    let mut problems = Vec::new();
    if let Some(span) = span
        && span.events != span.last
    {
        problems.push(format!(
            "the log has {} events, and its last is event {}",
            span.events, span.last
        ));
    }
    if let Err(error) = follow(store, &mut replay, &mut tally, &mut problems) {
        match error {
            Ended::Store(error @ StoreError::Gap { .. }) => problems.push(error.to_string()),
            Ended::Store(error) => return Err(error),
            Ended::Event(problem) => problems.push(problem),
        }
    }
    let money = replay.state().map_or_else(Vec::new, |broker| {
        counted(broker, tally.with_open(broker), span)
    });
    let unequal = money.iter().filter(|counted| !counted.is_conserved());
    problems.extend(unequal.map(|counted| {
        let Counted {
            currency,
            charged,
            granted,
            ..
        } = counted;
        format!("money is not conserved: statements charge {charged} µ{currency}, grants come to {granted}")
    }));
    Ok(Checked {
        span,
        applied: replay.last(),
        tenants: replay.state().map_or(0, |broker| broker.tenants().count()),
        leases: replay.state().map_or(0, |broker| broker.leases().count()),
        money,
        problems,
    })
}

/// Why a log is read no further.
enum Ended {
    Store(StoreError),
    Event(String),
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn follow(
    store: &Store,
    replay: &mut Replay,
    tally: &mut Tally,
    problems: &mut Vec<String>,
) -> Result<(), Ended> {
    let mut before = i64::MIN;
    loop {
        let page = store.events_after(replay.last(), PAGE)?;
        if page.is_empty() {
            return Ok(());
        }
        for entry in &page {
            if entry.at_ns < before {
                let LogEntry { seq, .. } = entry;
                problems.push(format!("event {seq} is earlier than the one before it"));
            }
            before = before.max(entry.at_ns);
            step(replay, tally, entry).map_err(Ended::Event)?;
        }
    }
}

/// Applies an event, and counts what it ended.
fn step(replay: &mut Replay, tally: &mut Tally, entry: &LogEntry) -> Result<(), String> {
    let seq = entry.seq;
    let logged = crate::replay::event(entry).map_err(|error| error.to_string())?;
    if logged.event.kind() != entry.kind {
        let (kind, own) = (&entry.kind, logged.event.kind());
        return Err(format!("event {seq} is kept as {kind:?} and is {own:?}"));
    }
    let held = replay.state().map(|broker| held(broker, &logged));
    replay
        .follow(seq, &logged)
        .map_err(|error| format!("event {seq}, of kind {:?}: {error}", entry.kind))?;
    match (held, replay.state()) {
        (Some(held), Some(broker)) => tally.ended(broker, held),
        (_, Some(broker)) => tally.begin(broker),
        _ => {}
    }
    Ok(())
}

/// Grants counted beside the books: µ-units × nanoseconds × parts, by currency and by how many parts a GPU
/// has. Nothing is rounded.
#[derive(Debug, Default)]
struct Tally {
    /// By kind of GPU.
    prices: Vec<Option<Money>>,
    sums: BTreeMap<(Currency, u64), i128>,
}

impl Tally {
    fn begin(&mut self, broker: &Broker) {
        let kinds = broker.world().kinds().iter();
        self.prices = kinds.map(|kind| kind.price.map(|price| price.0)).collect();
    }

    /// Of those, counts what is over.
    fn ended(&mut self, broker: &Broker, held: Vec<Grant>) {
        for grant in held {
            let now = broker.grants().of(grant.lease, grant.end);
            if !now.contains(&grant) {
                self.count(broker, &grant);
            }
        }
    }

    /// With what goes on.
    fn with_open(mut self, broker: &Broker) -> Self {
        let open: Vec<Grant> = broker.grants().so_far(broker.now()).collect();
        for grant in open {
            self.count(broker, &grant);
        }
        self
    }

    fn count(&mut self, broker: &Broker, grant: &Grant) -> Option<()> {
        let gpu = &broker.world().gpu(grant.gpu)?.gpu;
        let kind = broker.world().kind(gpu.kind)?;
        let price = (*self.prices.get(gpu.kind.index())?)?;
        let (part, of) = match grant.part {
            Part::Whole => (1, 1),
            Part::Fraction {
                milli, memory_mib, ..
            } => {
                let all = kind.memory_mib.unwrap_or(memory_mib).max(1);
                larger((milli.into(), 1000), (memory_mib.into(), all.into()))
            }
            Part::Slice { shape, .. } => {
                let mig = kind.mig.as_ref()?;
                let shape = mig.shape(shape)?;
                larger(
                    (shape.compute.into(), mig.compute_slices.into()),
                    (shape.size.into(), mig.memory_slices.into()),
                )
            }
        };
        let length = i128::from(grant.end.0.saturating_sub(grant.start.0));
        let sum = self.sums.entry((price.currency, of)).or_default();
        *sum += length * i128::from(price.micros) * i128::from(part);
        Some(())
    }
}

/// What leases have that an event may end, as of that event.
fn held(broker: &Broker, logged: &LoggedEvent) -> Vec<Grant> {
    let (grants, at) = (broker.grants(), Nanoseconds(logged.at_ns));
    match touched(&logged.event) {
        Touched::All => grants.so_far(at).collect(),
        Touched::These(leases) => {
            let each = leases.into_iter();
            each.flat_map(|lease| grants.of(lease, at)).collect()
        }
    }
}

fn larger(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    let cross = |one: (u64, u64), other: (u64, u64)| u128::from(one.0) * u128::from(other.1);
    if cross(one, other) >= cross(other, one) {
        one
    } else {
        other
    }
}

enum Touched {
    All,
    These(Vec<u32>),
}

/// Whose grants an event may change.
fn touched(event: &BrokerEvent) -> Touched {
    let job = |action: &Action| match action {
        Action::Place { job, .. }
        | Action::Preempt { job, .. }
        | Action::Move { job, .. }
        | Action::Resize { job, .. }
        | Action::Reclaim { job }
        | Action::Restore { job, .. } => Some(job.0),
        Action::SetMig { .. }
        | Action::CreateInstance { .. }
        | Action::DestroyInstance { .. }
        | Action::Attach { .. }
        | Action::Detach { .. } => None,
    };
    Touched::These(match event {
        BrokerEvent::Planned { plan, .. } => {
            let plan = plan.clone().noun();
            plan.actions.iter().filter_map(job).collect()
        }
        BrokerEvent::Fleet { event } => match event.clone().noun() {
            Event::Done { action, .. } | Event::Failed { action, .. } => {
                job(&action).into_iter().collect()
            }
            _ => return Touched::All,
        },
        BrokerEvent::Ended { lease, .. } => vec![*lease],
        BrokerEvent::Began { .. }
        | BrokerEvent::PolicySet { .. }
        | BrokerEvent::TenantSet { .. }
        | BrokerEvent::TokenAdded { .. }
        | BrokerEvent::TokenRevoked { .. }
        | BrokerEvent::LeaseRequested { .. }
        | BrokerEvent::MonthBegan { .. }
        | BrokerEvent::Draining { .. }
        | BrokerEvent::Used { .. }
        | BrokerEvent::SloSet { .. }
        | BrokerEvent::SloRemoved { .. }
        | BrokerEvent::DemandSet { .. }
        | BrokerEvent::Learned { .. }
        | BrokerEvent::Proposed { .. }
        | BrokerEvent::ProposalMoved { .. } => Vec::new(),
    })
}

/// The statements of all tenants and months beside what was granted.
fn counted(broker: &Broker, tally: Tally, span: Option<LogSpan>) -> Vec<Counted> {
    let mut all: BTreeMap<Currency, Counted> = BTreeMap::new();
    let of = |currency| Counted {
        currency,
        charged: 0,
        granted: 0,
        lines: 0,
    };
    let first = span.map_or(broker.now().0, |span| span.first_at_ns.unsigned_abs());
    for tenant in broker.tenants() {
        let mut month = Month::of(Nanoseconds(first));
        while month <= Month::of(broker.now()) {
            let statement = broker.statement(broker.now(), &tenant.name, month);
            for charge in statement.lines.iter().filter_map(|line| line.charge.ok()) {
                let counted = all
                    .entry(charge.currency)
                    .or_insert_with(|| of(charge.currency));
                counted.charged += i128::from(charge.micros);
                counted.lines += 1;
            }
            month = month.next();
        }
    }
    for ((currency, parts), sum) in tally.sums {
        let hours = i128::from(HOUR) * i128::from(parts);
        let counted = all.entry(currency).or_insert_with(|| of(currency));
        counted.granted += (sum + hours / 2) / hours;
    }
    all.into_values().collect()
}

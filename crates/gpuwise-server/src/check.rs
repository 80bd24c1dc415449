//! Whether a log is whole: it is read from its first event on, applied, and its money counted a second time.

use crate::replay::Replay;
use gpuwise_account::{
    period::{HOUR, Month},
    prices::{LENT_WHOLE, PriceEntry},
};
use gpuwise_broker::{Broker, FORM, Grant, LentGpu};
use gpuwise_domain::placement::{Action, Event, Part};
use gpuwise_store::{LogEntry, LogSpan, Snapshot, Store, StoreError, read_backup};
use gpuwise_units::{Currency, Fraction, Nanoseconds};
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, LoggedEvent},
};
use std::{collections::BTreeMap, path::PathBuf};

/// Events read at a time.
const PAGE: u32 = 2_000;

/// What a log was found to be.
#[derive(Debug)]
pub struct Checked {
    /// `None`: the log is empty.
    pub span: Option<LogSpan>,
    /// Events that were applied one by one.
    pub applied: u64,
    /// The last event of the snapshot from which was begun; 0: it was begun with the first event.
    pub from: u64,
    /// The newest snapshot that this build can read: its last event, and whether it was held to the log.
    pub snapshot: Option<(u64, bool)>,
    pub tenants: usize,
    pub leases: usize,
    pub money: Vec<Counted>,
    /// Decisions of services that follow demand, and how many of them this release would take otherwise.
    pub decisions: (u64, u64),
    /// What is wrong, each with its event.
    pub problems: Vec<String>,
}

/// Money of one currency, counted twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    pub currency: Currency,
    /// The statements of all tenants and months, in µ-units.
    pub charged: i128,
    /// Of it: what lent capacity earned.
    pub earned: i128,
    /// Grants by their length, share and price, less what lenders earn of them, in whole µ-units; the rest of a
    /// µ-unit stands in `rest`.
    pub granted: i128,
    /// Lines of statements, each of which was rounded once.
    pub lines: u64,
    /// What the rounding of all lines kept back, exactly, in µ-units; `None`: beyond what is computed with.
    pub rounding: Option<Fraction>,
    rest: Option<Fraction>,
}

impl Counted {
    /// Whether what is charged and what rounding kept back are what was granted: exactly, where that can be
    /// computed, else to half a µ-unit a line.
    pub fn is_conserved(&self) -> bool {
        let short = self.granted - self.charged;
        let exact = self.rounding.zip(self.rest).and_then(|(rounding, rest)| {
            let short = Fraction::new(short, 1)?.plus(rest)?;
            Some(short == rounding)
        });
        exact.unwrap_or_else(|| short.abs() <= i128::from(self.lines) / 2 + 64)
    }
}

/// Reads a whole log: first the files that its first events were moved to. Where those are not given, it
/// begins with the snapshot, and money is not counted a second time.
///
/// # Errors
/// When the database refuses. What is wrong with the log itself is among the answer's problems.
pub fn check(store: &Store, archives: &[PathBuf]) -> Result<Checked, StoreError> {
    let span = store.log_span()?;
    let mut problems = Vec::new();
    if let Some(span) = span
        && span.archived + span.events != span.last
    {
        problems.push(format!(
            "the log has {} events, and its last is event {}",
            span.archived + span.events,
            span.last
        ));
    }
    let headless = archives.is_empty() && span.is_some_and(|span| span.archived > 0);
    let mut reading = Reading {
        replay: if headless {
            Replay::open(store)?
        } else {
            Replay::default()
        },
        tally: Tally::default(),
        snapshot: store.snapshot(FORM)?,
        held: false,
        decisions: (0, 0),
        before: i64::MIN,
        problems,
    };
    let from = reading.replay.from();
    if let Err(error) = reading.all(store, archives) {
        match error {
            Ended::Store(
                error @ (StoreError::Gap { .. }
                | StoreError::Archived { .. }
                | StoreError::Damaged { .. }),
            ) => reading.problems.push(error.to_string()),
            Ended::Store(error) => return Err(error),
            Ended::Event(problem) => reading.problems.push(problem),
        }
    }
    let Reading {
        replay,
        tally,
        snapshot,
        held,
        decisions,
        mut problems,
        ..
    } = reading;
    let whole = replay.state().filter(|_| !headless);
    let money = whole.map_or_else(Vec::new, |broker| {
        counted(broker, &tally.with_open(broker), span)
    });
    let unequal = money.iter().filter(|counted| !counted.is_conserved());
    problems.extend(unequal.map(|counted| {
        let Counted {
            currency,
            charged,
            granted,
            rounding,
            ..
        } = counted;
        let rounding = rounding.map_or_else(|| "?".into(), |rounding| rounding.plain(6));
        format!(
            "money is not conserved: statements charge {charged} µ{currency} and kept back {rounding} by \
             rounding, grants less what lenders earn come to {granted}"
        )
    }));
    Ok(Checked {
        span,
        applied: replay.last() - from,
        from,
        snapshot: snapshot.map(|snapshot| (snapshot.seq, held)),
        tenants: replay.state().map_or(0, |broker| broker.tenants().count()),
        leases: replay.state().map_or(0, |broker| broker.leases().count()),
        money,
        decisions,
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

/// A log that is being read.
struct Reading {
    replay: Replay,
    tally: Tally,
    snapshot: Option<Snapshot>,
    /// Whether the snapshot is what the log comes to.
    held: bool,
    decisions: (u64, u64),
    before: i64,
    problems: Vec<String>,
}

impl Reading {
    fn all(&mut self, store: &Store, archives: &[PathBuf]) -> Result<(), Ended> {
        for file in archives {
            read_backup(file, &mut |entry| self.take(&entry))?;
        }
        loop {
            let page = store.events_after(self.replay.last(), PAGE)?;
            if page.is_empty() {
                return Ok(());
            }
            for entry in &page {
                self.take(entry)?;
            }
        }
    }

    fn take(&mut self, entry: &LogEntry) -> Result<(), Ended> {
        let LogEntry { seq, at_ns, .. } = entry;
        let expected = self.replay.last() + 1;
        if *seq != expected {
            let found = *seq;
            return Err(StoreError::Gap { expected, found }.into());
        }
        if *at_ns < self.before {
            let problem = format!("event {seq} is earlier than the one before it");
            self.problems.push(problem);
        }
        self.before = self.before.max(*at_ns);
        self.decides(entry);
        step(&mut self.replay, &mut self.tally, entry).map_err(Ended::Event)?;
        if let Some(snapshot) = self.snapshot.as_ref().filter(|one| one.seq == *seq) {
            let state = Broker::of_image(&snapshot.body);
            self.held = state.as_ref().ok() == self.replay.state();
            if !self.held {
                self.problems.push(format!(
                    "the snapshot of event {seq} is not what the log comes to: `gpuwise store snapshot --anew` makes another"
                ));
            }
        }
        Ok(())
    }
}

impl Reading {
    /// Decides once more what was decided of a service.
    fn decides(&mut self, entry: &LogEntry) {
        if entry.kind != "scaled" {
            return;
        }
        let logged = crate::replay::event(entry).ok();
        let Some((logged, broker)) = logged.zip(self.replay.state()) else {
            return;
        };
        if let BrokerEvent::Scaled { look } = &logged.event {
            self.decisions.0 += 1;
            let same = broker.decides_again(Nanoseconds(logged.at_ns), look);
            self.decisions.1 += u64::from(!same);
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
    let before = replay.state();
    let held = before.map(|broker| held(broker, &logged));
    let lent = before.map(|broker| broker.lent().collect());
    replay
        .follow(seq, &logged)
        .map_err(|error| format!("event {seq}, of kind {:?}: {error}", entry.kind))?;
    if let (Some(held), Some(lent), Some(broker)) = (held, lent, replay.state()) {
        tally.ended(broker, held);
        tally.returned(broker, Nanoseconds(logged.at_ns), lent);
    }
    Ok(())
}

/// A grant that is over, or counted up to now.
struct Held {
    grant: Grant,
    /// Thousandths, slices: so many of so many.
    share: (u64, u64),
    tenant: String,
    gpu: String,
    part: String,
    class: &'static str,
}

/// Grants counted beside the books: each by the price of its time, by currency and by how many parts a GPU
/// has. Nothing is rounded.
#[derive(Default)]
struct Tally {
    held: Vec<Held>,
    /// What was lent: what its borrower held of it meanwhile.
    lent: Vec<Held>,
}

impl Tally {
    /// Of those, keeps what is over.
    fn ended(&mut self, broker: &Broker, held: Vec<Grant>) {
        for mut grant in held {
            let now = broker.grants().of(grant.lease, grant.end);
            if now.contains(&grant) {
                continue;
            }
            // It may go on, and be counted from later on.
            let same = |one: &&Grant| one.gpu == grant.gpu && one.part == grant.part;
            if let Some(rest) = now.iter().find(same) {
                grant.end = rest.start;
            }
            self.held.extend(seen(broker, grant));
        }
    }

    /// Of what was lent, keeps what is over.
    fn returned(&mut self, broker: &Broker, at: Nanoseconds, lent: Vec<(LentGpu, Nanoseconds)>) {
        let now: BTreeMap<LentGpu, Nanoseconds> = broker.lent().collect();
        for (one, since) in lent {
            let until = now.get(&one).copied().unwrap_or(at);
            if until > since {
                self.lent.extend(loan(broker, one, since, until));
            }
        }
    }

    /// With what goes on.
    fn with_open(mut self, broker: &Broker) -> Self {
        let open: Vec<Grant> = broker.grants().so_far(broker.now()).collect();
        for grant in open {
            self.held.extend(seen(broker, grant));
        }
        let open: Vec<_> = broker.lent().collect();
        for (one, since) in open {
            self.lent.extend(loan(broker, one, since, broker.now()));
        }
        self
    }

    /// µ-units × nanoseconds × parts of what was granted, less what lenders earn of it.
    fn sums(&self, prices: &[PriceEntry]) -> BTreeMap<(Currency, u64), i128> {
        let mut sums = BTreeMap::new();
        add(&mut sums, &self.held, prices, |_| (1, 1));
        let share = |price: &PriceEntry| (-i128::from(price.lent_milli), LENT_WHOLE.into());
        add(&mut sums, &self.lent, prices, share);
        sums
    }
}

/// Adds what was held by the price of each moment, of which so many parts count.
fn add(
    sums: &mut BTreeMap<(Currency, u64), i128>,
    held: &[Held],
    prices: &[PriceEntry],
    share: impl Fn(&PriceEntry) -> (i128, u64),
) {
    for held in held {
        let (start, end) = (held.grant.start.0, held.grant.end.0);
        let bounds = prices
            .iter()
            .flat_map(|one| [one.valid.start.0, one.valid.end.0]);
        let mut moments: Vec<u64> = bounds.filter(|at| (start..end).contains(at)).collect();
        moments.extend([start, end]);
        moments.sort_unstable();
        for pair in moments.windows(2) {
            let Some(price) = price(prices, held, pair[0]) else {
                continue;
            };
            let length = i128::from(pair[1] - pair[0]);
            let (part, of) = share(price);
            let micros = i128::from(price.amount.micros) * i128::from(held.share.0) * part;
            let key = (price.amount.currency, held.share.1 * of);
            *sums.entry(key).or_default() += length * micros;
        }
    }
}

/// What was granted, and to whom.
fn seen(broker: &Broker, grant: Grant) -> Option<Held> {
    let gpu = &broker.world().gpu(grant.gpu)?.gpu;
    let kind = broker.world().kind(gpu.kind)?;
    let lease = broker.lease(grant.lease)?;
    let (of, part) = match grant.part {
        Part::Whole => ((1, 1), "whole".to_owned()),
        Part::Fraction {
            milli, memory_mib, ..
        } => {
            let all = kind.memory_mib.unwrap_or(memory_mib).max(1);
            let share = larger((milli.into(), 1000), (memory_mib.into(), all.into()));
            (share, String::new())
        }
        Part::Slice { shape, .. } => {
            let mig = kind.mig.as_ref()?;
            let found = mig.shape(shape)?;
            let share = larger(
                (found.compute.into(), mig.compute_slices.into()),
                (found.size.into(), mig.memory_slices.into()),
            );
            (share, found.profile.clone())
        }
    };
    let spot = lease.ask.preemptible == Some(true);
    Some(Held {
        grant,
        share: of,
        tenant: lease.ask.tenant.clone(),
        gpu: kind.name.clone(),
        part,
        class: if spot { "spot" } else { "on-demand" },
    })
}

/// What was lent, as its borrower held it.
fn loan(broker: &Broker, one: LentGpu, start: Nanoseconds, end: Nanoseconds) -> Option<Held> {
    let (lease, gpu) = (one.to, one.gpu);
    let grant = Grant {
        lease,
        gpu,
        part: Part::Whole,
        starting: false,
        start,
        end,
    };
    seen(broker, grant)
}

/// The price of a moment: of those that are for it, the one that says it most closely; tenant before GPU
/// before part before class.
fn price<'p>(prices: &'p [PriceEntry], held: &Held, at: u64) -> Option<&'p PriceEntry> {
    use gpuwise_account::prices::Part as Priced;
    let fits = |own: &Option<String>, other: &str| own.as_deref().is_none_or(|own| own == other);
    let mut best: Option<([bool; 4], &PriceEntry)> = None;
    for one in prices {
        let applies = &one.applies;
        let part = match &applies.part {
            None => true,
            Some(Priced::Whole) => held.part == "whole",
            Some(Priced::Profile(profile)) => *profile == held.part,
            Some(_) => false,
        };
        let class = applies.class.is_none_or(|class| class.name() == held.class);
        let valid = one.valid.start.0 <= at && at < one.valid.end.0;
        let whom = fits(&applies.tenant, &held.tenant) && fits(&applies.kind, &held.gpu);
        if !(part && class && valid && whom) {
            continue;
        }
        let closeness = [
            applies.tenant.is_some(),
            applies.kind.is_some(),
            applies.part.is_some(),
            applies.class.is_some(),
        ];
        if best.is_none_or(|(before, _)| before < closeness) {
            best = Some((closeness, one));
        }
    }
    Some(best?.1)
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
        // What is held is counted up to then.
        BrokerEvent::MonthBegan { .. } | BrokerEvent::PriceSet { .. } => return Touched::All,
        BrokerEvent::Began { .. }
        | BrokerEvent::PolicySet { .. }
        | BrokerEvent::TenantSet { .. }
        | BrokerEvent::TokenAdded { .. }
        | BrokerEvent::TokenRevoked { .. }
        | BrokerEvent::LeaseRequested { .. }
        | BrokerEvent::Draining { .. }
        | BrokerEvent::Restarting { .. }
        | BrokerEvent::Restarted { .. }
        | BrokerEvent::Used { .. }
        | BrokerEvent::SloSet { .. }
        | BrokerEvent::SloRemoved { .. }
        | BrokerEvent::DemandSet { .. }
        | BrokerEvent::Learned { .. }
        | BrokerEvent::ScaleSet { .. }
        | BrokerEvent::Scaled { .. }
        | BrokerEvent::Pooled { .. }
        | BrokerEvent::Proposed { .. }
        | BrokerEvent::ProposalMoved { .. }
        | BrokerEvent::MonthClosed { .. }
        | BrokerEvent::Asked(_) => Vec::new(),
    })
}

/// The statements of all tenants and months beside what was granted.
fn counted(broker: &Broker, tally: &Tally, span: Option<LogSpan>) -> Vec<Counted> {
    let mut all: BTreeMap<Currency, Counted> = BTreeMap::new();
    let of = |currency| Counted {
        currency,
        charged: 0,
        earned: 0,
        granted: 0,
        lines: 0,
        rounding: Some(Fraction::ZERO),
        rest: Some(Fraction::ZERO),
    };
    let first = span.map_or(broker.now().0, |span| span.first_at_ns.unsigned_abs());
    for tenant in broker.tenants() {
        let mut month = Month::of(Nanoseconds(first.min(broker.begun().0)));
        while month <= Month::of(broker.now()) {
            let statement = broker.statement(broker.now(), &tenant.name, month);
            for line in &statement.lines {
                let Ok(charge) = line.charge else { continue };
                let counted = all
                    .entry(charge.currency)
                    .or_insert_with(|| of(charge.currency));
                counted.charged += i128::from(charge.micros);
                if line.is_credit() {
                    counted.earned += i128::from(charge.micros);
                }
                counted.lines += 1;
                counted.rounding = plus(counted.rounding, line.rounding());
            }
            month = month.next();
        }
    }
    for ((currency, parts), sum) in tally.sums(broker.prices()) {
        let hours = i128::from(HOUR) * i128::from(parts);
        let counted = all.entry(currency).or_insert_with(|| of(currency));
        counted.granted += sum / hours;
        counted.rest = plus(counted.rest, Fraction::new(sum % hours, hours));
    }
    all.into_values().collect()
}

fn plus(sum: Option<Fraction>, more: Option<Fraction>) -> Option<Fraction> {
    sum.zip(more).and_then(|(sum, more)| sum.plus(more))
}

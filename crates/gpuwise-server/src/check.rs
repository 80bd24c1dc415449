//! Whether a log is whole: it is read from its first event on, applied, and its money counted a second time.

mod chain;
mod runs;
mod tally;

use crate::replay::Replay;
use chain::Chain;
use gpuwise_account::period::{HOUR, Month};
use gpuwise_broker::{Broker, FORM};
use gpuwise_store::{Head, LogEntry, LogSpan, Snapshot, Store, StoreError, read_backup};
use gpuwise_units::{Currency, Fraction, Nanoseconds};
use gpuwise_wire::broker::BrokerEvent;
pub use runs::RunsAt;
use std::{collections::BTreeMap, path::PathBuf};
use tally::{Tally, held};

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
    /// The end of the chain over all events; event 0: none was read.
    pub head: Head,
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
/// begins with the snapshot, and money is not counted a second time. What was noted elsewhere of the chain is
/// held to it; with `runs`, what runs there is compared with its leases.
///
/// # Errors
/// When the database refuses. What is wrong with the log itself is among the answer's problems.
pub fn check(
    store: &Store,
    archives: &[PathBuf],
    noted: Option<&Head>,
    runs: Option<RunsAt>,
) -> Result<Checked, StoreError> {
    // Before anything is read: a broker may write meanwhile.
    let written = store.head()?;
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
        chain: Chain::default(),
        problems,
    };
    let from = reading.replay.from();
    let written = Some(&written).filter(|head| head.seq > from);
    reading.chain.wanted = [written, noted].into_iter().flatten().cloned().collect();
    reading.chain.head.seq = from;
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
        chain,
        ..
    } = reading;
    problems.extend(chain.ended());
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
    if let (Some(at), Some(broker)) = (runs, replay.state()) {
        match runs::compared(broker, at) {
            Ok(differences) => problems.extend(differences),
            Err(why) => problems.push(format!("it cannot be seen what runs: {why}")),
        }
    }
    Ok(Checked {
        span,
        applied: replay.last() - from,
        from,
        snapshot: snapshot.map(|snapshot| (snapshot.seq, held)),
        tenants: replay.state().map_or(0, |broker| broker.tenants().count()),
        leases: replay.state().map_or(0, |broker| broker.leases().count()),
        money,
        decisions,
        head: chain.head,
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
    chain: Chain,
    problems: Vec<String>,
}

impl Reading {
    fn all(&mut self, store: &Store, archives: &[PathBuf]) -> Result<(), Ended> {
        for file in archives {
            read_backup(file, &mut |entry| {
                self.problems.extend(self.chain.follow(&entry, None));
                self.take(&entry)
            })?;
        }
        loop {
            let page = store.events_after(self.replay.last(), PAGE)?;
            let chains = store.chains_after(self.replay.last(), PAGE)?;
            if page.is_empty() {
                return Ok(());
            }
            for (entry, kept) in page.iter().zip(&chains) {
                self.problems.extend(self.chain.follow(entry, Some(kept)));
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

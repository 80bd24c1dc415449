//! `gpuwise store`: the log of a broker, checked, copied, put back, read.

mod retained;

use super::{client::money, private, serve::default_store};
use crate::{
    app::{Context, Exit, Format},
    error::Problem,
    progress,
    schemas::AnswerName,
};
use anyhow::Context as _;
use clap::{Args, Subcommand};
use gpuwise_server::{Checked, Counted, Replay, RunsAt, check};
use gpuwise_store::{Backup, Head, LogEntry, Store, StoreError, read_backup, shown};
use gpuwise_units::{Fraction, Money};
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::{StoreBackupAnswer, StoreCheckAnswer, StoreMoney};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Read the whole log: does it fit together, and is its money conserved?
    ///
    /// Exit code 0: it is whole. 1: something is wrong. 2: it cannot be read.
    Check(Check),
    /// Write all events into a new file, also while a broker writes
    Backup(Copy),
    /// Put a backup into a log that ends where it begins, such as an empty one: all of it or nothing
    Restore(Copy),
    /// Print events, one JSON document a line; tokens are left out
    Export(Export),
    /// Make the snapshot that the next start begins with, also while a broker writes
    ///
    /// A broker makes one by itself from time to time. Another gpuwise than wrote it makes its own.
    Snapshot(Snapshot),
    /// Move old events into a new file, also while a broker writes; the last one stays
    Archive(Archive),
}

#[derive(Debug, Args)]
struct Which {
    /// Database of the log: sqlite://FILE or postgres://user@host/name [default: broker.db in the user's data directory]
    #[arg(
        long,
        value_name = "URL",
        env = "GPUWISE_STORE",
        hide_env_values = true
    )]
    store: Option<String>,
}

/// Events that are no longer in the database.
#[derive(Debug, Args)]
struct Archived {
    /// File that the first events were moved to; repeat, in order
    #[arg(long = "archive", value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    which: Which,
    /// What an earlier check printed as the head of the log: it must still lead there
    #[arg(long, value_name = "EVENT:CHAIN")]
    head: Option<Head>,
    /// Compare what runs with its leases, too: processes of this machine, or jobs of Slurm. A broker finds out by
    /// itself when it starts
    #[arg(long, value_name = "EXECUTOR")]
    executor: Option<RunsName>,
    #[command(flatten)]
    archived: Archived,
}

/// Where leases run that a log is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum RunsName {
    Local,
    Slurm,
}

#[derive(Debug, Args)]
pub struct Snapshot {
    #[command(flatten)]
    which: Which,
    /// Drop what is there first, and make it from the first event on
    #[arg(long)]
    anew: bool,
    #[command(flatten)]
    archived: Archived,
}

#[derive(Debug, Args)]
pub struct Archive {
    #[command(flatten)]
    which: Which,
    /// Events before this day or month (UTC), such as 2026-10 or 2026-10-15
    #[arg(long, value_name = "DATE")]
    before: String,
    /// The new file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
pub struct Copy {
    #[command(flatten)]
    which: Which,
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    which: Which,
    /// Only events after this one
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
    #[command(flatten)]
    archived: Archived,
}

pub fn run(context: &Context, command: &StoreCommand) -> anyhow::Result<Exit> {
    // Whatever is written has what tenants ask for.
    private::umask();
    match command {
        StoreCommand::Check(flags) => checked(context, flags),
        StoreCommand::Backup(flags) => {
            let address = flags.which.address()?;
            let backup = existing(&address)?.backup(&flags.file);
            told(context, &address, &flags.file, &backup.map_err(backed)?)
        }
        StoreCommand::Restore(flags) => restore(context, flags),
        StoreCommand::Export(flags) => export(context, flags),
        StoreCommand::Snapshot(flags) => retained::snapshot(context, flags),
        StoreCommand::Archive(flags) => retained::archive(context, flags),
    }
}

impl Which {
    fn address(&self) -> anyhow::Result<String> {
        match &self.store {
            Some(store) => Ok(store.clone()),
            None => default_store(),
        }
    }
}

fn existing(address: &str) -> anyhow::Result<Store> {
    Store::open_existing(address).map_err(|error| match error {
        StoreError::Missing { .. } => Problem::new(error.to_string())
            .hint("--store or GPUWISE_STORE names another")
            .into(),
        other => other.into(),
    })
}

fn backed(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::There { .. } => Problem::new(error.to_string())
            .hint("a backup never replaces another: name a new file")
            .into(),
        StoreError::Gap { .. } => Problem::new(error.to_string())
            .hint("`gpuwise store check` says what else is wrong")
            .into(),
        other => other.into(),
    }
}

/// The file is read twice: nothing is put back that is damaged, or that no state can be made from.
fn restore(context: &Context, flags: &Copy) -> anyhow::Result<Exit> {
    let address = flags.which.address()?;
    let store = Store::open_durable(&address)?;
    let mut replay = Replay::open(&store)?;
    replay.catch_up(&store)?;
    read_backup(&flags.file, &mut |entry| {
        if entry.seq != replay.last() + 1 {
            // Why that cannot be is said when it is put back.
            return Ok(());
        }
        replay
            .apply(&entry)
            .with_context(|| format!("{}: event {}", flags.file.display(), entry.seq))
    })?;
    let restored = store.restore(&flags.file);
    let backup = restored.map_err(|error| match error {
        StoreError::NotEmpty { .. } => anyhow::Error::from(
            Problem::new(error.to_string()).hint("name another database with --store"),
        ),
        other => other.into(),
    })?;
    told(context, &address, &flags.file, &backup)
}

fn told(context: &Context, address: &str, file: &Path, backup: &Backup) -> anyhow::Result<Exit> {
    let answer = StoreBackupAnswer {
        store: shown(address),
        file: file.display().to_string(),
        after: backup.after,
        events: backup.events,
        first_at: time(backup.first_at_ns),
        last_at: time(backup.last_at_ns),
    };
    let context = context.answering(AnswerName::StoreBackup);
    if context.form.format == Format::Json {
        context.json(&serde_json::to_value(&answer)?)?;
    } else {
        let mut table = pairs();
        line(&mut table, "Database", Cell::text(&*answer.store));
        line(&mut table, "File", Cell::text(&*answer.file));
        line(&mut table, "Events", Cell::text(answer.events.to_string()));
        line(&mut table, "First", Cell::text(&*answer.first_at));
        line(&mut table, "Last", Cell::text(&*answer.last_at));
        context.table(&table)?;
    }
    Ok(Exit::Yes)
}

fn pairs() -> Table {
    Table::new(vec![
        Column::left("what", "What"),
        Column::left("value", "Value"),
    ])
}

fn line(table: &mut Table, what: &str, value: Cell) {
    table.push(vec![Cell::text(what), value]);
}

fn checked(context: &Context, flags: &Check) -> anyhow::Result<Exit> {
    let address = flags.which.address()?;
    let checked = check(
        &existing(&address)?,
        &flags.archived.files,
        flags.head.as_ref(),
        flags.executor.map(|executor| match executor {
            RunsName::Local => RunsAt::Local,
            RunsName::Slurm => RunsAt::Slurm,
        }),
    )?;
    if checked.span.is_none() && checked.problems.is_empty() {
        let what = format!(
            "{} holds no log: no broker has written there",
            shown(&address)
        );
        return Err(Problem::new(what)
            .hint("--store or GPUWISE_STORE names another database")
            .into());
    }
    let answer = answer(&address, &checked);
    let context = context.answering(AnswerName::StoreCheck);
    if context.form.format == Format::Json {
        context.json(&serde_json::to_value(&answer)?)?;
    } else {
        context.table(&table(&answer))?;
        for problem in &answer.problems {
            progress::say(problem);
        }
    }
    Ok(if answer.problems.is_empty() {
        Exit::Yes
    } else {
        Exit::No
    })
}

fn answer(address: &str, checked: &Checked) -> StoreCheckAnswer {
    let span = checked.span;
    StoreCheckAnswer {
        store: shown(address),
        events: span.map_or(0, |span| span.events),
        first_at: span.map(|span| time(span.first_at_ns)),
        last_at: span.map(|span| time(span.last_at_ns)),
        archived: span.map_or(0, |span| span.archived),
        applied: checked.applied,
        from: checked.from,
        snapshot: checked.snapshot.map(|(seq, _)| seq),
        snapshot_holds: checked
            .snapshot
            .filter(|(seq, _)| *seq > checked.from)
            .map(|(_, holds)| holds),
        tenants: checked.tenants as u64,
        leases: checked.leases as u64,
        money: checked.money.iter().map(counted).collect(),
        decisions: checked.decisions.0,
        decisions_otherwise: checked.decisions.1,
        head: (checked.head.seq > 0).then(|| checked.head.to_string()),
        problems: checked.problems.clone(),
    }
}

fn counted(counted: &Counted) -> StoreMoney {
    let amount = |micros: i128| match i64::try_from(micros) {
        Ok(micros) => gpuwise_broker::exact(Money {
            micros,
            currency: counted.currency,
        }),
        Err(_) => format!("{micros} µ{}", counted.currency),
    };
    StoreMoney {
        currency: counted.currency.to_string(),
        charged: amount(counted.charged),
        granted: amount(counted.granted),
        earned: (counted.earned != 0).then(|| amount(counted.earned)),
        lines: counted.lines,
        rounding: counted.rounding.map(|micros| {
            let exact = micros.over(Fraction::whole(1_000_000));
            let text = exact.map_or_else(|| "?".into(), |exact| exact.plain(12));
            format!("{text} {}", counted.currency)
        }),
        conserved: counted.is_conserved(),
    }
}

fn table(answer: &StoreCheckAnswer) -> Table {
    let mut table = pairs();
    let none = || "none".to_owned();
    let text = |text: &Option<String>| Cell::text(text.clone().unwrap_or_else(none));
    line(&mut table, "Database", Cell::text(&*answer.store));
    line(&mut table, "Events", Cell::text(answer.events.to_string()));
    line(&mut table, "First", text(&answer.first_at));
    line(&mut table, "Last", text(&answer.last_at));
    if answer.archived > 0 {
        let archived = format!("{} in files", answer.archived);
        line(&mut table, "Archived", Cell::text(archived));
    }
    let applied = match answer.from {
        0 => answer.applied.to_string(),
        from => format!("{} after the snapshot of event {from}", answer.applied),
    };
    line(&mut table, "Applied", Cell::text(applied));
    let snapshot = answer.snapshot.map(|seq| match answer.snapshot_holds {
        Some(true) => format!("of event {seq}, as the log says"),
        Some(false) => format!("of event {seq}, not as the log says"),
        None => format!("of event {seq}"),
    });
    line(&mut table, "Snapshot", text(&snapshot));
    line(
        &mut table,
        "Tenants",
        Cell::text(answer.tenants.to_string()),
    );
    line(&mut table, "Leases", Cell::text(answer.leases.to_string()));
    line(&mut table, "Head", text(&answer.head));
    if answer.decisions > 0 {
        let said = match answer.decisions_otherwise {
            0 => format!("{}, all as before", answer.decisions),
            other => format!("{}, {other} of them otherwise now", answer.decisions),
        };
        line(&mut table, "Decided again", Cell::text(said));
    }
    for one in &answer.money {
        line(&mut table, "Charged", money(&one.charged));
        line(&mut table, "Granted", money(&one.granted));
        if let Some(earned) = &one.earned {
            line(&mut table, "Earned by lending", money(earned));
        }
        if let Some(rounding) = &one.rounding {
            line(&mut table, "Rounding", Cell::text(rounding.clone()));
        }
    }
    table.footnote(match answer.problems.len() {
        0 => "The log is whole.".to_owned(),
        1 => "The log is not whole: 1 problem.".to_owned(),
        many => format!("The log is not whole: {many} problems."),
    });
    table
}

fn export(context: &Context, flags: &Export) -> anyhow::Result<Exit> {
    const PAGE: u32 = 2_000;
    let store = existing(&flags.which.address()?)?;
    let mut last = flags.after;
    for file in &flags.archived.files {
        read_backup(file, &mut |entry| {
            if entry.seq > last {
                last = entry.seq;
                exported(context, &entry)?;
            }
            Ok::<(), anyhow::Error>(())
        })?;
    }
    loop {
        let page = store.events_after(last, PAGE).map_err(headless)?;
        let Some(newest) = page.last() else {
            return Ok(Exit::Yes);
        };
        last = newest.seq;
        for entry in &page {
            exported(context, entry)?;
        }
    }
}

fn exported(context: &Context, entry: &LogEntry) -> anyhow::Result<()> {
    // Who may ask is nobody's business but the broker's.
    if entry.kind.starts_with("token_") {
        return Ok(());
    }
    let body: Value = serde_json::from_str(&entry.body)
        .with_context(|| format!("event {} of the log is no JSON", entry.seq))?;
    let document = json!({
        "seq": entry.seq,
        "at": time(entry.at_ns),
        "kind": entry.kind,
        "event": body,
    });
    context.data(&format!("{document}\n"))
}

/// What to do about events that are in a file.
fn headless(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Archived { .. } => Problem::new(error.to_string())
            .hint("--archive names that file, or --after begins behind it")
            .into(),
        other => other.into(),
    }
}

/// In UTC, to the nanosecond.
fn time(at_ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(at_ns.into())
        .map_or_else(|_| at_ns.to_string(), |at| at.to_string())
}

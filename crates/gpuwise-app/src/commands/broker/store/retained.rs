//! What of a log stays in the database: snapshots, and events that are moved into files.

use super::{Archive, Snapshot, existing, line, pairs, told};
use crate::{
    app::{Context, Exit, Format},
    error::Problem,
    schemas::AnswerName,
};
use anyhow::Context as _;
use gpuwise_server::{Made, Replay, keep_snapshot};
use gpuwise_store::{Store, StoreError, read_backup, shown};
use gpuwise_view::table::Cell;
use gpuwise_wire::broker::StoreSnapshotAnswer;
use std::path::PathBuf;

pub(super) fn snapshot(context: &Context, flags: &Snapshot) -> anyhow::Result<Exit> {
    let address = flags.which.address()?;
    let store = existing(&address)?;
    if flags.anew {
        store.forget_snapshots(u64::MAX)?;
    }
    let made = made(&store, &flags.archived.files)?
        .ok_or_else(|| Problem::new("the log is empty: there is no state"))?;
    let answer = StoreSnapshotAnswer {
        store: shown(&address),
        seq: made.seq,
        bytes: made.bytes,
        read: made.read,
    };
    let context = context.answering(AnswerName::StoreSnapshot);
    if context.form.format == Format::Json {
        context.json(&serde_json::to_value(&answer)?)?;
    } else {
        let mut table = pairs();
        line(&mut table, "Database", Cell::text(&*answer.store));
        line(&mut table, "Event", Cell::text(answer.seq.to_string()));
        line(&mut table, "Bytes", Cell::text(answer.bytes.to_string()));
        line(&mut table, "Read", Cell::text(answer.read.to_string()));
        context.table(&table)?;
    }
    Ok(Exit::Yes)
}

/// Makes one of what is there, of files that the first events were moved to, and of the log.
fn made(store: &Store, archives: &[PathBuf]) -> anyhow::Result<Option<Made>> {
    let mut replay = Replay::open(store)?;
    for file in archives {
        read_backup(file, &mut |entry| {
            if entry.seq <= replay.last() {
                return Ok(());
            }
            replay
                .apply(&entry)
                .with_context(|| format!("{}: event {}", file.display(), entry.seq))
        })?;
    }
    replay.catch_up(store).map_err(|error| match error {
        gpuwise_server::Stopped::Store(error @ StoreError::Archived { .. }) => {
            Problem::new(error.to_string())
                .hint("--archive names that file: the state is made from it")
                .into()
        }
        other => anyhow::Error::new(other),
    })?;
    Ok(keep_snapshot(store, &replay)?)
}

pub(super) fn archive(context: &Context, flags: &Archive) -> anyhow::Result<Exit> {
    let before = moment(&flags.before)?;
    let address = flags.which.address()?;
    let store = existing(&address)?;
    // Without a state as of the last event that goes, nothing could start any more.
    made(&store, &[])?;
    let archived = store.archive(store.last_before(before)?, &flags.file);
    let backup = archived.map_err(|error| match error {
        StoreError::Empty => Problem::new(format!(
            "no event of the log happened before {}",
            flags.before
        ))
        .hint("`gpuwise store check` says when the first did")
        .into(),
        other => super::backed(other),
    })?;
    told(context, &address, &flags.file, &backup)
}

/// The first instant of a day or a month in UTC, in nanoseconds.
fn moment(text: &str) -> anyhow::Result<i64> {
    // A date with a time would be read without it.
    let day = match text.len() {
        7 => Some(format!("{text}-01")),
        10 => Some(text.to_owned()),
        _ => None,
    };
    let date: Option<jiff::civil::Date> = day.and_then(|day| day.parse().ok());
    let at = date.and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok());
    at.and_then(|at| i64::try_from(at.timestamp().as_nanosecond()).ok())
        .ok_or_else(|| {
            Problem::new(format!(
                "--before {text:?}: expected a day or month such as 2026-10-15 or 2026-10"
            ))
            .into()
        })
}

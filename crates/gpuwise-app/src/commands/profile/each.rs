//! Many files, each a job of its own: one line for each, and all kept.

use super::{Context, Flags, concluded, keep::keep_all};
use crate::{
    commands::Exit,
    profiles::{self, Everything, ProfileQuery},
    progress,
};
use gpuwise_domain::profile::figure::{Scope, Summary};
use gpuwise_store::{NewRun, Store};
use gpuwise_view::{
    figures,
    table::{Cell, Column, Table},
};
use std::path::PathBuf;

/// Files that are read at once: what is not yet written is bounded.
const BATCH: usize = 64;

/// Reads every file as a job of its own.
///
/// # Errors
/// When no file can be used, or the database refuses.
pub(super) fn run(
    context: &Context,
    flags: &Flags,
    files: &[PathBuf],
    wanted: &ProfileQuery,
) -> anyhow::Result<Exit> {
    let store = flags
        .keep
        .save
        .then(|| flags.keep.database.open())
        .transpose()?;
    let mut table = table();
    let (mut used, mut first_error) = (0_usize, None);
    for batch in files.chunks(BATCH) {
        let Everything {
            profiled,
            sources,
            contents,
            unusable,
        } = profiles::measure(batch, wanted);
        for file in unusable {
            progress::say(&format!("note: {}: {:#}", file.file, file.error));
            first_error.get_or_insert(file.error);
        }
        let mut runs: Vec<NewRun> = Vec::new();
        let with_work = profiled
            .into_iter()
            .map(|one| concluded::from(vec![one], &[], &[], &[], &wanted.limits));
        let without = sources.chunks(1).enumerate().map(|(place, one)| {
            let hash = contents.get(place..=place).unwrap_or_default();
            concluded::from(Vec::new(), one, hash, &[], &wanted.limits)
        });
        for concluded in with_work.chain(without) {
            used += 1;
            row(&mut table, &concluded.summary);
            runs.push(flags.keep.run(&concluded, "profile", wanted, &[]));
        }
        if let Some(store) = &store {
            kept(store, &runs)?;
        }
        progress::doing(&format!("{used} of {} files", files.len()));
    }
    progress::doing("");
    if let (0, Some(error)) = (used, first_error) {
        return Err(error);
    }
    context.answering("profile-each").table(&table)?;
    Ok(Exit::Yes)
}

fn kept(store: &Store, runs: &[NewRun]) -> anyhow::Result<()> {
    keep_all(store, runs).map(drop)
}

fn table() -> Table {
    Table::new(vec![
        Column::left("file", "file").wrap(24),
        Column::right("span_ns", "span"),
        Column::right("idle_pct", "idle").unit("%"),
        Column::left("first_finding", "limited by"),
        Column::left("statement", "because").wrap(30).priority(1),
        Column::right("findings", "findings").priority(2),
    ])
}

fn row(table: &mut Table, summary: &Summary) {
    let whole = |name: &str| {
        let of_all = |scope: &Scope| scope.device.is_none() && scope.part.is_none();
        let figure = summary
            .figures
            .iter()
            .find(|figure| figure.name == name && of_all(&figure.scope))?;
        figure.value.real()
    };
    let first = summary.findings.first();
    table.push(vec![
        Cell::text(summary.files.join(", ")),
        Cell::of(whole("span_ns"), |span| {
            Cell::new(figures::seconds(span * 1e-9), span)
        }),
        Cell::of(whole("idle_pct"), |idle| {
            Cell::new(format!("{idle:.1}"), idle)
        }),
        first.map_or_else(Cell::missing, |found| {
            Cell::new(found.class.replace('_', " "), found.class.as_str())
        }),
        first.map_or_else(Cell::missing, |found| Cell::text(&found.statement)),
        Cell::count(summary.findings.len() as u64),
    ]);
}

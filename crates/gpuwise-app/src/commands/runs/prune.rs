//! `gpuwise runs prune`.

use super::{Context, DatabaseFlags, Exit, FilterFlags, daily, days_before, now_ns};
use crate::progress;
use clap::Args;
use gpuwise_store::RunRow;
use gpuwise_view::table::{Cell, Column, Table};
use std::collections::BTreeMap;

pub(super) const DAY_NS: i64 = 86_400_000_000_000;

#[derive(Debug, Args)]
#[group(id = "kept", required = true, multiple = true, args = ["keep_days", "keep_last", "keep_daily"])]
pub(super) struct Flags {
    /// Keep runs of the last so many days
    #[arg(long, value_name = "DAYS")]
    keep_days: Option<u32>,
    /// Keep the newest so many of each name
    #[arg(long, value_name = "COUNT")]
    keep_last: Option<usize>,
    #[command(flatten)]
    filter: FilterFlags,
    /// Of the daily summaries of forgotten runs, keep the last so many days [default: all]
    #[arg(long, value_name = "DAYS")]
    keep_daily: Option<u32>,
    /// Do it; what is forgotten cannot be had back
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    database: DatabaseFlags,
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let store = flags.database.open()?;
    let runs = store.list(&flags.filter.filter())?;
    let now_ns = now_ns();
    let gone = gone(&runs, flags, now_ns);
    let mut table = Table::new(vec![
        Column::left("id", "run"),
        Column::left("imported_at", "kept since, UTC"),
        Column::left("name", "name"),
    ])
    .when_empty("Nothing is old enough to be forgotten.");
    for run in &gone {
        table.push(vec![
            super::list::short(&run.id),
            super::words::time_cell(Some(run.imported_at_ns)),
            Cell::text(&run.name),
        ]);
    }
    context.table(&table)?;
    if let (true, Some(days)) = (flags.apply, flags.keep_daily) {
        let first_kept = days_before(now_ns, days).div_euclid(DAY_NS);
        let count = store.forget_daily(first_kept)?;
        progress::say(&format!("daily summaries forgotten: {count}"));
    }
    if gone.is_empty() {
        return Ok(Exit::Yes);
    }
    if flags.apply {
        let ids: Vec<String> = gone.iter().map(|run| run.id.clone()).collect();
        let summaries = daily::of_runs(&store, &gone, None, &[], now_ns)?;
        let count = store.forget(&ids, &summaries)?;
        store.tidy()?;
        progress::say(&format!(
            "{count} runs forgotten, {} kept; `gpuwise runs trend NAME` shows their days",
            runs.len() - gone.len()
        ));
    } else {
        progress::say(&format!(
            "{} of {} runs would be forgotten; --apply does it",
            gone.len(),
            runs.len()
        ));
    }
    Ok(Exit::Yes)
}

/// Runs that no rule keeps. They come newest first.
fn gone<'a>(runs: &'a [RunRow], flags: &Flags, now_ns: i64) -> Vec<&'a RunRow> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    // Where only summaries are named, runs stay.
    let rules = flags.keep_days.is_some() || flags.keep_last.is_some();
    runs.iter()
        .filter(|run| {
            let nth = seen.entry(&run.name).or_default();
            *nth += 1;
            let by_count = flags.keep_last.is_some_and(|keep| *nth <= keep);
            let by_age = flags
                .keep_days
                .is_some_and(|days| run.imported_at_ns >= days_before(now_ns, days));
            rules && !by_count && !by_age
        })
        .collect()
}

//! `gpuwise runs regress`.

use super::{Context, DatabaseFlags, Exit, FilterFlags, list, none, words};
use crate::progress;
use clap::Args;
use gpuwise_domain::profile::figure::{Better, Scope};
use gpuwise_measure::{
    figures::definitions::{FIGURES, definition},
    regress::{Change, Settings, changes},
};
use gpuwise_store::{Filter, RunId, RunRow, Series, Store};
use gpuwise_view::table::{Cell, Column, Table};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Args)]
pub(super) struct Flags {
    #[command(flatten)]
    filter: FilterFlags,
    /// Only this figure; several may be given [default: every figure of whole runs that has a better way]
    #[arg(long, value_name = "NAME")]
    figure: Vec<String>,
    /// Also figures of parts: kernels, steps, ranks, devices
    #[arg(long)]
    parts: bool,
    /// A change of less than this share of the level is none
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    least: f64,
    /// For figures that gpuwise does not know: more is better
    #[arg(long)]
    higher_is_better: bool,
    /// Also changes for the better
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    database: DatabaseFlags,
}

/// A level that moved, and where.
struct Regression {
    name: String,
    hardware: String,
    figure: String,
    scope: Scope,
    change: Change,
    run: String,
    at_ns: i64,
    worse: bool,
    software: String,
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let store = flags.database.open()?;
    let filter = flags.filter.filter();
    let runs = store.list(&filter)?;
    if runs.is_empty() {
        return Err(none(&flags.database).into());
    }
    let mut groups: BTreeMap<(&str, String), Vec<&RunRow>> = BTreeMap::new();
    for run in &runs {
        groups
            .entry((&run.name, run.hardware.join(", ")))
            .or_default()
            .push(run);
    }
    let watched = watched(&store, &filter, flags)?;
    let mut software = Software {
        store: &store,
        known: BTreeMap::new(),
    };
    let mut found = Vec::new();
    for ((name, hardware), runs) in &groups {
        for series in &watched {
            let points = points(series, runs);
            for (change, worse) in moved(&points, &series.figure, flags) {
                let Some(point) = points.get(change.at) else {
                    continue;
                };
                let before = points.get(change.at - 1).unwrap_or(point);
                found.push(Regression {
                    name: (*name).to_owned(),
                    hardware: hardware.clone(),
                    software: software.changed(before.row.run, point.row.run)?,
                    figure: series.figure.clone(),
                    scope: series.scope.clone(),
                    run: point.row.id.clone(),
                    at_ns: point.at_ns(),
                    change,
                    worse,
                });
            }
        }
    }
    let names: BTreeSet<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let forgotten = store.daily(None, &[])?;
    let forgotten = forgotten
        .iter()
        .filter(|group| names.contains(group.name.as_str()));
    let days: BTreeSet<i64> = forgotten.map(|group| group.day).collect();
    if !days.is_empty() {
        progress::say(&format!(
            "runs of {} days were forgotten: what is left of them, day by day (`gpuwise runs trend NAME`), is not held against runs",
            days.len()
        ));
    }
    found.sort_by(|a, b| b.change.strength.total_cmp(&a.change.strength));
    let worse = found.iter().any(|found| found.worse);
    context.table(&table(&found, runs.len(), groups.len()))?;
    Ok(if worse { Exit::No } else { Exit::Yes })
}

/// A run of a series, and the value that it gives it.
#[derive(Debug, Clone, Copy)]
struct Point<'a> {
    row: &'a RunRow,
    value: f64,
}

impl Point<'_> {
    /// When it ran, or was brought where that is not known.
    fn at_ns(&self) -> i64 {
        self.row.started_at_ns.unwrap_or(self.row.imported_at_ns)
    }
}

/// Every figure that is held against others, over all runs at once.
fn watched(store: &Store, filter: &Filter, flags: &Flags) -> anyhow::Result<Vec<Series>> {
    let named = !flags.figure.is_empty();
    let wanted: Vec<&str> = if named {
        flags.figure.iter().map(String::as_str).collect()
    } else {
        let all = FIGURES.iter().filter(|figure| figure.better.is_some());
        all.map(|figure| figure.name).collect()
    };
    Ok(store.series(filter, &wanted, named || flags.parts)?)
}

/// The series over the runs of one group, in the order in which they ran; none where the newest run
/// no longer has the figure.
fn points<'a>(series: &Series, runs: &[&'a RunRow]) -> Vec<Point<'a>> {
    let of = |row: &RunRow| series.values.get(&row.run);
    if runs.first().and_then(|newest| of(newest)).is_none() {
        return Vec::new();
    }
    let point = |row: &&'a RunRow| {
        let value = of(row).copied().flatten()?;
        Some(Point { row, value })
    };
    let mut points: Vec<Point<'_>> = runs.iter().filter_map(point).collect();
    points.sort_by(|a, b| (a.at_ns(), &a.row.id).cmp(&(b.at_ns(), &b.row.id)));
    points
}

/// Changes of a series that are to be told, each with whether it is for the worse.
fn moved(points: &[Point<'_>], figure: &str, flags: &Flags) -> Vec<(Change, bool)> {
    let better =
        definition(figure)
            .and_then(|known| known.better)
            .unwrap_or(if flags.higher_is_better {
                Better::Higher
            } else {
                Better::Lower
            });
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let settings = Settings {
        share_at_least: flags.least / 100.0,
        ..Settings::USUAL
    };
    changes(&values, settings)
        .into_iter()
        .map(|change| (change, change.is_worse(better)))
        .filter(|(_, worse)| *worse || flags.all)
        .collect()
}

/// Software whose version is another in the first run of the new level than in the last of the old.
struct Software<'a> {
    store: &'a Store,
    known: BTreeMap<RunId, BTreeMap<String, String>>,
}

impl Software<'_> {
    fn of(&mut self, run: RunId) -> anyhow::Result<BTreeMap<String, String>> {
        if let Some(known) = self.known.get(&run) {
            return Ok(known.clone());
        }
        let read: BTreeMap<_, _> = self.store.software(run)?.into_iter().collect();
        self.known.insert(run, read.clone());
        Ok(read)
    }

    fn changed(&mut self, before: RunId, after: RunId) -> anyhow::Result<String> {
        let (old, new) = (self.of(before)?, self.of(after)?);
        let changed: Vec<String> = new
            .into_iter()
            .filter_map(|(name, version)| match old.get(&name) {
                Some(was) if *was != version => Some(format!("{name} {was} → {version}")),
                _ => None,
            })
            .collect();
        Ok(changed.join(", "))
    }
}

fn table(found: &[Regression], runs: usize, groups: usize) -> Table {
    let mut table = Table::new(vec![
        Column::left("name", "name").wrap(12),
        Column::left("figure", "figure").wrap(12),
        Column::left("of", "of").wrap(12).priority(3),
        Column::right("before", "before"),
        Column::right("after", "after"),
        Column::right("change_share", "change"),
        Column::left("since_run", "since run"),
        Column::left("since", "at, UTC").priority(4),
        Column::left("software", "software changed")
            .wrap(14)
            .priority(2),
        Column::left("hardware", "hardware").wrap(10).priority(1),
        Column::raw("worse"),
        Column::raw("strength"),
    ])
    .when_empty(format!("No level moved in {runs} runs of {groups} jobs."));
    for found in found {
        let level = |value: f64| Cell::new(words::value(&found.figure, value), value);
        table.push(vec![
            Cell::text(&found.name),
            Cell::text(&found.figure),
            Cell::text(words::scope(&found.scope)),
            level(found.change.before),
            level(found.change.after),
            Cell::of(found.change.share(), |share| {
                Cell::new(format!("{:+.1} %", share * 100.0), share)
            }),
            list::short(&found.run),
            words::time_cell(Some(found.at_ns)),
            Cell::text(&found.software),
            Cell::text(&found.hardware),
            Cell::new("", found.worse),
            Cell::number(found.change.strength),
        ]);
    }
    table
}

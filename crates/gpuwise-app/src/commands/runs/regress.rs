//! `gpuwise runs regress`.

use super::{Context, DatabaseFlags, Exit, FilterFlags, list, none, words};
use clap::Args;
use gpuwise_domain::profile::figure::{Better, Figure, Scope};
use gpuwise_measure::{
    figures::definitions::definition,
    regress::{Change, Settings, changes},
};
use gpuwise_store::{Filter, Point, RunRow, Store};
use gpuwise_view::table::{Cell, Column, Table};
use std::collections::BTreeMap;

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
    point: Point,
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
    let mut groups: BTreeMap<(String, String), Vec<RunRow>> = BTreeMap::new();
    for run in runs {
        groups
            .entry((run.name.clone(), run.hardware.join(", ")))
            .or_default()
            .push(run);
    }
    let mut found = Vec::new();
    for ((name, hardware), runs) in &groups {
        for (figure, scope) in watched(&store, runs, flags)? {
            let points = points(&store, &filter, runs, &figure, &scope)?;
            for (change, worse) in moved(&points, &figure, flags) {
                let Some(point) = points.get(change.at) else {
                    continue;
                };
                let before = points.get(change.at - 1).unwrap_or(point);
                found.push(Regression {
                    name: name.clone(),
                    hardware: hardware.clone(),
                    software: software(&store, before, point)?,
                    figure: figure.clone(),
                    scope: scope.clone(),
                    point: point.clone(),
                    change,
                    worse,
                });
            }
        }
    }
    found.sort_by(|a, b| b.change.strength.total_cmp(&a.change.strength));
    let worse = found.iter().any(|found| found.worse);
    context.table(&table(&found, &groups))?;
    Ok(if worse { Exit::No } else { Exit::Yes })
}

/// The figures to hold against one another: those of the newest run of the group.
fn watched(store: &Store, runs: &[RunRow], flags: &Flags) -> anyhow::Result<Vec<(String, Scope)>> {
    let Some(newest) = runs.first() else {
        return Ok(Vec::new());
    };
    let wanted = |figure: &Figure| {
        let whole = figure.scope.part.is_none() && figure.scope.device.is_none();
        let named = flags.figure.contains(&figure.name);
        let known = || definition(&figure.name).is_some_and(|known| known.better.is_some());
        (flags.parts || whole || named) && (named || (flags.figure.is_empty() && known()))
    };
    Ok(store
        .run(&newest.id)?
        .figures
        .into_iter()
        .filter(wanted)
        .map(|figure| (figure.name, figure.scope))
        .collect())
}

/// The series of one figure over the runs of one group.
fn points(
    store: &Store,
    filter: &Filter,
    runs: &[RunRow],
    figure: &str,
    scope: &Scope,
) -> anyhow::Result<Vec<Point>> {
    let of_group: std::collections::BTreeSet<&str> =
        runs.iter().map(|run| run.id.as_str()).collect();
    let mut points = store.series(figure, scope, filter)?;
    points.retain(|point| of_group.contains(point.run.as_str()));
    Ok(points)
}

/// Changes of a series that are to be told, each with whether it is for the worse.
fn moved(points: &[Point], figure: &str, flags: &Flags) -> Vec<(Change, bool)> {
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
fn software(store: &Store, before: &Point, after: &Point) -> anyhow::Result<String> {
    let old: BTreeMap<_, _> = store.run(&before.run)?.software.into_iter().collect();
    let new = store.run(&after.run)?.software;
    let changed: Vec<String> = new
        .into_iter()
        .filter_map(|(name, version)| match old.get(&name) {
            Some(was) if *was != version => Some(format!("{name} {was} → {version}")),
            _ => None,
        })
        .collect();
    Ok(changed.join(", "))
}

fn table(found: &[Regression], groups: &BTreeMap<(String, String), Vec<RunRow>>) -> Table {
    let runs: usize = groups.values().map(Vec::len).sum();
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
    .when_empty(format!(
        "No level moved in {runs} runs of {} jobs.",
        groups.len()
    ));
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
            list::short(&found.point.run),
            words::time_cell(Some(found.point.at_ns)),
            Cell::text(&found.software),
            Cell::text(&found.hardware),
            Cell::new("", found.worse),
            Cell::number(found.change.strength),
        ]);
    }
    table
}

//! `gpuwise runs trend`.

use super::{Context, DatabaseFlags, Exit, daily, label, prune::DAY_NS, words};
use crate::{error::Problem, schemas::AnswerName};
use clap::Args;
use gpuwise_store::{DailyFigure, DailyGroup, Filter, RunRow, Store};
use gpuwise_view::record::{self, Fields, Record};
use std::collections::{BTreeMap, BTreeSet};

/// What is shown of days where no figure is named.
const USUAL: [&str; 5] = [
    "step_median_ns",
    "span_ns",
    "idle_pct",
    "exposed_comm_ns",
    "mfu_pct",
];

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// The name of the runs
    #[arg(value_name = "NAME")]
    name: String,
    /// Only this figure; several may be given [default: step_median_ns, span_ns, idle_pct,
    /// exposed_comm_ns, mfu_pct]
    #[arg(long, value_name = "NAME")]
    figure: Vec<String>,
    /// Only runs with this label; several must all hold
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Only runs on this product, as `runs list` writes it
    #[arg(long, value_name = "GPU")]
    hardware: Option<String>,
    #[command(flatten)]
    database: DatabaseFlags,
}

/// A figure on a day.
struct Row {
    day: i64,
    figure: String,
    runs: u64,
    forgotten: u64,
    values: DailyFigure,
    parts: u64,
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let store = flags.database.open()?;
    let names: Vec<&str> = if flags.figure.is_empty() {
        USUAL.to_vec()
    } else {
        flags.figure.iter().map(String::as_str).collect()
    };
    let groups = groups(&store, flags, &names)?;
    if groups.is_empty() {
        let of = |name: &String| name.clone();
        let known: BTreeSet<String> = store
            .list(&Filter::default())?
            .iter()
            .map(|run| of(&run.name))
            .collect();
        let known: Vec<String> = known.into_iter().take(8).collect();
        return Err(Problem::new(format!(
            "no run named {:?}, kept or forgotten, has {} in {}",
            flags.name,
            names.join(", "),
            flags.database.shown()
        ))
        .hint(format!("names of runs: {}", known.join(", ")))
        .into());
    }
    let rows = days(&groups, &names);
    let context = context.answering(AnswerName::RunsTrend);
    context.table(&record::table(&rows))?;
    Ok(Exit::Yes)
}

/// Days of runs that are kept and of those that were forgotten.
fn groups(store: &Store, flags: &Flags, names: &[&str]) -> anyhow::Result<Vec<(bool, DailyGroup)>> {
    let filter = Filter {
        name: Some(flags.name.clone()),
        labels: flags.labels.iter().cloned().collect(),
        hardware: flags.hardware.clone(),
        ..Filter::default()
    };
    let kept = store.list(&filter)?;
    let kept: Vec<&RunRow> = kept.iter().collect();
    let kept = daily::of_runs(store, &kept, Some(&flags.name), names, 0)?;
    let holds = |group: &DailyGroup| {
        let product = flags.hardware.as_ref();
        product.is_none_or(|product| group.hardware.contains(product))
            && filter
                .labels
                .iter()
                .all(|(name, value)| group.labels.get(name) == Some(value))
            && !group.figures.is_empty()
    };
    let mut forgotten = store.daily(Some(&flags.name), names)?;
    forgotten.retain(holds);
    let forgotten = forgotten.into_iter().map(|group| (true, group));
    Ok(forgotten
        .chain(kept.into_iter().map(|group| (false, group)))
        .collect())
}

/// One row for each figure and day, in the order of the names, the oldest first.
fn days(groups: &[(bool, DailyGroup)], names: &[&str]) -> Vec<Row> {
    let mut all: BTreeMap<(usize, i64), Row> = BTreeMap::new();
    for (forgotten, group) in groups {
        for (place, name) in names.iter().enumerate() {
            let Some(values) = group.figures.get(*name) else {
                continue;
            };
            let gone = if *forgotten { group.runs } else { 0 };
            all.entry((place, group.day))
                .and_modify(|day| {
                    day.runs += group.runs;
                    day.forgotten += gone;
                    day.values = daily::together(day.values, *values);
                    day.parts += 1;
                })
                .or_insert_with(|| Row {
                    day: group.day,
                    figure: (*name).to_owned(),
                    runs: group.runs,
                    forgotten: gone,
                    values: *values,
                    parts: 1,
                });
        }
    }
    all.into_values().collect()
}

/// A day as `2026-11-21`.
fn date(day: i64) -> String {
    let at = i128::from(day) * i128::from(DAY_NS);
    jiff::Timestamp::from_nanosecond(at).map_or_else(
        |_| day.to_string(),
        |at| at.strftime("%Y-%m-%d").to_string(),
    )
}

impl Record for Row {
    const NAME: &'static str = "DayOfRuns";

    fn fields(of: &mut Fields<'_, Self>) {
        let figure = of.noun().map(|day| day.figure.clone()).unwrap_or_default();
        let said = |value: f64| words::value(&figure, value);
        of.column("figure", "figure", |d| d.figure.clone());
        of.column("day", "day, UTC", |d| date(d.day));
        of.column("runs", "runs", |d| d.runs);
        of.column("forgotten", "forgotten", |d| d.forgotten)
            .priority(1);
        of.field("values", |d| d.values.count);
        of.column("least", "least", |d| d.values.least)
            .said_of(said);
        of.column("median", "median", |d| d.values.median)
            .said_of(said);
        of.column("p90", "p90", |d| d.values.p90).said_of(said);
        of.column("most", "most", |d| d.values.most).said_of(said);
        // Of how many groups, by label, hardware and time of forgetting, a median is the weighed mean.
        of.field("parts", |d| d.parts);
    }
}

/// The schema of its rows.
pub(super) fn schema(answer: &str) -> String {
    record::rows_schema::<Row>(answer, "Figures of runs day by day")
}

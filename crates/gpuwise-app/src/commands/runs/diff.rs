//! `gpuwise runs diff`.

use super::{Context, DatabaseFlags, Exit, list, times, words};
use crate::{error::Problem, schemas::AnswerName, settings::Format};
use clap::Args;
use gpuwise_domain::profile::{
    figure::{Scope, Value},
    figures::TimedBy,
};
use gpuwise_store::{Filter, Store, StoreError, StoredRun};
use gpuwise_view::table::{Cell, Column, Table};
use std::collections::BTreeMap;

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// The run before: the first characters of its id, or its name, of which the newest is taken
    #[arg(value_name = "A")]
    before: String,
    /// The run after
    #[arg(value_name = "B")]
    after: String,
    /// Also figures that changed by less than 1 %, and names whose time did by less than 0.1 % of all
    #[arg(long)]
    pub all: bool,
    /// Compare the kernel time of operators instead, with the 95 % interval of each difference
    #[arg(long)]
    operators: bool,
    /// The same by the names of kernels
    #[arg(long, conflicts_with = "operators")]
    kernels: bool,
    #[command(flatten)]
    database: DatabaseFlags,
}

/// Changes below this share are left out unless all are asked for.
const SHARE: f64 = 0.01;

/// One figure of both runs.
struct Row {
    name: String,
    scope: Scope,
    before: Option<Value>,
    after: Option<Value>,
}

impl Row {
    /// The change of a time, in nanoseconds.
    fn nanoseconds(&self) -> Option<f64> {
        let of_time = self.name.ends_with("_ns");
        let change = self.after.as_ref()?.real()? - self.before.as_ref()?.real()?;
        of_time.then_some(change)
    }

    /// The change as a share of what was; infinite where there was nothing.
    fn share(&self) -> Option<f64> {
        let before = self.before.as_ref()?.real()?;
        let after = self.after.as_ref()?.real()?;
        let change = after - before;
        Some(if before.abs() > 0.0 {
            change / before.abs()
        } else if change.abs() > 0.0 {
            f64::INFINITY * change.signum()
        } else {
            0.0
        })
    }
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let store = flags.database.open()?;
    let before = known(&store, &flags.before)?;
    let after = known(&store, &flags.after)?;
    if flags.operators || flags.kernels {
        let by = if flags.operators {
            TimedBy::Operator
        } else {
            TimedBy::Kernel
        };
        return times::run(context, flags, &store, by, [&before, &after]);
    }
    let context = &context.answering(AnswerName::RunsDiff);
    let rows = rows(&before, &after);
    if context.form.format == Format::Table {
        context.data(&head(&before, &after))?;
    }
    context.table(&table(&rows, flags.all))?;
    Ok(Exit::Yes)
}

/// A run by the beginning of its id, else the newest of that name.
fn known(store: &Store, asked: &str) -> anyhow::Result<StoredRun> {
    match store.run(asked) {
        Err(StoreError::Which { count: 0, .. }) => {}
        found => return Ok(found?),
    }
    // The newest stands first.
    let newest = Filter {
        name: Some(asked.into()),
        limit: Some(1),
        ..Filter::default()
    };
    match store.list(&newest)?.first() {
        Some(row) => Ok(store.run(&row.id)?),
        None => Err(Problem::new(format!(
            "no run has an id that begins with {asked:?}, or that name"
        ))
        .hint("`gpuwise runs list` shows ids and names")
        .into()),
    }
}

fn rows(before: &StoredRun, after: &StoredRun) -> Vec<Row> {
    let mut all: BTreeMap<(Scope, String), (Option<Value>, Option<Value>)> = BTreeMap::new();
    for figure in &before.figures {
        let key = (figure.scope.clone(), figure.name.clone());
        all.entry(key).or_default().0 = Some(figure.value.clone());
    }
    for figure in &after.figures {
        let key = (figure.scope.clone(), figure.name.clone());
        all.entry(key).or_default().1 = Some(figure.value.clone());
    }
    let mut rows: Vec<Row> = all
        .into_iter()
        .map(|((scope, name), (before, after))| Row {
            name,
            scope,
            before,
            after,
        })
        .collect();
    // Those of the whole first: they say what the parts did to it. Then times, by what they gained or
    // lost: a microsecond that doubled is less than a millisecond; the rest by share.
    rows.sort_by(|a, b| {
        let part = |row: &Row| row.scope.part.is_some();
        let size = |row: &Row| row.share().map_or(-1.0, f64::abs);
        let time = |row: &Row| row.nanoseconds().map_or(-1.0, f64::abs);
        (part(a).cmp(&part(b)))
            .then(time(b).total_cmp(&time(a)))
            .then(size(b).total_cmp(&size(a)))
    });
    rows
}

/// What is different besides the figures.
pub(super) fn head(before: &StoredRun, after: &StoredRun) -> String {
    let mut lines = Vec::new();
    for (title, run) in [("before", before), ("after", after)] {
        let id = run.row.id.get(..list::SHORT).unwrap_or(&run.row.id);
        let started = run.row.started_at_ns.map(words::time).unwrap_or_default();
        lines.push(format!("{title:<8}{id}  {}  {started}", run.row.name));
    }
    if before.row.hardware != after.row.hardware {
        lines.push(format!(
            "hardware: {} before, {} after: times are not of the same machine",
            before.row.hardware.join(", "),
            after.row.hardware.join(", ")
        ));
    }
    let old: BTreeMap<_, _> = before.software.iter().cloned().collect();
    for (name, version) in &after.software {
        match old.get(name) {
            Some(was) if was != version => {
                lines.push(format!("{name}: {was} before, {version} after"));
            }
            _ => {}
        }
    }
    lines.push(String::new());
    lines.join("\n") + "\n"
}

fn table(rows: &[Row], all: bool) -> Table {
    let mut table = Table::new(vec![
        Column::left("figure", "figure"),
        Column::left("of", "of").wrap(20),
        Column::right("before", "before"),
        Column::right("after", "after"),
        Column::right("change_share", "change"),
    ])
    .when_empty("No figure changed by 1 % or more.");
    let cell = |name: &str, value: Option<&Value>| {
        value.map_or_else(Cell::missing, |value| words::cell(name, value))
    };
    for row in rows {
        let share = row.share();
        let both_unknown = row.before.as_ref().and_then(Value::real).is_none()
            && row.after.as_ref().and_then(Value::real).is_none();
        if !all && (both_unknown || share.is_some_and(|share| share.abs() < SHARE)) {
            continue;
        }
        table.push(vec![
            Cell::text(&row.name),
            Cell::text(words::scope(&row.scope)),
            cell(&row.name, row.before.as_ref()),
            cell(&row.name, row.after.as_ref()),
            Cell::of(share.filter(|share| share.is_finite()), |share| {
                Cell::new(format!("{:+.1} %", share * 100.0), share)
            }),
        ]);
    }
    table
}

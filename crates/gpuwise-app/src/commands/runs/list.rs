//! `gpuwise runs list`.

use super::{Context, DatabaseFlags, Exit, FilterFlags, words};
use clap::Args;
use gpuwise_store::RunRow;
use gpuwise_view::table::{Cell, Column, Table};

#[derive(Debug, Args)]
pub(super) struct Flags {
    #[command(flatten)]
    filter: FilterFlags,
    #[command(flatten)]
    database: DatabaseFlags,
}

/// Characters of an id that people see; a prefix is enough to name a run.
pub(super) const SHORT: usize = 8;

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let runs = flags.database.open()?.list(&flags.filter.filter())?;
    context.table(&table(&runs))?;
    Ok(if runs.is_empty() { Exit::No } else { Exit::Yes })
}

fn table(runs: &[RunRow]) -> Table {
    let mut table = Table::new(vec![
        Column::left("id", "run"),
        Column::left("started_at", "started, UTC"),
        Column::left("name", "name").wrap(16),
        Column::left("hardware", "hardware").wrap(12).priority(2),
        Column::left("labels", "labels").wrap(12).priority(3),
        Column::left("first_finding", "limited by").priority(4),
        Column::left("source", "from").priority(1),
        Column::raw("imported_at"),
    ])
    .when_empty("No run matches. `gpuwise profile --save TRACE` keeps one.");
    for run in runs {
        let labels: Vec<String> = run
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        table.push(vec![
            short(&run.id),
            words::time_cell(run.started_at_ns),
            Cell::text(&run.name),
            Cell::text(run.hardware.join(", ")),
            Cell::text(labels.join(" ")),
            run.first_finding
                .as_ref()
                .map_or_else(Cell::missing, |class| {
                    Cell::new(class.replace('_', " "), class.as_str())
                }),
            Cell::text(&run.source),
            words::time_cell(Some(run.imported_at_ns)),
        ]);
    }
    table
}

/// An id: its first characters for people, all for programs.
pub(super) fn short(id: &str) -> Cell {
    Cell::new(id.get(..SHORT).unwrap_or(id), id)
}

//! `gpuwise runs export`.

use super::{Context, DatabaseFlags, Exit, FilterFlags, none, words};
use clap::Args;
use gpuwise_domain::profile::figure::Value;
use gpuwise_view::table::{Cell, Column, Table};

#[derive(Debug, Args)]
pub(super) struct Flags {
    #[command(flatten)]
    filter: FilterFlags,
    /// Only this figure; several may be given
    #[arg(long, value_name = "NAME")]
    figure: Vec<String>,
    #[command(flatten)]
    database: DatabaseFlags,
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let store = flags.database.open()?;
    let runs = store.list(&flags.filter.filter())?;
    if runs.is_empty() {
        return Err(none(&flags.database).into());
    }
    let mut table = Table::new(vec![
        Column::left("run", "run"),
        Column::left("name", "name"),
        Column::left("started_at", "started, UTC"),
        Column::left("hardware", "hardware"),
        Column::left("labels", "labels"),
        Column::left("figure", "figure"),
        Column::right("rank", "rank"),
        Column::right("device", "device"),
        Column::left("part", "part"),
        Column::right("value", "value"),
        Column::left("unknown_because", "because"),
    ]);
    for row in runs {
        let run = store.run(&row.id)?;
        let labels: Vec<String> = row
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        for figure in &run.figures {
            if !flags.figure.is_empty() && !flags.figure.contains(&figure.name) {
                continue;
            }
            table.push(vec![
                super::list::short(&row.id),
                Cell::text(&row.name),
                words::time_cell(row.started_at_ns),
                Cell::text(row.hardware.join(", ")),
                Cell::text(labels.join(" ")),
                Cell::text(&figure.name),
                Cell::of(figure.scope.rank, |rank| Cell::count(u64::from(rank))),
                Cell::of(figure.scope.device, |device| {
                    Cell::new(device.to_string(), device)
                }),
                Cell::text(figure.scope.part.clone().unwrap_or_default()),
                words::cell(&figure.name, &figure.value),
                match &figure.value {
                    Value::Unknown(reason) => Cell::text(reason),
                    _ => Cell::text(""),
                },
            ]);
        }
    }
    context.table(&table)?;
    Ok(Exit::Yes)
}

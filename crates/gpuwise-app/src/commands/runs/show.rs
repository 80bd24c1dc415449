//! `gpuwise runs show`.

use super::{Context, DatabaseFlags, Exit, words};
use crate::settings::Format;
use clap::Args;
use gpuwise_store::StoredRun;
use gpuwise_view::table::{Cell, Column, Table};

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// The run, by the first characters of its id
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    database: DatabaseFlags,
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let run = flags.database.open()?.run(&flags.run)?;
    if context.form.format == Format::Table {
        context.data(&head(&run))?;
    }
    context.table(&figures(&run))?;
    Ok(Exit::Yes)
}

/// What the run is, and what was found, before its figures.
fn head(run: &StoredRun) -> String {
    let row = &run.row;
    let mut lines = vec![format!("{}  {}", row.id, row.name)];
    let mut add = |title: &str, text: String| {
        if !text.is_empty() {
            lines.push(format!("{title:<10}{text}"));
        }
    };
    add(
        "started",
        row.started_at_ns.map(words::time).unwrap_or_default(),
    );
    add("kept", words::time(row.imported_at_ns));
    add("hardware", row.hardware.join(", "));
    let pair = |(name, value): (&String, &String)| format!("{name} {value}");
    add(
        "software",
        run.software
            .iter()
            .map(|(name, version)| pair((name, version)))
            .collect::<Vec<_>>()
            .join(", "),
    );
    add(
        "labels",
        row.labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join(" "),
    );
    add("files", run.files.join(", "));
    add("missing", run.missing.join("; "));
    for document in &run.findings {
        let statement = serde_json::from_str::<serde_json::Value>(document)
            .ok()
            .and_then(|finding| Some(finding.get("statement")?.as_str()?.to_owned()));
        add("found", statement.unwrap_or_default());
    }
    lines.push(String::new());
    lines.join("\n") + "\n"
}

fn figures(run: &StoredRun) -> Table {
    let mut table = Table::new(vec![
        Column::left("figure", "figure"),
        Column::left("of", "of").wrap(24),
        Column::right("value", "value"),
        Column::left("unknown_because", "because")
            .wrap(20)
            .priority(1),
    ]);
    for figure in &run.figures {
        let reason = match &figure.value {
            gpuwise_domain::profile::figure::Value::Unknown(reason) => Cell::text(reason),
            _ => Cell::text(""),
        };
        table.push(vec![
            Cell::text(&figure.name),
            Cell::text(words::scope(&figure.scope)),
            words::cell(&figure.name, &figure.value),
            reason,
        ]);
    }
    table
}

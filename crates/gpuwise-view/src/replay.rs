//! What replays came to: a line for each policy, seed and mark.

use crate::table::{Cell, Column, Table};
use gpuwise_domain::placement::ReplayRow;

/// The table of replays. Columns that a trace has alone come last; rates and hashes only where a row
/// has them.
pub fn rows(rows: &[ReplayRow]) -> Table {
    let mut columns = vec![
        Column::left("trace", "trace"),
        Column::left("policy", "policy"),
        Column::right("seed", "seed"),
        Column::right("arrived_percent", "arrived").unit("%"),
        Column::right("gpu_allocated_percent", "allocated").unit("%"),
        Column::right("placed", "placed"),
        Column::right("pending", "pending"),
        Column::right("jct_mean_s", "mean JCT").unit("s"),
        Column::right("makespan_s", "makespan").unit("s"),
    ];
    let timed = rows.iter().any(|row| row.decisions_per_s.is_some());
    if timed {
        columns.push(Column::right("decisions_per_s", "decisions").unit("/s"));
    }
    let hashed = rows.iter().any(|row| row.plans_hash.is_some());
    if hashed {
        columns.push(Column::raw("plans_hash"));
    }
    let mut more: Vec<&'static str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.more) {
        if !more.contains(name) {
            more.push(name);
        }
    }
    columns.extend(
        more.iter()
            .map(|name| Column::right(*name, name.replace('_', " ")).priority(1)),
    );
    let mut table = Table::new(columns).when_empty("Nothing was replayed.");
    for row in rows {
        table.push(cells(row, timed, hashed, &more));
    }
    table
}

fn cells(row: &ReplayRow, timed: bool, hashed: bool, more: &[&'static str]) -> Vec<Cell> {
    let percent = |value: f64| Cell::new(format!("{value:.2}"), value);
    let whole = |value: f64| Cell::new(format!("{value:.0}"), value);
    let mut cells = vec![
        Cell::text(row.trace.clone()),
        Cell::text(row.policy.clone()),
        Cell::of(row.seed, |seed| Cell::new(seed.to_string(), seed)),
        Cell::of(row.arrived_percent, |value| {
            if value.fract() == 0.0 {
                Cell::new(format!("{value:.0}"), value as u64)
            } else {
                percent(value)
            }
        }),
        Cell::of(row.gpu_allocated_percent, percent),
        Cell::count(row.placed),
        Cell::count(row.pending),
        Cell::of(row.jct_mean_s, whole),
        Cell::of(row.makespan_s, whole),
    ];
    if timed {
        cells.push(Cell::of(row.decisions_per_s, whole));
    }
    if hashed {
        cells.push(Cell::of(row.plans_hash, |hash| {
            Cell::text(format!("{hash:016x}"))
        }));
    }
    cells.extend(more.iter().map(|name| {
        let found = row.more.iter().find(|(known, _)| known == name);
        Cell::of(found.and_then(|(_, value)| *value), Cell::number)
    }));
    cells
}

//! What replays came to: a line for each policy, seed and mark.

use crate::table::{Cell, Column, Table};
use gpuwise_domain::placement::ReplayRow;

/// What is asked of one's own past.
const ASKED: [&str; 4] = ["wait_mean_s", "wait_p95_s", "gpu_hours_held", "cost_held"];

/// The table of replays. Columns that a trace has alone come last; rates and hashes only where a row
/// has them.
pub fn rows(rows: &[ReplayRow]) -> Table {
    // Of one's own past it is asked how long people waited and what it cost.
    let drawn = |row: &ReplayRow| row.seed.is_some() || row.arrived_percent.is_some();
    let own = rows
        .iter()
        .all(|row| !drawn(row) && row.more.iter().any(|(name, _)| ASKED.contains(name)));
    let (rare, rarer) = if own { (2, 0) } else { (u8::MAX, u8::MAX) };
    let mut columns = vec![
        Column::left("trace", "trace").priority(rare),
        Column::left("policy", "policy"),
        Column::right("seed", "seed").priority(rarer),
        Column::right("arrived_percent", "arrived")
            .unit("%")
            .priority(rarer),
        Column::right("gpu_allocated_percent", "allocated").unit("%"),
        Column::right("placed", "placed"),
        Column::right("pending", "pending"),
        Column::right("jct_mean_s", "mean JCT")
            .unit("s")
            .priority(rare),
        Column::right("makespan_s", "makespan")
            .unit("s")
            .priority(rare),
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
    columns.extend(more.iter().map(|name| {
        let asked = own && ASKED.contains(name);
        let column = Column::right(*name, name.replace('_', " "));
        column.priority(if asked { u8::MAX } else { 1 })
    }));
    let mut table = Table::new(columns).when_empty("Nothing was replayed.");
    for row in rows {
        table.push(cells(row, timed, hashed, &more));
    }
    for note in fewer_served(rows) {
        table.footnote(note);
    }
    table
}

/// Means over the seeds of one policy at one mark: GPU time held in percent, and jobs with a place.
struct Mean<'a> {
    policy: &'a str,
    held: f64,
    placed: f64,
}

/// Of each trace and policy: than whom it holds more GPU time and serves fewer jobs, at the mark where that
/// is most.
fn fewer_served(rows: &[ReplayRow]) -> Vec<String> {
    let mut traces: Vec<&str> = rows.iter().map(|row| row.trace.as_str()).collect();
    traces.dedup();
    let mut notes = Vec::new();
    for trace in traces {
        let of_it = || rows.iter().filter(|row| row.trace == trace);
        let mut marks: Vec<f64> = of_it().filter_map(|row| row.arrived_percent).collect();
        marks.sort_by(f64::total_cmp);
        marks.dedup();
        // Who, than whom, by how many, at which mark.
        let mut worst: Vec<(&str, &str, f64, f64)> = Vec::new();
        for mark in marks {
            let at: Vec<&ReplayRow> = of_it()
                .filter(|row| row.arrived_percent == Some(mark))
                .collect();
            let means = means(&at);
            for (one, other) in means
                .iter()
                .flat_map(|one| means.iter().map(move |o| (one, o)))
            {
                let fewer = other.placed - one.placed;
                if one.held <= other.held || fewer < 0.5 {
                    continue;
                }
                let known = worst
                    .iter_mut()
                    .find(|row| (row.0, row.1) == (one.policy, other.policy));
                match known {
                    Some(row) if row.2 < fewer => (row.2, row.3) = (fewer, mark),
                    Some(_) => {}
                    None => worst.push((one.policy, other.policy, fewer, mark)),
                }
            }
        }
        let mut named: Vec<&str> = worst.iter().map(|row| row.0).collect();
        named.sort_unstable();
        named.dedup();
        for policy in named {
            let than = worst.iter().filter(|row| row.0 == policy);
            let than: Vec<String> = than
                .map(|(_, other, fewer, mark)| format!("{other} ({fewer:.0} fewer at {mark:.0} %)"))
                .collect();
            notes.push(format!(
                "{trace}: {policy} holds more GPU time and serves fewer jobs than {}.",
                than.join(", ")
            ));
        }
    }
    notes
}

fn means<'a>(rows: &[&'a ReplayRow]) -> Vec<Mean<'a>> {
    let mut out: Vec<(Mean<'a>, f64)> = Vec::new();
    for row in rows {
        let Some(held) = row.gpu_allocated_percent else {
            continue;
        };
        let placed = row.placed as f64;
        match out.iter_mut().find(|(mean, _)| mean.policy == row.policy) {
            Some((mean, count)) => {
                mean.held += held;
                mean.placed += placed;
                *count += 1.0;
            }
            None => out.push((
                Mean {
                    policy: &row.policy,
                    held,
                    placed,
                },
                1.0,
            )),
        }
    }
    let mean = |(mut mean, count): (Mean<'a>, f64)| {
        mean.held /= count;
        mean.placed /= count;
        mean
    };
    out.into_iter().map(mean).collect()
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

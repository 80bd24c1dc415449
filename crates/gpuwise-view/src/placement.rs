//! Plans of placement: who runs where, who waits and why, what would help, what does not hold.

use crate::table::{Cell, Column, Table};
use gpuwise_domain::placement::Weighed;
use gpuwise_units::{Money, Nanoseconds};
use serde_json::json;

/// A time as people read it, and exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub shown: String,
    pub exact: Nanoseconds,
}

/// A job that gets a place, or is disrupted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacedRow {
    pub job: String,
    pub tenant: String,
    /// What is done with it: place, preempt, move.
    pub action: &'static str,
    pub workers: u32,
    /// Thousandths of GPUs that it has then.
    pub gpus_milli: u64,
    pub place: String,
    /// Nodes that had room.
    pub candidates: u32,
    /// What was weighed, by name.
    pub weighed: Vec<Weighed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingRow {
    pub job: String,
    pub tenant: String,
    /// What is short, in a sentence.
    pub why: String,
    /// When it is expected to start, from now.
    pub start: Option<Span>,
    /// What would help, cheapest first; `None`: it was not looked for.
    pub fixes: Option<Vec<FixRow>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixRow {
    pub what: String,
    /// Time until the job could start then.
    pub after: Span,
    /// Work of others that is lost, in GPU-time.
    pub lost: Span,
    /// What it costs an hour, where something is bought.
    pub price: Option<Money>,
    /// What it costs in all, in GPU-time.
    pub cost: Span,
}

/// Something that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteRow {
    pub severity: &'static str,
    pub rule: &'static str,
    /// Which action, counted from 1.
    pub action: Option<u32>,
    pub what: String,
}

impl Span {
    fn cell(&self) -> Cell {
        Cell::new(&self.shown, self.exact.seconds().get())
    }
}

/// The table of those who get a place. `explain` adds what was weighed.
pub fn placed(rows: &[PlacedRow], explain: bool) -> Table {
    let mut columns = vec![
        Column::left("job", "job").wrap(16),
        Column::left("tenant", "tenant").wrap(10).priority(2),
        Column::left("action", "action").priority(3),
        Column::right("workers", "workers").priority(1),
        Column::right("gpus", "GPUs"),
        Column::left("place", "where: GPUs by number").wrap(20),
    ];
    if explain {
        columns.push(Column::right("candidates", "nodes that fit").priority(1));
        columns.push(Column::left("weighed", "weighed").wrap(16));
    }
    let mut table = Table::new(columns).when_empty("Nobody is placed.");
    for row in rows {
        let mut cells = vec![
            Cell::text(row.job.clone()),
            Cell::text(row.tenant.clone()),
            Cell::text(row.action),
            Cell::count(u64::from(row.workers)),
            gpus(row.gpus_milli),
            Cell::text(row.place.clone()),
        ];
        if explain {
            cells.push(Cell::count(u64::from(row.candidates)));
            let each = row.weighed.iter();
            let each: Vec<String> = each
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            cells.push(Cell::text(each.join(", ")));
        }
        table.push(cells);
    }
    table
}

/// Nodes that could be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdditionRow {
    pub what: String,
    pub gpus: u64,
    /// What they cost an hour, where that is known.
    pub price: Option<Money>,
    /// Jobs that find a place then.
    pub placed: u64,
    /// Jobs that still wait then.
    pub left: u64,
    /// Whether no cheaper nodes do as much.
    pub cheapest: bool,
}

/// The table of what could be added.
pub fn additions(rows: &[AdditionRow]) -> Table {
    let mut table = Table::new(vec![
        Column::left("add", "add").wrap(24),
        Column::right("gpus", "GPUs"),
        Column::right("price_per_hour", "price/h"),
        Column::right("placed", "more placed"),
        Column::right("left", "still wait"),
        Column::raw("cheapest"),
    ])
    .when_empty("Nothing need be added.");
    for row in rows {
        table.push(vec![
            Cell::text(row.what.clone()),
            Cell::count(row.gpus),
            Cell::of(row.price, |price| Cell::text(price.to_string())),
            Cell::count(row.placed),
            Cell::count(row.left),
            Cell::new(if row.cheapest { "yes" } else { "no" }, row.cheapest),
        ]);
    }
    if rows.iter().any(|row| row.price.is_none()) {
        table.footnote(
            "–: the fleet file names no price of these GPUs; fewer GPUs count as cheaper.",
        );
    }
    if rows.iter().any(|row| !row.cheapest) {
        table.footnote("The last line need not be the cheapest: too many sets of nodes were possible to try all.");
    }
    table
}

pub fn gpus(milli: u64) -> Cell {
    Cell::new(gpus_text(milli), milli as f64 / 1000.0)
}

/// GPUs from thousandths, as people read them.
pub fn gpus_text(milli: u64) -> String {
    if milli.is_multiple_of(1000) {
        return (milli / 1000).to_string();
    }
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    text.trim_end_matches('0').to_owned()
}

/// The table of those who wait, with the cheapest fix of each.
pub fn waiting(rows: &[WaitingRow]) -> Table {
    let mut table = Table::new(vec![
        Column::left("job", "job").wrap(12),
        Column::left("tenant", "tenant").wrap(10).priority(1),
        Column::left("why", "waits because").wrap(24),
        Column::right("start_seconds", "starts in").priority(3),
        Column::left("fix", "cheapest fix").wrap(20).priority(4),
    ])
    .when_empty("Nobody waits.");
    for row in rows {
        let fix = match &row.fixes {
            None => Cell::missing(),
            Some(fixes) => fixes.first().map_or_else(
                || Cell::text("none found"),
                |fix| Cell::text(fix.what.clone()),
            ),
        };
        table.push(vec![
            Cell::text(row.job.clone()),
            Cell::text(row.tenant.clone()),
            Cell::text(row.why.clone()),
            Cell::of(row.start.as_ref(), Span::cell),
            fix,
        ]);
    }
    if rows.iter().any(|row| row.start.is_none()) {
        table.footnote("–: cannot be told, or was not looked for (--why JOB looks).");
    }
    if rows.len() > 1 && rows.iter().any(|row| row.start.is_some()) {
        table.footnote("Times and fixes hold for each job alone: others that wait may take what becomes free first.");
    }
    table
}

/// The table of what would help one job.
pub fn fixes(rows: &[FixRow]) -> Table {
    let mut table = Table::new(vec![
        Column::left("fix", "what would help").wrap(24),
        Column::right("after_seconds", "starts in"),
        Column::right("lost_gpu_seconds", "GPU time lost").priority(2),
        Column::right("price_per_hour", "price/h").priority(1),
        Column::right("cost_gpu_seconds", "cost in GPU time"),
    ])
    .when_empty("Nothing that was tried would help.");
    for row in rows {
        table.push(vec![
            Cell::text(row.what.clone()),
            row.after.cell(),
            row.lost.cell(),
            Cell::of(row.price, |price| Cell::text(price.to_string())),
            row.cost.cell(),
        ]);
    }
    table
}

/// Every decision in one table: a row for each job that gets a place, and for each that waits one for
/// every fix, cheapest first, or one where there is none.
pub fn decisions(start: &[PlacedRow], wait: &[WaitingRow]) -> Table {
    let mut table = placed(start, true);
    let own = table.columns().len();
    table.widen(vec![
        Column::raw("why"),
        Column::raw("start_seconds"),
        Column::raw("fix"),
        Column::raw("fix_after_seconds"),
        Column::raw("fix_lost_gpu_seconds"),
        Column::raw("fix_price_per_hour"),
        Column::raw("fix_cost_gpu_seconds"),
    ]);
    for row in wait {
        let fixes = row.fixes.as_deref().unwrap_or_default();
        let mut push = |fix: Option<&FixRow>| {
            let mut cells = vec![
                Cell::text(row.job.clone()),
                Cell::text(row.tenant.clone()),
                Cell::text("wait"),
            ];
            cells.resize_with(own, Cell::missing);
            cells.extend([
                Cell::text(row.why.clone()),
                Cell::of(row.start.as_ref(), Span::cell),
                Cell::of(fix, |fix| Cell::text(fix.what.clone())),
                Cell::of(fix, |fix| fix.after.cell()),
                Cell::of(fix, |fix| fix.lost.cell()),
                Cell::of(fix.and_then(|fix| fix.price), |price| {
                    Cell::text(price.to_string())
                }),
                Cell::of(fix, |fix| fix.cost.cell()),
            ]);
            table.push(cells);
        };
        if fixes.is_empty() {
            push(None);
        }
        for fix in fixes {
            push(Some(fix));
        }
    }
    table
}

/// Those who wait as a document: with all fixes.
pub fn waiting_json(rows: &[WaitingRow]) -> serde_json::Value {
    let each = |row: &WaitingRow| {
        json!({
            "job": row.job,
            "tenant": row.tenant,
            "why": row.why,
            "start_seconds": row.start.as_ref().map(|start| start.exact.seconds().get()),
            "fixes": row.fixes.as_ref().map(|rows| fixes(rows).to_json()),
        })
    };
    rows.iter().map(each).collect()
}

/// The table of what does not hold.
pub fn notes(rows: &[NoteRow]) -> Table {
    let mut table = Table::new(vec![
        Column::right("action", "action"),
        Column::left("severity", "severity"),
        Column::left("rule", "rule"),
        Column::left("what", "what does not hold").wrap(30),
    ])
    .when_empty("The plan holds together.");
    for row in rows {
        table.push(vec![
            Cell::of(row.action, |action| Cell::count(u64::from(action))),
            Cell::text(row.severity),
            Cell::text(row.rule),
            Cell::text(row.what.clone()),
        ]);
    }
    table
}

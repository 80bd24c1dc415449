//! The table that is redrawn, and the line of every interval.

use super::{Context, document::document};
use crate::settings::Format;
use gpuwise_domain::{
    profile::finding::{Finding, Gain},
    telemetry::Quantity,
};
use gpuwise_measure::telemetry::{Change, Changes, Row, State, finding_weight};
use gpuwise_units::significant;
use gpuwise_view::{
    Style,
    table::{Cell, Column, Table},
};
use serde_json::json;
use std::{collections::BTreeSet, fmt::Write as _};

pub(super) struct View<'a> {
    pub(super) state: &'a State,
    pub(super) changes: &'a Changes,
    pub(super) changed: &'a [Change],
    pub(super) also: &'a [(String, f64)],
    pub(super) now: f64,
    pub(super) live: bool,
    pub(super) last: bool,
    pub(super) recorded: bool,
    pub(super) top: usize,
    pub(super) failing: usize,
}

pub(super) fn show(view: &View<'_>, context: &Context) -> anyhow::Result<()> {
    match context.form.format {
        Format::Json => context.json_line(&document(view)),
        Format::Csv | Format::Md => {
            if view.last {
                context.table(&table(view).0)?;
            }
            Ok(())
        }
        Format::Table if view.live || view.last => {
            let (table, others) = table(view);
            let mut text = String::new();
            if view.live {
                // Home, and clear what is below: no flicker, and nothing else of the screen is lost.
                text += "\u{1b}[H\u{1b}[J";
            }
            text += &headline(view);
            text += "\n\n";
            text += &table.to_text(context.form.style);
            if others > 0 {
                let _ = writeln!(text, "{others} more rows (--top {})", view.top + others);
            }
            text += &serving(view, context);
            text += &below(view, context.form.style);
            context.data(&text)
        }
        Format::Table => {
            let mut text = headline(view);
            text.push('\n');
            for change in view.changed {
                text += &changed(change);
            }
            context.data(&text)
        }
    }
}

/// Hours, minutes and seconds in UTC.
fn hms(at: f64) -> String {
    let day = at.rem_euclid(86_400.0) as u64;
    format!("{:02}:{:02}:{:02}Z", day / 3600, day % 3600 / 60, day % 60)
}

/// What stands first: how many, how busy, how full, what is wrong.
fn headline(view: &View<'_>) -> String {
    let rows: Vec<&Row> = shown(view.state).collect();
    let sum = |quantity: Quantity| {
        let values: Vec<f64> = rows.iter().filter_map(|row| row.last(quantity)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>())
    };
    let busy: Vec<f64> = rows.iter().filter_map(|row| busy(row)).collect();
    let mut parts = Vec::new();
    if !view.recorded {
        parts.push(hms(view.now));
    }
    let slices = rows
        .iter()
        .filter(|row| row.subject.instance.is_some())
        .count();
    let gpus = rows.len() - slices;
    parts.push(match slices {
        0 => format!("{gpus} GPUs"),
        slices => format!("{gpus} GPUs, {slices} slices"),
    });
    parts.push(if busy.is_empty() {
        "use –".into()
    } else {
        format!(
            "use {} %",
            significant(100.0 * busy.iter().sum::<f64>() / busy.len() as f64, 2)
        )
    });
    if let Some(used) = sum(Quantity::MemoryUsed) {
        parts.push(format!(
            "memory {} GiB",
            significant(used / 1073741824.0, 3)
        ));
    }
    if let Some(watts) = power_sum(&rows) {
        parts.push(format!("{} W", significant(watts, 3)));
    }
    for (name, value) in view.also {
        parts.push(format!("{name} {}", significant(*value, 3)));
    }
    let found = view.changes.holding().count();
    parts.push(match found {
        0 => "nothing found".into(),
        1 => "1 finding".into(),
        found => format!("{found} findings"),
    });
    let wrong = view.state.anomalies;
    for (count, what) in [
        (wrong.late, "late"),
        (wrong.duplicate, "contradicting"),
        (wrong.not_a_number, "unusable"),
        (wrong.reset, "after a restart"),
    ] {
        if count > 0 {
            parts.push(format!("{count} samples {what}"));
        }
    }
    if view.failing > 0 {
        parts.push(format!("{} sources do not answer", view.failing));
    }
    parts.join("  ")
}

fn power_sum(rows: &[&Row]) -> Option<f64> {
    let values: Vec<f64> = rows.iter().filter_map(|row| power(row)).collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

fn power(row: &Row) -> Option<f64> {
    [
        Quantity::PowerDraw,
        Quantity::PowerInstant,
        Quantity::PowerAverage,
    ]
    .into_iter()
    .find_map(|quantity| row.last(quantity))
}

/// How busy it is by the best figure there is.
fn busy(row: &Row) -> Option<f64> {
    [Quantity::EngineActive, Quantity::GpuUtil]
        .into_iter()
        .find_map(|quantity| row.last(quantity))
}

/// Rows of tables: processes stand in the column of holders.
fn shown(state: &State) -> impl Iterator<Item = &Row> {
    state.rows().iter().filter(|row| !row.is_process())
}

fn name(finding: &Finding) -> &str {
    finding.scope.part.as_deref().unwrap_or("")
}

fn table(view: &View<'_>) -> (Table, usize) {
    let mut table = Table::new(vec![
        Column::left("gpu", "GPU"),
        Column::left("slice", "slice").priority(4),
        Column::left("product", "product").priority(6).wrap(12),
        Column::left("holder", "held by").priority(3).wrap(14),
        Column::right("use", "use").unit("%"),
        Column::right("sm", "SM").unit("%"),
        Column::right("tensor", "tensor").unit("%").priority(2),
        Column::right("dram", "DRAM").unit("%").priority(2),
        Column::right("memory", "memory").unit("GiB"),
        Column::right("of", "of").unit("GiB").priority(5),
        Column::right("power", "power").unit("W").priority(1),
        Column::right("temperature", "°C").priority(5),
        Column::left("clocks", "clocks").priority(1),
    ])
    .when_empty("No GPU is told of.");
    let marked: BTreeSet<&str> = view.changes.holding().map(|(_, one)| name(one)).collect();
    let mut rows: Vec<&Row> = shown(view.state).collect();
    let all = rows.len();
    if all > view.top {
        let key = |row: &Row| {
            let short = row.subject.short();
            let found = marked.iter().any(|part| part.starts_with(short.as_str()));
            (found, busy(row).unwrap_or(-1.0))
        };
        let mut keyed: Vec<((bool, f64), &Row)> = rows.iter().map(|row| (key(row), *row)).collect();
        keyed.sort_by(|(a, _), (b, _)| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
        rows = keyed
            .into_iter()
            .take(view.top)
            .map(|(_, row)| row)
            .collect();
    }
    rows.sort_by(|a, b| {
        let key = |row: &Row| {
            (
                row.subject.gpu.host.clone(),
                row.subject.gpu.index,
                row.subject.instance.clone(),
            )
        };
        key(a).cmp(&key(b))
    });
    let mut reasons = BTreeSet::new();
    for row in &rows {
        table.push(cells(view.state, row, &mut reasons));
    }
    for reason in reasons {
        table.footnote(reason);
    }
    (table, all - rows.len())
}

fn cells(state: &State, row: &Row, reasons: &mut BTreeSet<String>) -> Vec<Cell> {
    let mut share = |quantities: &[Quantity]| {
        let known = quantities.iter().find_map(|quantity| row.last(*quantity));
        if known.is_none() {
            let why = quantities
                .iter()
                .find_map(|quantity| Some((quantity, row.missing(*quantity)?)));
            if let Some((quantity, why)) = why {
                reasons.insert(format!("– {}: {why}.", quantity.name()));
            }
        }
        Cell::of(known, |value| {
            Cell::new(significant(value * 100.0, 2), json!(value))
        })
    };
    let busy = share(&[Quantity::EngineActive, Quantity::GpuUtil]);
    let sm = share(&[Quantity::SmActive]);
    let tensor = share(&[Quantity::TensorActive]);
    let dram = share(&[Quantity::DramActive]);
    let gib = |value: Option<f64>| {
        Cell::of(value, |bytes| {
            Cell::new(significant(bytes / 1073741824.0, 3), json!(bytes))
        })
    };
    let total = row.last(Quantity::MemoryTotal).or_else(|| {
        let used = row.last(Quantity::MemoryUsed)?;
        let free = row.last(Quantity::MemoryFree)?;
        Some(used + free + row.last(Quantity::MemoryReserved).unwrap_or(0.0))
    });
    let plain = |value: Option<f64>| {
        Cell::of(value, |value| {
            Cell::new(significant(value, 3), json!(value))
        })
    };
    let text = |text: Option<String>| Cell::of(text, Cell::text);
    let holder = holder(state, row);
    vec![
        Cell::text(row.subject.short()),
        text(row.subject.instance.as_ref().map(ToString::to_string)),
        text(row.subject.gpu.product.clone()),
        text((!holder.is_empty()).then_some(holder)),
        busy,
        sm,
        tensor,
        dram,
        gib(row.last(Quantity::MemoryUsed)),
        gib(total),
        plain(power(row)),
        plain(row.last(Quantity::Temperature)),
        text(
            row.last(Quantity::ClockReasons)
                .map(|bits| clocks(bits as u64)),
        ),
    ]
}

/// Who has it: the pod or job, else its processes where few rows are watched.
fn holder(state: &State, row: &Row) -> String {
    let known = row.subject.holder.to_string();
    if !known.is_empty() || state.rows().len() > 1000 {
        return known;
    }
    let names: Vec<String> = state
        .processes_of(row)
        .filter_map(|other| other.subject.holder.process.as_ref())
        .map(|process| {
            let short = process
                .name
                .rsplit(['/', '\\'])
                .next()
                .unwrap_or(&process.name);
            format!("{short} ({})", process.pid)
        })
        .collect();
    match names.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

/// Why clocks are down, in words.
fn clocks(bits: u64) -> String {
    let words: Vec<&str> = [
        (0x04, "power cap"),
        (0x08, "slowdown"),
        (0x20, "heat"),
        (0x40, "heat"),
        (0x80, "brake"),
        (0x01, "idle"),
        (0x02, "set"),
        (0x10, "sync"),
    ]
    .into_iter()
    .filter(|(bit, _)| bits & bit != 0)
    .map(|(_, word)| word)
    .collect();
    match words.first() {
        None => "full".into(),
        Some(word) => (*word).to_owned(),
    }
}

/// Engines, a row for each replica.
fn serving(view: &View<'_>, context: &Context) -> String {
    let mut table = Table::new(vec![
        Column::left("engine", "engine"),
        Column::left("model", "model").wrap(16),
        Column::left("replica", "replica").wrap(16).priority(2),
        Column::right("running", "running"),
        Column::right("waiting", "waiting"),
        Column::right("cache", "cache").unit("%"),
        Column::right("hits", "prefix found").unit("%").priority(1),
    ]);
    for ((engine, model, replica), track) in view.state.replicas() {
        let number = |value: Option<f64>| {
            Cell::of(value, |value| {
                Cell::new(significant(value, 3), json!(value))
            })
        };
        let share = |value: Option<f64>| number(value.map(|share| share * 100.0));
        table.push(vec![
            Cell::text(engine.clone()),
            Cell::of(model.clone(), Cell::text),
            Cell::text(replica.clone()),
            number(track.running.last()),
            number(track.waiting.last()),
            share(track.cache_use.last()),
            share(track.hit_rate(f64::MIN, f64::MAX)),
        ]);
    }
    if table.is_empty() {
        return String::new();
    }
    format!("\n{}", table.to_text(context.form.style))
}

/// Findings that hold and those that ended just now.
fn below(view: &View<'_>, style: Style) -> String {
    let mut text = String::new();
    let mut holding: Vec<(f64, &Finding)> = view.changes.holding().collect();
    // What threatens hardware or results first, then what costs most, then the latest.
    holding.sort_by(|a, b| {
        let (one, other) = (finding_weight(a.1), finding_weight(b.1));
        other.total_cmp(&one).then(b.0.total_cmp(&a.0))
    });
    for (began, finding) in holding.iter().take(20) {
        let since = if view.recorded {
            String::new()
        } else {
            format!(" since {}", hms(*began))
        };
        let lead = format!("{} {}{since}: ", name(finding), title(finding));
        let _ = write!(
            text,
            "\n{}\n",
            style.wrap_after(&lead, &finding.statement, 2)
        );
        if let Some(gain) = gain(finding.gain) {
            let _ = writeln!(text, "  gain {gain}");
        }
        for advice in &finding.advice {
            let _ = writeln!(text, "{}", style.wrap_after("  ", advice, 4));
        }
    }
    if holding.len() > 20 {
        let _ = write!(
            text,
            "\n{} more findings (--format json lists all)\n",
            holding.len() - 20
        );
    }
    for change in view.changed.iter().filter(|change| change.ended.is_some()) {
        text += "\n";
        text += &changed(change);
    }
    text
}

fn title(finding: &Finding) -> &str {
    gpuwise_measure::telemetry::DEFINITIONS
        .iter()
        .find(|definition| definition.class == finding.class)
        .map_or(finding.class.as_str(), |definition| definition.title)
}

fn gain(gain: Gain) -> Option<String> {
    let range = |low: f64, high: f64, what: &str| {
        let (low, high) = (significant(low * 100.0, 2), significant(high * 100.0, 2));
        if low == high {
            format!("{high} % of {what}")
        } else {
            format!("{low}–{high} % of {what}")
        }
    };
    match gain {
        Gain::Time { low, high } => Some(range(low, high, "the time")),
        Gain::Device { low, high } => Some(range(low, high, "the GPU")),
        Gain::Memory { .. } | Gain::Safety | Gain::Unknown => None,
    }
}

fn changed(change: &Change) -> String {
    let finding = &change.finding;
    match change.ended {
        None => format!(
            "began  {}  {}: {}\n",
            name(finding),
            title(finding),
            finding.statement
        ),
        Some(at) => format!(
            "ended  {}  {} at {}\n",
            name(finding),
            title(finding),
            hms(at)
        ),
    }
}

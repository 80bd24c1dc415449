//! Load against latency as a sentence and a table.

use super::words;
use crate::{
    figures::{TimeUnit, number, percent},
    plan::words::percentile,
    style::State,
    table::{Cell, Column, Table},
};
use gpuwise_domain::run::{Ladder, Rung};
use std::fmt::Write as _;

/// One sentence that answers: up to which load the SLO is kept, and what limits it beyond.
pub fn ladder_answer(ladder: &Ladder) -> String {
    let unit = ladder.unit.name();
    let Some(knee) = &ladder.knee else {
        let judged = ladder.rungs.iter().any(|rung| rung.kept.is_some());
        let least = ladder.rungs.first().map(|rung| number(rung.load));
        return match (judged, least) {
            (true, Some(load)) if ladder.rungs.iter().all(|rung| rung.kept == Some(false)) => {
                format!(
                    "{} The SLO is missed at every load, from {load} {unit} up.",
                    State::Bad.mark()
                )
            }
            (true, _) => format!(
                "{} The SLO is kept at every load that was tried, up to {} {unit}.",
                State::Good.mark(),
                number(
                    ladder
                        .rungs
                        .iter()
                        .map(|rung| rung.load)
                        .fold(0.0, f64::max)
                )
            ),
            (false, _) => format!("{} loads; no latency SLO.", ladder.rungs.len()),
        };
    };
    let mut beside = Vec::new();
    if knee.high - knee.low > knee.load * 1e-3 {
        beside.push(format!("{}–{}", number(knee.low), number(knee.high)));
    }
    let nominal = knee.nominal.map(number);
    beside.extend(
        nominal
            .filter(|nominal| *nominal != number(knee.load))
            .map(|nominal| format!("nominal {nominal}")),
    );
    let range = if beside.is_empty() {
        String::new()
    } else {
        format!(" ({})", beside.join(", "))
    };
    let mut out = match ladder.expected {
        Some(expected) if expected > knee.load => format!(
            "{} The SLO breaks before the expected {} {unit}: it is kept up to {}{range}",
            State::Bad.mark(),
            number(expected),
            number(knee.load)
        ),
        Some(expected) if expected > 0.0 => format!(
            "{} The SLO is kept up to {} {unit}{range}, {} × the expected {}",
            State::Good.mark(),
            number(knee.load),
            number(knee.load / expected),
            number(expected)
        ),
        _ => format!("The SLO is kept up to {} {unit}{range}", number(knee.load)),
    };
    if !knee.limited_by.is_empty() {
        let _ = write!(out, "; limited by: {}", knee.limited_by);
    }
    if knee.seeds > 1 {
        let _ = write!(out, " ({} seeds)", knee.seeds);
    }
    out + "."
}

/// The loads, a row each.
pub fn ladder(ladder: &Ladder) -> Table {
    let unit = |pick: fn(&Rung) -> Option<f64>| {
        words::unit(
            ladder
                .rungs
                .iter()
                .filter_map(pick)
                .filter(|value| value.is_finite()),
        )
    };
    let (ttft, tpot, whole) = (
        unit(|rung| rung.ttft),
        unit(|rung| rung.tpot),
        unit(|rung| rung.end_to_end),
    );
    let at = |name: &str, at| format!("{name} {}", percentile(at));
    let named = ladder.rungs.iter().any(|rung| rung.name.is_some());
    let mut columns = vec![
        Column::right("load", "load").unit(ladder.unit.name()),
        Column::raw("delivered"),
        Column::right("ttft_seconds", at("TTFT", ladder.ttft_at)).unit(ttft.symbol()),
        Column::right("tpot_seconds", at("TPOT", ladder.tpot_at)).unit(tpot.symbol()),
        Column::right("end_to_end_seconds", at("end to end", ladder.end_to_end_at))
            .unit(whole.symbol())
            .priority(60),
        Column::right("output_tokens", "output")
            .unit("tokens/s")
            .priority(80),
        Column::right("goodput", "goodput").unit("requests/s"),
        Column::right("concurrent", "concurrent").priority(50),
        Column::right("unserved", "unserved").priority(90),
        Column::left("kept", "SLO"),
    ];
    if named {
        columns.insert(0, Column::left("name", "run").wrap(14));
    }
    let mut table = Table::new(columns).when_empty("No load was tried.");
    if ladder.rungs.iter().any(|rung| drawn(rung).is_some()) {
        table.footnote("Load: nominal, in brackets as it was delivered in the steady window.");
    }
    for rung in &ladder.rungs {
        let time = |value: Option<f64>, unit: TimeUnit| {
            Cell::of(value, |value| {
                Cell::new(number(value * unit.per_second()), value)
            })
        };
        let mut row = vec![
            Cell::new(load(rung), rung.load),
            Cell::of(rung.delivered, Cell::number),
            time(rung.ttft, ttft),
            time(rung.tpot, tpot),
            time(rung.end_to_end, whole),
            Cell::of(rung.output_tokens, Cell::number),
            Cell::of(rung.goodput, Cell::number),
            Cell::of(rung.concurrent, Cell::number),
            Cell::new(percent(rung.unserved), rung.unserved),
            Cell::text(state(rung)),
        ];
        if named {
            row.insert(0, Cell::text(rung.name.clone().unwrap_or_default()));
        }
        table.push(row);
    }
    table
}

/// `3 (3.04)`: the nominal load, and what was delivered where that differs.
fn load(rung: &Rung) -> String {
    match drawn(rung) {
        Some(delivered) => format!("{} ({delivered})", number(rung.load)),
        None => number(rung.load),
    }
}

fn drawn(rung: &Rung) -> Option<String> {
    let delivered = rung.delivered.map(number)?;
    (delivered != number(rung.load)).then_some(delivered)
}

fn state(rung: &Rung) -> String {
    let kept = match rung.kept {
        Some(true) => format!("{} kept", State::Good.mark()),
        Some(false) => format!("{} missed", State::Bad.mark()),
        None => String::new(),
    };
    match (rung.saturated, kept.is_empty()) {
        (Some(true), true) => format!("{} saturated", State::Warning.mark()),
        (Some(true), false) => format!("{kept}, saturated"),
        _ => kept,
    }
}

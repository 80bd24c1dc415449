//! What a job asks of its host: a table, and the answer in a line.

use crate::{
    figures,
    plan::derivation,
    style::Style,
    table::{Cell, Column, Table},
};
use gpuwise_domain::{
    balance::{Balance, HostSystem, PartBalance, PartUnit},
    estimate::{Derivation, Estimate},
};
use gpuwise_units::significant;
use serde_json::{Value, json as object};

/// Part by part: what must be there, what is, and by how much work takes longer.
pub fn table(balance: &Balance) -> Table {
    let mut table = Table::new(vec![
        Column::left("part", "part"),
        Column::right("needed", "must have"),
        Column::right("has", "has"),
        Column::right("times_as_long", "takes"),
        Column::right("wasted_per_hour", "wasted, /h").priority(1),
        Column::left("why", "why").wrap(24),
    ])
    .when_empty("The job asks nothing of the host around its GPUs.");
    let mut range = false;
    for part in &balance.parts {
        range |= part.needed.low < part.needed.high;
        let longer = if part.has.is_none() {
            Cell::missing()
        } else if part.slower.is_infinite() {
            Cell::new("does not run", Value::Null)
        } else {
            Cell::new(format!("{}×", significant(part.slower, 3)), part.slower)
        };
        table.push(vec![
            Cell::text(part.part.name()),
            Cell::new(ranged(&part.needed, part.unit), part.needed.value),
            Cell::of(part.has, |has| Cell::new(amount(has, part.unit), has)),
            longer,
            Cell::of(part.wasted_per_hour, |money| {
                Cell::new(figures::amount(money), money)
            }),
            Cell::text(part.why.clone()),
        ]);
    }
    let unknown: Vec<&str> = balance
        .unknown()
        .map(gpuwise_domain::balance::Part::name)
        .collect();
    if !unknown.is_empty() {
        table.footnote(format!(
            "–: the host does not say what it has of {}.",
            unknown.join(", ")
        ));
    }
    if range {
        table.footnote(
            "Ranges are the ends of what was seen of each rate; --explain names the sources.",
        );
    }
    table
}

/// What must be there, in one line: `8.64 (5.18–8.71) cores, 18.6 GB of host memory`.
pub fn line(balance: &Balance) -> String {
    listed(&balance.parts)
}

fn listed(parts: &[PartBalance]) -> String {
    let one = |part: &PartBalance| {
        let needed = ranged(&part.needed, part.unit);
        match part.unit {
            PartUnit::Cores => needed,
            PartUnit::Bytes | PartUnit::BytesPerSecond => {
                format!("{needed} of {}", part.part.name())
            }
        }
    };
    parts.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What the host of a plan must have, with a warning where the instance lacks it.
pub fn required(balance: &Balance, style: Style) -> String {
    let each = if balance.work.nodes > 1 { "each " } else { "" };
    let mut out =
        crate::plan::labelled(style, "Host", &format!("{each}must have {}", line(balance)));
    for part in balance.parts.iter().filter(|part| part.short) {
        let has = part
            .has
            .map_or_else(String::new, |has| amount(has, part.unit));
        let longer = if part.slower.is_finite() {
            format!("work takes {} times as long", significant(part.slower, 3))
        } else {
            "it does not run".into()
        };
        let warning = format!("warning: {} has {has}: {longer}", host(&balance.host));
        out += &crate::plan::labelled(style, "", &warning);
    }
    out
}

/// The parts that are short, in one line.
pub(crate) fn shortage(balance: &Balance) -> String {
    let short: Vec<PartBalance> = balance
        .parts
        .iter()
        .filter(|part| part.short)
        .cloned()
        .collect();
    listed(&short)
}

fn host(host: &HostSystem) -> &str {
    if host.name.is_empty() {
        "the host"
    } else {
        &host.name
    }
}

/// Words of an amount: cores, bytes as sellers count them, or bytes a second.
fn amount(value: f64, unit: PartUnit) -> String {
    let scaled = |value: f64| {
        let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
        let found = units.iter().find(|(size, _)| value >= *size);
        found.map_or_else(
            || format!("{} B", significant(value, 2)),
            |(size, name)| format!("{} {name}", significant(value / size, 3)),
        )
    };
    match unit {
        PartUnit::Cores => format!("{} cores", significant(value, 3)),
        PartUnit::Bytes => scaled(value),
        PartUnit::BytesPerSecond => scaled(value) + "/s",
    }
}

fn ranged(needed: &Estimate, unit: PartUnit) -> String {
    let value = amount(needed.value, unit);
    if needed.high <= needed.low * 1.005 {
        return value;
    }
    let Some((number, unit)) = value.split_once(' ') else {
        return value;
    };
    // The ends are said in the unit of the value.
    let scale = needed.value / number.parse::<f64>().unwrap_or(needed.value).max(1e-300);
    let end = |end: f64| significant(end / scale, 3);
    format!("{number} ({}–{}) {unit}", end(needed.low), end(needed.high))
}

/// Everything, for programs.
pub fn json(balance: &Balance) -> Value {
    let part = |part: &PartBalance| {
        object!({
            "part": part.part.name(),
            "needed": part.needed.value,
            "needed_low": part.needed.low,
            "needed_high": part.needed.high,
            "unit": unit(part.unit),
            "has": part.has,
            "times_as_long": part.slower.is_finite().then_some(part.slower),
            "runs": part.slower.is_finite(),
            "short": part.short,
            "wasted_per_hour": part.wasted_per_hour,
            "why": part.why,
            "derivation": derivation(&part.derivation),
        })
    };
    object!({
        "job": balance.work.name,
        "host": balance.host.name,
        "seconds_of_a_step": balance.work.seconds,
        "times_as_long": balance.slower.is_finite().then_some(balance.slower),
        "cause": balance.cause().map(|part| part.part.name()),
        "parts": balance.parts.iter().map(part).collect::<Vec<_>>(),
        "start_seconds": balance.start.map(|(seconds, _)| seconds),
        "notes": balance.notes,
    })
}

const fn unit(unit: PartUnit) -> &'static str {
    match unit {
        PartUnit::Cores => "cores",
        PartUnit::Bytes => "bytes",
        PartUnit::BytesPerSecond => "bytes/s",
    }
}

/// The tree of each part.
pub fn derivations(balance: &Balance) -> Vec<Derivation> {
    balance
        .parts
        .iter()
        .map(|part| part.derivation.clone())
        .collect()
}

/// The answer in a sentence.
pub fn answer(balance: &Balance) -> String {
    match balance.cause() {
        Some(part) if part.slower.is_finite() => format!(
            "the GPUs are starved of {}: work takes {} times as long as it needs to",
            part.part.name(),
            significant(balance.slower, 3)
        ),
        Some(part) => format!(
            "there is too little {}: the job does not run",
            part.part.name()
        ),
        None if balance.unknown().next().is_some() => {
            "nothing that the host says starves the GPUs".into()
        }
        None => "nothing starves the GPUs".into(),
    }
}

/// A job of which only the balance is asked, as terminal text.
pub fn text(balance: &Balance, style: Style) -> String {
    let mut out = crate::plan::labelled(style, "Answer", &answer(balance));
    let work = &balance.work;
    let job = format!(
        "{}, {} GPUs a node, {} {}",
        work.name,
        work.gpus,
        work.nodes,
        if work.nodes == 1 { "node" } else { "nodes" }
    );
    out += &crate::plan::labelled(style, "Job", &job);
    out.push('\n');
    out += &table(balance).to_text(style);
    for note in &balance.notes {
        out += &(style.wrap(&format!("note: {note}"), 6) + "\n");
    }
    out
}

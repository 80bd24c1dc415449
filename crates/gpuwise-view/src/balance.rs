//! What a job asks of its host: a table, and the answer in a line.

use crate::{
    record::{self, Shown},
    style::Style,
    table::Table,
};
use gpuwise_domain::{
    balance::{Balance, HostSystem, PartBalance, PartUnit},
    estimate::{Derivation, Estimate},
    price::Price,
};
use gpuwise_units::significant;

/// Part by part: what must be there, what is, and by how much work takes longer.
pub fn table(balance: &Balance) -> Table {
    let mut table = record::table(&balance.parts)
        .when_empty("The job asks nothing of the host around its GPUs.");
    let range = |part: &PartBalance| part.needed.low < part.needed.high;
    let range = balance.parts.iter().any(range);
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

crate::record!(Balance, "HostBalance", |of| {
    of.field("job", |b| &b.work.name);
    of.field("host", |b| &b.host.name);
    of.field("seconds_of_a_step", |b| b.work.seconds);
    of.field("times_as_long", |b| finite(b.slower));
    of.field("cause", |b| b.cause().map(|part| part.part.name()));
    of.list("parts", |b| &b.parts);
    of.field("start_seconds", |b| b.start.as_ref().map(|start| start.0));
    of.field("notes", |b| &b.notes);
});

crate::record!(PartBalance, "HostPart", |of| {
    let noun = of.noun();
    let said = |say: fn(&Self) -> String| noun.map(say).unwrap_or_default();
    of.field("part", |p| p.part.name()).title("part");
    of.field("needed", |p| p.needed)
        .title("must have")
        .said(said(|p| ranged(&p.needed, p.unit)));
    of.field("unit", |p| unit(p.unit));
    of.field("has", |p| p.has)
        .title("has")
        .said(said(|p| amount(p.has.unwrap_or_default(), p.unit)));
    of.field("times_as_long", |p| finite(p.slower))
        .title("takes")
        .seen(noun.map(longer));
    of.field("runs", |p| p.slower.is_finite());
    of.field("short", |p| p.short);
    of.field("wasted_per_hour", |p| p.wasted_per_hour.map(Price::hourly))
        .title("wasted, /h")
        .priority(1);
    of.field("why", |p| &p.why).title("why").wrap(24);
    of.part("derivation", |p| &p.derivation);
});

/// How much longer it takes, where the host says what it has.
fn longer(part: &PartBalance) -> Shown {
    match (part.has, finite(part.slower)) {
        (None, _) => Shown::Missing,
        (_, Some(longer)) => format!("{}×", significant(longer, 3)).into(),
        (_, None) => "does not run".into(),
    }
}

fn finite(factor: f64) -> Option<f64> {
    factor.is_finite().then_some(factor)
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

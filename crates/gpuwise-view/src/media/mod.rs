//! A plan for a diffusion, vision or embedding model: first screen, Markdown, CSV, JSON.

mod json;

pub use json::json;

use crate::{
    figures::{
        TimeUnit, amount, bytes, count, currency_sign, number, percent, ranged_in, ranged_seconds,
        ranged_unit, seconds,
    },
    markup::escape_markdown,
    plan::{labelled, words},
    style::Style,
    table::{Cell, Column, Table},
};
use gpuwise_domain::{
    estimate::Basis,
    media::{MediaDeployment, MediaSizing},
};
use gpuwise_units::Bytes;
use std::fmt::Write as _;

/// GPUs that are not there, named on the first screen.
const DROPPED: usize = 4;

/// The first screen: the question as understood, ranked deployments, what limits the best, and why
/// others are not there.
pub fn text(sizing: &MediaSizing, style: Style) -> String {
    let mut out = String::new();
    for (label, line) in question(sizing) {
        out += &labelled(style, label, &line);
    }
    out.push('\n');
    if let Some(best) = sizing.deployments.first() {
        out += &deployments(sizing).to_text(style);
        out.push('\n');
        for (label, line) in about_best(sizing, best) {
            out += &labelled(style, label, &line);
        }
    } else {
        let nearest = sizing.dropped.first().map_or_else(String::new, |dropped| {
            format!(" The nearest is {}: {}.", dropped.gpu, dropped.reason)
        });
        out += &style.wrap(&format!("Nothing keeps the SLO.{nearest}"), 2);
        out.push('\n');
    }
    let hidden = sizing.dropped.len().saturating_sub(DROPPED);
    for (at, dropped) in sizing.dropped.iter().take(DROPPED).enumerate() {
        let label = if at == 0 { "Others" } else { "" };
        let line = format!("{}: {}", dropped.gpu, dropped.reason);
        out += &labelled(style, label, &line);
    }
    if hidden > 0 {
        let line = format!("{hidden} more: --why-not GPU, or --format md");
        out += &labelled(style, "", &line);
    }
    out
}

/// The plan as Markdown with every table.
pub fn markdown(sizing: &MediaSizing) -> String {
    let mut out = format!("# Running {}\n\n", escape_markdown(&sizing.name));
    let list = |out: &mut String, pairs: &[(&str, String)]| {
        for (label, line) in pairs {
            let _ = writeln!(out, "- **{label}**: {}", escape_markdown(line));
        }
        out.push('\n');
    };
    list(&mut out, &question(sizing));
    if let Some(best) = sizing.deployments.first() {
        let _ = write!(
            out,
            "## Deployments\n\n{}\n",
            deployments(sizing).to_markdown()
        );
        out.push_str("## The best one\n\n");
        list(&mut out, &about_best(sizing, best));
    } else {
        out.push_str("## Nothing keeps the SLO\n\n");
    }
    let _ = write!(out, "## Parts\n\n{}\n", parts(sizing).to_markdown());
    if !sizing.dropped.is_empty() {
        let _ = write!(out, "## Rejected\n\n{}\n", dropped(sizing).to_markdown());
    }
    if !sizing.notes.is_empty() {
        out.push_str("## Assumed\n\n");
        for note in &sizing.notes {
            let _ = writeln!(out, "- {}", escape_markdown(note));
        }
    }
    out.trim_end().to_string() + "\n"
}

/// The ranked deployments as CSV; where there are none, what was dropped and why.
pub fn csv(sizing: &MediaSizing) -> String {
    if sizing.deployments.is_empty() {
        dropped(sizing).to_csv()
    } else {
        deployments(sizing).to_csv()
    }
}

/// Why a GPU is not among the deployments, or that it is.
pub fn why_not(sizing: &MediaSizing, gpu: &str, style: Style) -> String {
    let found = sizing.dropped.iter().find(|dropped| dropped.gpu == gpu);
    let shown = sizing.deployments.iter().any(|one| one.gpu == gpu);
    let line = match found {
        Some(dropped) => format!("{gpu}: {}.", dropped.reason),
        None if shown => format!("{gpu} is among the deployments."),
        None => format!("{gpu} was left out by the limits."),
    };
    style.wrap(&line, 2) + "\n"
}

fn question(sizing: &MediaSizing) -> Vec<(&'static str, String)> {
    let parameters: u64 = sizing.parts.iter().map(|part| part.1).sum();
    let flops: f64 = sizing.parts.iter().map(|part| part.2).sum();
    let task = if sizing.task.is_empty() {
        String::new()
    } else {
        format!(", {}", sizing.task)
    };
    let promise = match &sizing.latency {
        Some(target) => format!(
            "{} from request to result at most {}",
            words::percentile(target.percentile),
            seconds(target.at_most.get())
        ),
        None => "none; planned for a queue that stays short".into(),
    };
    vec![
        (
            "Network",
            format!(
                "{}{task}: {} parameters in {}",
                sizing.name,
                billions(parameters),
                match sizing.parts.len() {
                    1 => "1 part".to_string(),
                    many => format!("{many} parts"),
                }
            ),
        ),
        (
            "Input",
            format!("{}: {} TFLOP", sizing.input, number(flops / 1e12)),
        ),
        ("Rate", rate(sizing)),
        (
            "SLO",
            format!("{promise}; ranked by {}", sizing.objective.name()),
        ),
    ]
}

fn billions(parameters: u64) -> String {
    if parameters >= 1_000_000_000 {
        format!("{} G", number(parameters as f64 / 1e9))
    } else {
        format!("{} M", number(parameters as f64 / 1e6))
    }
}

fn rate(sizing: &MediaSizing) -> String {
    if sizing.unit == gpuwise_domain::media::MediaUnit::AudioHours {
        return format!("{} × real time (RTFx)", number(sizing.rate * 3600.0));
    }
    format!("{} {} a second", number(sizing.rate), sizing.unit.plural())
}

/// Ranked deployments.
pub fn deployments(sizing: &MediaSizing) -> Table {
    let list = &sizing.deployments;
    let currency = currency(list);
    let unit = TimeUnit::of(list.iter().map(|one| one.latency.value));
    let at = sizing.latency.as_ref().map_or_else(
        || "p95".to_string(),
        |target| words::percentile(target.percentile),
    );
    let mut table = Table::new(columns(sizing, currency.as_deref(), unit, &at))
        .when_empty("Nothing keeps the SLO.");
    for (index, one) in list.iter().enumerate() {
        table.push(row(sizing, one, index, unit, currency.as_deref()));
    }
    table.footnote("ranges: 80 %, from rows of GPUs that the constants had not seen; load: the rate over what full batches bear");
    let eight = |one: &&MediaDeployment| ["fp8", "int8"].contains(&one.precision.as_str());
    let first = list.first().map(|one| one.precision.as_str());
    if list
        .iter()
        .any(|one| eight(&one) && Some(one.precision.as_str()) != first)
    {
        table.footnote("formats of 8 bits stand last, whatever they cost: what quality they lose in this network is not known here");
    }
    if list.iter().any(|one| one.basis == Basis::Extrapolated) {
        table.footnote("extrapolated: no such generation of hardware, or no such kind of network, was measured");
    }
    table
}

fn columns(sizing: &MediaSizing, currency: Option<&str>, unit: TimeUnit, at: &str) -> Vec<Column> {
    let (_, together) = sizing.unit.priced();
    let mut columns = vec![
        Column::right("rank", "#"),
        Column::left("gpus", "GPUs").wrap(14),
        Column::left("precision", "format"),
        Column::right("batch", "batch").priority(70),
        Column::right("latency_seconds", format!("latency {at}"))
            .unit(unit.symbol())
            .wrap(12),
        Column::right("load", "load").priority(50),
        Column::right("memory_gb", "memory").unit("GB").priority(60),
        Column::right("price_per_hour", "price").unit(words::per(currency, "h")),
        Column::left("provider", "offer").priority(65).wrap(8),
        Column::right("price_per_unit", "each")
            .unit(words::per(currency, together))
            .wrap(8),
    ];
    columns.extend(RAW.iter().map(|key| Column::raw(*key)));
    columns
}

/// Keys of the columns for programs, in the order of [`row`].
const RAW: [&str; 16] = [
    "gpu",
    "slice",
    "replicas",
    "gpus_per_replica",
    "latency_low_seconds",
    "latency_high_seconds",
    "mean_latency_seconds",
    "capacity_per_second",
    "capacity_low_per_second",
    "capacity_high_per_second",
    "power_watts",
    "joules_per_unit",
    "encoders_offloaded",
    "decoder_tiled",
    "basis",
    "bottleneck",
];

fn row(
    _sizing: &MediaSizing,
    one: &MediaDeployment,
    index: usize,
    unit: TimeUnit,
    currency: Option<&str>,
) -> Vec<Cell> {
    let held: u64 = one.memory.iter().map(|(_, bytes)| bytes.count()).sum();
    let gb = held as f64 / 1e9;
    let money = |value: f64, code: &str| {
        let sign = if currency.is_none() {
            currency_sign(code)
        } else {
            String::new()
        };
        Cell::new(format!("{sign}{}", amount(value)), value)
    };
    let rental = one.rental.as_ref();
    let text = |text: &str| Cell::text(text);
    vec![
        Cell::count(index as u64 + 1),
        Cell::text(devices(one)),
        text(&one.precision),
        Cell::new(number(one.most_batch), one.most_batch),
        Cell::new(ranged_in(&one.latency, unit), one.latency.value),
        Cell::new(percent(one.load), one.load),
        Cell::new(format!("{gb:.1}"), gb),
        Cell::of(one.per_hour, |price| {
            money(price.0.as_f64(), price.0.currency.code())
        }),
        Cell::of(rental, |rental| text(rental.provider.name())),
        Cell::of(one.per_unit, |price| {
            money(price.as_f64(), price.currency.code())
        }),
        text(&one.gpu),
        Cell::of(one.slice.as_ref(), |slice| text(slice)),
        Cell::count(u64::from(one.replicas)),
        Cell::count(u64::from(one.shards)),
        Cell::number(one.latency.low),
        Cell::number(one.latency.high),
        Cell::number(one.mean_latency.value),
        Cell::number(one.capacity.value),
        Cell::number(one.capacity.low),
        Cell::number(one.capacity.high),
        Cell::of(one.power, |power| Cell::number(power.value)),
        Cell::of(one.joules_per_unit, |joules| Cell::number(joules.value)),
        Cell::new(yes(one.encoders_offloaded), one.encoders_offloaded),
        Cell::new(yes(one.tiled), one.tiled),
        text(one.basis.name()),
        text(&words::said(one.bottleneck.as_ref())),
    ]
}

const fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

fn devices(one: &MediaDeployment) -> String {
    match &one.slice {
        Some(slice) => format!("{} × {} {slice}", one.devices(), one.gpu),
        None => format!("{} × {}", one.devices(), one.gpu),
    }
}

/// The currency of the priced deployments, if it is one.
fn currency(deployments: &[MediaDeployment]) -> Option<String> {
    let mut codes = deployments
        .iter()
        .filter_map(|one| one.per_hour)
        .map(|price| price.0.currency.code().to_string());
    let first = codes.next()?;
    codes.all(|code| code == first).then_some(first)
}

fn about_best(sizing: &MediaSizing, best: &MediaDeployment) -> Vec<(&'static str, String)> {
    let limit = words::said(best.bottleneck.as_ref());
    let mut lines = vec![("Limit", format!("1 is limited by {limit}"))];
    let bears = if sizing.unit == gpuwise_domain::media::MediaUnit::AudioHours {
        ranged_unit(&best.capacity.scaled(3600.0), "× real time (RTFx)")
    } else {
        ranged_unit(
            &best.capacity,
            &format!("{} a second", sizing.unit.plural()),
        )
    };
    lines.push((
        "Sustains",
        format!(
            "{bears} as full batches; under this load batches of {}, {} in the mean",
            number(best.batch),
            ranged_seconds(&best.mean_latency)
        ),
    ));
    lines.push(("Memory", memory(best)));
    if let (Some(power), Some(joules)) = (best.power, best.joules_per_unit) {
        let (together, name) = sizing.unit.priced();
        let each = joules.value * f64::from(together) / 3600.0;
        lines.push((
            "Energy",
            format!(
                "{} of all GPUs, {} Wh for {}",
                ranged_unit(&power, "W"),
                number(each),
                article(name)
            ),
        ));
    }
    let place = best.rental.as_ref().map_or_else(
        || "no offer in the price list has this GPU".into(),
        words::rental,
    );
    lines.push(("Offer", place));
    lines
}

fn article(name: &str) -> String {
    match name.chars().next() {
        Some(first) if first.is_ascii_digit() => name.into(),
        Some('a' | 'e' | 'i' | 'o' | 'u' | 'h') => format!("an {name}"),
        _ => format!("a {name}"),
    }
}

fn memory(best: &MediaDeployment) -> String {
    let held: u64 = best.memory.iter().map(|(_, bytes)| bytes.count()).sum();
    let mut causes: Vec<(String, Bytes)> = best
        .memory
        .iter()
        .map(|(cause, held)| (cause.to_string(), *held))
        .collect();
    causes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let named: Vec<String> = causes
        .iter()
        .take(4)
        .map(|(name, held)| format!("{name} {}", bytes(*held)))
        .collect();
    let mut line = format!(
        "{} of {} usable: {}",
        bytes(Bytes::new(held)),
        bytes(best.usable),
        named.join(", ")
    );
    if best.host_bytes > Bytes::ZERO {
        let _ = write!(
            line,
            "; text encoders ({}) stay in host memory",
            bytes(best.host_bytes)
        );
    }
    if best.tiled {
        line += "; the decoder works in tiles";
    }
    line
}

/// The parts of the network.
pub fn parts(sizing: &MediaSizing) -> Table {
    let mut table = Table::new(vec![
        Column::left("part", "part"),
        Column::right("parameters", "parameters"),
        Column::right("tflop_per_input", "TFLOP an input"),
    ]);
    for (name, parameters, flops) in &sizing.parts {
        table.push(vec![
            Cell::text(name),
            Cell::new(count(*parameters), *parameters),
            Cell::new(number(flops / 1e12), flops / 1e12),
        ]);
    }
    table
}

fn dropped(sizing: &MediaSizing) -> Table {
    let mut table = Table::new(vec![
        Column::left("gpu", "GPU"),
        Column::left("reason", "why not").wrap(20),
    ]);
    for dropped in &sizing.dropped {
        table.push(vec![Cell::text(&dropped.gpu), Cell::text(&dropped.reason)]);
    }
    table
}

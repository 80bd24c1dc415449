//! A plan for a diffusion, vision or embedding model: first screen, Markdown, CSV, JSON.

mod record;

use crate::{
    answer::{self, Document, sentences},
    figures::{amount, bytes, number, percent, ranged_seconds, ranged_unit, seconds},
    html::AnswerPage,
    plan::{beyond_slo, held_to, labelled, words},
    record::{self as rows, Shown},
    rejected,
    style::Style,
    svg,
    table::{Column, Table},
};
use gpuwise_domain::{
    estimate::Basis,
    media::{MediaDeployment, MediaMemory, MediaSizing},
    price::{Per, Price},
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
    if let Some(best) = sizing.ranked.first() {
        out += &deployments(sizing).to_text(style);
        out.push('\n');
        for (label, line) in about_best(sizing, best) {
            out += &labelled(style, label, &line);
        }
    } else {
        let nearest = sizing.dropped.first().map_or_else(String::new, |dropped| {
            format!(" The nearest is {}.", rejected::line(dropped))
        });
        out += &style.wrap(&format!("Nothing keeps the SLO.{nearest}"), 2);
        out.push('\n');
    }
    let hidden = sizing.dropped.len().saturating_sub(DROPPED);
    for (at, dropped) in sizing.dropped.iter().take(DROPPED).enumerate() {
        let label = if at == 0 { "Others" } else { "" };
        let line = rejected::line(dropped);
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
    let mut out = Document::new(&format!("Running {}", sizing.question.name));
    out.list(&question(sizing));
    if let Some(best) = sizing.ranked.first() {
        out.heading("Deployments");
        out.table(&deployments(sizing));
        out.heading("The best one");
        out.list(&about_best(sizing, best));
    } else {
        out.heading("Nothing keeps the SLO");
    }
    out.heading("Parts");
    out.table(&parts(sizing));
    out.finish(sizing, &[])
}

/// The ranked deployments as CSV; where there are none, what was dropped and why.
pub fn csv(sizing: &MediaSizing) -> String {
    answer::csv(sizing)
}

pub fn page(sizing: &MediaSizing, made: &str) -> String {
    let notes = sentences(&sizing.notes);
    let mut page = AnswerPage {
        title: format!("GPUs for {}", sizing.question.name),
        answer: "Nothing keeps the SLO.".into(),
        asked: question(sizing),
        tables: vec![("Parts of the network".into(), parts(sizing))],
        notes: &notes,
        dropped: &sizing.dropped,
        ..AnswerPage::default()
    };
    if let Some(best) = sizing.ranked.first() {
        page.answer = answer_of(sizing, best);
        page.asked.extend(about_best(sizing, best));
        let latency = ranged_seconds(&best.latency);
        let target = sizing.question.latency.as_ref();
        let target = target.map(|target| format!("SLO {}", seconds(target.at_most.get())));
        page.figures
            .push(("latency", latency, target.unwrap_or_default()));
        page.figures
            .push(("load", percent(best.load), String::new()));
        if let Some(hour) = best.per_hour {
            let of = |price: Price| format!("{} {}", amount(price.amount), price.currency);
            let terms = best.rental.as_ref();
            let terms = terms.map(|r| format!("{}{}", r.terms.name(), words::priced(r)));
            page.figures.push((
                "an hour",
                of(Price::hourly(hour)),
                terms.unwrap_or_default(),
            ));
            let month = of(Price::monthly(hour));
            page.figures.push(("a month", month, "730 hours".into()));
        }
        page.tables
            .insert(0, ("Deployments".into(), deployments(sizing)));
        page.derivations = &best.derivations;
        let held: Vec<(String, Bytes)> = causes(&best.memory);
        let drawn = svg::held(&held, best.usable, "memory");
        let caption = format!("Memory of one of {}.", devices(best));
        page.pictures.extend(drawn.map(|drawn| (drawn, caption)));
    }
    page.finish(made)
}

/// One sentence that answers the question.
fn answer_of(sizing: &MediaSizing, best: &MediaDeployment) -> String {
    let target = sizing.question.latency.as_ref();
    let uncertain = target.filter(|_| words::beyond(&best.latency, target));
    let likely = uncertain.map_or_else(String::new, |target| {
        format!(
            ", likely within the SLO: latency {} {}",
            words::percentile(target.percentile),
            words::against(
                &ranged_seconds(&best.latency),
                &seconds(target.at_most.get())
            )
        )
    });
    let unknown_day = best.rental.as_ref().is_some_and(words::of_unknown_day);
    let price = if unknown_day {
        ", at a price of unknown date"
    } else {
        ""
    };
    format!("{} in {}{price}{likely}.", devices(best), best.precision)
}

/// Why a GPU is not among the deployments, or that it is.
pub fn why_not(sizing: &MediaSizing, gpu: &str, style: Style) -> String {
    let found = sizing.dropped.iter().find(|dropped| dropped.gpu == gpu);
    let shown = sizing.ranked.iter().any(|one| one.gpu == gpu);
    let line = match found {
        Some(dropped) => format!("{}.", rejected::line(dropped)),
        None if shown => format!("{gpu} is among the deployments."),
        None => format!("{gpu} was left out by the limits."),
    };
    style.wrap(&line, 2) + "\n"
}

fn question(sizing: &MediaSizing) -> Vec<(&'static str, String)> {
    let parameters: u64 = sizing.question.parts.iter().map(|part| part.1).sum();
    let flops: f64 = sizing.question.parts.iter().map(|part| part.2).sum();
    let task = if sizing.question.task.is_empty() {
        String::new()
    } else {
        format!(", {}", sizing.question.task)
    };
    let slo = match &sizing.question.latency {
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
                sizing.question.name,
                billions(parameters),
                match sizing.question.parts.len() {
                    1 => "1 part".to_string(),
                    many => format!("{many} parts"),
                }
            ),
        ),
        (
            "Input",
            format!("{}: {} TFLOP", sizing.question.input, number(flops / 1e12)),
        ),
        ("Rate", rate(sizing)),
        (
            "SLO",
            format!("{slo}; ranked by {}", sizing.question.objective.name()),
        ),
    ]
}

/// `16.9 G`, `335 M`.
pub fn billions(parameters: u64) -> String {
    if parameters >= 1_000_000_000 {
        format!("{} G", number(parameters as f64 / 1e9))
    } else {
        format!("{} M", number(parameters as f64 / 1e6))
    }
}

fn rate(sizing: &MediaSizing) -> String {
    if sizing.question.unit == gpuwise_domain::media::MediaUnit::AudioHours {
        return format!(
            "{} × real time (RTFx)",
            number(sizing.question.rate * 3600.0)
        );
    }
    format!(
        "{} {} a second",
        number(sizing.question.rate),
        sizing.question.unit.plural()
    )
}

pub fn deployments(sizing: &MediaSizing) -> Table {
    let list = &sizing.ranked;
    let mut table = rows::table(&ranked(sizing)).when_empty("Nothing keeps the SLO.");
    table.footnote("ranges: 80 %, from rows of GPUs that the constants had not seen; load: the rate over what full batches sustain");
    if let Some(marked) = beyond_slo(&table) {
        table.footnote(marked);
    }
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

/// A deployment with its rank, and what it is held against.
struct Ranked<'a> {
    rank: u64,
    one: &'a MediaDeployment,
    sizing: &'a MediaSizing,
}

fn ranked(sizing: &MediaSizing) -> Vec<Ranked<'_>> {
    let one = |(rank, one)| Ranked { rank, one, sizing };
    (1..).zip(&sizing.ranked).map(one).collect()
}

crate::record!(Ranked<'_>, "RankedMediaDeployment", |of| {
    of.field("rank", |r| r.rank).title("#");
    of.inline(|r| r.one);
    let asked = of.noun().map(|r| r.sizing);
    let latency = asked.and_then(|sizing| sizing.question.latency.as_ref());
    let at = latency.map_or_else(
        || "p95".to_owned(),
        |target| words::percentile(target.percentile),
    );
    let together = asked.map_or("", |sizing| sizing.question.unit.priced().1);
    let right = |title: &str| Column::right("", title);
    let left = |title: &str| Column::left("", title);
    of.shown(left("GPUs").wrap(14), |r| devices(r.one).into());
    of.shown(left("format"), |r| r.one.precision.as_str().into());
    of.shown(right("batch").priority(70), |r| {
        number(r.one.most_batch).into()
    });
    of.shown(right(&format!("latency {at}")).wrap(12), |r| {
        held_to(&r.one.latency, r.sizing.question.latency.as_ref())
    });
    of.shown(right("load").priority(50), |r| percent(r.one.load).into());
    of.shown(right("memory").unit("GB").priority(60), |r| {
        let held: u64 = r.one.memory.iter().map(|(_, bytes)| bytes.count()).sum();
        format!("{:.1}", held as f64 / 1e9).into()
    });
    of.shown(right("price").unit("¤/h"), |r| {
        Shown::price(r.one.per_hour.map(Price::hourly).as_ref(), "")
    });
    of.shown(left("offer").priority(65).wrap(8), |r| {
        let rental = r.one.rental.as_ref();
        Shown::maybe(rental.map(|rental| rental.provider.name()))
    });
    of.shown(right("each").unit(format!("¤/{together}")).wrap(8), |r| {
        let each = r.one.per_unit.map(|price| Price::of(price, Per::Unit));
        Shown::price(each.as_ref(), "")
    });
});

fn devices(one: &MediaDeployment) -> String {
    match &one.slice {
        Some(slice) => format!("{} × {} {slice}", one.devices(), one.gpu),
        None => format!("{} × {}", one.devices(), one.gpu),
    }
}

fn about_best(sizing: &MediaSizing, best: &MediaDeployment) -> Vec<(&'static str, String)> {
    let limit = words::said(best.bottleneck.as_ref());
    let mut lines = vec![("Limit", format!("1 is limited by {limit}"))];
    let sustains = if sizing.question.unit == gpuwise_domain::media::MediaUnit::AudioHours {
        ranged_unit(&best.capacity.scaled(3600.0), "× real time (RTFx)")
    } else {
        ranged_unit(
            &best.capacity,
            &format!("{} a second", sizing.question.unit.plural()),
        )
    };
    lines.push((
        "Sustains",
        format!(
            "{sustains} as full batches; under this load batches of {}, {} in the mean",
            number(best.batch),
            ranged_seconds(&best.mean_latency)
        ),
    ));
    let beside = (best.host_bytes, best.tiled);
    lines.push(("Memory", held(&best.memory, best.usable, beside)));
    if let (Some(power), Some(joules)) = (best.power, best.joules_per_unit) {
        let (together, name) = sizing.question.unit.priced();
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

/// What memory holds, the most first.
fn causes(memory: &[(MediaMemory, Bytes)]) -> Vec<(String, Bytes)> {
    let mut causes: Vec<(String, Bytes)> = memory
        .iter()
        .map(|(cause, held)| (cause.to_string(), *held))
        .collect();
    causes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    causes
}

/// What of a GPU's memory is held, by the largest causes, and what is not on it.
pub fn held(
    memory: &[(MediaMemory, Bytes)],
    usable: Bytes,
    (host, tiled): (Bytes, bool),
) -> String {
    let held: u64 = memory.iter().map(|(_, bytes)| bytes.count()).sum();
    let named: Vec<String> = causes(memory)
        .iter()
        .take(4)
        .map(|(name, held)| format!("{name} {}", bytes(*held)))
        .collect();
    let mut line = format!(
        "{} of {} usable: {}",
        bytes(Bytes::new(held)),
        bytes(usable),
        named.join(", ")
    );
    if host > Bytes::ZERO {
        let _ = write!(
            line,
            "; text encoders ({}) stay in host memory",
            bytes(host)
        );
    }
    if tiled {
        line += "; the decoder works in tiles";
    }
    line
}

pub fn parts(sizing: &MediaSizing) -> Table {
    rows::table(&sizing.question.parts)
}

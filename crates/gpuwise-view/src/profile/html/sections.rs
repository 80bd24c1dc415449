//! The parts of the page, in the order in which one asks.

use super::{breakdown, compare, findings, heat, operators, pack::Packed, tables};
use crate::{
    html::{Section, figure},
    markup::escape,
    profile::{Profile, clock::Clock, duration, joined, palette, tracks},
    svg,
    table::{Cell, Column, Table},
};
use gpuwise_domain::profile::{
    figure::{Figure, Value},
    figures::KernelFigures,
};
use std::fmt::Write as _;

/// Figures that are listed one by one, at most.
const FIGURES: usize = 400;
/// Ranks whose memory and steps are drawn, at most.
const PICTURES: usize = 4;

/// All parts of the page.
pub(super) fn all(
    profiles: &[Profile],
    clock: &Clock,
    packed: &Packed,
    kernels: &[KernelFigures],
) -> Vec<Section> {
    let mut out = Vec::new();
    let Some(profile) = profiles.first() else {
        return out;
    };
    let mut add = |id: &'static str, title: &'static str, body: String| {
        if !body.is_empty() {
            out.push(Section { id, title, body });
        }
    };
    let link = |name: &str| packed.names.get(name).copied();
    let other = profiles.get(1);
    if let Some(other) = other {
        add(
            "comparison",
            "Side by side",
            compare::section(profile, other, &link),
        );
    }
    add(
        "findings",
        "What limits it",
        findings::section(profile, clock, 0, ""),
    );
    if let Some(other) = other {
        let body = findings::section(other, clock, profile.timelines.len(), "other-");
        add("other-findings", "What limited the other", body);
    }
    if packed.spans > 0 {
        add("timeline", "Timeline", timeline(packed));
    }
    add(
        "recorded",
        "Recorded beside the trace",
        joined::section(profile),
    );
    add(
        "breakdown",
        "Where the time went",
        breakdown::section(profiles),
    );
    if profile.figures.ranks.len() > 1 {
        add(
            "ranks",
            "Ranks",
            tables::ranks(profile).to_live_html("Ranks", &|_| None),
        );
    }
    add("pace", "Pace by rank", heat::section(profile));
    add(
        "operators",
        "Modules and operators",
        operators::section(profile),
    );
    let mut body = tables::kinds(profile).to_live_html("Kinds of work", &|_| None);
    body += &tables::kernels(profile, kernels).to_live_html("Kernels and copies by name", &link);
    add("kernels", "Kernels", body);
    add("communication", "Communication", communication(profile));
    add(
        "copies",
        "Copies",
        tables::copies(profile).to_live_html("Copies", &|_| None),
    );
    add("memory", "Memory", memory(profile));
    add("steps", "Steps", steps(profile));
    add(
        "figures",
        "All figures",
        all_figures(&profile.summary.figures),
    );
    add("missing", "What is missing", missing(profiles));
    out
}

/// The frame that the script fills; what it says without a script.
fn timeline(packed: &Packed) -> String {
    let mut out = String::from(include_str!("timeline.html"));
    out += "<ul class=\"legend\" aria-label=\"Colours\">";
    for index in [
        0,
        1,
        2,
        palette::COMPUTATION,
        palette::COMMUNICATION,
        palette::COPY,
        palette::OPERATOR,
        palette::CALL,
        palette::RANGE,
    ] {
        let _ = write!(
            out,
            "<li><i class=\"k{index}\"></i>{}</li>",
            palette::colour(index).label
        );
    }
    out += "</ul>\n";
    for note in &packed.notes {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(note));
    }
    out
}

fn communication(profile: &Profile) -> String {
    let any = profile
        .figures
        .ranks
        .iter()
        .any(|rank| rank.whole.classes.communication_count > 0);
    if !any {
        return String::new();
    }
    let mut out = tables::collectives(profile).to_live_html("Collectives by kind", &|_| None);
    if let Some(stragglers) = profile
        .figures
        .stragglers
        .as_ref()
        .filter(|late| !late.collectives.is_empty())
    {
        out += "<h3>Those that were waited for longest</h3>\n";
        out += "<p>The rank with the shortest kernel is the straggler: the others' kernels had waited for it.</p>\n";
        out += &tables::late(stragglers)
            .to_live_html("Collectives that were waited for longest", &|_| None);
        if stragglers.unmatched > 0 {
            let _ = writeln!(
                out,
                "<p class=\"note\">{} collectives could not be matched over the ranks.</p>",
                crate::figures::count(stragglers.unmatched)
            );
        }
    }
    out
}

fn memory(profile: &Profile) -> String {
    let table = tables::memories(profile);
    let mut pictures = String::new();
    for (index, timeline) in profile.timelines.iter().enumerate().take(PICTURES) {
        let figures = profile.figures.ranks.get(index);
        for (number, over) in tracks::memory_pictures(timeline).into_iter().enumerate() {
            let mut over = over;
            over.capacity = figures
                .and_then(|rank| rank.memory.iter().find(|memory| memory.capacity.is_some()))
                .and_then(|memory| memory.capacity);
            if profile.timelines.len() > 1 {
                over.device = format!("{}, {}", profile.rank_label(index), over.device);
            }
            if let Some(picture) = svg::memory_over_time(&over, &format!("memory-{index}-{number}"))
            {
                pictures += &figure(
                    &picture,
                    "By the allocator's events, which begin where profiling began.",
                );
            }
        }
    }
    let mut out = String::new();
    if !pictures.is_empty() {
        let _ = write!(out, "<div class=\"pictures\">\n{pictures}</div>\n");
    }
    if !table.is_empty() {
        out += &table.to_live_html("Memory by device", &|_| None);
    }
    out
}

fn steps(profile: &Profile) -> String {
    let mut out = String::new();
    for (index, rank) in profile.figures.ranks.iter().enumerate().take(PICTURES) {
        let Some(steps) = rank.steps.as_ref() else {
            continue;
        };
        let bars: Vec<(u64, i64, i64)> = steps
            .steps
            .iter()
            .enumerate()
            .map(|(at, step)| {
                let length = step.end_ns.saturating_sub(step.start_ns);
                (step.number.unwrap_or(at as u64), length, step.busy_ns)
            })
            .collect();
        if let Some(picture) = svg::steps(&bars, steps.median_ns, &format!("steps-{index}")) {
            let spread = steps.spread.map_or(String::new(), |spread| {
                format!(
                    "; the middle half lies within {} of it",
                    crate::figures::percent(spread)
                )
            });
            let whose = if profile.figures.ranks.len() > 1 {
                format!("{}: ", profile.rank_label(index))
            } else {
                String::new()
            };
            let caption = format!("{whose}median {}{spread}.", duration(steps.median_ns));
            out += &figure(&picture, &caption);
        }
    }
    if !out.is_empty() {
        out = format!("<div class=\"pictures\">\n{out}</div>\n");
    }
    let table = tables::steps(profile);
    if table.is_empty() {
        return String::new();
    }
    out + &table.to_live_html("Steps", &|_| None)
}

/// Figures one by one, folded away.
pub(in crate::profile) fn all_figures(figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let mut table = Table::new(vec![
        Column::left("figure", "figure"),
        Column::left("scope", "of"),
        Column::right("value", "value"),
    ]);
    for figure in figures.iter().take(FIGURES) {
        let value = match &figure.value {
            Value::Integer(value) => Cell::new(value.to_string(), *value),
            Value::Real(value) if value.is_finite() => Cell::number(*value),
            Value::Real(_) => Cell::missing(),
            Value::Unknown(why) => Cell::text(format!("cannot be told: {why}")),
        };
        table.push(vec![
            Cell::text(figure.name.clone()),
            Cell::text(scope(figure)),
            value,
        ]);
    }
    if figures.len() > FIGURES {
        table.footnote(format!(
            "{} more are in `gpuwise profile --format json`.",
            crate::figures::count((figures.len() - FIGURES) as u64)
        ));
    }
    format!(
        "<details><summary>{} figures with their exact values</summary>\n{}</details>\n",
        crate::figures::count(figures.len() as u64),
        table.to_live_html("All figures", &|_| None)
    )
}

fn scope(figure: &Figure) -> String {
    let mut parts = Vec::new();
    if let Some(rank) = figure.scope.rank {
        parts.push(format!("rank {rank}"));
    }
    if let Some(device) = figure.scope.device {
        parts.push(format!("GPU {device}"));
    }
    parts.extend(figure.scope.part.clone());
    if parts.is_empty() {
        "the whole".into()
    } else {
        parts.join(", ")
    }
}

fn missing(profiles: &[Profile]) -> String {
    let mut items = Vec::new();
    let several = profiles.len() > 1;
    for profile in profiles {
        let prefix = if several {
            format!("{}: ", profile.label)
        } else {
            String::new()
        };
        let words = profile
            .summary
            .missing
            .iter()
            .chain(&profile.figures.missing);
        items.extend(words.map(|word| format!("{prefix}{word}")));
    }
    list(&items)
}

/// Sentences, each once.
pub(in crate::profile) fn list(items: &[String]) -> String {
    let mut seen: Vec<&String> = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    if seen.is_empty() {
        return String::new();
    }
    let items = seen.iter().fold(String::new(), |mut out, item| {
        let _ = writeln!(out, "<li>{}</li>", escape(item));
        out
    });
    format!("<ul>\n{items}</ul>\n")
}

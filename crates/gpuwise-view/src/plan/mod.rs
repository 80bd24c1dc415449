//! A plan: the first screen, and its Markdown, CSV and JSON.

mod record;
mod tables;
mod why_not;
pub mod words;

pub(crate) use tables::{beyond_slo, held_to};
pub use tables::{deployments, front};
pub use why_not::{why_not, why_not_markdown};

use crate::{
    answer::{self, Document, noted},
    launch::quoted,
    rejected,
    style::Style,
};
use gpuwise_domain::{
    deployment::{Deployment, Dropped, Sizing},
    fix::Fix,
};
use gpuwise_units::Bytes;
use std::fmt::Write as _;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Alternatives named on the first screen.
const ALTERNATIVES: usize = 3;

/// The first screen: the question as understood, ranked deployments, what limits the best one, why
/// others are not there, and what to type next; or what is short where nothing keeps the SLO.
pub fn text(sizing: &Sizing, style: Style) -> String {
    let mut out = String::new();
    for (label, line) in question(sizing) {
        out += &labelled(style, label, &line);
    }
    out.push('\n');
    match sizing.ranked.first() {
        Some(best) => {
            out += &deployments(sizing).to_text(style);
            out.push('\n');
            for (label, line) in about_best(sizing, best) {
                out += &labelled(style, label, &line);
            }
            out += &alternatives(sizing, style);
            out.push('\n');
            for (label, line) in next_steps(sizing, best) {
                out += &command(style, label, &line);
            }
        }
        None => out += &infeasible(sizing, style),
    }
    out
}

/// The plan as a Markdown document with every table.
pub fn markdown(sizing: &Sizing) -> String {
    let mut out = Document::new(&format!("Serving {}", sizing.question.model.name));
    out.list(&question(sizing));
    if let Some(best) = sizing.ranked.first() {
        out.heading("Deployments");
        out.table(&deployments(sizing));
        out.heading("The best one");
        let mut about = about_best(sizing, best);
        about.push(("Engine", words::engine(best)));
        out.list(&about);
        out.heading("Cost against latency");
        out.table(&front(sizing, false));
    } else {
        out.heading("No deployment keeps the SLO");
        out.sentence(&verdict(sizing));
    }
    out.finish(sizing, &[])
}

/// The ranked deployments as CSV; where there are none, what was dropped and why.
pub fn csv(sizing: &Sizing) -> String {
    answer::csv(sizing)
}

/// The question as understood, by label.
pub(crate) fn question(sizing: &Sizing) -> Vec<(&'static str, String)> {
    let mut slo = words::slo(&sizing.question.workload.slo);
    for limit in words::limits(&sizing.question.workload.limits) {
        let _ = write!(slo, "; {limit}");
    }
    let _ = write!(slo, "; ranked by {}", sizing.question.objective.name());
    let mut lines = vec![
        ("Model", words::model(&sizing.question.model)),
        ("Traffic", words::traffic(&sizing.question.workload)),
        ("SLO", slo),
    ];
    let assumed: Vec<&str> = sizing
        .question
        .model
        .assumptions
        .iter()
        .map(String::as_str)
        .collect();
    if !assumed.is_empty() {
        lines.push(("Assumed", assumed.join("; ")));
    }
    lines
}

/// What limits the best deployment, what it sustains, where it is rented.
pub(crate) fn about_best(sizing: &Sizing, best: &Deployment) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(limit) = best.bottleneck {
        lines.push(("Limit", format!("1 is limited by {limit}")));
    }
    lines.push(("Sustains", words::headroom(sizing, best)));
    lines.extend(words::context(sizing, best).map(|line| ("Context", line)));
    let place = best.rental.as_ref().map_or_else(
        || "no offer in the price list has this GPU".into(),
        words::rental,
    );
    lines.push(("Offer", place));
    if let Some(model) = &best.draft_model {
        lines.push((
            "Drafts",
            format!("{model}, {} tokens a step", best.draft_tokens),
        ));
    }
    if best.host_cache > Bytes::ZERO {
        let host = format!(
            "{} of host memory a GPU keeps prefixes for reuse; concurrency does not rise",
            crate::figures::bytes(best.host_cache)
        );
        lines.push(("Host", host));
    }
    lines
}

fn alternatives(sizing: &Sizing, style: Style) -> String {
    let list = distinct(sizing);
    if list.is_empty() {
        return String::new();
    }
    let mut head = format!(
        "Rejected, of {} looked at",
        crate::figures::count(sizing.considered)
    );
    if list.len() > ALTERNATIVES {
        let _ = write!(head, " ({} more: --why-not GPU)", list.len() - ALTERNATIVES);
    }
    let mut out = format!("\n{}\n", ellipsis(&head, style.columns()));
    let shown: Vec<&Dropped> = list.iter().copied().take(ALTERNATIVES).collect();
    let widest = shown
        .iter()
        .map(|d| d.label.width())
        .max()
        .unwrap_or(0)
        .min(28);
    for dropped in shown {
        let label = crate::style::clean(&dropped.label);
        let pad = " ".repeat(widest.saturating_sub(label.width()));
        let line = format!(
            "  {label}{pad}  {}",
            crate::style::clean(&rejected::clause(dropped))
        );
        out += &ellipsis(&line, style.columns());
        out.push('\n');
    }
    out
}

/// What to type to see why, to prove it, and to start it.
pub(crate) fn next_steps(sizing: &Sizing, best: &Deployment) -> [(&'static str, String); 3] {
    let start = if crate::launch::starts(best.engine) {
        format!(
            "add --emit {}   (or docker, k8s; {})",
            best.engine.name(),
            words::engine(best)
        )
    } else {
        format!(
            "{} has no launch command here; choose one with --engine vllm",
            best.engine
        )
    };
    let notes = match sizing.notes.len() {
        0 => String::new(),
        1 => "   (and what was assumed, 1 note)".into(),
        many => format!("   (and what was assumed, {many} notes)"),
    };
    [
        ("Why", format!("add --explain{notes}")),
        (
            "Proof",
            format!(
                "gpuwise evidence {} --gpu {}",
                quoted(&sizing.question.model.name),
                quoted(&best.gpu)
            ),
        ),
        ("Start", start),
    ]
}

fn infeasible(sizing: &Sizing, style: Style) -> String {
    let mut out = style.wrap(&verdict(sizing), 2);
    out.push('\n');
    let nearest = sizing.nearest();
    if !nearest.is_empty() {
        let shown: Vec<&Dropped> = nearest.iter().copied().take(5).collect();
        let _ = write!(
            out,
            "\nNearest\n{}",
            rejected::table(shown.iter().copied()).to_text(style)
        );
        if nearest.len() > shown.len() {
            let _ = writeln!(
                out,
                "{} more: --why-not GPU, or --format md.",
                nearest.len() - shown.len()
            );
        }
    }
    out + &noted(&sizing.notes, style)
}

/// What is short, and the change that is nearest to a fix.
pub fn verdict(sizing: &Sizing) -> String {
    let mut out = match sizing.considered {
        0 => "These choices leave no deployment to look at.".to_owned(),
        considered => format!(
            "No deployment of {} looked at keeps the SLO.",
            crate::figures::count(considered)
        ),
    };
    let nearest = sizing.nearest();
    if let Some(first) = nearest.first() {
        let _ = write!(
            out,
            " Nearest: {} fails {}: {}.",
            first.label,
            first.test.name(),
            first.shortfall
        );
    }
    // A flag comes before a price or an evaluation that nobody may have.
    let fixes = || {
        nearest
            .iter()
            .flat_map(|d| d.fixes.iter().map(move |fix| (d, fix)))
    };
    let flags =
        fixes().find(|(_, fix)| !matches!(fix, Fix::OwnPrice { .. } | Fix::OwnEvaluation { .. }));
    if let Some((candidate, fix)) = flags.or_else(|| fixes().next()) {
        let _ = match fix.gives() {
            Some(_) => write!(out, " Fix: {fix}."),
            None => write!(out, " Fix: {fix} ({}).", candidate.label),
        };
    }
    out
}

/// Dropped candidates in the given order, the first of each GPU before the second of any.
fn distinct(sizing: &Sizing) -> Vec<&Dropped> {
    let mut seen: Vec<&str> = Vec::new();
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for dropped in &sizing.dropped {
        if seen.contains(&dropped.gpu.as_str()) {
            rest.push(dropped);
        } else {
            seen.push(&dropped.gpu);
            first.push(dropped);
        }
    }
    first.append(&mut rest);
    first
}

/// `Model    text`, wrapped under itself.
pub fn labelled(style: Style, label: &str, text: &str) -> String {
    style.wrap_after(&format!("{label:<8} "), text, 9) + "\n"
}

/// A command; one that is too wide continues with a backslash before an option, so that it can be
/// copied.
fn command(style: Style, label: &str, text: &str) -> String {
    let split = text
        .find(" --gpu ")
        .filter(|_| text.width() + 9 > style.columns());
    match split.map(|at| text.split_at(at)) {
        Some((first, second)) => {
            labelled(style, label, &format!("{first} \\"))
                + &labelled(style, "", &format!(" {second}"))
        }
        None => labelled(style, label, text),
    }
}

/// Cut to a width, with `…` where something is lost.
pub(crate) fn ellipsis(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.into();
    }
    let mut out = String::new();
    let mut used = 0;
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        used += wide;
        out.push(character);
    }
    out.truncate(out.trim_end().len());
    out.push('…');
    out
}

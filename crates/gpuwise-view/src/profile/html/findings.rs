//! Findings in order of gain, each with its evidence, what to do and where to see it.

use crate::{
    figures::{bytes, number, percent},
    html::spoken,
    markup::escape,
    profile::{Profile, clock::Clock, duration, kernel_name},
    style::State,
};
use gpuwise_domain::profile::finding::{Evidence, Finding, Gain, Place};
use gpuwise_units::Bytes;
use std::fmt::Write as _;

/// Places of one finding that have a button, at most.
const PLACES: usize = 8;

/// All findings of a profile; `first_rank` is the place of its first rank on the page.
pub(super) fn section(profile: &Profile, clock: &Clock, first_rank: usize, prefix: &str) -> String {
    let findings = &profile.summary.findings;
    if findings.is_empty() {
        return "<p>No rule found anything that limits this profile. What the file does not tell is listed at the end.</p>\n".into();
    }
    let mut out = String::from("<ol class=\"findings\">\n");
    for (index, finding) in findings.iter().enumerate() {
        out += &one(
            profile,
            finding,
            clock,
            first_rank,
            &format!("{prefix}finding-{}", index + 1),
        );
    }
    out += "</ol>\n";
    if findings.len() > 1 {
        out += "<p class=\"note\">Gains may overlap: what one fix saves, another may save as well. They must not be added.</p>\n";
    }
    out
}

fn one(profile: &Profile, finding: &Finding, clock: &Clock, first_rank: usize, id: &str) -> String {
    let (state, class) = weight(finding.gain);
    let mut out = format!(
        "<li id=\"{id}\" class=\"{class}\"><h3><span class=\"{class}\">{}</span> {}</h3>\n<p class=\"gain\">{}{}</p>\n",
        state.mark(),
        spoken(&finding.statement),
        escape(&gain(finding.gain)),
        escape(&scope(profile, finding))
    );
    if !finding.advice.is_empty() {
        out += "<ul class=\"advice\">\n";
        for advice in &finding.advice {
            let _ = writeln!(out, "<li>{}</li>", spoken(advice));
        }
        out += "</ul>\n";
    }
    if !finding.evidence.is_empty() {
        let told: Vec<String> = finding.evidence.iter().map(evidence).collect();
        let _ = writeln!(
            out,
            "<p class=\"note\">{}</p>",
            escape(&format!("Evidence: {}.", told.join("; ")))
        );
    }
    let buttons: Vec<String> = finding
        .places
        .iter()
        .take(PLACES)
        .map(|place| button(profile, place, clock, first_rank))
        .collect();
    if !buttons.is_empty() {
        let more = match finding.places.len().saturating_sub(PLACES) {
            0 => String::new(),
            more => format!(" <small>and {more} more</small>"),
        };
        let _ = writeln!(out, "<p class=\"places\">{}{more}</p>", buttons.join(" "));
    }
    out + "</li>\n"
}

fn button(profile: &Profile, place: &Place, clock: &Clock, first_rank: usize) -> String {
    let ranks = &profile.figures.ranks;
    let rank = place
        .rank
        .and_then(|number| ranks.iter().position(|rank| rank.rank == Some(number)))
        .unwrap_or(0);
    let group = first_rank + rank;
    let from = clock.at(group, place.start_ns);
    let to = clock.at(group, place.end_ns);
    let what = crate::style::clean(&place.what);
    let whose = if ranks.len() > 1 {
        format!(" ({})", profile.rank_label(rank))
    } else {
        String::new()
    };
    format!(
        "<button type=\"button\" data-from=\"{from}\" data-to=\"{to}\" data-group=\"{group}\" data-what=\"{}\">at {}, {}: {}{}</button>",
        escape(&what),
        escape(&duration(from)),
        escape(&duration(place.end_ns.saturating_sub(place.start_ns))),
        escape(&kernel_name(&what)),
        escape(&whose)
    )
}

/// How much it matters, as a state with its mark.
fn weight(gain: Gain) -> (State, &'static str) {
    match gain {
        Gain::Safety => (State::Bad, "bad"),
        Gain::Time { high, .. } | Gain::Device { high, .. } if high >= 0.1 => (State::Bad, "bad"),
        _ => (State::Warning, "warning"),
    }
}

/// What a fix would gain, in words.
pub(in crate::profile) fn gain(gain: Gain) -> String {
    let range = |low: f64, high: f64| {
        if (high - low).abs() < 0.005 {
            percent(high)
        } else {
            format!(
                "{} to {}",
                percent(low).trim_end_matches(" %"),
                percent(high)
            )
        }
    };
    match gain {
        Gain::Time { low, high } => format!("A fix saves {} of the time.", range(low, high)),
        Gain::Memory { low, high } if low == high => {
            format!("A fix frees {} of device memory.", bytes(Bytes::new(high)))
        }
        Gain::Memory { low, high } => {
            format!(
                "A fix frees {} to {} of device memory.",
                bytes(Bytes::new(low)),
                bytes(Bytes::new(high))
            )
        }
        Gain::Device { low, high } => {
            format!("{} of the device could serve others.", range(low, high))
        }
        Gain::Safety => "It is about correctness or safety: no gain in time is claimed.".into(),
        Gain::Unknown => "What a fix would gain cannot be told from this input.".into(),
    }
}

fn scope(profile: &Profile, finding: &Finding) -> String {
    let mut parts = Vec::new();
    if profile.figures.ranks.len() > 1
        && let Some(rank) = finding.scope.rank
    {
        parts.push(format!("rank {rank}"));
    }
    if let Some(device) = finding.scope.device {
        parts.push(format!("GPU {device}"));
    }
    if parts.is_empty() {
        String::new()
    } else {
        format!(" On {}.", parts.join(", "))
    }
}

fn evidence(evidence: &Evidence) -> String {
    let value = |value: f64| match evidence.unit.as_str() {
        "ns" => duration(value as i64),
        "bytes" => bytes(Bytes::new(value.max(0.0) as u64)),
        "%" => format!("{} %", number(value)),
        "" | "count" | "ratio" => number(value),
        unit => format!("{} {unit}", number(value)),
    };
    let name = evidence
        .figure
        .trim_end_matches("_ns")
        .trim_end_matches("_pct")
        .replace('_', " ");
    match evidence.threshold {
        Some(threshold) => format!(
            "{name} {} (threshold {})",
            value(evidence.value),
            value(threshold)
        ),
        None => format!("{name} {}", value(evidence.value)),
    }
}

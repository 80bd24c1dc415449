//! A run, simulated or measured: the first screen, Markdown, CSV, a page, a trace and one request's
//! own timeline.

mod comparison;
mod ladder;
mod page;
mod tables;
mod timeline;
mod trace;
pub mod words;

pub use comparison::{comparison, comparison_text};
pub use ladder::{ladder, ladder_answer};
pub use page::{comparison_page, page};
pub use tables::{groups, latencies, outcomes, table};
pub use timeline::timeline;
pub use trace::{Steps, Trace};

use crate::{markup::escape_markdown, plan::labelled, style::Style, table::Table};
use gpuwise_domain::run::{RunReport, RunSet};
use std::fmt::Write as _;

/// The first screen of one run: whether the SLO is kept, then latencies, throughput, what the
/// engine did and what is to be known.
pub fn text(report: &RunReport, style: Style) -> String {
    let mut out = style.finish(style.wrap(&words::answer(report), 2));
    out.push('\n');
    for (label, line) in words::question(report) {
        out += &labelled(style, label, &line);
    }
    out.push('\n');
    out += &latencies(report).to_text(style);
    out.push('\n');
    for (label, line) in words::figures(report) {
        out += &style.finish(labelled(style, label, &line));
        if label == words::REQUESTS {
            for reason in words::reasons(report) {
                out += &labelled(style, "", &reason);
            }
        }
    }
    let groups = groups(report);
    if !groups.is_empty() {
        let _ = write!(out, "\n{}", groups.to_text(style));
    }
    for note in words::notes(report) {
        out += &labelled(style, "Note", &note);
    }
    out
}

/// The first screen of runs: the ladder where there is one, then the run that tells most.
pub fn set_text(runs: &RunSet, style: Style) -> String {
    let mut out = String::new();
    if let Some(found) = &runs.ladder {
        out += &style.finish(style.wrap(&ladder_answer(found), 2));
        let _ = write!(out, "\n\n{}", ladder(found).to_text(style));
    }
    if let Some(report) = telling(runs) {
        if runs.ladder.is_some() {
            let _ = writeln!(out, "\n{}\n", style.wrap(&at_load(report), 2));
        }
        out += &text(report, style);
    }
    out
}

/// The run at the knee, else the expected one, else the first.
pub fn telling(runs: &RunSet) -> Option<&RunReport> {
    let aim = runs.ladder.as_ref().and_then(|ladder| {
        let knee = ladder.knee.as_ref();
        let knee = knee.map(|knee| knee.nominal.unwrap_or(knee.load));
        ladder.expected.or(knee)
    });
    let load = |report: &RunReport| {
        let traffic = &report.traffic;
        let rate = traffic.offered.or(traffic.delivered);
        let rate = rate.map(gpuwise_units::PerSecond::get);
        rate.or_else(|| Some(traffic.concurrent? as f64))
    };
    let distance = |report: &RunReport| match (aim, load(report)) {
        (Some(aim), Some(load)) => (load - aim).abs(),
        _ => f64::INFINITY,
    };
    let mut best: Option<&RunReport> = None;
    for report in &runs.reports {
        if best.is_none_or(|best| distance(report) < distance(best)) {
            best = Some(report);
        }
    }
    best
}

fn at_load(report: &RunReport) -> String {
    format!("One of them: {}", words::traffic(report))
}

pub fn markdown(report: &RunReport) -> String {
    let mut out = format!("# {}\n\n", escape_markdown(&words::title(report)));
    let _ = write!(out, "{}\n\n", escape_markdown(&words::answer(report)));
    for (label, line) in words::question(report) {
        let _ = writeln!(out, "- **{label}**: {}", escape_markdown(&line));
    }
    let section = |out: &mut String, title: &str, table: &Table| {
        let _ = write!(out, "\n## {title}\n\n{}", table.to_markdown());
    };
    section(&mut out, "Latencies", &latencies(report));
    out += "\n## Throughput and engine\n\n";
    for (label, line) in words::figures(report) {
        let _ = writeln!(out, "- **{label}**: {}", escape_markdown(&line));
    }
    let groups = groups(report);
    if !groups.is_empty() {
        section(&mut out, "By tenant and stage", &groups);
    }
    section(&mut out, "Requests", &outcomes(report));
    let notes = words::notes(report);
    if !notes.is_empty() {
        out += "\n## To know\n\n";
        for note in notes {
            let _ = writeln!(out, "- {}", escape_markdown(&note));
        }
    }
    out
}

pub fn set_markdown(runs: &RunSet) -> String {
    let mut out = String::new();
    if let Some(found) = &runs.ladder {
        let _ = write!(
            out,
            "# Load against latency\n\n{}\n\n{}\n",
            escape_markdown(&ladder_answer(found)),
            ladder(found).to_markdown()
        );
    }
    let parts: Vec<String> = runs.reports.iter().map(markdown).collect();
    out + &parts.join("\n")
}

/// A row for each figure of each group of each run: long, for programs.
pub fn set_csv(runs: &RunSet) -> String {
    table(&runs.reports).to_csv()
}

/// A row for each figure of each group of one run.
pub fn csv(report: &RunReport) -> String {
    table(std::slice::from_ref(report)).to_csv()
}

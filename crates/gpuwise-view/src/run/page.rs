//! Runs as one self-contained page: no script, no network, light and dark, readable on paper.

use super::{
    comparison, groups, ladder, ladder_answer, latencies, outcomes, tables, telling, words,
};
use crate::{
    figures::{MISSING, number, percent, seconds},
    html::{Page, Section, facts, figure},
    markup::escape,
    svg,
};
use gpuwise_domain::run::{Comparison, Metric, RunReport, RunSet};
use gpuwise_units::{PerSecond, Percentile};
use std::fmt::Write as _;

/// Latencies of the head.
const TOLD: [Metric; 3] = [Metric::Ttft, Metric::Tpot, Metric::EndToEnd];
const DRAWN: [Metric; 4] = [
    Metric::Ttft,
    Metric::Tpot,
    Metric::EndToEnd,
    Metric::InterToken,
];

/// The page of runs; `made` says by what and when, as the caller wants it said.
pub fn page(runs: &RunSet, made: &str) -> String {
    let Some(report) = telling(runs) else {
        return Page {
            title: "No run".into(),
            answer: "Nothing was run.".into(),
            head: String::new(),
            sections: Vec::new(),
        }
        .finish(made);
    };
    let answer = match &runs.ladder {
        Some(found) => ladder_answer(found),
        None => words::answer(report),
    };
    let mut head = headline(report);
    let mut question = words::question(report);
    if runs.ladder.is_some() {
        question.push(("This run", words::answer(report)));
    }
    head += &facts(&question);
    Page {
        title: words::title(report),
        answer,
        head,
        sections: sections(runs, report),
    }
    .finish(made)
}

/// A page of sources side by side.
pub fn comparison_page(found: &Comparison, title: &str, made: &str) -> String {
    let notes = list(&found.notes);
    let mut sections = vec![Section {
        id: "figures",
        title: "Side by side",
        body: comparison(found).to_html("Figures of each source"),
    }];
    if !notes.is_empty() {
        sections.push(Section {
            id: "notes",
            title: "To know",
            body: notes,
        });
    }
    Page {
        title: title.into(),
        answer: format!(
            "{} figures from {}.",
            found.rows.len(),
            found.columns.join(", ")
        ),
        head: String::new(),
        sections,
    }
    .finish(made)
}

/// The figures that people remember.
fn headline(report: &RunReport) -> String {
    let mut out = String::from("<dl class=\"figures\">\n");
    let mut add = |label: &str, value: &str, more: &str| {
        crate::html::headline_figure(&mut out, label, value, more);
    };
    for metric in TOLD {
        let Some(values) = report.distribution(metric) else {
            continue;
        };
        let verdict = report
            .attainment
            .verdicts
            .iter()
            .find(|verdict| words::metric(verdict.about) == Some(metric));
        let at = verdict
            .and_then(|verdict| verdict.at)
            .unwrap_or(Percentile::P95);
        let value = values.at(at).map_or(MISSING.into(), seconds);
        let mut more = format!(
            "p50 {}, mean {}",
            values.at(Percentile::P50).map_or(MISSING.into(), seconds),
            seconds(values.mean)
        );
        if let Some(verdict) = verdict {
            let _ = write!(more, "; SLO {}", seconds(verdict.bound));
        }
        add(&format!("{} {at}", metric.name()), &value, &more);
    }
    let rate = |value: Option<PerSecond>| value.map_or(MISSING.into(), |rate| number(rate.get()));
    let requests = format!("{} requests/s", rate(report.steady.requests));
    add(
        "output tokens/s",
        &rate(report.steady.output_tokens),
        &requests,
    );
    if let Some(share) = report.attainment.share {
        let goodput = format!("goodput {} requests/s", rate(report.attainment.goodput));
        add("met every target", &words::precise(share), &goodput);
    }
    if let Some(busy) = report.engine.busy {
        let batch = report.engine.batch.map_or(String::new(), |batch| {
            format!("batch {} on average", number(batch.mean))
        });
        add("engine busy", &percent(busy), &batch);
    }
    out + "</dl>\n"
}

fn sections(runs: &RunSet, report: &RunReport) -> Vec<Section> {
    let mut out = Vec::new();
    let mut add = |id: &'static str, title: &'static str, body: String| {
        if !body.is_empty() {
            out.push(Section { id, title, body });
        }
    };
    if let Some(found) = &runs.ladder {
        let picture = svg::ladder(found, &report.attainment.slo, "ladder-picture");
        let caption = "Dots keep the SLO, crosses miss it; the line is the largest load that keeps it, its range shaded.";
        let mut body = picture.map_or_else(String::new, |picture| {
            format!(
                "<div class=\"pictures\">\n{}</div>\n",
                figure(&picture, caption)
            )
        });
        body += &ladder(found).to_html("Latency at each load");
        add("load", "Load against latency", body);
    }
    if !report.attainment.verdicts.is_empty() {
        let body = tables::verdicts(report).to_html("Targets");
        add("targets", "SLO", body);
    }
    let mut body = pictures(DRAWN.iter().filter_map(|metric| {
        let picture = svg::distribution(report, *metric, &format!("{}-picture", metric.key()))?;
        Some((picture, caption(*metric)))
    }));
    body += &latencies(report).to_html("Latencies of all requests");
    add("latencies", "Latencies", body);
    let body = pictures(
        svg::Panel::ALL
            .iter()
            .enumerate()
            .filter_map(|(at, panel)| {
                let picture = svg::over_time(report, *panel, &format!("time-{at}"))?;
                Some((picture, panel_caption(*panel)))
            }),
    );
    add("time", "Over time", body);
    add(
        "figures",
        "Throughput, engine and cost",
        facts(&words::figures(report)),
    );
    let parts = groups(report);
    if !parts.is_empty() {
        add(
            "groups",
            "By tenant and stage",
            parts.to_html("Tenants and stages"),
        );
    }
    add(
        "requests",
        "Requests",
        outcomes(report).to_html("Requests by outcome"),
    );
    add("notes", "To know", list(&words::notes(report)));
    add("repeat", "To do it again", repeat(report));
    out
}

fn caption(metric: Metric) -> &'static str {
    match metric {
        Metric::Ttft => {
            "Which share of requests had their first token within so long, counted from when they were due."
        }
        Metric::Tpot => {
            "Which share of requests had their tokens at most so far apart, on average."
        }
        Metric::InterToken => {
            "Which share of the gaps between tokens, of all requests pooled, was at most so long."
        }
        _ => "Which share of requests was finished within so long.",
    }
}

fn panel_caption(panel: svg::Panel) -> &'static str {
    match panel {
        svg::Panel::Concurrent => {
            "Requests in the engine. Grey is warm-up and drain, left out of the figures."
        }
        svg::Panel::Ttft => "A wait that keeps rising means that more comes than is served.",
        svg::Panel::Cache => "At 100 % requests wait for memory or are preempted.",
        svg::Panel::Throughput => "Tokens of all requests, spread evenly between first and last.",
    }
}

fn pictures(all: impl Iterator<Item = (svg::Picture, &'static str)>) -> String {
    let figures: String = all
        .map(|(picture, caption)| figure(&picture, caption))
        .collect();
    if figures.is_empty() {
        return figures;
    }
    format!("<div class=\"pictures\">\n{figures}</div>\n")
}

fn list(items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items = items.iter().fold(String::new(), |mut items, item| {
        let _ = writeln!(items, "<li>{}</li>", escape(item));
        items
    });
    format!("<ul>\n{items}</ul>\n")
}

fn repeat(report: &RunReport) -> String {
    let repeat = &report.repeat;
    if repeat.arguments.is_empty() {
        return String::new();
    }
    let words: Vec<String> = repeat
        .arguments
        .iter()
        .map(|word| crate::launch::quoted(word))
        .collect();
    format!(
        "<p><code>{}</code></p>\n{}",
        escape(&words.join(" ")),
        facts(&[
            ("Seed", repeat.seed.to_string()),
            ("Version", repeat.version.clone()),
        ])
    )
}

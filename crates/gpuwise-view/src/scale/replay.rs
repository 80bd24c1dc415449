//! Controllers beside one another.

use super::{objective, ratio, service, share};
use crate::{
    Style,
    html::{Page, Section, figure},
    record::{Fields, Record},
    svg,
};
use gpuwise_domain::scale::{ScaleReplay, ScaleRun};
use gpuwise_units::Seconds;
use std::fmt::Write as _;

impl Record for ScaleReplay {
    const NAME: &'static str = "ScaleReplay";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("source", |r| &r.source);
        of.part("service", |r| &r.service);
        of.field("seed", |r| r.seed);
        of.field("by_request", |r| r.by_request);
        of.list("runs", |r| &r.runs);
        of.list("mixes", |r| &r.mixes);
        of.field("notes", |r| r.notes.as_slice());
    }
}

impl Record for ScaleRun {
    const NAME: &'static str = "ScaleRun";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("series", "Series", |r| r.series.as_str())
            .said_as(|name| {
                if name.is_empty() {
                    "–".into()
                } else {
                    name.into()
                }
            });
        of.column("start_seconds", "Start", |r| r.start.0 as f64 / 1e9)
            .said_of(|seconds| Seconds::new(seconds).to_string());
        of.column("objective", "In time", |r| r.objective)
            .said_of(objective);
        of.column("policy", "Policy", |r| r.policy);
        let keeps = of.noun().is_some_and(ScaleRun::keeps);
        of.column("cost_ratio", "Cost / bound", |r| r.ratio)
            .said_of(|value| if keeps { ratio(value) } else { "–".into() });
        of.field("keeps", ScaleRun::keeps);
        of.column("kept", "Kept", |r| r.kept).said_of(share);
        of.column("target", "Target", |r| r.target)
            .percent()
            .priority(2);
        of.column("changes", "Changes", |r| r.changes).priority(1);
        of.field("requests", |r| r.requests);
        of.column("serving_hours", "Replica-h", |r| r.serving_hours)
            .said_of(|hours| format!("{hours:.0}"))
            .priority(3);
        of.column("warm_hours", "Warm h", |r| r.warm_hours)
            .said_of(|hours| format!("{hours:.0}"))
            .priority(4);
        of.field("bound_hours", |r| r.bound_hours);
    }
}

/// The JSON Schema of a replay.
pub fn schema(name: &str) -> String {
    crate::record::document_schema::<ScaleReplay>(
        name,
        "Autoscalers beside one another on the same demand",
    )
}

/// One row for each controller.
pub fn table(replay: &ScaleReplay) -> crate::table::Table {
    if replay.mixes.is_empty() {
        crate::record::table(&replay.runs)
    } else {
        super::mix::table(&replay.mixes)
    }
}

/// What people see.
pub fn text(replay: &ScaleReplay, style: Style) -> String {
    if !replay.mixes.is_empty() {
        return mixed(replay, style);
    }
    let mut out = table(replay).to_text(style);
    out.push('\n');
    let bound = "Bound: as many replicas as the rate needs at every moment. Of each policy the cheapest target that keeps the objective; –: none does, and what keeps most is shown.";
    let by_request = replay.by_request.then(|| form(replay));
    let lines = [
        Some(service(&replay.service)),
        Some(bound.to_owned()),
        by_request.map(str::to_owned),
    ];
    for line in lines.iter().flatten() {
        let _ = writeln!(out, "{}", style.wrap_after("", line, 0));
    }
    for note in &replay.notes {
        let _ = writeln!(out, "{}", style.wrap_after("Note     ", note, 9));
    }
    out
}

/// How requests are followed.
const fn form(replay: &ScaleReplay) -> &'static str {
    if replay.by_request {
        "Every request is run by itself: it waits for room in a replica, as long as exponential chance says."
    } else {
        "Requests are a flow: --step runs each by itself."
    }
}

/// What people see of variants.
fn mixed(replay: &ScaleReplay, style: Style) -> String {
    let mut out = super::mix::text(&replay.mixes, style);
    out.push('\n');
    let bound = "Bound: every request at the least price there is of one, on parts of replicas, spot at its price.";
    for line in [form(replay), bound] {
        let _ = writeln!(out, "{}", style.wrap_after("", line, 0));
    }
    for note in &replay.notes {
        let _ = writeln!(out, "{}", style.wrap_after("Note     ", note, 9));
    }
    out
}

/// The page.
pub fn page(replay: &ScaleReplay, made: &str) -> String {
    if !replay.mixes.is_empty() {
        return super::mix::page(replay, made);
    }
    let mut body = String::new();
    for (at, run) in replay.runs.iter().enumerate() {
        let title = format!(
            "{} {}, start {}, {} in time",
            run.policy,
            run.series,
            run.start,
            objective(run.objective)
        );
        let picture = svg::scale(
            &run.samples,
            replay.service.rate,
            &title,
            &format!("scale-{at}"),
        );
        let kept = if run.keeps() { "kept" } else { "not kept" };
        let caption = format!(
            "{title}: {} of the bound, {kept} ({})",
            ratio(run.ratio),
            share(run.kept)
        );
        body += &figure(&picture, &caption);
    }
    let ours = replay
        .runs
        .iter()
        .filter(|run| run.policy == "gpuwise" && run.keeps());
    let best = ours.map(|run| run.ratio).fold(f64::INFINITY, f64::min);
    let answer = if best.is_finite() {
        format!("gpuwise costs {} of the bound at best.", ratio(best))
    } else {
        "Each autoscaler at the cheapest target that keeps the objective.".to_owned()
    };
    Page {
        title: format!("Autoscalers on {}", replay.source),
        answer,
        head: String::new(),
        sections: vec![
            Section {
                id: "table",
                title: "What each costs",
                body: table(replay).to_html(&service(&replay.service)),
            },
            Section {
                id: "runs",
                title: "Replicas over time",
                body,
            },
        ],
    }
    .finish(made)
}

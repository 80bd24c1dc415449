//! How a deployment is to be scaled.

use super::{ratio, service, share};
use crate::{
    Style,
    figures::{amount, number},
    html::{Page, Section, figure},
    record::{Fields, Record},
    svg,
};
use gpuwise_domain::scale::{ColdState, ScaleCost, ScaleHour, ScalePlan, ScaleVariant};
use gpuwise_units::{Money, Seconds};
use std::fmt::Write as _;

impl Record for ScalePlan {
    const NAME: &'static str = "ScalePlan";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("model", |p| &p.model);
        of.field("gpu", |p| &p.gpu);
        of.field("gpus_per_replica", |p| p.gpus);
        of.field("price_per_hour", |p| {
            p.per_hour.map(|price| price.0.as_f64())
        });
        of.field("currency", |p| {
            p.per_hour.map(|price| price.0.currency.code().to_owned())
        });
        of.field("source", |p| &p.source);
        of.field("series", |p| &p.series);
        of.field("objective", |p| p.objective);
        of.part("service", |p| &p.service);
        of.field("start_seconds", |p| p.start.0 as f64 / 1e9);
        of.field("start_stated", |p| p.start_stated);
        of.list("cold_start", |p| &p.states);
        of.field("min", |p| p.least);
        of.field("max", |p| p.most);
        of.field("target_requests_per_second", |p| p.target);
        of.field("warm", |p| p.warm);
        of.field("warm_max", |p| p.warm_most);
        of.list("schedule", |p| &p.hours);
        of.list("costs", |p| &p.costs);
        of.list("variants", |p| &p.variants);
        of.field("mixed_per_month", |p| p.mixed_per_month.map(Money::as_f64));
        of.list("mixes", |p| &p.mixes);
        of.field("notes", |p| p.notes.as_slice());
    }
}

impl Record for ColdState {
    const NAME: &'static str = "ColdState";

    fn fields(of: &mut Fields<'_, Self>) {
        let said = |seconds: f64| Seconds::new(seconds).to_string();
        of.column("state", "From", |s| s.state);
        of.column("p50_seconds", "p50", |s| s.median.0 as f64 / 1e9)
            .said_of(said);
        of.column("p90_seconds", "p90", |s| s.p90.0 as f64 / 1e9)
            .said_of(said);
        of.column("p99_seconds", "p99", |s| s.p99.0 as f64 / 1e9)
            .said_of(said);
        of.column("seen", "Seen", |s| s.seen);
        of.column("held_per_hour", "Held, an hour", |s| {
            s.held_per_hour.map(|price| price.0.as_f64())
        })
        .said_of(amount);
    }
}

impl Record for ScaleHour {
    const NAME: &'static str = "ScaleHour";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("hour", "Hour", |h| u32::from(h.hour))
            .said_of(|hour| format!("{hour:02.0}:00"));
        of.column("requests_per_second", "Requests/s", |h| h.rate);
        of.column("serving", "Serving", |h| h.serving)
            .said_of(|count| format!("{count:.1}"));
        of.column("serving_max", "At most", |h| h.serving_most);
        of.column("warm", "Warm", |h| h.warm)
            .said_of(|count| format!("{count:.1}"));
    }
}

impl Record for ScaleCost {
    const NAME: &'static str = "ScaleCost";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("policy", "Policy", |c| c.policy);
        of.column("replicas", "Replicas", |c| c.replicas)
            .said_of(|count| format!("{count:.2}"));
        of.column("cost_ratio", "Of the bound", |c| c.ratio)
            .said_of(ratio);
        of.column("per_month", "30 days", |c| c.per_month.map(Money::as_f64))
            .said_of(amount);
        of.field("currency", |c| {
            c.per_month.map(|money| money.currency.code().to_owned())
        });
        of.column("kept", "In time", |c| c.kept).said_of(share);
        of.field("keeps", |c| c.keeps);
        of.column("changes", "Changes", |c| c.changes);
    }
}

impl Record for ScaleVariant {
    const NAME: &'static str = "ScaleVariant";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("gpus_per_replica", "GPUs", |v| v.gpus);
        of.column("gpu", "Variant", |v| &v.gpu);
        of.column("requests_per_second", "Requests/s", |v| v.rate);
        of.column("price_per_hour", "An hour", |v| v.per_hour.0.as_f64())
            .said_of(amount);
        of.column("alone_per_month", "Alone, 30 days", |v| {
            v.alone_per_month.as_f64()
        })
        .said_of(amount);
        of.column("mixed", "In the mix", |v| v.mixed)
            .said_of(|count| format!("{count:.2}"));
    }
}

/// The JSON Schema of a plan.
pub fn schema(name: &str) -> String {
    crate::record::document_schema::<ScalePlan>(
        name,
        "How a deployment is to follow demand, and what that costs",
    )
}

/// What each way of scaling costs, as rows.
pub fn table(plan: &ScalePlan) -> crate::table::Table {
    crate::record::table(&plan.costs)
}

fn schedule(plan: &ScalePlan) -> crate::table::Table {
    crate::record::table(&plan.hours)
}

fn states(plan: &ScalePlan) -> crate::table::Table {
    crate::record::table(&plan.states)
}

/// What is to be set, line by line.
fn settings(plan: &ScalePlan) -> Vec<(&'static str, String)> {
    let seen: u64 = plan.states.iter().map(|state| state.seen).sum();
    let from = match (plan.start_stated, seen) {
        (true, _) => "as stated",
        (false, 0) => "from bytes and published stages: --starts or --start say what was measured",
        (false, _) => "from bytes and published stages, moved by starts that were seen",
    };
    let mut lines = vec![
        (
            "Replica",
            format!("{} × {}, {}", plan.gpus, plan.gpu, plan.model),
        ),
        ("Replicas", format!("{} to {}", plan.least, plan.most)),
    ];
    if let Some(target) = plan.target {
        let part = target / plan.service.rate * 100.0;
        let running = target * plan.service.service;
        lines.push((
            "Target",
            format!(
                "{} requests/s a replica ({part:.0} % of what it serves), {} running",
                number(target),
                number(running)
            ),
        ));
    }
    if plan.service.warm_cost.is_some() {
        lines.push((
            "Warm",
            format!("{} usually, at most {}", plan.warm, plan.warm_most),
        ));
    }
    lines.push(("Start", format!("{} (p90), {from}", plan.start)));
    lines.extend(verdict(plan).map(|said| ("Verdict", said)));
    lines
}

/// Another is better than ours from this share of its replicas on.
const LESS: f64 = 0.95;

/// Where ours is not what keeps the objective for the least, what does.
fn verdict(plan: &ScalePlan) -> Option<String> {
    let ours = plan.costs.iter().find(|cost| cost.policy == "gpuwise")?;
    let others = plan
        .costs
        .iter()
        .filter(|cost| cost.keeps && !["gpuwise", "bound"].contains(&cost.policy));
    let best = others.min_by(|a, b| a.replicas.total_cmp(&b.replicas));
    let objective = share(plan.objective);
    let others = |best: &ScaleCost| {
        let replicas = number(best.replicas);
        format!("{} does, by {replicas} replicas in the mean", best.policy)
    };
    match best {
        _ if ours.keeps && best.is_none_or(|best| best.replicas > LESS * ours.replicas) => None,
        Some(best) if ours.keeps => Some(format!(
            "{} keeps {objective} in this replay for less than ours: by {} replicas in the mean, ours by {}",
            best.policy,
            number(best.replicas),
            number(ours.replicas)
        )),
        Some(best) => Some(format!(
            "ours does not keep {objective} in this replay; {}",
            others(best)
        )),
        None => Some(format!(
            "nothing keeps {objective} in this replay: give a longer trace, --min, a shorter --start, or another --objective"
        )),
    }
}

/// What people see.
pub fn text(plan: &ScalePlan, style: Style) -> String {
    let mut out = String::new();
    for (name, line) in settings(plan) {
        let _ = writeln!(
            out,
            "{}",
            style.wrap_after(&format!("{name:<10}"), &line, 10)
        );
    }
    for table in [table(plan), schedule(plan), states(plan)] {
        out.push('\n');
        out += &table.to_text(style);
    }
    if let Some(mixed) = plan.mixed_per_month {
        out.push('\n');
        out += &crate::record::table(&plan.variants).to_text(style);
        let said = format!(
            "Together they serve the same for {} in 30 days; starts and warm replicas are not in it.",
            amount(mixed.as_f64())
        );
        let _ = writeln!(out, "{}", style.wrap_after("", &said, 0));
    }
    if !plan.mixes.is_empty() {
        out.push('\n');
        out += &super::mix::text(&plan.mixes, style);
    }
    out.push('\n');
    let _ = writeln!(out, "{}", style.wrap_after("", &service(&plan.service), 0));
    for note in &plan.notes {
        let _ = writeln!(out, "{}", style.wrap_after("Note     ", note, 9));
    }
    out
}

/// The page.
pub fn page(plan: &ScalePlan, made: &str) -> String {
    let picture = svg::scale(
        &plan.samples,
        plan.service.rate,
        "Replicas over time",
        "scale-plan",
    );
    let lines = settings(plan).into_iter();
    let answer = lines
        .map(|(name, line)| format!("{name}: {line}."))
        .collect::<Vec<_>>()
        .join(" ");
    let section = |id, title, body| Section { id, title, body };
    let bars: Vec<(String, f64)> = (plan.costs.iter())
        .filter_map(|cost| Some((cost.policy.to_owned(), cost.per_month?.as_f64())))
        .collect();
    let currency = plan.per_hour.as_ref();
    let currency = currency.map_or("", |price| price.0.currency.code());
    let unit = format!("{currency} in 30 days");
    let money = svg::costs(&bars, &unit, "scale-costs");
    let money = money.map_or_else(String::new, |picture| {
        figure(&picture, "What each way costs; the bound nobody can know")
    });
    let mixes = super::mix::pictures(&plan.mixes);
    let mut page = Page {
        title: format!("Scaling {} on {}", plan.model, plan.gpu),
        answer,
        head: String::new(),
        sections: vec![
            section(
                "cost",
                "What each way costs",
                money + &table(plan).to_html("For 30 days"),
            ),
            section(
                "time",
                "Replicas over time",
                figure(&picture, "What demand needs, what serves, what is warm"),
            ),
            section(
                "hours",
                "Hours of the day",
                schedule(plan).to_html("Over the days of the trace"),
            ),
            section(
                "cold",
                "Cold start",
                states(plan).to_html("From each state until it serves"),
            ),
        ],
    };
    if !mixes.is_empty() {
        page.sections
            .insert(2, section("mix", "Variants over time", mixes));
    }
    page.finish(made)
}

//! Services on variants: each alone, and beside one another.

use super::{objective, ratio, share};
use crate::{
    Style,
    figures::amount,
    html::{Page, Section, figure},
    record::{Fields, Record},
    svg,
};
use gpuwise_domain::scale::{ScaleGrant, ScaleMix, ScaleMixPart, ScaleReason, ScaleReplay};
use std::fmt::Write as _;

impl Record for ScaleMix {
    const NAME: &'static str = "ScaleMix";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("series", "Series", |m| m.series.as_str())
            .said_as(|name| {
                if name.is_empty() {
                    "–".into()
                } else {
                    name.into()
                }
            });
        of.column("name", "On", |m| m.name.as_str());
        of.field("objective", |m| m.objective);
        let keeps = of.noun().is_some_and(ScaleMix::keeps);
        of.column("per_month", "30 days", |m| m.per_month.as_f64())
            .said_of(amount);
        of.field("currency", |m| m.per_month.currency.code().to_owned());
        of.column("of_single", "Of the best alone", |m| m.of_single)
            .said_of(|value| if keeps { ratio(value) } else { "–".into() });
        of.column("cost_ratio", "Of the bound", |m| m.ratio)
            .said_of(ratio)
            .priority(2);
        of.field("keeps", ScaleMix::keeps);
        of.column("kept", "Kept", |m| m.kept).said_of(share);
        of.column("changes", "Changes", |m| m.changes).priority(1);
        of.column("interrupted", "Taken away", |m| m.interrupted)
            .priority(3);
        of.field("restarted", |m| m.restarted);
        of.field("refused", |m| m.refused);
        of.list("variants", |m| &m.variants);
        of.list("reasons", |m| &m.reasons);
        of.list("grants", |m| &m.grants);
    }
}

impl Record for ScaleMixPart {
    const NAME: &'static str = "ScaleMixPart";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("variant", "Variant", |p| p.variant.as_str());
        of.column("pool", "Pool", |p| p.pool.as_str());
        of.column("price_per_hour", "An hour", |p| p.per_hour.0.as_f64())
            .said_of(|price| format!("{price:.2}"));
        of.column("requests_per_second", "Requests/s", |p| p.rate);
        of.column("serving", "Serving", |p| p.serving)
            .said_of(|count| format!("{count:.2}"));
        of.column("warm", "Warm", |p| p.warm)
            .said_of(|count| format!("{count:.2}"));
        of.column("starts", "Starts", |p| p.starts);
        of.column("per_month", "30 days", |p| p.per_month.as_f64())
            .said_of(amount);
    }
}

impl Record for ScaleGrant {
    const NAME: &'static str = "ScaleGrant";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("pool", "Pool", |g| g.pool.as_str());
        of.column("by", "Got by", |g| g.by.as_str());
        of.column("decisions", "Decisions", |g| g.decisions);
        of.column("asked_gpus", "GPUs asked for", |g| g.asked)
            .said_of(|gpus| format!("{gpus:.1}"));
        of.column("got_gpus", "Got", |g| g.got)
            .said_of(|gpus| format!("{gpus:.1}"));
    }
}

impl Record for ScaleReason {
    const NAME: &'static str = "ScaleReason";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("reason", "Reason", |r| r.reason.as_str());
        of.column("decisions", "Decisions", |r| r.decisions);
    }
}

/// One row for each service and what it is on.
pub(super) fn table(mixes: &[ScaleMix]) -> crate::table::Table {
    crate::record::table(mixes)
}

/// What people see: the rows, and of each mix what it has of each variant, and why.
pub(super) fn text(mixes: &[ScaleMix], style: Style) -> String {
    let mut out = table(mixes).to_text(style);
    for mix in mixes.iter().filter(|mix| mix.name == "mix") {
        if !mix.series.is_empty() {
            let _ = write!(out, "\n{}", mix.series);
        }
        out.push('\n');
        out += &crate::record::table(&mix.variants).to_text(style);
        if !mix.grants.is_empty() {
            out.push('\n');
            out += &crate::record::table(&mix.grants).to_text(style);
        }
        let mut reasons: Vec<&ScaleReason> = mix.reasons.iter().collect();
        reasons.sort_by(|a, b| b.decisions.cmp(&a.decisions).then(a.reason.cmp(&b.reason)));
        let each = reasons
            .iter()
            .map(|one| format!("{} {}", one.reason, one.decisions));
        let said = each.collect::<Vec<_>>().join(", ");
        let _ = writeln!(out, "{}", style.wrap_after("Reasons  ", &said, 9));
    }
    out
}

/// Hours of the 30 days that a cost is said for.
const MONTH_HOURS: f64 = 720.0;

/// Each mix over time: what serves by variant, and what that costs.
pub(super) fn pictures(mixes: &[ScaleMix]) -> String {
    let mut body = String::new();
    for (at, mix) in mixes.iter().enumerate() {
        if mix.name != "mix" || mix.samples.is_empty() {
            continue;
        }
        // The cheapest by itself that keeps the objective, where variants were run by themselves.
        let alone = mixes
            .iter()
            .filter(|one| one.series == mix.series && one.name != "mix" && one.keeps())
            .map(|one| (one.name.as_str(), one.per_month.as_f64() / MONTH_HOURS))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let whose = if mix.series.is_empty() {
            String::new()
        } else {
            format!(" of {}", mix.series)
        };
        let title = format!("Mix{whose}, {} in time", objective(mix.objective));
        let picture = svg::mix(mix, alone, &title, &format!("mix-{at}"));
        let kept = if mix.keeps() { "kept" } else { "not kept" };
        let saved = mix.of_single.map_or_else(String::new, |of| {
            format!(", {} of the best alone", ratio(of))
        });
        let caption = format!(
            "{title}: {} {} in 30 days{saved}; {kept} ({})",
            amount(mix.per_month.as_f64()),
            mix.per_month.currency.code(),
            share(mix.kept)
        );
        body += &figure(&picture, &caption);
    }
    body
}

/// The page of a replay on variants.
pub(super) fn page(replay: &ScaleReplay, made: &str) -> String {
    let mixes = &replay.mixes;
    let best = mixes.iter().filter(|one| one.keeps());
    let best = best.filter_map(|one| one.of_single).reduce(f64::min);
    let answer = best.map_or_else(
        || "What each service costs on variants.".to_owned(),
        |of| format!("The mix costs {} of the best variant alone.", ratio(of)),
    );
    let section = |id, title, body| Section { id, title, body };
    let mut sections = vec![
        section(
            "table",
            "What each costs",
            table(mixes).to_html("For 30 days"),
        ),
        section("runs", "What serves over time", pictures(mixes)),
    ];
    let each = mixes.iter().filter(|mix| mix.name == "mix");
    let tables = each.map(|mix| crate::record::table(&mix.variants).to_html(&mix.series));
    sections.push(section("variants", "Variants", tables.collect()));
    Page {
        title: format!("Variants on {}", replay.source),
        answer,
        head: String::new(),
        sections,
    }
    .finish(made)
}

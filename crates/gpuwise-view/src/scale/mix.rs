//! Services on variants: each alone, and beside one another.

use super::{ratio, share};
use crate::{
    Style,
    figures::amount,
    record::{Fields, Record},
};
use gpuwise_domain::scale::{ScaleGrant, ScaleMix, ScaleMixPart, ScaleReason};
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

//! Decisions as a table, and as an explanation.

use super::{Context, Decided};
use crate::settings::Format;
use gpuwise_measure::tier::{
    engine::{Candidate, Opinion},
    scaling::Tier,
};
use gpuwise_units::significant;
use gpuwise_view::table::{Cell, Column, Table};
use serde_json::json;
use std::fmt::Write as _;

pub(super) fn show(context: &Context, decided: &[Decided], explain: bool) -> anyhow::Result<()> {
    if context.form.format == Format::Json {
        let all: Vec<serde_json::Value> = decided.iter().map(document).collect();
        return context.json(&json!(all));
    }
    context.table(&table(decided))?;
    if explain && matches!(context.form.format, Format::Table | Format::Md) {
        for one in decided {
            context.data(&explanation(one))?;
        }
    }
    Ok(())
}

fn title(tier: &Tier) -> String {
    if tier.gpus == 1 {
        tier.name.clone()
    } else {
        format!("{} × {}", tier.gpus, tier.name)
    }
}

/// A time with its range, in the unit one would say.
fn range((value, low, high): (f64, f64, f64)) -> String {
    let (scale, unit) = match value {
        s if s < 1e-3 => (1e6, "µs"),
        s if s < 1.0 => (1e3, "ms"),
        s if s < 120.0 => (1.0, "s"),
        s if s < 7200.0 => (1.0 / 60.0, "min"),
        _ => (1.0 / 3600.0, "h"),
    };
    let shown = |seconds: f64| significant(scale * seconds, 3);
    if high - low <= f64::EPSILON * value {
        return format!("{} {unit}", shown(value));
    }
    format!("{} {unit} ({}–{})", shown(value), shown(low), shown(high))
}

/// What a unit of work costs there over what it costs now, less 1.
fn change(one: &Decided, candidate: &Candidate) -> Option<f64> {
    let now = one.now.hourly? * one.job.seconds / 3600.0;
    Some(candidate.cost.0 / now - 1.0)
}

fn table(decided: &[Decided]) -> Table {
    let mut table = Table::new(vec![
        Column::left("job", "job").wrap(10),
        Column::left("now", "now").wrap(10),
        Column::left("tier", "tier").wrap(12),
        Column::right("usd_per_hour", "price").unit("USD/h"),
        Column::left("time", "a unit of work").priority(60).wrap(10),
        Column::right("cost_change", "cost"),
        Column::left("decided_by", "by"),
        Column::left("why", "why").wrap(16),
        Column::raw("seconds"),
        Column::raw("seconds_low"),
        Column::raw("seconds_high"),
        Column::raw("usd_per_unit_of_work"),
        Column::raw("usd_per_unit_of_work_low"),
        Column::raw("usd_per_unit_of_work_high"),
        Column::raw("saving_usd_per_month"),
        Column::raw("slo_miss_chance"),
    ]);
    for one in decided {
        table.push(row(one));
    }
    table.footnote("a unit of work takes so long there, with its 80 % range; cost: of a unit of work, against now; prices are the cheapest of the catalogue on demand, a slice at its share of the board");
    table
}

fn row(one: &Decided) -> Vec<Cell> {
    let decision = &one.decision;
    let mut cells = vec![Cell::text(&one.job.name), Cell::text(title(&one.now))];
    let found = decision
        .decided
        .and_then(|(decider, at)| Some((decider, decision.candidates.get(at)?)));
    let Some((decider, candidate)) = found else {
        cells.extend([
            Cell::missing(),
            Cell::missing(),
            Cell::missing(),
            Cell::missing(),
            Cell::missing(),
            Cell::text(nothing_fits(one)),
        ]);
        return cells;
    };
    let tier = &one.tiers[candidate.tier];
    let opinion = [&decision.forest, &decision.rule, &decision.physics][decider as usize];
    let change = change(one, candidate);
    let saving = one.job.hours.and_then(|hours| {
        let hourly = one.now.hourly?;
        Some(-change? * hourly * hours)
    });
    cells.extend([
        Cell::text(title(tier)),
        Cell::of(tier.hourly, Cell::number),
        Cell::new(range(candidate.seconds), range(candidate.seconds)),
        Cell::of(change, |change| {
            // Below half a percent nothing is gained or lost.
            let shown = match change {
                small if small.abs() < 0.005 => "0 %".into(),
                less if less < 0.0 => format!("−{} %", significant(-100.0 * less, 2)),
                more => format!("+{} %", significant(100.0 * more, 2)),
            };
            Cell::new(shown, change)
        }),
        Cell::text(decider.name()),
        Cell::text(opinion.reasons.first().cloned().unwrap_or_default()),
        Cell::number(candidate.seconds.0),
        Cell::number(candidate.seconds.1),
        Cell::number(candidate.seconds.2),
        Cell::number(candidate.cost.0),
        Cell::number(candidate.cost.1),
        Cell::number(candidate.cost.2),
        Cell::of(saving, Cell::number),
        Cell::number(candidate.miss),
    ]);
    cells
}

/// Why no tier fits: the reason of the present GPU, else the first.
fn nothing_fits(one: &Decided) -> String {
    let reason = one
        .decision
        .refused
        .iter()
        .find(|(tier, _)| one.tiers[*tier].name == one.now.name)
        .or(one.decision.refused.first());
    match reason {
        Some((tier, reason)) => format!("no tier fits: {} {reason}", title(&one.tiers[*tier])),
        None => "no tier fits: none has a price".into(),
    }
}

fn opinion_text(one: &Decided, name: &str, opinion: &Opinion) -> String {
    let mut text = match &opinion.candidate {
        Ok(at) => {
            let tier = one.decision.candidates.get(*at).map(|c| &one.tiers[c.tier]);
            format!("  {name}: {}\n", tier.map_or_else(String::new, title))
        }
        Err(reason) => format!("  {name}: abstains: {reason}\n"),
    };
    for reason in &opinion.reasons {
        let _ = writeln!(text, "    {reason}");
    }
    text
}

/// Cheapest candidates that an explanation lists.
const LISTED: usize = 6;

fn explanation(one: &Decided) -> String {
    let decision = &one.decision;
    let mut text = format!("\n{}\n", one.job.name);
    for (name, opinion) in [
        ("forest", &decision.forest),
        ("rules", &decision.rule),
        ("physics", &decision.physics),
    ] {
        text += &opinion_text(one, name, opinion);
    }
    let _ = writeln!(text, "  tiers that fit, cheapest first:");
    for candidate in decision.candidates.iter().take(LISTED) {
        let tier = &one.tiers[candidate.tier];
        let _ = writeln!(
            text,
            "    {}: {}, {} USD a thousand ({}–{})",
            title(tier),
            range(candidate.seconds),
            significant(1e3 * candidate.cost.0, 3),
            significant(1e3 * candidate.cost.1, 3),
            significant(1e3 * candidate.cost.2, 3),
        );
    }
    let more = decision.candidates.len().saturating_sub(LISTED);
    if more > 0 {
        let _ = writeln!(text, "    and {more} more");
    }
    let _ = writeln!(text, "  tiers that do not fit: {}", decision.refused.len());
    for (reason, tiers) in grouped(one) {
        let _ = writeln!(text, "    {reason}: {tiers}");
    }
    text
}

/// Reasons of refusal, each with the first tier and how many more.
fn grouped(one: &Decided) -> Vec<(String, String)> {
    let mut groups: Vec<(String, String, usize)> = Vec::new();
    for (tier, reason) in &one.decision.refused {
        let kind = core::mem::discriminant(reason);
        let known = one
            .decision
            .refused
            .iter()
            .position(|(_, other)| core::mem::discriminant(other) == kind);
        let first = known.and_then(|at| one.decision.refused.get(at));
        let Some((_, first)) = first else { continue };
        let key = first.to_string();
        match groups.iter_mut().find(|(other, _, _)| *other == key) {
            Some((_, _, more)) => *more += 1,
            None => groups.push((key, title(&one.tiers[*tier]), 0)),
        }
    }
    groups
        .into_iter()
        .map(|(reason, tier, more)| {
            let tiers = match more {
                0 => tier,
                more => format!("{tier}, and {more} more for a like reason"),
            };
            (reason, tiers)
        })
        .collect()
}

/// Everything about one decision, for programs.
fn document(one: &Decided) -> serde_json::Value {
    let opinion = |opinion: &Opinion| {
        let tier = opinion.candidate.as_ref().ok().and_then(|at| {
            let candidate = one.decision.candidates.get(*at)?;
            Some(title(&one.tiers[candidate.tier]))
        });
        json!({
            "tier": tier,
            "abstains": opinion.candidate.as_ref().err(),
            "reasons": opinion.reasons,
        })
    };
    let candidate = |candidate: &Candidate| {
        let tier = &one.tiers[candidate.tier];
        json!({
            "tier": title(tier),
            "gpu": tier.name,
            "gpus": tier.gpus,
            "slice": tier.slice,
            "offer": tier.offer,
            "usd_per_hour": tier.hourly,
            "seconds": candidate.seconds.0,
            "seconds_low": candidate.seconds.1,
            "seconds_high": candidate.seconds.2,
            "usd_per_unit_of_work": candidate.cost.0,
            "usd_per_unit_of_work_low": candidate.cost.1,
            "usd_per_unit_of_work_high": candidate.cost.2,
            "cost_change": change(one, candidate),
            "slo_miss_chance": candidate.miss,
        })
    };
    let decision = &one.decision;
    let decided = decision
        .decided
        .and_then(|(_, at)| decision.candidates.get(at));
    json!({
        "job": one.job.name,
        "now": title(&one.now),
        "decided_by": decision.decided.map(|(decider, _)| decider.name()),
        "decided": decided.map(candidate),
        "rule": opinion(&decision.rule),
        "forest": opinion(&decision.forest),
        "physics": opinion(&decision.physics),
        "candidates": decision.candidates.iter().map(candidate).collect::<Vec<_>>(),
        "refused": decision.refused.iter().map(|(tier, reason)| json!({
            "tier": title(&one.tiers[*tier]),
            "reason": reason.to_string(),
        })).collect::<Vec<_>>(),
    })
}

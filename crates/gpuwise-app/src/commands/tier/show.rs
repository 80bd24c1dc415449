//! Decisions as a table, and as an explanation.

use super::{Context, Decided};
use crate::settings::Format;
use gpuwise_domain::{
    estimate::Estimate,
    price::{Per, Price},
};
use gpuwise_measure::tier::{
    engine::{Candidate, Decision, Opinion},
    scaling::Tier,
};
use gpuwise_units::{Currency, significant};
use gpuwise_view::record::{self, Fields, Record};
use std::fmt::Write as _;

pub(super) fn show(context: &Context, decided: &[Decided], explain: bool) -> anyhow::Result<()> {
    let mut table = record::table(decided);
    table.footnote("a unit of work takes so long there, with its 80 % range; cost: of a unit of work, against now; prices are the cheapest of the catalogue on demand, a slice at its share of the board");
    context.table(&table)?;
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

/// Below half a percent nothing is gained or lost.
fn changed(change: f64) -> String {
    match change {
        small if small.abs() < 0.005 => "0 %".into(),
        less if less < 0.0 => format!("−{} %", significant(-100.0 * less, 2)),
        more => format!("+{} %", significant(100.0 * more, 2)),
    }
}

impl Decided {
    fn decided(&self) -> Option<Choice<'_>> {
        let (_, at) = self.decision.decided?;
        Some(Choice(self, self.decision.candidates.get(at)?))
    }

    fn why(&self) -> String {
        let Decision {
            forest,
            rule,
            physics,
            decided,
            ..
        } = &self.decision;
        let Some((decider, _)) = decided.filter(|_| self.decided().is_some()) else {
            return nothing_fits(self);
        };
        let opinion = [forest, rule, physics][decider as usize];
        let reason = || opinion.reasons.first().cloned();
        let mut why = self
            .decision
            .note
            .clone()
            .or_else(reason)
            .unwrap_or_default();
        let open = self.decision.undecided.len();
        if open > 0 {
            let tiers = if open == 1 { "tier" } else { "tiers" };
            let _ = write!(why, "; {open} {tiers} may cost less, undecided");
        }
        why
    }

    /// Tiers that may cost less, as nothing tells.
    fn undecided(&self) -> Vec<String> {
        let candidates = &self.decision.candidates;
        let open = self.decision.undecided.iter();
        open.filter_map(|at| Some(title(&self.tiers[candidates.get(*at)?.tier])))
            .collect()
    }

    /// USD a month that the change saves.
    fn saving(&self) -> Option<f64> {
        let change = change(self, self.decided()?.1)?;
        Some(-change * self.now.hourly? * self.job.hours?)
    }
}

impl Record for Decided {
    const NAME: &'static str = "TierDecision";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("job", "job", |d| &d.job.name).wrap(10);
        of.column("now", "now", |d| title(&d.now)).wrap(10);
        of.made_maybe("decided", Self::decided).grouped();
        of.column("decided_by", "by", |d| Some(d.decision.decided?.0.name()));
        of.column("why", "why", Self::why).wrap(16);
        of.field("saving_per_month", |d| {
            Some(Price::new(d.saving()?, Currency::USD, Per::Month))
        });
        of.field("undecided_against", Self::undecided);
        of.made_part("rule", |d| Said(d, &d.decision.rule));
        of.made_part("forest", |d| Said(d, &d.decision.forest));
        of.made_part("physics", |d| Said(d, &d.decision.physics));
        of.made("candidates", |d| {
            let candidates = d.decision.candidates.iter();
            candidates.map(|one| Choice(d, one)).collect()
        });
        of.made("refused", |d| {
            let refused = d.decision.refused.iter();
            let tier = |at: usize| &d.tiers[at];
            refused
                .map(|(at, why)| NoTier(tier(*at), why.to_string()))
                .collect()
        });
    }
}

/// A tier that fits.
struct Choice<'a>(&'a Decided, &'a Candidate);

impl Choice<'_> {
    fn tier(&self) -> &Tier {
        &self.0.tiers[self.1.tier]
    }
}

impl Record for Choice<'_> {
    const NAME: &'static str = "TierCandidate";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("tier", "tier", |c| title(c.tier())).wrap(12);
        of.field("gpu", |c| &c.tier().name);
        of.field("gpus", |c| c.tier().gpus);
        of.field("slice", |c| c.tier().slice);
        of.field("offer", |c| &c.tier().offer);
        of.column("price_per_hour", "price", |c| {
            let price = |amount| Price::new(amount, Currency::USD, Per::Hour);
            c.tier().hourly.map(price)
        })
        .unit("¤/h");
        let time = of.noun().map(|c| range(c.1.seconds).into());
        of.column("seconds", "a unit of work", |c| {
            let (value, low, high) = c.1.seconds;
            Estimate { value, low, high }
        })
        .priority(60)
        .wrap(10)
        .seen(time);
        of.field("price_per_unit_of_work", |c| {
            let price = |amount| Price::new(amount, Currency::USD, Per::Unit);
            let (value, low, high) = c.1.cost;
            (price(value), price(low), price(high))
        });
        of.column("cost_change", "cost", |c| change(c.0, c.1))
            .said_of(changed);
        of.field("slo_miss_chance", |c| c.1.miss);
        of.field("ranked", |c| c.1.ranked);
    }
}

/// What one of those who decide says.
struct Said<'a>(&'a Decided, &'a Opinion);

impl Record for Said<'_> {
    const NAME: &'static str = "TierOpinion";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("tier", |s| {
            let at = *s.1.candidate.as_ref().ok()?;
            let candidate = s.0.decision.candidates.get(at)?;
            Some(title(&s.0.tiers[candidate.tier]))
        });
        of.field("abstains", |s| s.1.candidate.as_ref().err());
        of.field("reasons", |s| &s.1.reasons);
    }
}

/// A tier that does not fit, and why.
struct NoTier<'a>(&'a Tier, String);

impl Record for NoTier<'_> {
    const NAME: &'static str = "RefusedTier";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("tier", |r| title(r.0));
        of.field("reason", |r| &r.1);
    }
}

/// The schema of decisions.
pub(crate) fn schema(answer: &str) -> String {
    record::rows_schema::<Decided>(answer, "Which tier for each workload")
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
    if let Some(note) = &decision.note {
        let _ = writeln!(text, "  {note}");
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
    if let [first, rest @ ..] = one.undecided().as_slice() {
        let more = match rest.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let _ = writeln!(
            text,
            "  undecided: {first}{more} may cost less; nothing of a family was timed"
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

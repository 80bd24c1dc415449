//! A plan in the form that was asked for.

use super::{
    Planned, choices,
    rule::{self, RuleOfThumb},
};
use crate::{commands::Context, names, settings};
use gpuwise_domain::{balance::Balance, deployment::Sizing, estimate::Derivation};
use gpuwise_view::{
    Style, answer, balance as around, escape_markdown, explain, plan as view,
    record::{self},
};
use serde_json::Value;

/// A plan with what else was asked about it.
struct Shown<'a> {
    sizing: &'a Sizing,
    /// What could run instead of what runs.
    free: Option<&'a Sizing>,
    /// What the picked deployment asks of its host.
    host: Option<&'a Balance>,
    /// GPUs whose absence is to be explained.
    why_not: Vec<String>,
    derivations: Option<&'a [Derivation]>,
    rule: bool,
}

/// Writes the plan.
pub(super) fn show(
    context: &Context,
    flags: &settings::Plan,
    planned: &Planned,
) -> anyhow::Result<()> {
    let result = &flags.result;
    let absent = result
        .why_not
        .iter()
        .map(|name| Ok(names::device(&planned.loaded.catalogue, "--why-not", name)?.name()));
    let sizing = &planned.sizing;
    let picked = sizing
        .ranked
        .get(usize::from(result.pick).saturating_sub(1));
    let shown = Shown {
        why_not: absent.collect::<anyhow::Result<_>>()?,
        derivations: picked
            .filter(|_| result.explain)
            .map(|picked| picked.derivations.as_slice()),
        ..Shown::of(planned, result.rule == Some(settings::RuleName::Liqid))
    };
    match context.form.format {
        settings::Format::Table => context.data(&shown.text(context.form.style)),
        settings::Format::Md => context.data(&shown.markdown()),
        settings::Format::Csv => context.data(&view::csv(sizing)),
        settings::Format::Json => context.json(&record::json(&shown)),
    }
}

pub(super) fn json(planned: &Planned) -> Value {
    record::json(&Shown::of(planned, false))
}

impl<'a> Shown<'a> {
    fn of(planned: &'a Planned, rule: bool) -> Self {
        Self {
            sizing: &planned.sizing,
            free: planned.instead.as_ref(),
            host: planned.host.as_ref(),
            why_not: Vec::new(),
            derivations: None,
            rule,
        }
    }

    fn text(&self, style: Style) -> String {
        let mut parts = vec![view::text(self.sizing, style)];
        if let Some(host) = self.host {
            parts.push(around::required(host, style));
        }
        if let Some(free) = self.free {
            parts.push(style.wrap(&choices::compared(self.sizing, free), 2) + "\n");
        }
        parts.extend(
            self.why_not
                .iter()
                .map(|gpu| view::why_not(self.sizing, gpu, style)),
        );
        parts.extend(
            self.derivations
                .map(|derivations| explain::text(derivations, style)),
        );
        if self.rule {
            parts.push(rule::text(self.sizing, style));
        }
        // The first screen says only how many notes there are; what was left aside of a command
        // that runs is part of the answer.
        let explained = self.derivations.is_some() || self.free.is_some();
        if explained && !self.sizing.ranked.is_empty() && !self.sizing.notes.is_empty() {
            parts.push(answer::explained(&self.sizing.notes, style));
        }
        parts.join("\n")
    }

    fn markdown(&self) -> String {
        let mut parts = vec![view::markdown(self.sizing)];
        if let Some(host) = self.host {
            let table = around::table(host).to_markdown();
            parts.push(format!("## What the host must have\n\n{table}"));
        }
        if let Some(free) = self.free {
            parts.push(escape_markdown(&choices::compared(self.sizing, free)) + "\n");
        }
        parts.extend(
            self.why_not
                .iter()
                .map(|gpu| view::why_not_markdown(self.sizing, gpu)),
        );
        let explained = self.derivations.map(explain::markdown);
        parts.extend(explained.map(|text| format!("## How it came about\n\n{text}")));
        if self.rule {
            parts.push(format!(
                "## A rule of thumb\n\n{}",
                rule::markdown(self.sizing)
            ));
        }
        parts.join("\n")
    }
}

gpuwise_view::record!(Shown<'_>, "ServingPlanAnswer", |of| {
    of.inline(|s| s.sizing);
    of.maybe("instead", |s| s.free);
    of.maybe("host", |s| s.host);
    of.made_maybe("rule", |s| s.rule.then(|| RuleOfThumb::of(s.sizing)));
});

/// The schema of a plan's JSON.
pub(super) fn schema(answer: &str) -> String {
    record::document_schema::<Shown<'_>>(answer, "What serves a language model under an SLO")
}

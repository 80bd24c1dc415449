//! A plan in the form that was asked for.

use super::{Planned, choices, rule};
use crate::{commands::Context, names, settings};
use gpuwise_domain::{balance::Balance, deployment::Sizing, estimate::Derivation};
use gpuwise_view::{Style, balance as around, escape_markdown, explain, plan as view};
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
///
/// # Errors
/// When a GPU is not known, or stdout cannot be written.
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
        .deployments
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
        settings::Format::Json => context.json(&shown.json()),
    }
}

/// A plan as JSON.
pub(super) fn json(planned: &Planned) -> Value {
    Shown::of(planned, false).json()
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
        if explained && !self.sizing.deployments.is_empty() && !self.sizing.notes.is_empty() {
            let notes = self.sizing.notes.iter();
            parts.push(
                notes
                    .map(|note| style.wrap(&format!("note: {note}"), 6) + "\n")
                    .collect(),
            );
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

    fn json(&self) -> Value {
        let mut value = view::sizing_json(self.sizing);
        if let Value::Object(fields) = &mut value {
            fields.extend(
                self.free
                    .map(|free| ("instead".into(), view::sizing_json(free))),
            );
            fields.extend(self.host.map(|host| ("host".into(), around::json(host))));
            if self.rule {
                fields.insert("rule".into(), rule::json(self.sizing));
            }
        }
        value
    }
}

//! Rules for Prometheus: alerts that fire when an error budget burns too fast in both windows.

use super::slos::target;
use gpuwise_account::slo::Rule;
use gpuwise_broker::{Slo, slo_target};
use gpuwise_wire::broker::IndicatorDocument;
use std::fmt::Write as _;

/// A file of rules. The counters are those of `/metrics`, which names SLOs by their numbers alone.
pub(crate) fn rules_of<'s>(slos: impl Iterator<Item = &'s Slo>) -> String {
    let mut out = String::from("groups:\n");
    let mut some = false;
    for slo in slos {
        some = true;
        let _ = writeln!(out, "- name: gpuwise-{}\n  rules:", slo.id());
        for (place, objective) in slo.document.objectives.iter().enumerate() {
            // Leases that wait too long burn before they are counted.
            let waits = matches!(objective.indicator, IndicatorDocument::TimeToLease { .. });
            let labels = format!("slo=\"{}\",objective=\"{place}\"", slo.id());
            let budget = format!("{}", f64::from(1_000_000 - objective.good_ppm) / 1e6);
            for rule in Rule::ALL {
                let long = burn(&labels, rule.name(), &budget, waits);
                let short = burn(&labels, &window(rule), &budget, waits);
                let limit = rule.tenths() as f64 / 10.0;
                let what = format!(
                    "{} of {}: {} burns its error budget",
                    slo.id(),
                    slo_target(slo),
                    objective.indicator.word()
                );
                let _ = writeln!(
                    out,
                    "  - alert: GpuwiseErrorBudgetBurns\n    expr: |-\n      {long} > {limit}\n      and\n      \
                     {short} > {limit}\n    labels:\n      severity: {}\n      window: {}\n    annotations:\n      \
                     summary: {}\n      description: {}",
                    rule.severity().name(),
                    rule.name(),
                    quoted(&what),
                    quoted(&format!("good is {}", target(&objective.indicator))),
                );
            }
        }
    }
    if some { out } else { "groups: []\n".into() }
}

/// The short window as Prometheus writes it.
fn window(rule: Rule) -> String {
    format!("{}m", rule.short().0 / 60_000_000_000)
}

fn burn(labels: &str, window: &str, budget: &str, waits: bool) -> String {
    let rate = |name: &str| format!("sum(increase({name}{{{labels}}}[{window}]))");
    let (good, events) = (
        rate("gpuwise_slo_good_total"),
        rate("gpuwise_slo_events_total"),
    );
    if waits {
        let late = format!("sum(gpuwise_slo_late{{{labels}}})");
        return format!("(1 - {good} / ({events} + {late})) / {budget}");
    }
    format!("(1 - {good} / {events}) / {budget}")
}

/// A text as YAML takes it in one line.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

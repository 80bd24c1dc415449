//! Rules for Prometheus: alerts that fire when an error budget burns too fast in both windows.

use super::slos::target;
use gpuwise_account::slo::Rule;
use gpuwise_broker::{Slo, slo_target};
use std::fmt::Write as _;

/// A file of rules. The counters are those of `/metrics`, which names SLOs by their numbers alone.
pub(crate) fn rules_of<'s>(slos: impl Iterator<Item = &'s Slo>) -> String {
    let mut out = String::from("groups:\n");
    let mut some = false;
    for slo in slos {
        some = true;
        let _ = writeln!(out, "- name: gpuwise-{}\n  rules:", slo.id());
        for (place, (objective, _)) in slo.objectives().enumerate() {
            let labels = format!("slo=\"{}\",objective=\"{place}\"", slo.id());
            let budget = format!("{}", f64::from(1_000_000 - objective.good_ppm) / 1e6);
            for rule in Rule::ALL {
                let long = burn(&labels, rule.name(), &budget);
                let short = burn(&labels, &window(rule), &budget);
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

fn burn(labels: &str, window: &str, budget: &str) -> String {
    let rate = |name: &str| format!("sum(increase({name}{{{labels}}}[{window}]))");
    format!(
        "(1 - {} / {}) / {budget}",
        rate("gpuwise_slo_good_total"),
        rate("gpuwise_slo_events_total")
    )
}

/// A text as YAML takes it in one line.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

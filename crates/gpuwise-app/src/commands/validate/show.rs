//! What was found, shown: the ladder, the margin, and how the formulas of `plan` compare.

use super::{TrialResult, Validated};
use crate::{commands::Context, settings};
use gpuwise_domain::{deployment::Deployment, run::Metric};
use gpuwise_units::{Percentile, significant};
use gpuwise_view::run as view;
use std::fmt::Write as _;

/// Below this share of the knee the formulas of `plan` hold for steady traffic.
const CALM: f64 = 0.7;

/// Writes what was found in the form that was asked for.
pub(super) fn show(context: &Context, validated: &Validated) -> anyhow::Result<()> {
    let (set, found) = (&validated.runs, &validated.found);
    match context.form.format {
        settings::Format::Json => context.data(&gpuwise_wire::runs_to_json(set)),
        settings::Format::Csv => context.data(&view::ladder(&found.ladder).to_csv()),
        settings::Format::Md => context.data(&view::set_markdown(set)),
        settings::Format::Table => {
            let mut text = view::set_text(set, context.form.style);
            text += &verdict(found, &validated.deployment);
            context.data(&text)
        }
    }
}

/// The margin, and how the formulas of `plan` compare.
fn verdict(found: &TrialResult, deployment: &Deployment) -> String {
    let mut text = String::new();
    let scale = found.ladder.expected.unwrap_or(1.0);
    if let Some(knee) = &found.ladder.knee {
        let _ = writeln!(
            text,
            "\nMargin: {} × the expected load ({} to {} over {} seeds)",
            significant(knee.load / scale, 3),
            significant(knee.low / scale, 3),
            significant(knee.high / scale, 3),
            knee.seeds
        );
    }
    if let Some(lines) = against_plan(found, deployment) {
        text += &lines;
    }
    text
}

/// What `plan` computed beside what was simulated, and which of both to believe.
fn against_plan(found: &TrialResult, deployment: &Deployment) -> Option<String> {
    let report = found.expected.as_ref()?;
    let of = |metric: Metric, at: Option<Percentile>| -> Option<f64> {
        let distribution = report.distribution(metric)?;
        at.map_or(Some(distribution.mean), |percentile| {
            distribution.at(percentile)
        })
    };
    let figures = &deployment.figures;
    let milliseconds = |seconds: f64| format!("{} ms", significant(seconds * 1e3, 3));
    let mut text = String::from("\nBeside the formulas of `plan`, at the expected load:\n");
    let mut differs = false;
    for (name, estimate, at, simulated) in [
        (
            "TTFT",
            figures.ttft,
            figures.ttft_at,
            of(Metric::Ttft, figures.ttft_at),
        ),
        (
            "TPOT",
            figures.tpot,
            figures.tpot_at,
            of(Metric::Tpot, figures.tpot_at),
        ),
    ] {
        let simulated = simulated?;
        let inside = (estimate.low..=estimate.high).contains(&simulated);
        differs |= !inside;
        let at = at.map_or("mean".into(), |percentile| percentile.to_string());
        let _ = writeln!(
            text,
            "  {name} {at}: {} ({} to {}) computed, {} simulated{}",
            milliseconds(estimate.value),
            milliseconds(estimate.low),
            milliseconds(estimate.high),
            milliseconds(simulated),
            if inside { "" } else { ": outside of the range" }
        );
    }
    let share = found
        .ladder
        .knee
        .as_ref()
        .and_then(|knee| Some(found.ladder.expected? / knee.load));
    let advice = match (differs, share) {
        (false, _) => "  They agree within the range.\n".to_owned(),
        (true, Some(share)) if share > CALM => format!(
            "  Believe the simulation: at {} % of the knee queues decide, which the formulas treat as steady.\n",
            significant(share * 100.0, 2)
        ),
        (true, _) => "  Believe the simulation: both take the same step times, and it follows this traffic request by request.\n".to_owned(),
    };
    text.push_str(&advice);
    Some(text)
}

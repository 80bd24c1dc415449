//! What a run of the ladder says: whether it holds, its row, what limits it beyond.

use gpuwise_domain::run::{Metric, RunReport, Rung, SloMetric};
use gpuwise_domain::workload::{Slo, Target};
use gpuwise_units::Percentile;

/// Whether the SLO holds; without one, whether the service keeps up.
pub(super) fn holds(report: &RunReport) -> bool {
    let saturated = report.saturation.is_some_and(|sign| sign.saturated);
    match report.attainment.kept {
        Some(kept) => kept && !saturated,
        None => !saturated && report.all().is_some_and(|all| all.outcomes.unserved() == 0),
    }
}

pub(super) fn rung(name: Option<String>, load: f64, report: &RunReport, slo: &Slo) -> Rung {
    let at = |metric: Metric, target: Option<Target>| -> Option<f64> {
        let distribution = report.distribution(metric)?;
        match target.and_then(|target| target.percentile) {
            Some(percentile) => distribution.at(percentile),
            None if target.is_some() => Some(distribution.mean),
            None => distribution.at(Percentile::P95).or(Some(distribution.mean)),
        }
    };
    let outcomes = report.all().map(|all| all.outcomes).unwrap_or_default();
    Rung {
        name,
        load,
        delivered: report.traffic.delivered.map(gpuwise_units::PerSecond::get),
        ttft: at(Metric::Ttft, slo.ttft),
        tpot: at(Metric::Tpot, slo.tpot),
        end_to_end: at(Metric::EndToEnd, slo.end_to_end),
        goodput: report.attainment.goodput.map(gpuwise_units::PerSecond::get),
        output_tokens: report
            .steady
            .output_tokens
            .map(gpuwise_units::PerSecond::get),
        concurrent: report.steady.concurrent,
        unserved: outcomes.unserved() as f64 / (outcomes.total() as f64).max(1.0),
        kept: report.attainment.kept,
        saturated: report.saturation.map(|sign| sign.saturated),
    }
}

/// What breaks first in a run that does not hold, and why.
pub(super) fn limited_by(report: &RunReport) -> String {
    let first = report
        .attainment
        .verdicts
        .iter()
        .filter(|verdict| verdict.kept == Some(false))
        .max_by(|a, b| {
            let over = |v: &gpuwise_domain::run::Verdict| match (v.found, v.about) {
                (Some(found), SloMetric::Throughput) => v.bound / found.max(1e-12),
                (Some(found), _) => found / v.bound,
                (None, _) => f64::INFINITY,
            };
            over(a).total_cmp(&over(b))
        });
    let what = first.map_or_else(
        || "the queue grows without bound".to_owned(),
        |verdict| match verdict.at {
            Some(percentile) => format!("{} {percentile}", verdict.about.name()),
            None => format!("{} mean", verdict.about.name()),
        },
    );
    match &report.limited_by {
        Some(cause) => format!("{what}, by {cause}"),
        None => what,
    }
}

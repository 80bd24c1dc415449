//! What the loads came to, in the form that was asked for.

use super::loads::{self, Trial};
use crate::{commands::Context, made::made, settings::Format};
use gpuwise_domain::{
    run::{Distribution, Knee, Ladder, LoadUnit, Metric, RunReport, RunSet, Rung, Verdict},
    workload::{Slo, Target},
};
use gpuwise_units::{PerSecond, Percentile};
use gpuwise_view::run as view;

/// The percentile of a curve where no SLO was given.
const USUAL: f64 = 95.0;

/// Runs at rising loads as a curve; reports are put in the order of their loads.
pub(super) fn ladder(
    unit: LoadUnit,
    reports: &mut Vec<RunReport>,
    tried: &[Trial],
    slo: &Slo,
) -> Ladder {
    let usual = Percentile::from_percent(USUAL);
    let at = |target: Option<Target>| target.map_or(usual, |target| target.percentile);
    let (ttft_at, tpot_at, end_to_end_at) = (at(slo.ttft), at(slo.tpot), at(slo.end_to_end));
    let mut pairs: Vec<(f64, RunReport)> = tried
        .iter()
        .map(|one| one.load)
        .zip(std::mem::take(reports))
        .collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let rungs = pairs
        .iter()
        .map(|(load, report)| Rung {
            name: None,
            load: *load,
            delivered: report.traffic.delivered.map(PerSecond::get),
            ttft: value(report, Metric::Ttft, ttft_at),
            tpot: value(report, Metric::Tpot, tpot_at),
            end_to_end: value(report, Metric::EndToEnd, end_to_end_at),
            goodput: report.attainment.goodput.map(PerSecond::get),
            output_tokens: report.steady.output_tokens.map(PerSecond::get),
            concurrent: report.steady.concurrent,
            unserved: unserved(report),
            kept: report.attainment.kept,
            saturated: report.saturation.map(|signs| signs.saturated),
        })
        .collect();
    let knee = knee(&pairs, tried);
    reports.extend(pairs.into_iter().map(|(_, report)| report));
    Ladder {
        unit,
        ttft_at,
        tpot_at,
        end_to_end_at,
        rungs,
        near: Vec::new(),
        expected: None,
        knee,
    }
}

fn value(report: &RunReport, metric: Metric, at: Option<Percentile>) -> Option<f64> {
    let distribution: &Distribution = report.distribution(metric)?;
    match at {
        Some(percentile) => distribution.at(percentile),
        None => Some(distribution.mean),
    }
}

fn unserved(report: &RunReport) -> f64 {
    report.all().map_or(0.0, |all| {
        let total = all.outcomes.total().max(1);
        all.outcomes.unserved() as f64 / total as f64
    })
}

fn knee(pairs: &[(f64, RunReport)], tried: &[Trial]) -> Option<Knee> {
    let (load, next) = loads::knee(tried)?;
    let at = |load: f64| {
        pairs
            .iter()
            .find(|(other, _)| other.total_cmp(&load).is_eq())
    };
    let failing = next.and_then(at);
    // What was sent is what was carried: chance makes of a rate a little more or less.
    let delivered = |found: Option<&(f64, RunReport)>| {
        let rate = found.and_then(|(_, report)| report.traffic.delivered);
        rate.map(PerSecond::get)
    };
    let carried = delivered(at(load)).unwrap_or(load);
    let failed = delivered(failing).or(next).unwrap_or(carried);
    let limited_by = failing.map_or_else(
        || "nothing up to the highest load that was tried".to_owned(),
        |(_, report)| limited_by(report),
    );
    Some(Knee {
        load: carried,
        nominal: (carried.total_cmp(&load).is_ne()).then_some(load),
        low: carried.min(failed),
        high: carried.max(failed),
        seeds: 1,
        limited_by,
    })
}

/// What fails first where the SLO does.
fn limited_by(report: &RunReport) -> String {
    let missed = |verdict: &&Verdict| verdict.kept == Some(false);
    match report.attainment.verdicts.iter().find(missed) {
        Some(verdict) => {
            let at = verdict.at.map_or_else(String::new, |at| format!(" {at}"));
            format!("{}{at}", verdict.about.name())
        }
        None if unserved(report) > 0.0 => "requests are not served".into(),
        None => "more comes than is served".into(),
    }
}

pub(super) fn document(runs: &RunSet) -> String {
    gpuwise_wire::runs_to_json(runs)
}

/// The report in one file.
pub(super) fn html(runs: &RunSet) -> String {
    view::page(runs, &made())
}

/// Writes the result to stdout.
pub(super) fn show(context: &Context, runs: &RunSet) -> anyhow::Result<()> {
    let style = context.form.style;
    context.data(&match context.form.format {
        Format::Json => document(runs),
        Format::Csv => view::set_csv(runs),
        Format::Table => view::set_text(runs, style),
        Format::Md => view::set_markdown(runs),
    })
}

//! The tables of a run.

use super::words;
use crate::{
    figures::{MISSING, TimeUnit, count, number, percent, seconds},
    plan::words::percentile,
    table::{Cell, Column, Table},
};
use gpuwise_domain::{
    request::Outcome,
    run::{Distribution, Group, Metric, MetricUnit, Part, RunReport},
};
use gpuwise_units::Percentile;

/// Percentiles that people see.
const SHOWN: [Percentile; 4] = [
    Percentile::P50,
    Percentile::P90,
    Percentile::P95,
    Percentile::P99,
];

/// Every metric of all requests: a row each, in a unit of its own.
pub fn latencies(report: &RunReport) -> Table {
    let mut columns = vec![
        Column::left("metric", "latency"),
        Column::left("unit", "unit"),
    ];
    columns.extend(SHOWN.map(|at| Column::right(at.to_string(), at.to_string())));
    columns.extend([
        Column::right("mean", "mean"),
        Column::right("standard_deviation", "deviation").priority(40),
        Column::right("maximum", "highest").priority(60),
        Column::right("count", "values").priority(50),
    ]);
    let mut table = Table::new(columns)
        .when_empty("No request was served whole in the steady window: there is no latency.");
    let mut few = false;
    for (metric, values) in report
        .all()
        .into_iter()
        .flat_map(|group| &group.distributions)
    {
        table.push(row(*metric, values, &mut few));
    }
    if few {
        table.footnote(format!(
            "{MISSING} fewer values than the percentile needs: 20 for p95, 100 for p99."
        ));
    }
    table
}

fn row(metric: Metric, values: &Distribution, few: &mut bool) -> Vec<Cell> {
    let unit = match metric.unit() {
        MetricUnit::Seconds => Some(words::unit(
            SHOWN
                .iter()
                .filter_map(|at| values.at(*at))
                .chain([values.mean]),
        )),
        MetricUnit::Tokens => None,
    };
    let show = |value: f64| match unit {
        Some(unit) => Cell::new(number(value * unit.per_second()), value),
        None => Cell::number(value),
    };
    let mut cells = vec![
        Cell::text(metric.name()),
        Cell::text(unit.map_or("tokens", TimeUnit::symbol)),
    ];
    for at in SHOWN {
        let found = values.at(at);
        *few |= found.is_none();
        cells.push(Cell::of(found, show));
    }
    cells.extend([
        show(values.mean),
        show(values.deviation),
        show(values.maximum),
        Cell::count(values.count),
    ]);
    cells
}

/// Tenants and stages, a row each; no rows where all requests are alike.
pub fn groups(report: &RunReport) -> Table {
    let parts: Vec<&Group> = report
        .groups
        .iter()
        .filter(|group| group.part != Part::All)
        .collect();
    let has_slo = !report.attainment.slo.is_empty();
    let at = |metric: Metric, at: Percentile| {
        let parts = parts.clone();
        parts
            .into_iter()
            .filter_map(move |group| group.distribution(metric)?.at(at))
    };
    let (ttft, tpot) = (
        words::unit(at(Metric::Ttft, Percentile::P95)),
        words::unit(at(Metric::Tpot, Percentile::P95)),
    );
    let mut columns = vec![
        Column::left("group", "group").wrap(10),
        Column::right("requests", "requests"),
        Column::right("served", "served"),
        Column::right("ttft_p50", "TTFT p50").unit(ttft.symbol()),
        Column::right("ttft_p95", "TTFT p95").unit(ttft.symbol()),
        Column::right("tpot_p50", "TPOT p50")
            .unit(tpot.symbol())
            .priority(60),
        Column::right("tpot_p95", "TPOT p95").unit(tpot.symbol()),
        Column::right("input", "ISL").unit("mean").priority(40),
        Column::right("output", "OSL").unit("mean").priority(40),
    ];
    if has_slo {
        columns.push(Column::right("attained", "met SLO"));
    }
    let mut table = Table::new(columns).when_empty("");
    for group in &parts {
        let figure = |metric: Metric, at: Percentile, unit: TimeUnit| {
            let found = group.distribution(metric).and_then(|values| values.at(at));
            Cell::of(found, |value| {
                Cell::new(number(value * unit.per_second()), value)
            })
        };
        let mean = |metric: Metric| {
            Cell::of(group.distribution(metric), |values| {
                Cell::number(values.mean)
            })
        };
        let total = group.outcomes.total();
        let served = group.outcomes.completed as f64 / total.max(1) as f64;
        table.push(vec![
            Cell::text(part(&group.part)),
            Cell::count(total),
            Cell::new(percent(served), served),
            figure(Metric::Ttft, Percentile::P50, ttft),
            figure(Metric::Ttft, Percentile::P95, ttft),
            figure(Metric::Tpot, Percentile::P50, tpot),
            figure(Metric::Tpot, Percentile::P95, tpot),
            mean(Metric::Input),
            mean(Metric::Output),
            Cell::of(group.attained, |share| Cell::new(percent(share), share)),
        ]);
    }
    table
}

/// `tenant search`, `stage 2`, `all`.
pub(super) fn part(part: &Part) -> String {
    match part {
        Part::All => "all".into(),
        Part::Tenant(name) => format!("tenant {name}"),
        Part::Stage(name) => format!("stage {name}"),
    }
}

/// Requests by outcome, with the reasons of those that were not served.
pub fn outcomes(report: &RunReport) -> Table {
    let mut table = Table::new(vec![
        Column::left("outcome", "outcome"),
        Column::right("requests", "requests"),
        Column::left("reason", "reason").wrap(24),
        Column::left("first", "first of them").wrap(20).priority(60),
    ]);
    let found = report.all().map(|group| group.outcomes).unwrap_or_default();
    for outcome in Outcome::ALL {
        let total = found.of(outcome);
        let reasons: Vec<_> = report
            .reasons
            .iter()
            .filter(|reason| reason.outcome == outcome)
            .collect();
        let told: u64 = reasons.iter().map(|reason| reason.count).sum();
        if total > told || (total == 0 && outcome == Outcome::Completed) {
            table.push(vec![
                Cell::text(outcome.name()),
                Cell::count(total.saturating_sub(told)),
                Cell::text(""),
                Cell::text(""),
            ]);
        }
        for reason in reasons {
            table.push(vec![
                Cell::text(outcome.name()),
                Cell::count(reason.count),
                Cell::text(reason.text.clone()),
                Cell::text(reason.first.clone()),
            ]);
        }
    }
    table
}

/// Every figure of every group of every run: a row each.
pub fn table(reports: &[RunReport]) -> Table {
    let mut table = Table::new(vec![
        Column::left("run", "run"),
        Column::left("group", "group"),
        Column::left("metric", "metric"),
        Column::left("statistic", "statistic"),
        Column::left("unit", "unit"),
        Column::right("value", "value"),
        Column::right("count", "values"),
        Column::left("method", "method"),
    ]);
    for (index, report) in reports.iter().enumerate() {
        let run = format!("{}", index + 1);
        whole_rows(&mut table, &run, report);
        for group in &report.groups {
            group_rows(&mut table, &run, group);
        }
    }
    table
}

fn whole_rows(table: &mut Table, run: &str, report: &RunReport) {
    let mut push = |metric: &str, statistic: &str, unit: &str, value: Option<f64>| {
        table.push(vec![
            Cell::text(run),
            Cell::text("all"),
            Cell::text(metric),
            Cell::text(statistic),
            Cell::text(unit),
            Cell::of(value, Cell::number),
        ]);
    };
    let rate = |value: Option<gpuwise_units::PerSecond>| value.map(gpuwise_units::PerSecond::get);
    push(
        "offered",
        "mean",
        "requests/s",
        rate(report.traffic.offered),
    );
    push(
        "delivered",
        "steady",
        "requests/s",
        rate(report.traffic.delivered),
    );
    for (name, found) in [("whole", &report.whole), ("steady", &report.steady)] {
        push("requests", name, "requests/s", rate(found.requests));
        push("input_tokens", name, "tokens/s", rate(found.input_tokens));
        push("output_tokens", name, "tokens/s", rate(found.output_tokens));
        push("concurrent", name, "requests", found.concurrent);
    }
    push(
        "goodput",
        "steady",
        "requests/s",
        rate(report.attainment.goodput),
    );
    push("attained", "share", "", report.attainment.share);
    push("span", "whole", "s", Some(report.span.whole().get()));
    push("span", "steady", "s", Some(report.span.steady().get()));
    let engine = &report.engine;
    let gauges = [
        ("batch", "sequences", engine.batch),
        ("waiting", "requests", engine.waiting),
        ("cache_use", "", engine.cache_use),
    ];
    for (name, unit, gauge) in gauges {
        push(name, "mean", unit, gauge.map(|gauge| gauge.mean));
        push(name, "highest", unit, gauge.map(|gauge| gauge.highest));
    }
    push("cache_hit", "share", "", engine.cache_hit);
    push("busy", "share", "", engine.busy);
    push("steps", "sum", "", engine.steps.map(|steps| steps as f64));
    push(
        "preemptions",
        "sum",
        "",
        engine.preemptions.map(|times| times as f64),
    );
    let spent = &report.spent;
    push("gpu_time", "sum", "GPU-s", spent.gpu_seconds);
    push(
        "energy",
        "sum",
        "J",
        spent.energy.map(gpuwise_units::Joules::get),
    );
    let money = spent.money;
    push(
        "money",
        "sum",
        money.as_ref().map_or("", |money| money.currency.code()),
        money.map(gpuwise_units::Money::as_f64),
    );
}

fn group_rows(table: &mut Table, run: &str, group: &Group) {
    let name = part(&group.part);
    for outcome in Outcome::ALL {
        table.push(vec![
            Cell::text(run),
            Cell::text(name.clone()),
            Cell::text("outcome"),
            Cell::text(outcome.name()),
            Cell::text("requests"),
            Cell::count(group.outcomes.of(outcome)),
        ]);
    }
    for (metric, values) in &group.distributions {
        let unit = match metric.unit() {
            MetricUnit::Seconds => "s",
            MetricUnit::Tokens => "tokens",
        };
        let method = match values.method {
            gpuwise_domain::run::Method::Exact => "exact".to_string(),
            gpuwise_domain::run::Method::Histogram { digits } => {
                format!("histogram of {digits} digits")
            }
        };
        let mut push = |statistic: String, value: Option<f64>| {
            table.push(vec![
                Cell::text(run),
                Cell::text(name.clone()),
                Cell::text(metric.key()),
                Cell::text(statistic),
                Cell::text(unit),
                Cell::of(value, Cell::number),
                Cell::count(values.count),
                Cell::text(method.clone()),
            ]);
        };
        push("mean".into(), Some(values.mean));
        push("minimum".into(), Some(values.minimum));
        push("maximum".into(), Some(values.maximum));
        push("standard_deviation".into(), Some(values.deviation));
        for quantile in &values.quantiles {
            push(quantile.at.to_string(), values.at(quantile.at));
        }
    }
}

/// Each target with what was found.
pub(super) fn verdicts(report: &RunReport) -> Table {
    let mut table = Table::new(vec![
        Column::left("target", "target"),
        Column::right("bound", "SLO"),
        Column::right("found", "found"),
        Column::right("attained", "requests within"),
        Column::left("kept", "kept"),
    ]);
    for verdict in &report.attainment.verdicts {
        let throughput = verdict.about == gpuwise_domain::run::SloMetric::Throughput;
        let show = |value: f64| {
            if throughput {
                Cell::number(value)
            } else {
                Cell::new(seconds(value), value)
            }
        };
        let name = if throughput {
            verdict.about.name().into()
        } else {
            format!("{} {}", verdict.about.name(), percentile(verdict.at))
        };
        table.push(vec![
            Cell::text(name),
            show(verdict.bound),
            Cell::of(verdict.found, show),
            Cell::of(verdict.attained, |share| Cell::new(percent(share), share)),
            Cell::text(match verdict.kept {
                Some(true) => "✓ kept",
                Some(false) => "✗ missed",
                None => MISSING,
            }),
        ]);
    }
    if report.attainment.judged > 0 {
        table.footnote(format!(
            "Over {} requests that were due in the steady window; those not served miss every target.",
            count(report.attainment.judged)
        ));
    }
    table
}

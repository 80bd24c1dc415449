//! Two profiles side by side: figures, and kernels that changed.

use super::{
    breakdown::percent_cell,
    overview::devices,
    tables::{share, time_cell, work_time},
};
use crate::{
    figures::percent,
    profile::{Profile, duration},
    table::{Cell, Column, Table},
};
use gpuwise_domain::profile::{
    figure::{Figure, Scope, Value},
    figures::{DeviceFigures, KernelFigures},
};
use std::{cmp::Reverse, collections::BTreeMap};

/// Kernels that changed and are listed, at most.
const CHANGED: usize = 40;

/// What changed from `other` to `profile`.
pub(super) fn section(
    profile: &Profile,
    other: &Profile,
    link: &dyn Fn(&str) -> Option<u32>,
) -> String {
    let mut out = figures(profile, other).to_live_html("Figures side by side", &|_| None);
    out += "<h3>Kernels that changed most</h3>\n";
    out += &kernels(profile, other).to_live_html("Kernels that changed most", link);
    let all = every(profile, other);
    if !all.is_empty() {
        out += "<details><summary>Every figure of both</summary>\n";
        out += &all.to_live_html("Every figure of both", &|_| None);
        out += "</details>\n";
    }
    out
}

fn columns(profile: &Profile, other: &Profile, first: &str) -> Vec<Column> {
    vec![
        Column::left("what", first),
        Column::right("other", other.label),
        Column::right("this", profile.label),
        Column::right("change", "change"),
    ]
}

/// A part of a device's time.
type Pick = fn(&DeviceFigures) -> i64;

fn figures(profile: &Profile, other: &Profile) -> Table {
    let mut table = Table::new(columns(profile, other, "figure"));
    let mean = |profile: &Profile, part: &dyn Fn(&DeviceFigures) -> i64| {
        let values: Vec<f64> = devices(profile)
            .filter(|device| device.span_ns() > 0)
            .map(|device| share(part(device), device.span_ns()))
            .collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let step = |profile: &Profile| {
        let steps = profile
            .figures
            .ranks
            .iter()
            .filter_map(|rank| rank.steps.as_ref());
        steps.map(|steps| steps.median_ns).max()
    };
    let span = |profile: &Profile| {
        profile
            .figures
            .ranks
            .iter()
            .map(|rank| rank.whole.span_ns())
            .max()
    };
    let kernel = |profile: &Profile| {
        Some(
            profile
                .figures
                .ranks
                .iter()
                .map(|rank| rank.whole.kernel_time_ns)
                .sum(),
        )
    };
    let times: [(&str, Option<i64>, Option<i64>); 3] = [
        ("median step", step(other), step(profile)),
        ("profiled span", span(other), span(profile)),
        ("sum of kernels", kernel(other), kernel(profile)),
    ];
    for (name, before, after) in times {
        if before.is_some() || after.is_some() {
            table.push(vec![
                Cell::text(name),
                Cell::of(before, time_cell),
                Cell::of(after, time_cell),
                change(
                    before.map(|value| value as f64),
                    after.map(|value| value as f64),
                ),
            ]);
        }
    }
    let shares: [(&str, Pick); 8] = [
        ("GPU busy", |device| device.busy_ns),
        ("computing", |device| device.classes.computation_ns),
        ("communication not hidden", |device| {
            device.classes.exposed_communication_ns()
        }),
        ("copies not hidden", |device| {
            device.classes.exposed_memory_ns
        }),
        ("idle: data loading", |device| device.idle.causes.loader_ns),
        ("idle: synchronisation", |device| {
            device.idle.causes.synchronisation_ns
        }),
        ("idle: framework", |device| device.idle.causes.framework_ns),
        ("idle: launching", |device| {
            device.idle.in_call_ns + device.idle.kernel_wait_ns
        }),
    ];
    for (name, part) in shares {
        let (before, after) = (mean(other, &part), mean(profile, &part));
        if before.unwrap_or(0.0) == 0.0 && after.unwrap_or(0.0) == 0.0 {
            continue;
        }
        let points = before
            .zip(after)
            .map(|(before, after)| (after - before) * 100.0);
        table.push(vec![
            Cell::text(name),
            Cell::of(before, percent_cell),
            Cell::of(after, percent_cell),
            Cell::of(points, |points| {
                let text = format!("{points:+.1} points").replace('-', "−");
                Cell::new(text, points)
            }),
        ]);
    }
    table
}

/// By how much something changed, as a share of what it was.
fn change(before: Option<f64>, after: Option<f64>) -> Cell {
    match (before, after) {
        (Some(before), Some(after)) if before > 0.0 => {
            let change = after / before - 1.0;
            Cell::new(signed(change), change)
        }
        _ => Cell::missing(),
    }
}

fn signed(share: f64) -> String {
    let sign = if share > 0.0 {
        "+"
    } else if share < 0.0 {
        "−"
    } else {
        ""
    };
    format!("{sign}{}", percent(share.abs()))
}

fn by_name<'a>(profile: &'a Profile) -> BTreeMap<&'a str, (u64, i64)> {
    let mut all: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    for KernelFigures {
        name,
        count,
        sum_ns,
        ..
    } in profile
        .figures
        .ranks
        .iter()
        .flat_map(|rank| &rank.whole.kernels)
    {
        let sum = all.entry(name).or_default();
        sum.0 += count;
        sum.1 += sum_ns;
    }
    all
}

fn kernels(profile: &Profile, other: &Profile) -> Table {
    let (after, before) = (by_name(profile), by_name(other));
    let mut names: Vec<&str> = after.keys().chain(before.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let of = |all: &BTreeMap<&str, (u64, i64)>, name: &str| all.get(name).copied();
    let difference = |name: &str| {
        of(&after, name).map_or(0, |sum| sum.1) - of(&before, name).map_or(0, |sum| sum.1)
    };
    names.sort_by_key(|name| Reverse(difference(name).abs()));
    let mut table = Table::new(vec![
        Column::left("name", "kernel or copy"),
        Column::right("other_ns", other.label),
        Column::right("this_ns", profile.label),
        Column::right("difference_ns", "difference"),
        Column::right("other_count", "count then"),
        Column::right("this_count", "count now"),
    ])
    .when_empty("Neither has GPU work.");
    for name in names.iter().take(CHANGED) {
        let (now, then) = (of(&after, name), of(&before, name));
        let value = difference(name);
        let sign = if value > 0 { "+" } else { "" };
        table.push(vec![
            Cell::text(*name),
            Cell::of(then, |sum| time_cell(sum.1)),
            Cell::of(now, |sum| time_cell(sum.1)),
            Cell::new(format!("{sign}{}", duration(value)), value),
            Cell::of(then, |sum| Cell::count(sum.0)),
            Cell::of(now, |sum| Cell::count(sum.0)),
        ]);
    }
    let (now, then) = (work_time(profile), work_time(other));
    table.footnote(format!(
        "All work together: {} then, {} now. A name that one of them lacks, or that is not among its longest, is –.",
        duration(then),
        duration(now)
    ));
    table
}

/// Figures of the whole that both have.
fn every(profile: &Profile, other: &Profile) -> Table {
    let mut table = Table::new(columns(profile, other, "figure"));
    let whole = Scope::default();
    let values = |figures: &[Figure]| -> BTreeMap<String, f64> {
        let known = figures.iter().filter(|figure| figure.scope == whole);
        known
            .filter_map(|figure| Some((figure.name.clone(), figure.value.real()?)))
            .collect()
    };
    let before = values(&other.summary.figures);
    for figure in profile
        .summary
        .figures
        .iter()
        .filter(|figure| figure.scope == whole)
    {
        if matches!(figure.value, Value::Unknown(_)) {
            continue;
        }
        let then = before.get(&figure.name).copied();
        let now = figure.value.real();
        table.push(vec![
            Cell::text(figure.name.clone()),
            Cell::of(then, Cell::number),
            Cell::of(now, Cell::number),
            change(then, now),
        ]);
    }
    table
}

//! Counted kernels.

use super::{Shown, cut};
use crate::figures::{TimeUnit, count, number};
use crate::table::{Cell, Column, Table};
use gpuwise_domain::profile::kernel_counters::Bound;
use gpuwise_domain::profile::sources::{CountedFigures, CountersSource};
use std::collections::BTreeMap;

/// Launches that are listed, the longest first.
const LAUNCHES: usize = 20;
/// Characters of a kernel's name.
const NAME_WIDTH: usize = 40;

fn words(bound: Bound) -> &'static str {
    match bound {
        Bound::Compute => "arithmetic",
        Bound::Memory => "memory and caches",
        Bound::Balanced => "arithmetic and memory alike",
        Bound::Latency => "latency",
        Bound::SmallGrid => "too few blocks",
    }
}

/// Counters of a file.
pub(super) fn counters(source: &CountersSource) -> Shown {
    let launches = source.counters.launches.iter().zip(&source.figures);
    let mut order: Vec<_> = launches.collect();
    order.sort_by(|a, b| {
        let time = |figures: &CountedFigures| figures.duration_ns.unwrap_or(0.0);
        time(b.1).total_cmp(&time(a.1))
    });
    let mut shown = Shown {
        answer: answer(source),
        ..Shown::default()
    };
    let unit = TimeUnit::of(
        source
            .figures
            .iter()
            .filter_map(|f| f.duration_ns)
            .map(|ns| ns * 1e-9),
    );
    let mut table = Table::new(vec![
        Column::left("kernel", "kernel").wrap(18),
        Column::right("duration_ns", "time").unit(unit.symbol()),
        Column::right("compute_pct", "compute").unit("%"),
        Column::right("memory_pct", "memory").unit("%"),
        Column::right("dram_pct", "DRAM").unit("%").priority(40),
        Column::right("occupancy_pct", "occupancy")
            .unit("%")
            .priority(50),
        Column::right("bytes_per_second", "DRAM rate")
            .unit("GB/s")
            .priority(30),
        Column::right("arithmetic_intensity", "FLOP/byte").priority(20),
        Column::left("bound", "limited by"),
    ]);
    for (launch, figures) in order.iter().take(LAUNCHES) {
        let percent = |value: Option<f64>| Cell::of(value, Cell::number);
        table.push(vec![
            Cell::new(
                cut(short(&launch.kernel), NAME_WIDTH),
                launch.kernel.as_str(),
            ),
            Cell::of(figures.duration_ns, |ns| {
                Cell::new(number(ns * 1e-9 * unit.per_second()), ns)
            }),
            percent(figures.compute_percent),
            percent(figures.memory_percent),
            percent(figures.dram_percent),
            percent(figures.occupancy_percent),
            Cell::of(figures.bytes_per_second(), |rate| {
                Cell::new(number(rate * 1e-9), rate)
            }),
            percent(figures.arithmetic_intensity()),
            Cell::of(figures.bound, |bound| Cell::new(words(bound), bound.name())),
        ]);
    }
    let more = order.len().saturating_sub(LAUNCHES);
    if more > 0 {
        table.footnote(format!(
            "{} shorter launches are in --format json",
            count(more as u64)
        ));
    }
    table.footnote("kernels are replayed one by one to be counted: times are theirs alone");
    let needed = source
        .figures
        .iter()
        .find(|figures| !figures.needed.is_empty());
    if let Some(figures) = needed {
        table.footnote(format!(
            "what limits cannot be told without {}: collect it with `--section SpeedOfLight`",
            figures.needed.join(" and ")
        ));
    }
    shown.table("Kernels", table);
    shown.losses(&source.counters.losses);
    shown
}

/// How many launches, and which share of their time is limited by what.
fn answer(source: &CountersSource) -> String {
    let mut shares: BTreeMap<Bound, f64> = BTreeMap::new();
    let mut total = 0.0;
    for figures in &source.figures {
        if let (Some(bound), Some(time)) = (figures.bound, figures.duration_ns) {
            *shares.entry(bound).or_default() += time;
            total += time;
        }
    }
    let launches = match source.figures.len() {
        1 => "1 launch was counted".to_owned(),
        many => format!("{} launches were counted", count(many as u64)),
    };
    let mut order: Vec<(Bound, f64)> = shares.into_iter().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    if total <= 0.0 {
        return format!("{launches}; what limits them cannot be told from these counters.");
    }
    let parts: Vec<String> = order
        .iter()
        .map(|(bound, time)| {
            format!(
                "{} {}",
                crate::figures::percent(time / total),
                words(*bound)
            )
        })
        .collect();
    format!("{launches}; their time is limited by {}.", parts.join(", "))
}

/// A kernel's name without its arguments.
fn short(kernel: &str) -> &str {
    let kernel = kernel.strip_prefix("void ").unwrap_or(kernel);
    match kernel.find(['(', '<']) {
        Some(at) if at > 0 => kernel.get(..at).unwrap_or(kernel),
        _ => kernel,
    }
}

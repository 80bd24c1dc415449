//! Counted kernels.

use super::{Shown, cut};
use crate::figures::{TimeUnit, count, number};
use crate::profile::kernel_name;
use crate::table::{Cell, Column, Table};
use gpuwise_domain::profile::kernel_counters::Bound;
use gpuwise_domain::profile::sources::{CountedFigures, CountersSource};
use std::collections::BTreeMap;

/// Launches that are listed, the longest first.
const LAUNCHES: usize = 20;
/// Characters of a kernel's name.
const NAME_WIDTH: usize = 80;

pub(super) fn words(bound: Bound) -> &'static str {
    match bound {
        Bound::Compute => "arithmetic",
        Bound::Memory => "memory and caches",
        Bound::Balanced => "arithmetic and memory alike",
        Bound::Latency => "latency",
        Bound::SmallGrid => "too few blocks",
    }
}

/// A column that is there where some launch has a value for it.
struct Optional {
    key: &'static str,
    title: &'static str,
    unit: &'static str,
    priority: u8,
    scale: f64,
    value: fn(&CountedFigures) -> Option<f64>,
}

const OPTIONAL: [Optional; 4] = [
    Optional {
        key: "dram_pct",
        title: "DRAM",
        unit: "%",
        priority: 40,
        scale: 1.0,
        value: |figures| figures.dram_percent,
    },
    Optional {
        key: "occupancy_pct",
        title: "occupancy",
        unit: "%",
        priority: 50,
        scale: 1.0,
        value: |figures| figures.occupancy_percent,
    },
    Optional {
        key: "bytes_per_second",
        title: "DRAM rate",
        unit: "GB/s",
        priority: 30,
        scale: 1e-9,
        value: CountedFigures::bytes_per_second,
    },
    Optional {
        key: "arithmetic_intensity",
        title: "FLOP/byte",
        unit: "",
        priority: 20,
        scale: 1.0,
        value: CountedFigures::arithmetic_intensity,
    },
];

fn columns(unit: TimeUnit, figures: &[CountedFigures]) -> Vec<Column> {
    let mut columns = vec![
        Column::left("kernel", "kernel").wrap(18),
        Column::right("duration_ns", "time").unit(unit.symbol()),
        Column::right("compute_pct", "compute").unit("%"),
        Column::right("memory_pct", "memory").unit("%"),
    ];
    for optional in &OPTIONAL {
        if figures
            .iter()
            .any(|figures| (optional.value)(figures).is_some())
        {
            let column = Column::right(optional.key, optional.title);
            columns.push(column.unit(optional.unit).priority(optional.priority));
        }
    }
    columns.push(Column::left("bound", "limited by"));
    columns
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
    let mut table = Table::new(columns(unit, &source.figures));
    for (launch, figures) in order.iter().take(LAUNCHES) {
        let percent = |value: Option<f64>| Cell::of(value, Cell::number);
        let mut row = vec![
            Cell::new(
                cut(&kernel_name(&launch.kernel), NAME_WIDTH),
                launch.kernel.as_str(),
            ),
            Cell::of(figures.duration_ns, |ns| {
                Cell::new(number(ns * 1e-9 * unit.per_second()), ns)
            }),
            percent(figures.compute_percent),
            percent(figures.memory_percent),
        ];
        for optional in &OPTIONAL {
            if source
                .figures
                .iter()
                .any(|figures| (optional.value)(figures).is_some())
            {
                row.push(Cell::of((optional.value)(figures), |value| {
                    Cell::new(number(value * optional.scale), value)
                }));
            }
        }
        row.push(Cell::of(figures.bound, |bound| {
            Cell::new(words(bound), bound.name())
        }));
        table.push(row);
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
    let (launches, whose) = match source.figures.len() {
        1 => ("1 launch was counted".to_owned(), "its"),
        many => (
            format!("{} launches were counted", count(many as u64)),
            "their",
        ),
    };
    let mut order: Vec<(Bound, f64)> = shares.into_iter().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    if total <= 0.0 {
        return format!("{launches}; what limits cannot be told from these counters.");
    }
    let parts: Vec<String> = order
        .iter()
        .map(|(bound, time)| {
            let share = crate::figures::percent(time / total);
            format!("{} ({share})", words(*bound))
        })
        .collect();
    format!(
        "{launches}; {whose} time is limited by {}.",
        parts.join(", ")
    )
}

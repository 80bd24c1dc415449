//! Counted kernels.

use super::{Shown, cut};
use crate::figures::{TimeUnit, count, number};
use crate::profile::kernel_name;
use crate::table::{Cell, Column, Table};
use gpuwise_domain::profile::kernel_counters::{Bound, CountedLaunch};
use gpuwise_domain::profile::sources::{CountedFigures, CounterNote, CountersSource};
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

const OPTIONAL: [Optional; 5] = [
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
    Optional {
        key: "l2_hit_pct",
        title: "L2 hits",
        unit: "%",
        priority: 45,
        scale: 1.0,
        value: |figures| figures.l2_hit_percent,
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
    for line in notes(&order, source.roofs.ridge()) {
        table.footnote(line);
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

/// Notes that are listed, of the longest launches.
const NOTES: usize = 6;

/// What caches and the roofline say of single kernels, the longest first.
fn notes(order: &[(&CountedLaunch, &CountedFigures)], ridge: Option<f64>) -> Vec<String> {
    let mut lines = Vec::new();
    for (launch, figures) in order {
        let name = cut(&kernel_name(&launch.kernel), NAME_WIDTH);
        for note in &figures.notes {
            lines.push(match note {
                CounterNote::BankConflicts => format!(
                    "{name}: {} bank conflicts of shared memory: pad or swizzle its tiles so that threads of a warp read different banks",
                    count(figures.bank_conflicts.unwrap_or(0.0) as u64)
                ),
                CounterNote::LowL2Hits => format!(
                    "{name}: L2 has {} % of what it asks for, device memory gives the rest: blocks that run together should read the same data",
                    number(figures.l2_hit_percent.unwrap_or(0.0))
                ),
            });
        }
        if let (Some(side), Some(ridge), Some(intensity)) =
            (figures.side, ridge, figures.arithmetic_intensity())
        {
            lines.push(format!(
                "{name}: on the roofline's {} side: {} FLOP/byte, the roofs meet at {}",
                words(side),
                number(intensity),
                number(ridge)
            ));
        }
    }
    let more = lines.len().saturating_sub(NOTES);
    lines.truncate(NOTES);
    if more > 0 {
        lines.push(format!("{more} more notes are in --format json"));
    }
    let intensity = |one: &(&CountedLaunch, &CountedFigures)| one.1.arithmetic_intensity();
    if ridge.is_none() && order.iter().any(|one| intensity(one).is_some()) {
        lines.push("the roofline's side needs the GPU's peaks: name it with --gpu, or collect `--set roofline`".to_owned());
    }
    lines
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

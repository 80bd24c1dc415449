//! Tables of kernels, communication, copies, memory, steps and ranks.

use super::breakdown::percent_cell;
use crate::{
    figures::bytes,
    profile::{
        Profile,
        detail::{direction, memory},
        duration, kernel_name,
    },
    table::{Cell, Column, Table},
};
use gpuwise_domain::profile::figures::{
    CopyFigures, KernelFigures, MemoryFigures, Stragglers, TensorCores,
};
use gpuwise_units::Bytes;
use std::{cmp::Reverse, collections::BTreeMap};

/// Kernels that are listed, at most.
const KERNELS: usize = 100;
/// Steps that are listed, at most.
const STEPS: usize = 200;

/// A part of a whole; 0 where there is no whole.
pub(super) fn share(part: i64, whole: i64) -> f64 {
    if whole > 0 {
        part as f64 / whole as f64
    } else {
        0.0
    }
}

/// A sum over a count, in whole nanoseconds; 0 of nothing.
pub(super) fn mean(sum: i64, count: u64) -> i64 {
    i64::try_from(count)
        .ok()
        .filter(|count| *count > 0)
        .map_or(0, |count| sum / count)
}

pub(super) fn time_cell(nanoseconds: i64) -> Cell {
    Cell::new(duration(nanoseconds), nanoseconds)
}

pub(super) fn bytes_cell(size: u64) -> Cell {
    Cell::new(bytes(Bytes::new(size)), size)
}

fn rate_cell(rate: f64) -> Cell {
    Cell::new(
        format!("{} GB/s", crate::figures::number(rate * 1e-9)),
        rate,
    )
}

/// Kernels of all ranks by name, the longest sum first.
pub(super) fn kernels_by_name(profile: &Profile) -> Vec<KernelFigures> {
    let mut all: BTreeMap<&str, KernelFigures> = BTreeMap::new();
    for kernel in profile
        .figures
        .ranks
        .iter()
        .flat_map(|rank| &rank.whole.kernels)
    {
        all.entry(&kernel.name)
            .and_modify(|known| {
                known.count += kernel.count;
                known.sum_ns += kernel.sum_ns;
                known.min_ns = known.min_ns.min(kernel.min_ns);
                known.max_ns = known.max_ns.max(kernel.max_ns);
            })
            .or_insert_with(|| kernel.clone());
    }
    let mut kernels: Vec<KernelFigures> = all.into_values().collect();
    kernels.sort_by_key(|kernel| Reverse(kernel.sum_ns));
    kernels.truncate(KERNELS);
    kernels
}

/// Sum of the durations of all work of a profile.
pub(super) fn work_time(profile: &Profile) -> i64 {
    let classes = profile.figures.ranks.iter().map(|rank| rank.whole.classes);
    classes
        .map(|class| class.communication_sum_ns + class.computation_sum_ns + class.memory_sum_ns)
        .sum()
}

/// Kernels and copies by name.
pub(super) fn kernels(profile: &Profile, kernels: &[KernelFigures]) -> Table {
    let total = work_time(profile);
    let mut table = Table::new(vec![
        Column::left("name", "kernel or copy"),
        Column::left("kind", "kind"),
        Column::right("sum_ns", "time"),
        Column::right("share", "of all work"),
        Column::right("count", "count"),
        Column::right("mean_ns", "mean"),
        Column::right("min_ns", "shortest"),
        Column::right("max_ns", "longest"),
        Column::left("tensor_cores", "tensor cores"),
    ])
    .when_empty("No GPU work is in this profile.");
    for kernel in kernels {
        table.push(vec![
            Cell::new(kernel_name(&kernel.name), kernel.name.as_str()),
            Cell::text(kernel.kind.clone()),
            time_cell(kernel.sum_ns),
            percent_cell(share(kernel.sum_ns, total)),
            Cell::count(kernel.count),
            time_cell(mean(kernel.sum_ns, kernel.count)),
            time_cell(kernel.min_ns),
            time_cell(kernel.max_ns),
            Cell::text(tensor_cores(kernel.tensor_cores)),
        ]);
    }
    let listed: i64 = kernels.iter().map(|kernel| kernel.sum_ns).sum();
    if total > listed {
        table.footnote(format!(
            "{} of the time of all work is of other names.",
            crate::figures::percent(share(total - listed, total))
        ));
    }
    table
}

const fn tensor_cores(use_: TensorCores) -> &'static str {
    match use_ {
        TensorCores::Used => "yes",
        TensorCores::Unused => "no",
        TensorCores::Ineligible => "no use for them",
        TensorCores::Unknown => "the name does not say",
    }
}

pub(super) fn kinds(profile: &Profile) -> Table {
    let total = work_time(profile);
    let mut all: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    for kind in profile
        .figures
        .ranks
        .iter()
        .flat_map(|rank| &rank.whole.kinds)
    {
        let sum = all.entry(&kind.kind).or_default();
        sum.0 += kind.count;
        sum.1 += kind.sum_ns;
    }
    let mut rows: Vec<(&str, (u64, i64))> = all.into_iter().collect();
    rows.sort_by_key(|row| Reverse(row.1.1));
    let mut table = Table::new(vec![
        Column::left("kind", "kind of work"),
        Column::right("sum_ns", "time"),
        Column::right("share", "of all work"),
        Column::right("count", "count"),
    ]);
    for (kind, (count, sum)) in rows {
        table.push(vec![
            Cell::text(kind),
            time_cell(sum),
            percent_cell(share(sum, total)),
            Cell::count(count),
        ]);
    }
    table
}

/// Collectives of each rank by kind.
pub(super) fn collectives(profile: &Profile) -> Table {
    let mut table = Table::new(vec![
        Column::left("rank", "rank"),
        Column::left("name", "collective"),
        Column::right("group_size", "ranks in it"),
        Column::right("count", "count"),
        Column::right("sum_ns", "time"),
        Column::right("bytes", "bytes"),
        Column::right("bus_bandwidth", "bus bandwidth"),
    ])
    .when_empty("No collective says what it is; the breakdown counts communication by the names of kernels.");
    for (index, rank) in profile.figures.ranks.iter().enumerate() {
        for kind in &rank.collectives {
            table.push(vec![
                Cell::text(profile.rank_label(index)),
                Cell::text(kind.name.clone()),
                Cell::of(kind.group_size, |size| Cell::count(u64::from(size))),
                Cell::count(kind.count),
                time_cell(kind.sum_ns),
                if kind.bytes > 0 {
                    bytes_cell(kind.bytes)
                } else {
                    Cell::missing()
                },
                Cell::of(kind.bus_bandwidth, rate_cell),
            ]);
        }
    }
    if !table.is_empty() && profile.figures.ranks.len() == 1 {
        table.footnote(
            "On one rank alone the time of a collective includes waiting for the others.",
        );
    }
    table
}

/// Copies by direction and kinds of memory, over all ranks.
pub(super) fn copies(profile: &Profile) -> Table {
    let mut all: BTreeMap<_, CopyFigures> = BTreeMap::new();
    for copy in profile
        .figures
        .ranks
        .iter()
        .flat_map(|rank| &rank.whole.copies)
    {
        all.entry((copy.direction, copy.source, copy.target))
            .and_modify(|known| {
                known.count += copy.count;
                known.sum_ns += copy.sum_ns;
                known.sized_count += copy.sized_count;
                known.bytes = known.bytes.saturating_add(copy.bytes);
                known.sized_ns += copy.sized_ns;
                known.largest_bytes = known.largest_bytes.max(copy.largest_bytes);
            })
            .or_insert(*copy);
    }
    let mut copies: Vec<CopyFigures> = all.into_values().collect();
    copies.sort_by_key(|copy| Reverse(copy.sum_ns));
    let mut table = Table::new(vec![
        Column::left("direction", "direction"),
        Column::left("memory", "from and to"),
        Column::right("count", "count"),
        Column::right("sum_ns", "time"),
        Column::right("bytes", "bytes"),
        Column::right("largest_bytes", "largest"),
        Column::right("bytes_per_second", "while copying"),
    ])
    .when_empty("No copies are in this profile.");
    for copy in &copies {
        let sized = copy.sized_count > 0;
        table.push(vec![
            Cell::text(copy.direction.map_or("not stated", direction)),
            Cell::text(format!(
                "{} to {}",
                memory(copy.source),
                memory(copy.target)
            )),
            Cell::count(copy.count),
            time_cell(copy.sum_ns),
            if sized {
                bytes_cell(copy.bytes)
            } else {
                Cell::missing()
            },
            if sized {
                bytes_cell(copy.largest_bytes)
            } else {
                Cell::missing()
            },
            Cell::of(copy.bytes_per_second(), rate_cell),
        ]);
    }
    table
}

/// Memory of each rank by device.
pub(super) fn memories(profile: &Profile) -> Table {
    let mut table = Table::new(vec![
        Column::left("rank", "rank"),
        Column::left("device", "device"),
        Column::right("peak_allocated", "peak in tensors"),
        Column::right("mean_allocated", "mean"),
        Column::right("peak_reserved", "peak reserved"),
        Column::right("slack_at_peak", "reserved, in no tensor at the peak"),
        Column::right("capacity", "capacity"),
    ]);
    for (index, rank) in profile.figures.ranks.iter().enumerate() {
        for of in &rank.memory {
            let MemoryFigures {
                peak_allocated,
                mean_allocated,
                peak_reserved,
                slack_at_peak,
                capacity,
                ..
            } = *of;
            table.push(vec![
                Cell::text(profile.rank_label(index)),
                Cell::text(
                    of.device
                        .map_or_else(|| "host".into(), |number| format!("GPU {number}")),
                ),
                Cell::of(peak_allocated, bytes_cell),
                Cell::of(mean_allocated, |mean| bytes_cell(mean as u64)),
                Cell::of(peak_reserved, bytes_cell),
                Cell::of(slack_at_peak, bytes_cell),
                Cell::of(capacity, bytes_cell),
            ]);
        }
    }
    table
}

/// Steps of each rank.
pub(super) fn steps(profile: &Profile) -> Table {
    let mut table = Table::new(vec![
        Column::left("rank", "rank"),
        Column::left("step", "step"),
        Column::right("duration_ns", "duration"),
        Column::right("busy_share", "busy"),
        Column::right("loader_ns", "data loading"),
        Column::right("synchronisation_ns", "idle in synchronisation"),
        Column::right("exposed_communication_ns", "communication not hidden"),
        Column::left("remark", "remark"),
    ]);
    let mut count = 0;
    for (at, rank) in profile.figures.ranks.iter().enumerate() {
        let Some(figures) = &rank.steps else { continue };
        count += figures.steps.len();
        for (index, step) in figures.steps.iter().enumerate() {
            if table.rows().len() >= STEPS {
                break;
            }
            let length = step.end_ns.saturating_sub(step.start_ns);
            let outlier = figures
                .outliers
                .iter()
                .any(|outlier| *outlier as usize == index);
            table.push(vec![
                Cell::text(profile.rank_label(at)),
                Cell::text(step.number.unwrap_or(index as u64).to_string()),
                time_cell(length),
                percent_cell(share(step.busy_ns, length)),
                time_cell(step.loader_ns),
                time_cell(step.synchronisation_ns),
                time_cell(step.exposed_communication_ns),
                Cell::text(if outlier { "▲ unusually long" } else { "" }),
            ]);
        }
    }
    if count > STEPS {
        table.footnote(format!("{} more steps are not listed.", count - STEPS));
    }
    table
}

/// Each rank beside the others.
pub(super) fn ranks(profile: &Profile) -> Table {
    let late = profile.figures.stragglers.as_ref();
    let mut table = Table::new(vec![
        Column::left("rank", "rank"),
        Column::left("device", "device"),
        Column::right("span_ns", "profiled"),
        Column::right("busy_share", "busy"),
        Column::right("computing_share", "computing"),
        Column::right("exposed_communication_share", "communication not hidden"),
        Column::right("median_step_ns", "median step"),
        Column::right("last_count", "straggler"),
        Column::right("caused_ns", "others waited for it"),
        Column::right("waited_ns", "it waited for others"),
    ]);
    for (index, rank) in profile.figures.ranks.iter().enumerate() {
        let lateness =
            late.and_then(|late| late.ranks.iter().find(|one| Some(one.rank) == rank.rank));
        for device in &rank.devices {
            let span = device.span_ns();
            let computing = device.classes.computation_ns;
            let name = device
                .name
                .clone()
                .unwrap_or_else(|| format!("GPU {}", device.device.unwrap_or(0)));
            table.push(vec![
                Cell::text(profile.rank_label(index)),
                Cell::text(name),
                time_cell(span),
                percent_cell(share(device.busy_ns, span)),
                percent_cell(share(computing, span)),
                percent_cell(share(device.classes.exposed_communication_ns(), span)),
                Cell::of(rank.steps.as_ref(), |steps| time_cell(steps.median_ns)),
                Cell::of(lateness, |one| {
                    Cell::new(
                        format!("{} of {}", one.last_count, one.count),
                        one.last_count,
                    )
                }),
                Cell::of(lateness, |one| time_cell(one.caused_ns)),
                Cell::of(lateness, |one| time_cell(one.waited_ns)),
            ]);
        }
    }
    table
}

/// Collectives for which others waited longest.
pub(super) fn late(stragglers: &Stragglers) -> Table {
    let mut table = Table::new(vec![
        Column::left("name", "collective"),
        Column::left("group", "group"),
        Column::right("order", "number"),
        Column::left("last_rank", "straggler"),
        Column::right("lateness_ns", "late by"),
        Column::right("transfer_ns", "transfer"),
        Column::right("bus_bandwidth", "bus bandwidth"),
    ]);
    let mut all: Vec<_> = stragglers.collectives.iter().collect();
    all.sort_by_key(|one| Reverse(one.lateness_ns));
    for one in all.into_iter().take(30) {
        table.push(vec![
            Cell::text(one.name.clone()),
            Cell::of(one.group.clone(), Cell::text),
            Cell::count(one.order),
            Cell::of(one.last_rank, |rank| Cell::text(format!("rank {rank}"))),
            time_cell(one.lateness_ns),
            time_cell(one.transfer_ns),
            Cell::of(one.bus_bandwidth, rate_cell),
        ]);
    }
    table
}

//! Tables of a profile.

use super::words::share;
use crate::{
    figures::{TimeUnit, number},
    profile::duration,
    table::{Cell, Column, Table},
};
use gpuwise_domain::profile::{
    figures::{RankFigures, Stragglers, TensorCores},
    timeline::{Direction, MemoryKind},
};

/// Names that are listed.
const NAMES: usize = 10;
/// Characters of a kernel's name.
const NAME_WIDTH: usize = 56;
/// Characters of a bar of the whole.
const BAR: f64 = 20.0;

/// A bar of a share.
fn bar(part: i64, of: i64) -> String {
    let halves = if of > 0 {
        (part as f64 / of as f64 * BAR * 2.0)
            .round()
            .clamp(0.0, BAR * 2.0) as usize
    } else {
        0
    };
    let mut bar = "█".repeat(halves / 2);
    if halves % 2 == 1 {
        bar.push('▌');
    }
    bar
}

/// A time in a unit that a column shares.
fn in_unit(ns: i64, unit: TimeUnit) -> Cell {
    Cell::new(number(ns as f64 * 1e-9 * unit.per_second()), ns)
}

fn time_column(key: &str, title: &str, unit: TimeUnit) -> Column {
    Column::right(key, title).unit(unit.symbol())
}

/// The span of one file in parts that sum to it.
pub(super) fn time(rank: &RankFigures) -> Option<Table> {
    let whole = &rank.whole;
    whole.window?;
    let span = whole.span_ns();
    let unit = TimeUnit::of([span as f64 * 1e-9]);
    let mut table = Table::new(vec![
        Column::left("part", "part"),
        time_column("ns", "time", unit),
        Column::right("share", "share"),
        Column::left("bar", ""),
    ]);
    let (classes, idle) = (&whole.classes, &whole.idle);
    let causes = idle.causes;
    let rows = [
        ("computing", classes.computation_ns, true),
        (
            "communicating, nothing computed",
            classes.exposed_communication_ns(),
            false,
        ),
        ("copying, nothing else", classes.exposed_memory_ns, false),
        ("idle: host loads data", causes.loader_ns, false),
        (
            "idle: host waits for the device",
            causes.synchronisation_ns,
            false,
        ),
        ("idle: host copies", causes.copy_calls_ns, false),
        ("idle: host runs the framework", causes.framework_ns, false),
        ("idle: in the launch call", idle.in_call_ns, false),
        ("idle: launched, under 10 µs", idle.kernel_wait_ns, false),
        ("idle: launched, longer", idle.other_ns, false),
        ("idle: no launch in the file", idle.unlinked_ns, false),
        ("idle: at the window's end", idle.edge_ns, false),
        ("all", span, true),
    ];
    for (name, ns, always) in rows {
        if ns > 0 || always {
            table.push(vec![
                Cell::text(name),
                in_unit(ns, unit),
                Cell::text(share(ns, span)),
                Cell::text(bar(ns, span)),
            ]);
        }
    }
    Some(table)
}

/// Each device of one file.
pub(super) fn devices(rank: &RankFigures) -> Table {
    let mut table = Table::new(vec![
        Column::right("device", "device"),
        Column::left("name", "name").priority(1),
        Column::right("work", "work"),
        Column::right("span_ns", "span"),
        Column::right("busy", "busy"),
        Column::right("communication", "comm"),
        Column::right("exposed", "exposed comm"),
    ]);
    for device in &rank.devices {
        let span = device.span_ns();
        table.push(vec![
            Cell::of(device.device, |number| {
                Cell::new(number.to_string(), number)
            }),
            Cell::of(device.name.clone(), Cell::text),
            Cell::count(device.work_count),
            Cell::new(duration(span), span),
            Cell::text(share(device.busy_ns, span)),
            Cell::text(share(device.classes.communication_ns, span)),
            Cell::text(share(device.classes.exposed_communication_ns(), span)),
        ]);
    }
    table
}

/// Each rank of several files.
pub(super) fn ranks(ranks: &[RankFigures], stragglers: Option<&Stragglers>) -> Table {
    let mut table = Table::new(vec![
        Column::right("rank", "rank"),
        Column::left("file", "file").priority(1).wrap(12),
        Column::right("span_ns", "span"),
        Column::right("busy", "busy"),
        Column::right("exposed", "exposed comm"),
        Column::right("host_wait", "host wait"),
        Column::right("last", "straggler"),
        Column::right("caused_ns", "others waited"),
        Column::right("waited_ns", "it waited"),
    ]);
    for rank in ranks {
        let whole = &rank.whole;
        let span = whole.span_ns();
        let late = stragglers.and_then(|stragglers| {
            let mut ranks = stragglers.ranks.iter();
            ranks.find(|late| Some(late.rank) == rank.rank)
        });
        table.push(vec![
            Cell::of(rank.rank, |number| Cell::new(number.to_string(), number)),
            Cell::text(rank.file.clone()),
            Cell::new(duration(span), span),
            Cell::text(share(whole.busy_ns, span)),
            Cell::text(share(whole.classes.exposed_communication_ns(), span)),
            Cell::text(share(whole.idle.host_wait_ns, span)),
            Cell::of(late, |late| Cell::count(late.last_count)),
            Cell::of(late, |late| {
                Cell::new(duration(late.caused_ns), late.caused_ns)
            }),
            Cell::of(late, |late| {
                Cell::new(duration(late.waited_ns), late.waited_ns)
            }),
        ]);
    }
    table
}

pub(super) fn kinds(rank: &RankFigures) -> Table {
    let all: i64 = rank.whole.kinds.iter().map(|kind| kind.sum_ns).sum();
    let unit = TimeUnit::of([all as f64 * 1e-9]);
    let mut table = Table::new(vec![
        Column::left("kind", "kind"),
        Column::right("count", "count"),
        time_column("sum_ns", "time", unit),
        Column::right("share", "share"),
        Column::left("bar", ""),
    ]);
    for kind in &rank.whole.kinds {
        table.push(vec![
            Cell::text(kind.kind.clone()),
            Cell::count(kind.count),
            in_unit(kind.sum_ns, unit),
            Cell::text(share(kind.sum_ns, all)),
            Cell::text(bar(kind.sum_ns, all)),
        ]);
    }
    table
}

/// The names with the longest sums.
pub(super) fn kernels(rank: &RankFigures) -> Table {
    let whole = &rank.whole;
    let all = whole
        .kernel_time_ns
        .saturating_add(whole.classes.memory_sum_ns);
    let unit = TimeUnit::of(
        whole
            .kernels
            .first()
            .map(|kernel| kernel.sum_ns as f64 * 1e-9),
    );
    let mut table = Table::new(vec![
        Column::left("name", "name"),
        Column::right("count", "count"),
        time_column("sum_ns", "time", unit),
        Column::right("share", "share"),
        Column::left("tensor_cores", "tensor cores").priority(2),
    ]);
    for kernel in whole.kernels.iter().take(NAMES) {
        let cores = match kernel.tensor_cores {
            TensorCores::Used => "yes",
            TensorCores::Unused => "no",
            TensorCores::Ineligible => "",
            TensorCores::Unknown => "?",
        };
        table.push(vec![
            Cell::new(short(&kernel.name), kernel.name.clone()),
            Cell::count(kernel.count),
            in_unit(kernel.sum_ns, unit),
            Cell::text(share(kernel.sum_ns, all)),
            Cell::text(cores),
        ]);
    }
    table
}

/// The beginning of a long name, without what every name has.
fn short(name: &str) -> String {
    let name = name.strip_prefix("void ").unwrap_or(name);
    if name.chars().count() <= NAME_WIDTH {
        return name.to_owned();
    }
    let kept: String = name.chars().take(NAME_WIDTH - 1).collect();
    format!("{kept}…")
}

/// Copies by direction and kinds of memory.
pub(super) fn copies(rank: &RankFigures) -> Table {
    let mut table = Table::new(vec![
        Column::left("direction", "direction"),
        Column::left("memory", "memory"),
        Column::right("count", "count"),
        Column::right("sum_ns", "time"),
        Column::right("bytes", "bytes"),
        Column::right("bytes_per_s", "rate").unit("GB/s"),
    ]);
    for copies in &rank.whole.copies {
        let direction = match copies.direction {
            Some(Direction::HostToDevice) => "host to device",
            Some(Direction::DeviceToHost) => "device to host",
            Some(Direction::DeviceToDevice) => "within a device",
            Some(Direction::PeerToPeer) => "device to device",
            Some(Direction::HostToHost) => "host to host",
            Some(Direction::Unified) => "unified memory",
            None => "–",
        };
        let memory = |kind: MemoryKind| match kind {
            MemoryKind::Pageable => "pageable",
            MemoryKind::Pinned => "pinned",
            MemoryKind::Device => "device",
            MemoryKind::Managed => "managed",
            MemoryKind::Unknown => "–",
        };
        table.push(vec![
            Cell::text(direction),
            Cell::text(format!(
                "{} → {}",
                memory(copies.source),
                memory(copies.target)
            )),
            Cell::count(copies.count),
            Cell::new(duration(copies.sum_ns), copies.sum_ns),
            if copies.sized_count > 0 {
                let bytes = gpuwise_units::Bytes::new(copies.bytes);
                Cell::new(crate::figures::bytes(bytes), copies.bytes)
            } else {
                Cell::missing()
            },
            Cell::of(copies.bytes_per_second(), |rate| {
                Cell::new(number(rate * 1e-9), rate)
            }),
        ]);
    }
    table
}

pub(super) fn collectives(rank: &RankFigures) -> Table {
    let mut table = Table::new(vec![
        Column::left("collective", "collective").wrap(20),
        Column::right("ranks", "ranks"),
        Column::right("count", "count"),
        Column::right("sum_ns", "time"),
        Column::right("bytes", "bytes"),
        Column::right("bus", "bus").unit("GB/s"),
    ]);
    for kind in rank.collectives.iter().take(NAMES) {
        table.push(vec![
            Cell::new(short(&kind.name), kind.name.clone()),
            Cell::of(kind.group_size, |size| Cell::count(u64::from(size))),
            Cell::count(kind.count),
            Cell::new(duration(kind.sum_ns), kind.sum_ns),
            if kind.bytes > 0 {
                let bytes = gpuwise_units::Bytes::new(kind.bytes);
                Cell::new(crate::figures::bytes(bytes), kind.bytes)
            } else {
                Cell::missing()
            },
            Cell::of(kind.bus_bandwidth, |rate| {
                Cell::new(number(rate * 1e-9), rate)
            }),
        ]);
    }
    table
}

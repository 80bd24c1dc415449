//! Exports of Nsight Systems as a whole, and planes of TensorFlow and JAX.

use super::{Shown, cut};
use crate::figures::{TimeUnit, count, number, percent, seconds};
use crate::table::{Cell, Column, Table};
use gpuwise_domain::profile::sources::{NsightSource, PlanesSource};

/// Names that are listed.
const NAMES: usize = 6;
/// Characters of a name.
const NAME_WIDTH: usize = 48;

fn time_cell(nanoseconds: i64, unit: TimeUnit) -> Cell {
    Cell::new(
        number(nanoseconds as f64 * 1e-9 * unit.per_second()),
        nanoseconds,
    )
}

/// An export of Nsight Systems.
pub(super) fn nsight(nsight: &NsightSource) -> Shown {
    let version = match (&nsight.product_version, &nsight.schema_version) {
        (Some(product), Some(schema)) => format!(" {product}, schema {schema}"),
        (Some(version), None) => format!(" {version}"),
        _ => String::new(),
    };
    let mut shown = Shown {
        answer: format!(
            "export of Nsight Systems{version}: {} on {}.",
            plural(nsight.processes.len(), "process", "processes"),
            plural(nsight.devices.len(), "GPU", "GPUs"),
        ),
        ..Shown::default()
    };
    let longest = nsight
        .devices
        .values()
        .map(|device| device.span_ns as f64 * 1e-9);
    let unit = TimeUnit::of(longest);
    let mut table = Table::new(vec![
        Column::right("device", "GPU"),
        Column::right("kernels", "kernels"),
        Column::right("copies", "copies, fills").priority(40),
        Column::right("span_ns", "span").unit(unit.symbol()),
        Column::right("idle", "idle"),
        Column::right("computation_ns", "computing").unit(unit.symbol()),
        Column::right("nccl_ns", "NCCL").unit(unit.symbol()),
        Column::left("longest", "longest kernel")
            .wrap(20)
            .priority(30),
    ]);
    for (number, device) in &nsight.devices {
        let name = device.kernels.first().map_or("", |(name, _, _)| name);
        table.push(vec![
            Cell::new(number.to_string(), *number),
            Cell::count(device.kernel_count),
            Cell::count(device.memory_count),
            time_cell(device.span_ns, unit),
            Cell::of(device.idle_percent(), |idle| {
                Cell::new(percent(idle / 100.0), idle)
            }),
            time_cell(device.computation_ns, unit),
            Cell::of(device.nccl_ns, |ns| time_cell(ns, unit)),
            Cell::new(cut(name, 30), name),
        ]);
    }
    shown.table("GPUs, over all processes", table);
    shown.table("Longest calls of the runtime", calls(nsight));
    shown
}

fn calls(nsight: &NsightSource) -> Table {
    let unit = TimeUnit::of(nsight.runtime.iter().map(|(_, _, sum)| *sum as f64 * 1e-9));
    let mut table = Table::new(vec![
        Column::left("call", "call"),
        Column::right("count", "calls"),
        Column::right("ns", "time").unit(unit.symbol()),
    ]);
    for (name, calls, sum) in nsight.runtime.iter().take(NAMES) {
        table.push(vec![
            Cell::new(cut(name, NAME_WIDTH), name.as_str()),
            Cell::count(*calls),
            time_cell(*sum, unit),
        ]);
    }
    table
}

/// Planes of TensorFlow or JAX.
pub(super) fn planes(planes: &PlanesSource) -> Shown {
    let devices = || planes.planes.iter().filter(|plane| plane.is_device);
    let used = devices()
        .filter(|plane| plane.figures.event_count > 0)
        .count();
    let mut shown = Shown {
        answer: format!(
            "{}{} of TensorFlow's or JAX's profiler, {used} of {} with events.",
            filled(planes),
            plural(planes.planes.len(), "plane", "planes"),
            plural(devices().count(), "device", "devices"),
        ),
        ..Shown::default()
    };
    let mut table = Table::new(vec![
        Column::left("plane", "device"),
        Column::left("line", "line").wrap(16),
        Column::right("events", "events"),
        Column::right("busy_ps", "busy"),
        Column::right("span_ps", "span"),
        Column::right("share", "busy share"),
    ]);
    for plane in devices().filter(|plane| plane.figures.event_count > 0) {
        for line in plane
            .lines
            .iter()
            .filter(|line| line.figures.event_count > 0)
        {
            let figures = &line.figures;
            let time = |ps: i128| Cell::new(seconds(ps as f64 * 1e-12), ps as f64);
            let share = figures.busy_ps as f64 / figures.span_ps.max(1) as f64;
            table.push(vec![
                Cell::text(plane.name.trim_start_matches("/device:")),
                Cell::text(line.name.clone()),
                Cell::count(figures.event_count),
                time(figures.busy_ps),
                time(figures.span_ps),
                Cell::new(percent(share), share),
            ]);
        }
    }
    if planes.planes.iter().any(|plane| plane.name.contains("TPU")) {
        table.footnote("lines of a TPU overlap by design: modules over operations over transfers");
    }
    shown.table("Devices, line by line", table);
    for plane in devices().filter(|plane| !plane.top.is_empty()).take(1) {
        let unit = TimeUnit::of(plane.top.iter().map(|(_, _, ps)| *ps as f64 * 1e-12));
        let mut table = Table::new(vec![
            Column::left("name", "name"),
            Column::right("count", "times"),
            Column::right("ps", "time").unit(unit.symbol()),
        ]);
        for (name, times, sum) in &plane.top {
            let shown = number(*sum as f64 * 1e-12 * unit.per_second());
            table.push(vec![
                Cell::new(cut(name, NAME_WIDTH), name.as_str()),
                Cell::count(*times),
                Cell::new(shown, *sum as f64),
            ]);
        }
        let device = plane.name.trim_start_matches("/device:");
        shown.table(&format!("Longest on {device}"), table);
    }
    shown.losses(&planes.losses);
    shown
}

/// How much of their time devices spend in operations, where they tell.
fn filled(planes: &PlanesSource) -> String {
    let lines = planes.planes.iter().filter_map(|plane| {
        let mut lines = plane.lines.iter();
        let operations = lines.find(|line| line.name == "XLA Ops")?;
        let figures = &operations.figures;
        (figures.span_ps > 0).then(|| figures.busy_ps as f64 / figures.span_ps as f64)
    });
    let shares: Vec<f64> = lines.collect();
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let most = shares.iter().copied().fold(0.0, f64::max);
    match shares.len() {
        0 => String::new(),
        1 => format!("operations take {} of the time. ", percent(most)),
        many => format!(
            "operations take {} to {} of the time of {many} devices. ",
            percent(least),
            percent(most)
        ),
    }
}

fn plural(number: usize, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        count(number as u64),
        if number == 1 { one } else { many }
    )
}

//! Memory and steps of a profile over time.

use super::{
    canvas::{Anchor, Axis, Canvas, Picture, WIDTH, colour},
    run::plot::{Plot, bound_stroke},
};
use crate::figures::{TimeUnit, number, seconds};

const TOP: f64 = 36.0;
const HEIGHT: f64 = 150.0;
/// Points of a line: more are not seen.
const POINTS: usize = 400;

/// Memory of one device over time.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryOverTime {
    /// Nanoseconds from the beginning, and bytes in tensors.
    pub allocated: Vec<(i64, i64)>,
    /// Nanoseconds from the beginning, and bytes taken from the driver.
    pub reserved: Vec<(i64, i64)>,
    /// Bytes of the device, where stated.
    pub capacity: Option<u64>,
    pub device: String,
}

const GIB: f64 = 1_073_741_824.0;
const MIB: f64 = 1_048_576.0;

/// Memory over time; `None` where there is too little to draw.
pub(crate) fn memory_over_time(memory: &MemoryOverTime, id: &str) -> Option<Picture> {
    let all = || memory.allocated.iter().chain(&memory.reserved);
    let end = all().map(|point| point.0).max()?;
    let most = all().map(|point| point.1).max()? as f64;
    if memory.allocated.len() + memory.reserved.len() < 2 || end <= 0 || most <= 0.0 {
        return None;
    }
    // The capacity is drawn where it is near enough to be seen beside the line.
    let capacity = memory
        .capacity
        .map(|bytes| bytes as f64)
        .filter(|bytes| *bytes < most * 3.0);
    let top = capacity.map_or(most, |capacity| capacity.max(most));
    let (unit, scale) = if top >= GIB {
        ("GiB", GIB)
    } else {
        ("MiB", MIB)
    };
    let time = TimeUnit::of([end as f64 * 1e-9]);
    let factor = time.per_second() * 1e-9;
    let plot = plot(end as f64 * factor, top / scale);
    let mut canvas = Canvas::default();
    plot.upright(&mut canvas, &format!("memory of {}, {unit}", memory.device));
    plot.level(
        &mut canvas,
        &format!("{} from the beginning", time.symbol()),
    );
    let lines = [
        (&memory.reserved, colour::SKY, "reserved"),
        (&memory.allocated, colour::BLUE, "in tensors"),
    ];
    let mut told = Vec::new();
    let mut labels = plot.labels();
    let mut key = Vec::new();
    for (points, stroke, name) in lines {
        let Some(highest) = points.iter().map(|point| point.1).max() else {
            continue;
        };
        let points: Vec<(f64, f64)> = stairs(points, end)
            .into_iter()
            .map(|(at, bytes)| plot.at(at as f64 * factor, bytes as f64 / scale))
            .collect();
        canvas.path(
            &points,
            &format!("fill=\"none\" stroke=\"{stroke}\" stroke-width=\"1.75\""),
        );
        labels.line(&points);
        key.push((name, stroke));
        told.push(format!(
            "{name} at most {} {unit}",
            number(highest as f64 / scale)
        ));
    }
    plot.key(&mut canvas, &key);
    if let Some(capacity) = capacity {
        plot.bound(&mut canvas, &mut labels, capacity / scale, "capacity");
    }
    Some(canvas.finish(
        id,
        format!("Memory of {} over time", memory.device),
        told.join("; "),
        plot.floor() + 42.0,
    ))
}

fn plot(across: f64, up: f64) -> Plot {
    let mut x = Axis::up_to(across, 6);
    x.end = across.max(f64::MIN_POSITIVE);
    x.marks.retain(|mark| *mark <= x.end);
    Plot {
        x,
        y: Axis::up_to(up, 4),
        top: TOP,
        height: HEIGHT,
    }
}

/// Points as steps: a value holds until the next; at most so many that the highest and lowest of
/// each stretch are seen.
fn stairs(points: &[(i64, i64)], end: i64) -> Vec<(i64, i64)> {
    let size = points.len().div_ceil(POINTS).max(1);
    let mut out: Vec<(i64, i64)> = Vec::new();
    let mut last = None;
    for chunk in points.chunks(size) {
        let lowest = chunk.iter().copied().min_by_key(|point| point.1);
        let highest = chunk.iter().copied().max_by_key(|point| point.1);
        let mut both = [lowest, highest];
        both.sort();
        for point in both.into_iter().flatten() {
            if let Some(before) = last {
                out.push((point.0, before));
            }
            out.push(point);
            last = Some(point.1);
        }
    }
    if let Some(before) = last {
        out.push((end, before));
    }
    out
}

/// A step to be drawn: its number, how long it took and how much of that some device worked, in
/// nanoseconds.
pub(crate) type StepBar = (u64, i64, i64);

/// Durations of steps as bars, the busy part filled.
pub(crate) fn steps(bars: &[StepBar], median: i64, id: &str) -> Option<Picture> {
    let most = bars.iter().map(|bar| bar.1).max()?;
    if bars.len() < 2 || most <= 0 {
        return None;
    }
    let shown = bars.get(..bars.len().min(120)).unwrap_or(bars);
    let unit = TimeUnit::of([most as f64 * 1e-9]);
    let factor = unit.per_second() * 1e-9;
    let plot = Plot {
        x: Axis {
            start: 0.0,
            end: shown.len() as f64,
            marks: Vec::new(),
        },
        ..plot(1.0, most as f64 * factor)
    };
    let mut canvas = Canvas::default();
    plot.upright(
        &mut canvas,
        &format!("duration of a step, {}", unit.symbol()),
    );
    let width = (plot.across(1.0) - plot.across(0.0)).min(40.0) * 0.8;
    for (index, (number, whole, busy)) in shown.iter().enumerate() {
        let x = plot.across(index as f64 + 0.5) - width / 2.0;
        let hint = format!(
            "step {number}: {}, devices busy {}",
            seconds(*whole as f64 * 1e-9),
            seconds(*busy as f64 * 1e-9)
        );
        let mut bar = |value: i64, fill: &str| {
            let y = plot.up(value as f64 * factor);
            canvas.rectangle((x, y), (width, plot.floor() - y), fill, &hint);
        };
        bar(
            *whole,
            &format!("fill=\"{}\" fill-opacity=\".35\"", colour::BLUE),
        );
        bar((*busy).min(*whole), &format!("fill=\"{}\"", colour::BLUE));
    }
    // Its name stands beside the title: in the picture bars would cross it.
    let (start, end) = (plot.across(0.0), plot.across(plot.x.end));
    let height = plot.up(median as f64 * factor);
    canvas.path(&[(start, height), (end, height)], &bound_stroke());
    canvas.text(
        end,
        TOP - 12.0,
        Anchor::End,
        "m",
        &format!("dashed: median {}", seconds(median as f64 * 1e-9)),
    );
    let from = shown.first().map_or(0, |bar| bar.0);
    let to = shown.last().map_or(0, |bar| bar.0);
    canvas.text(
        WIDTH - 14.0,
        plot.floor() + 17.0,
        Anchor::End,
        "m",
        &format!("steps {from} to {to}; filled: a device worked"),
    );
    Some(canvas.finish(
        id,
        "Duration of steps".into(),
        format!(
            "{} steps, median {}",
            bars.len(),
            seconds(median as f64 * 1e-9)
        ),
        plot.floor() + 26.0,
    ))
}

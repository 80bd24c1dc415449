//! What was recorded beside a trace: means within it as a table, all of it as lanes over one time axis.

use super::{Profile, duration};
use crate::{
    figures::{TimeUnit, number, percent},
    html::figure,
    markup::escape,
    svg::{Lane, LaneLine, Lanes},
    table::{Cell, Column, Table},
};
use gpuwise_domain::{
    profile::{
        joined::{Joined, JoinedFile, JoinedSeries, RecordedGroup, RecordedMean, RecordedMetric},
        timeline::Timeline,
    },
    telemetry::Quantity,
};
use std::fmt::Write as _;

/// Lanes of one picture: those of a page that is still read.
const LANES: usize = 28;
/// Stretches into which the trace is cut for its own lane.
const STRETCHES: i64 = 160;
/// A recording so much longer than the trace has a second picture, of the trace alone.
const LONGER: i64 = 3;

/// A value as people say it.
fn shown(value: f64, unit: &str) -> String {
    match unit {
        "ratio" => percent(value),
        "bytes" => gpuwise_units::Bytes::from_f64(value.max(0.0)).to_string(),
        "bytes/s" => {
            let (value, unit) = match value.abs() {
                rate if rate >= 1e9 => (value * 1e-9, "GB/s"),
                rate if rate >= 1e6 => (value * 1e-6, "MB/s"),
                _ => (value * 1e-3, "kB/s"),
            };
            format!("{} {unit}", number(value))
        }
        "s" => crate::figures::seconds(value),
        "C" => format!("{} °C", number(value)),
        "bits" => reasons(value as u64),
        "" | "count" | "code" | "flag" => number(value),
        unit => format!("{} {unit}", number(value)),
    }
}

/// Clock event reasons (`nvmlClocksEventReason…` in nvml.h), those that say something.
fn reasons(bits: u64) -> String {
    let named = [
        (0x04 | 0x80, "power"),
        (0x20 | 0x40, "heat"),
        (0x08, "hardware"),
        (0x02, "application clocks"),
        (0x01, "idle"),
    ];
    let said: Vec<&str> = named
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, name)| *name)
        .collect();
    if said.is_empty() {
        "none".into()
    } else {
        said.join(", ")
    }
}

/// A name without the underscores of JSON.
fn title(metric: &RecordedMetric) -> String {
    match metric {
        RecordedMetric::Other(_, name) => name.clone(),
        known => {
            let name = known.name().replace('_', " ");
            let upper = ["sm ", "cpu ", "gpu ", "dram ", "pcie ", "numa "];
            let name = name.replace("nvlink", "NVLink");
            match upper.iter().find(|start| name.starts_with(**start)) {
                Some(start) => start.to_uppercase() + name.get(start.len()..).unwrap_or(""),
                None => name,
            }
        }
    }
}

/// Series of one metric, in order of the groups, then of first appearance.
fn by_metric(joined: &Joined) -> Vec<(&RecordedMetric, Vec<&JoinedSeries>)> {
    let mut out: Vec<(&RecordedMetric, Vec<&JoinedSeries>)> = Vec::new();
    for group in RecordedGroup::ALL {
        for one in joined
            .series()
            .filter(|one| one.series.metric.group() == group)
        {
            let metric = &one.series.metric;
            match out.iter_mut().find(|(known, _)| *known == metric) {
                Some((_, all)) => all.push(one),
                None => out.push((metric, vec![one])),
            }
        }
    }
    out
}

/// Limits that do not change say nothing over time.
fn is_limit(metric: &RecordedMetric) -> bool {
    matches!(
        metric,
        RecordedMetric::Gpu(Quantity::SmClockMax | Quantity::PowerLimit)
    )
}

/// What everything was within the trace, a row for each metric.
pub(super) fn means(joined: &Joined) -> Table {
    let mut table = Table::new(vec![
        Column::left("what", "what"),
        Column::left("of", "of").wrap(12),
        Column::right("mean", "mean"),
        Column::right("least", "least"),
        Column::right("most", "most"),
        Column::right("samples", "samples"),
        Column::left("file", "file").priority(1),
    ]);
    let mut between = false;
    for (metric, all) in by_metric(joined) {
        let within: Vec<RecordedMean> = all.iter().filter_map(|one| one.within).collect();
        let samples: u64 = within.iter().map(|one| one.samples).sum();
        between |= samples == 0 && !within.is_empty();
        let count = within.len() as f64;
        let mean = (count > 0.0).then(|| within.iter().map(|one| one.mean).sum::<f64>() / count);
        let least = within.iter().map(|one| one.least).reduce(f64::min);
        let most = within.iter().map(|one| one.most).reduce(f64::max);
        let cell = |value: Option<f64>| {
            Cell::of(value, |value| Cell::new(shown(value, metric.unit()), value))
        };
        // Bits have no mean.
        let bits = metric.unit() == "bits";
        table.push(vec![
            Cell::text(title(metric)),
            Cell::text(whose(&all)),
            if bits { Cell::missing() } else { cell(mean) },
            cell(least),
            cell(most),
            Cell::count(samples),
            Cell::text(files(joined, metric)),
        ]);
    }
    if between {
        table.footnote(
            "Where samples are 0 the trace lies between two samples, whose line is taken.",
        );
    }
    table
}

/// Of what series are: the one, or how many.
fn whose(all: &[&JoinedSeries]) -> String {
    match all {
        [only] => only.series.of.clone(),
        many => {
            let what = if many.iter().all(|one| one.series.gpu.is_some()) {
                "GPUs"
            } else {
                "series"
            };
            format!("{} {what}", many.len())
        }
    }
}

fn files(joined: &Joined, metric: &RecordedMetric) -> String {
    let has = |file: &&JoinedFile| file.series.iter().any(|one| one.series.metric == *metric);
    let names = joined.files.iter().filter(has).map(|file| name(&file.file));
    names.collect::<Vec<_>>().join(", ")
}

fn name(file: &str) -> String {
    file.rsplit('/').next().unwrap_or(file).to_owned()
}

/// Each file with how it was laid beside the trace.
fn aligned(joined: &Joined) -> String {
    let mut out = String::from("<ul>\n");
    for file in &joined.files {
        let unit = |ns: i64| duration(ns);
        let _ = writeln!(
            out,
            "<li>{}: {}, {} from {} to {} of the trace's first GPU work; {} of the {} of the trace are covered</li>",
            escape(&name(&file.file)),
            escape(&file.form),
            file.by.title(),
            unit(file.start_ns),
            unit(file.end_ns),
            unit(file.overlap_ns),
            unit(joined.span_ns)
        );
    }
    out + "</ul>\n"
}

/// The part of the page.
pub(super) fn section(profile: &Profile) -> String {
    let joined = &profile.figures.joined;
    if joined.is_empty() {
        return String::new();
    }
    let mut out = aligned(joined);
    let first = joined
        .files
        .iter()
        .map(|file| file.start_ns)
        .min()
        .unwrap_or(0)
        .min(0);
    let last = joined
        .files
        .iter()
        .map(|file| file.end_ns)
        .max()
        .unwrap_or(0)
        .max(joined.span_ns);
    let metrics: Vec<_> = by_metric(joined)
        .into_iter()
        .filter(|(metric, _)| !is_limit(metric))
        .collect();
    let mut pictures = String::new();
    let whole = (first, last);
    let trace = (0, joined.span_ns);
    let zoomed = last.saturating_sub(first) > joined.span_ns.saturating_mul(LONGER);
    let ranges = if zoomed {
        vec![trace, whole]
    } else {
        vec![whole]
    };
    for (place, range) in ranges.into_iter().enumerate() {
        let lanes = lanes(profile, &metrics, range, range == whole && zoomed);
        let caption = if range == whole && zoomed {
            "All that was recorded; the trace is the grey stretch."
        } else {
            "While the trace was taken: its GPUs' busy share, and what was recorded beside it. Each lane has the scale of its own that stands beside its name."
        };
        if let Some(picture) = lanes.picture(&format!("recorded-{place}")) {
            pictures += &figure(&picture, caption);
        }
    }
    if !pictures.is_empty() {
        let _ = write!(out, "<div class=\"pictures\">\n{pictures}</div>\n");
    }
    if metrics.len() > LANES {
        let _ = writeln!(
            out,
            "<p class=\"note\">{} more are in the table.</p>",
            metrics.len() - LANES
        );
    }
    out + &means(joined).to_live_html("Means within the trace", &|_| None)
}

fn lanes<'a>(
    profile: &Profile,
    metrics: &[(&RecordedMetric, Vec<&JoinedSeries>)],
    (from, to): (i64, i64),
    marked: bool,
) -> Lanes<'a> {
    let joined = &profile.figures.joined;
    let seconds = |ns: i64| ns as f64 * 1e-9;
    let mut all = Vec::new();
    if !marked {
        all.push(busy(profile));
    }
    for (metric, series) in metrics.iter().take(LANES) {
        let lines = series.iter().map(|one| {
            let mean = one.within.map_or_else(String::new, |within| {
                format!(
                    ": mean {} within the trace",
                    shown(within.mean, metric.unit())
                )
            });
            let of = if one.series.of.is_empty() {
                title(metric)
            } else {
                one.series.of.clone()
            };
            LaneLine {
                hint: format!("{of}{mean}"),
                points: one
                    .series
                    .samples
                    .iter()
                    .map(|sample| (seconds(sample.at_ns), sample.value))
                    .collect(),
            }
        });
        let of = whose(series);
        let name = if of.is_empty() {
            title(metric)
        } else {
            format!("{}, {of}", title(metric))
        };
        all.push(Lane {
            name,
            show: show_of(metric.unit()),
            top: (metric.unit() == "ratio").then_some(1.0),
            from_zero: !matches!(metric.unit(), "" | "C" | "MHz"),
            lines: lines.collect(),
        });
    }
    let unit = TimeUnit::of([seconds(to.saturating_sub(from))]);
    Lanes {
        title: "Recorded beside the trace",
        description: format!(
            "{} series in {} lanes over {} {}, the trace's first GPU work at 0.",
            metrics
                .iter()
                .map(|(_, series)| series.len())
                .sum::<usize>(),
            all.len(),
            number(seconds(to.saturating_sub(from)) * unit.per_second()),
            unit.symbol()
        ),
        from: seconds(from),
        to: seconds(to),
        band: marked.then_some((0.0, seconds(joined.span_ns), "trace")),
        lanes: all,
    }
}

fn show_of(unit: &'static str) -> fn(f64) -> String {
    match unit {
        "ratio" => percent,
        "bytes" => |value| shown(value, "bytes"),
        "bytes/s" => |value| shown(value, "bytes/s"),
        "bits" => |value| shown(value, "bits"),
        "s" => |value| shown(value, "s"),
        "C" => |value| shown(value, "C"),
        "W" => |value| shown(value, "W"),
        "MHz" => |value| shown(value, "MHz"),
        _ => number,
    }
}

/// The share of each stretch of the trace in which its devices had work.
fn busy(profile: &Profile) -> Lane {
    let joined = &profile.figures.joined;
    let width = (joined.span_ns / STRETCHES).max(1);
    let lines = profile
        .timelines
        .iter()
        .zip(&profile.figures.ranks)
        .enumerate();
    let lines = lines.filter_map(|(place, (timeline, rank))| {
        let window = rank.whole.window?;
        let wall = timeline.epoch_ns.zip(joined.started_at_ns);
        let zero = wall.map_or(window.start_ns, |(epoch, start)| start - epoch);
        Some(LaneLine {
            hint: format!(
                "{}: share of each {} in which its GPU had work",
                profile.rank_label(place),
                duration(width)
            ),
            points: shares(timeline, zero, width),
        })
    });
    Lane {
        name: "GPU had work, by the trace".into(),
        show: percent,
        top: Some(1.0),
        from_zero: true,
        lines: lines.collect(),
    }
}

fn shares(timeline: &Timeline, zero: i64, width: i64) -> Vec<(f64, f64)> {
    let mut spans: Vec<(i64, i64)> = timeline
        .work
        .iter()
        .map(|work| (work.start_ns - zero, work.end_ns - zero))
        .collect();
    spans.sort_unstable();
    let mut stretches = vec![0_i64; usize::try_from(STRETCHES).unwrap_or(0)];
    let mut done = i64::MIN;
    for (start, end) in spans {
        let mut at = start.max(done).max(0);
        while at < end {
            let place = at / width;
            let next = ((place + 1) * width).min(end);
            match usize::try_from(place)
                .ok()
                .and_then(|place| stretches.get_mut(place))
            {
                Some(stretch) => *stretch += next - at,
                None => break,
            }
            at = next;
        }
        done = done.max(end);
    }
    let middle = |place: usize| (place as f64 + 0.5) * width as f64 * 1e-9;
    let shares = stretches.iter().enumerate();
    shares
        .map(|(place, busy)| (middle(place), *busy as f64 / width as f64))
        .collect()
}

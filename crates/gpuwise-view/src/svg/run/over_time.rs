//! What happened over time: one picture for each question.

use super::plot::Plot;
use crate::{
    figures::{TimeUnit, number, seconds},
    svg::canvas::{Axis, Canvas, Picture, colour},
};
use gpuwise_domain::run::{Bucket, RunReport, Series, SloMetric};

const TOP: f64 = 36.0;
const HEIGHT: f64 = 130.0;

/// What is shown over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Panel {
    /// Concurrent requests: running, and waiting on top.
    Concurrent,
    /// Share of the key-value cache in use.
    Cache,
    /// Time to first token: median and 95th percentile.
    Ttft,
    /// Output tokens a second.
    Throughput,
}

impl Panel {
    /// All, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Concurrent, Self::Ttft, Self::Cache, Self::Throughput];
}

/// What happened over time; `None` where it is not known.
pub fn over_time(report: &RunReport, panel: Panel, id: &str) -> Option<Picture> {
    let series = report.series.as_ref()?;
    if series.buckets.len() < 2 {
        return None;
    }
    let time = Time::new(series, report);
    match panel {
        Panel::Concurrent => concurrent(series, &time, id),
        Panel::Cache => cache(series, &time, id),
        Panel::Ttft => ttft(series, &time, report, id),
        Panel::Throughput => throughput(series, &time, id),
    }
}

/// The level axis and what of it is left out.
struct Time {
    axis: Axis,
    unit: TimeUnit,
    start: f64,
    width: f64,
    steady: (f64, f64),
}

impl Time {
    fn new(series: &Series, report: &RunReport) -> Self {
        let width = series.width.seconds().get();
        let end = report.span.end.seconds().get();
        let unit = if end < 600.0 {
            TimeUnit::of([end.max(10.0)])
        } else {
            TimeUnit::of([end, end])
        };
        let factor = unit.per_second();
        let mut axis = Axis::up_to(end * factor, 6);
        axis.end = (end * factor).max(f64::MIN_POSITIVE);
        axis.marks.retain(|mark| *mark <= axis.end);
        Self {
            axis,
            unit,
            start: series.start.seconds().get(),
            width,
            steady: (
                report.span.steady_from.seconds().get() * factor,
                report.span.steady_to.seconds().get() * factor,
            ),
        }
    }

    /// Where a stretch begins and ends.
    fn edges(&self, at: usize) -> (f64, f64) {
        let factor = self.unit.per_second();
        let begin = (self.start + at as f64 * self.width) * factor;
        (begin, (begin + self.width * factor).min(self.axis.end))
    }

    fn middle(&self, at: usize) -> f64 {
        let (begin, end) = self.edges(at);
        f64::midpoint(begin, end)
    }

    fn title(&self) -> String {
        format!("time, {}", self.unit.symbol())
    }
}

fn plot(time: &Time, y: Axis) -> Plot {
    Plot {
        x: time.axis.clone(),
        y,
        top: TOP,
        height: HEIGHT,
    }
}

/// The frame, with what is left out of the figures in grey.
fn frame(canvas: &mut Canvas, plot: &Plot, time: &Time, title: &str) {
    let stretches = [
        (0.0, time.steady.0, "warm-up, left out"),
        (time.steady.1, time.axis.end, "drain, left out"),
    ];
    for (from, to, hint) in stretches {
        let (left, right) = (plot.across(from), plot.across(to));
        if right - left > 0.5 {
            canvas.rectangle(
                (left, plot.top),
                (right - left, plot.height),
                "fill=\"#808890\" fill-opacity=\"0.14\"",
                hint,
            );
        }
    }
    plot.upright(canvas, title);
    plot.level(canvas, &time.title());
}

fn finish(canvas: Canvas, id: &str, title: &str, description: String) -> Picture {
    canvas.finish(id, title.into(), description, TOP + HEIGHT + 46.0)
}

/// The stairs of a value over the stretches.
fn stairs(plot: &Plot, time: &Time, values: &[f64]) -> Vec<(f64, f64)> {
    let mut points = Vec::with_capacity(values.len() * 2);
    for (at, value) in values.iter().enumerate() {
        let (from, to) = time.edges(at);
        points.push(plot.at(from, *value));
        points.push(plot.at(to, *value));
    }
    points
}

/// Points of a line.
type Line = [(f64, f64)];

/// Fills between two stairs.
fn fill(canvas: &mut Canvas, lower: &Line, upper: &Line, hue: &str, hint: &str) {
    let outline: Vec<(f64, f64)> = upper.iter().chain(lower.iter().rev()).copied().collect();
    canvas.area(
        &outline,
        &format!("fill=\"{hue}\" fill-opacity=\"0.75\""),
        hint,
    );
}

fn concurrent(series: &Series, time: &Time, id: &str) -> Option<Picture> {
    let all: Vec<f64> = series.buckets.iter().map(|b| b.concurrent).collect();
    let parts: Option<Vec<(f64, f64)>> = series
        .buckets
        .iter()
        .map(|bucket| Some((bucket.running?, bucket.waiting?)))
        .collect();
    let most = match &parts {
        Some(parts) => parts.iter().map(|(a, b)| a + b).fold(0.0, f64::max),
        None => all.iter().copied().fold(0.0, f64::max),
    };
    if most <= 0.0 {
        return None;
    }
    let plot = plot(time, Axis::up_to(most, 4));
    let mut canvas = Canvas::default();
    frame(&mut canvas, &plot, time, "concurrent requests");
    let zero = stairs(&plot, time, &vec![0.0; all.len()]);
    if let Some(parts) = &parts {
        let running: Vec<f64> = parts.iter().map(|(running, _)| *running).collect();
        let sum: Vec<f64> = parts.iter().map(|(a, b)| a + b).collect();
        let (low, high) = (stairs(&plot, time, &running), stairs(&plot, time, &sum));
        fill(&mut canvas, &zero, &low, colour::SKY, "running");
        fill(&mut canvas, &low, &high, colour::ORANGE, "waiting");
        plot.key(
            &mut canvas,
            &[("running", colour::SKY), ("waiting", colour::ORANGE)],
        );
    } else {
        let high = stairs(&plot, time, &all);
        fill(&mut canvas, &zero, &high, colour::SKY, "concurrent");
    }
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let description = format!(
        "Concurrent requests over time: {} on average, {} at most{}.",
        number(mean),
        number(most),
        if parts.is_some() {
            ", those that run and those that wait stacked"
        } else {
            ""
        }
    );
    Some(finish(canvas, id, "Concurrent requests", description))
}

fn cache(series: &Series, time: &Time, id: &str) -> Option<Picture> {
    let used: Option<Vec<f64>> = series
        .buckets
        .iter()
        .map(|bucket| Some(bucket.cache_use? * 100.0))
        .collect();
    let used = used?;
    let y = Axis {
        start: 0.0,
        end: 100.0,
        marks: vec![0.0, 25.0, 50.0, 75.0, 100.0],
    };
    let plot = plot(time, y);
    let mut canvas = Canvas::default();
    frame(&mut canvas, &plot, time, "KV cache in use, %");
    let zero = stairs(&plot, time, &vec![0.0; used.len()]);
    let high = stairs(&plot, time, &used);
    fill(&mut canvas, &zero, &high, colour::GREEN, "in use");
    let most = used.iter().copied().fold(0.0, f64::max);
    let description = format!(
        "Share of the key-value cache in use over time: {} % at most.",
        number(most)
    );
    Some(finish(canvas, id, "KV cache in use", description))
}

/// Points of a value that is not known everywhere, as unbroken lines.
fn lines(plot: &Plot, time: &Time, values: &[Option<f64>]) -> Vec<Vec<(f64, f64)>> {
    let mut out: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    for (at, value) in values.iter().enumerate() {
        match (value, out.last_mut()) {
            (Some(value), Some(line)) => line.push(plot.at(time.middle(at), *value)),
            (None, Some(line)) if !line.is_empty() => out.push(Vec::new()),
            _ => {}
        }
    }
    out.retain(|line| !line.is_empty());
    out
}

fn ttft(series: &Series, time: &Time, report: &RunReport, id: &str) -> Option<Picture> {
    let pick = |pick: fn(&Bucket) -> Option<f64>| -> Vec<Option<f64>> {
        series.buckets.iter().map(pick).collect()
    };
    let (middle, late) = (
        pick(|bucket| bucket.ttft_p50),
        pick(|bucket| bucket.ttft_p95),
    );
    let highest = late.iter().flatten().copied().fold(0.0, f64::max);
    if highest <= 0.0 {
        return None;
    }
    let verdicts = &report.attainment.verdicts;
    let bound = verdicts
        .iter()
        .find(|verdict| verdict.about == SloMetric::Ttft)
        .map(|verdict| verdict.bound)
        .filter(|bound| *bound < highest * 4.0);
    let most = highest.max(bound.unwrap_or(0.0));
    let unit = TimeUnit::of([most]);
    let factor = unit.per_second();
    let scaled = |values: &[Option<f64>]| -> Vec<Option<f64>> {
        values
            .iter()
            .map(|value| value.map(|value| value * factor))
            .collect()
    };
    let (middle, late) = (scaled(&middle), scaled(&late));
    let plot = plot(time, Axis::up_to(most * factor, 4));
    let mut canvas = Canvas::default();
    frame(
        &mut canvas,
        &plot,
        time,
        &format!("TTFT by when requests were due, {}", unit.symbol()),
    );
    let mut labels = plot.labels();
    for (values, hue) in [(&late, colour::ORANGE), (&middle, "var(--gw-line)")] {
        for line in lines(&plot, time, values) {
            labels.line(&line);
            canvas.path(
                &line,
                &format!(
                    "fill=\"none\" stroke=\"{hue}\" stroke-width=\"1.8\" stroke-linejoin=\"round\""
                ),
            );
        }
    }
    plot.key(
        &mut canvas,
        &[("p50", "var(--gw-line)"), ("p95", colour::ORANGE)],
    );
    if let Some(bound) = bound {
        plot.bound(
            &mut canvas,
            &mut labels,
            bound * factor,
            &format!("SLO {}", seconds(bound)),
        );
    }
    let description = format!(
        "Time to first token by when requests were due: the 95th percentile of a stretch reaches {}.",
        seconds(highest)
    );
    Some(finish(
        canvas,
        id,
        "Time to first token over time",
        description,
    ))
}

fn throughput(series: &Series, time: &Time, id: &str) -> Option<Picture> {
    let count = series.buckets.len();
    let rates: Vec<f64> = series
        .buckets
        .iter()
        .enumerate()
        .map(|(at, bucket)| {
            let (from, to) = time.edges(at);
            let length = (to - from) / time.unit.per_second();
            if length > 0.0 {
                bucket.output_tokens.unwrap_or(0.0) / length
            } else {
                0.0
            }
        })
        .collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let plot = plot(time, Axis::up_to(most, 4));
    let mut canvas = Canvas::default();
    frame(&mut canvas, &plot, time, "output tokens/s");
    canvas.path(
        &stairs(&plot, time, &rates),
        "class=\"l\" stroke-width=\"1.8\"",
    );
    let mean = rates.iter().sum::<f64>() / count as f64;
    let description = format!(
        "Output tokens a second over time: {} on average, {} at most.",
        number(mean),
        number(most)
    );
    Some(finish(canvas, id, "Output tokens a second", description))
}

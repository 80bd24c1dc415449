//! Load against latency: a panel each for TTFT and TPOT, with the range as a band and the limit
//! marked.

use super::{
    canvas::{Anchor, Axis, Canvas, FONT, Picture, WIDTH, colour},
    labels::{self, Labels},
};
use crate::{
    figures::{TimeUnit, number, seconds},
    plan::words,
};
use gpuwise_domain::{
    deployment::{LoadPoint, Sizing},
    estimate::Estimate,
    workload::{Target, Traffic},
};

const LEFT: f64 = 50.0;
const RIGHT: f64 = WIDTH - 14.0;
const PANEL: f64 = 150.0;
const FIRST: f64 = 46.0;
const GAP: f64 = 46.0;

/// One latency over the load.
struct Panel<'a> {
    title: String,
    pick: fn(&LoadPoint) -> &Estimate,
    slo: Option<&'a Target>,
    top: f64,
}

/// Latency of the best deployment over the load; `None` where there is no curve.
pub fn load(sizing: &Sizing, id: &str) -> Option<Picture> {
    let best = sizing.ranked.first()?;
    let curve: Vec<&LoadPoint> = sizing
        .charts
        .curve
        .iter()
        .filter(|p| p.load.is_finite() && p.load >= 0.0)
        .collect();
    if curve.len() < 2 {
        return None;
    }
    let loads = Axis::up_to(curve.iter().map(|p| p.load).fold(0.0, f64::max), 6);
    // Where the search found the limit it is known better than from the points of the curve.
    let last = curve
        .iter()
        .filter(|p| p.kept)
        .map(|p| p.load)
        .fold(0.0, f64::max);
    let kept = if best.headroom.rate > 0.0 {
        best.headroom.rate
    } else {
        last
    };
    let asked = match sizing.question.workload.traffic {
        Traffic::Open { rate, .. } => rate.get(),
        Traffic::Closed { concurrency } => concurrency as f64,
    };
    let slo = &sizing.question.workload.slo;
    let panels = [
        Panel {
            title: format!("TTFT {}", words::percentile(best.figures.ttft_at)),
            pick: |point| &point.ttft,
            slo: slo.ttft.as_ref(),
            top: FIRST,
        },
        Panel {
            title: format!("TPOT {}", words::percentile(best.figures.tpot_at)),
            pick: |point| &point.tpot,
            slo: slo.tpot.as_ref(),
            top: FIRST + PANEL + GAP,
        },
    ];
    let mut canvas = Canvas::default();
    let mut beyond = false;
    for panel in &panels {
        beyond |= draw(&mut canvas, panel, &curve, &loads, (asked, kept));
    }
    let unit = match sizing.question.workload.traffic {
        Traffic::Open { .. } => "requests/s",
        Traffic::Closed { .. } => "concurrent requests",
    };
    let foot = level(&mut canvas, &loads, unit, beyond);
    let description = format!(
        "Latency of {} over the load. Asked: {} {unit}; the SLO is kept up to {} {unit}.",
        words::deployment(best),
        number(asked),
        number(kept)
    );
    Some(canvas.finish(id, "Load against latency".into(), description, foot))
}

/// The level axis, and what marks mean; gives where the picture ends.
fn level(canvas: &mut Canvas, loads: &Axis, unit: &str, beyond: bool) -> f64 {
    let bottom = FIRST + PANEL * 2.0 + GAP;
    for mark in &loads.marks {
        let x = across(loads, *mark);
        canvas.text(x, bottom + 18.0, Anchor::Middle, "m", &number(*mark));
    }
    let title = format!("load, {unit}");
    canvas.text(RIGHT, bottom + 36.0, Anchor::End, "", &title);
    canvas.text(LEFT, bottom + 36.0, Anchor::Start, "m", "band: 80 % range");
    if !beyond {
        return bottom + 46.0;
    }
    let foot = bottom + 36.0 + FONT * 1.4;
    let said = "▲: goes on beyond the frame";
    canvas.text(LEFT, foot, Anchor::Start, "m", said);
    foot + 10.0
}

fn across(loads: &Axis, load: f64) -> f64 {
    LEFT + (load / loads.end).clamp(0.0, 1.0) * (RIGHT - LEFT)
}

/// How the upright axis of a panel goes, and where the SLO is within it. What is far beyond the SLO is
/// cut off at the top.
fn upright(panel: &Panel<'_>, curve: &[&LoadPoint]) -> (Axis, TimeUnit, Option<f64>) {
    let finite = |value: f64| if value.is_finite() { value } else { f64::MAX };
    let highest = curve
        .iter()
        .map(|p| finite((panel.pick)(p).high))
        .fold(0.0, f64::max);
    let lowest = curve
        .iter()
        .map(|p| finite((panel.pick)(p).value))
        .fold(f64::MAX, f64::min);
    let reference = panel
        .slo
        .map_or(lowest * 3.0, |target| target.at_most.get());
    let most = highest.min(reference.max(lowest) * 1.8);
    // The SLO is shown where the curve comes near to it.
    let slo = panel
        .slo
        .map(|target| target.at_most.get())
        .filter(|seconds| *seconds <= most * 3.0);
    let most = slo.map_or(most, |seconds| most.max(seconds));
    let unit = TimeUnit::of([most]);
    (Axis::up_to(most * unit.per_second(), 4), unit, slo)
}

/// The upright axis and its title.
fn frame(canvas: &mut Canvas, panel: &Panel<'_>, axis: &Axis, unit: TimeUnit) {
    let floor = panel.top + PANEL;
    for mark in &axis.marks {
        let y = floor - mark / axis.end * PANEL;
        canvas.line(
            (LEFT, y),
            (RIGHT, y),
            if *mark == 0.0 { "a" } else { "g" },
            "",
        );
        canvas.text(
            LEFT - 6.0,
            y + FONT * 0.35,
            Anchor::End,
            "m",
            &number(*mark),
        );
    }
    canvas.text(
        4.0,
        panel.top - 14.0,
        Anchor::Start,
        "b",
        &format!("{}, {}", panel.title, unit.symbol()),
    );
}

/// The band, the line, the axis and the marks; whether some of it lies beyond the frame.
fn draw(
    canvas: &mut Canvas,
    panel: &Panel<'_>,
    curve: &[&LoadPoint],
    loads: &Axis,
    (asked, kept): (f64, f64),
) -> bool {
    let (axis, unit, slo) = upright(panel, curve);
    let floor = panel.top + PANEL;
    // What is not finite is far above everything.
    let up = |value: f64| {
        let share = value * unit.per_second() / axis.end;
        floor
            - if share.is_finite() {
                share.clamp(0.0, 1e3)
            } else {
                1e3
            } * PANEL
    };
    frame(canvas, panel, &axis, unit);
    let points = |pick: fn(&Estimate) -> f64| -> Vec<(f64, f64)> {
        let at = |point: &&LoadPoint| {
            let value = pick((panel.pick)(point));
            (across(loads, point.load), up(value))
        };
        curve.iter().map(at).collect()
    };
    let (mut band, high_leaves) = labels::below(&points(|value| value.high), panel.top);
    let (low, _) = labels::below(&points(|value| value.low), panel.top);
    band.extend(low.iter().rev());
    canvas.area(
        &band,
        &format!("fill=\"{}\" fill-opacity=\"0.3\"", colour::SKY),
        "80 % range",
    );
    let (line, line_leaves) = labels::below(&points(|value| value.value), panel.top);
    canvas.path(&line, "class=\"l\" stroke-width=\"2\"");
    let last = curve.last().map(|point| (panel.pick)(point));
    for (leaves, value, fill) in [
        (high_leaves, last.map(|value| value.high), "var(--gw-muted)"),
        (line_leaves, last.map(|value| value.value), "var(--gw-line)"),
    ] {
        if let (Some(at), Some(value)) = (leaves, value) {
            let hint = format!("goes on to {}", seconds(value));
            labels::arrow(canvas, at, &format!("fill=\"{fill}\""), &hint);
        }
    }
    let mut around = Labels::within((LEFT + 2.0, panel.top, RIGHT, floor - 1.0));
    around.line(&line);
    posts(canvas, panel, loads, (asked, kept), &mut around);
    if let Some(promised) = slo {
        let y = up(promised);
        let attributes = format!(
            "fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\"",
            colour::VERMILION
        );
        let line = [(LEFT, y), (RIGHT, y)];
        canvas.path(&line, &attributes);
        around.line(&line);
        let text = format!("SLO {}", seconds(promised));
        around.name(canvas, &text, "", (LEFT + 4.0, y), 1.0);
    }
    high_leaves.is_some() || line_leaves.is_some()
}

/// Where one is asked to be, and up to where the SLO is kept.
fn posts(
    canvas: &mut Canvas,
    panel: &Panel<'_>,
    loads: &Axis,
    (asked, kept): (f64, f64),
    around: &mut Labels,
) {
    let floor = panel.top + PANEL;
    let (asked_at, kept_at) = (across(loads, asked), across(loads, kept));
    let text_y = panel.top - 2.0;
    if kept > 0.0 && kept < loads.end * 0.99 {
        let post = [(kept_at, panel.top), (kept_at, floor)];
        canvas.line(post[0], post[1], "a", "");
        around.line(&post);
        let text = format!("kept up to {}", number(kept));
        let near_edge = RIGHT - kept_at < super::canvas::text_width(&text) + 4.0;
        if near_edge {
            canvas.text(RIGHT, text_y, Anchor::End, "", &text);
        } else {
            canvas.text(kept_at + 4.0, text_y, Anchor::Start, "", &text);
        }
    }
    if asked > 0.0 && asked <= loads.end {
        let post = [(asked_at, panel.top), (asked_at, floor)];
        canvas.line(post[0], post[1], "a", "1 3");
        around.line(&post);
        // At the foot, so that it stands beside no other mark.
        let text = format!("asked {}", number(asked));
        around.name(canvas, &text, "", (asked_at, floor - 8.0), 1.0);
    }
}

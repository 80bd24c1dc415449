//! Load against latency as it was run: points that kept the SLO and points that did not, and the
//! knee between.

use super::plot::{Plot, RIGHT};
use crate::{
    figures::{TimeUnit, number, seconds},
    plan::words::percentile,
    svg::{
        canvas::{Anchor, Axis, Canvas, Picture, colour, text_width},
        labels::{self, Labels},
    },
};
use gpuwise_domain::{
    run::{Ladder, Rung},
    workload::Slo,
};
use gpuwise_units::Percentile;

const FIRST: f64 = 44.0;
const PANEL: f64 = 120.0;
const GAP: f64 = 40.0;

/// One latency over the load.
struct Panel {
    title: String,
    pick: fn(&Rung) -> Option<f64>,
    bound: Option<f64>,
}

/// Latencies and goodput over the load; `None` where fewer than two loads were served.
pub fn ladder(ladder: &Ladder, slo: &Slo, id: &str) -> Option<Picture> {
    // Where it bends more loads were run.
    let mut plain: Vec<&Rung> = (ladder.rungs.iter())
        .chain(&ladder.near)
        .filter(|rung| rung.name.is_none() && rung.load.is_finite() && rung.load >= 0.0)
        .collect();
    plain.sort_by(|a, b| sent(a).total_cmp(&sent(b)));
    if plain.iter().filter(|rung| rung.ttft.is_some()).count() < 2 {
        return None;
    }
    let title = |name: &str, at: Option<Percentile>| format!("{name} {}", percentile(at));
    let bound = |target: &Option<gpuwise_domain::workload::Target>| {
        target.as_ref().map(|target| target.at_most.get())
    };
    let panels = [
        Panel {
            title: title("TTFT", ladder.ttft_at),
            pick: |rung| rung.ttft,
            bound: bound(&slo.ttft),
        },
        Panel {
            title: title("TPOT", ladder.tpot_at),
            pick: |rung| rung.tpot,
            bound: bound(&slo.tpot),
        },
    ];
    let most = plain.iter().map(|rung| sent(rung)).fold(0.0, f64::max);
    let loads = Axis::up_to(most, 6);
    let mut canvas = Canvas::default();
    let mut top = FIRST;
    let mut last = None;
    for panel in &panels {
        let named = last.is_none();
        if let Some(plot) = draw(&mut canvas, panel, &plain, (&loads, top), ladder, named) {
            top += PANEL + GAP;
            last = Some(plot);
        }
    }
    if plain.iter().any(|rung| rung.goodput.is_some()) && !slo.is_empty() {
        last = Some(goodput(&mut canvas, &plain, &loads, top, ladder));
        top += PANEL + GAP;
    }
    last?.level(&mut canvas, &format!("load, {}", ladder.unit.name()));
    Some(canvas.finish(
        id,
        "Load against latency".into(),
        description(ladder, &plain),
        top + 10.0,
    ))
}

/// The load as it was delivered, where that is known: what was carried is beside it.
fn sent(rung: &Rung) -> f64 {
    rung.delivered.unwrap_or(rung.load)
}

fn draw(
    canvas: &mut Canvas,
    panel: &Panel,
    rungs: &[&Rung],
    (loads, top): (&Axis, f64),
    ladder: &Ladder,
    named: bool,
) -> Option<Plot> {
    let points: Vec<(&Rung, f64)> = rungs
        .iter()
        .filter_map(|rung| Some((*rung, (panel.pick)(rung)?)))
        .filter(|(_, value)| value.is_finite())
        .collect();
    if points.is_empty() {
        return None;
    }
    let highest = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let lowest = points
        .iter()
        .map(|(_, value)| *value)
        .fold(f64::MAX, f64::min);
    // What is far beyond the SLO is cut off at the top.
    let most = highest.min(panel.bound.unwrap_or(lowest * 4.0).max(lowest) * 2.0);
    let bound = panel.bound.filter(|bound| *bound <= most * 3.0);
    let most = most.max(bound.unwrap_or(0.0) * 1.1);
    let unit = TimeUnit::of([most]);
    let factor = unit.per_second();
    let plot = Plot {
        x: loads.clone(),
        y: Axis::up_to(most * factor, 4),
        top,
        height: PANEL,
    };
    plot.upright(canvas, &format!("{}, {}", panel.title, unit.symbol()));
    let places: Vec<(f64, f64)> = points
        .iter()
        .map(|(rung, value)| (plot.across(sent(rung)), plot.above(value * factor)))
        .collect();
    let (line, _) = labels::below(&places, top);
    canvas.path(&line, "class=\"l\" stroke-width=\"2\"");
    let mut around = plot.labels();
    around.line(&line);
    let mut beyond = Vec::new();
    for ((rung, value), (x, y)) in points.iter().zip(&places) {
        let hint = format!("{}: {}", number(sent(rung)), seconds(*value));
        if *y < top {
            let fill = format!("fill=\"{}\"", colour::VERMILION);
            labels::arrow(canvas, (*x, top), &fill, &hint);
            around.mark((*x, top + 4.0), 5.0);
            beyond.push((seconds(*value), *x));
        } else {
            mark(canvas, (*x, *y), rung.kept, &hint);
            around.mark((*x, *y), 5.0);
        }
    }
    posts(canvas, &plot, ladder, &mut around, named);
    if let Some(bound) = bound {
        let text = format!("SLO {}", seconds(bound));
        plot.bound(canvas, &mut around, bound * factor, &text);
    }
    for (text, x) in beyond {
        around.name(canvas, &text, "m", (x, top + 4.0), 5.0);
    }
    Some(plot)
}

/// A dot where the SLO was kept, a cross where it was not.
fn mark(canvas: &mut Canvas, (x, y): (f64, f64), kept: Option<bool>, hint: &str) {
    if kept == Some(false) {
        let stroke = format!(
            "fill=\"none\" stroke=\"{}\" stroke-width=\"2\"",
            colour::VERMILION
        );
        canvas.path(&[(x - 3.5, y - 3.5), (x + 3.5, y + 3.5)], &stroke);
        canvas.path(&[(x - 3.5, y + 3.5), (x + 3.5, y - 3.5)], &stroke);
    } else {
        let hue = if kept.is_some() {
            colour::GREEN
        } else {
            "var(--gw-line)"
        };
        canvas.dot((x, y), 3.0, &format!("fill=\"{hue}\""), hint);
    }
}

/// Where one is expected to be, and up to where the SLO is kept with its range.
fn posts(canvas: &mut Canvas, plot: &Plot, ladder: &Ladder, around: &mut Labels, named: bool) {
    if let Some(knee) = ladder.knee.as_ref().filter(|knee| knee.load <= plot.x.end) {
        let (low, high) = (plot.across(knee.low), plot.across(knee.high));
        if high - low > 1.0 {
            canvas.rectangle(
                (low, plot.top),
                (high - low, plot.height),
                &format!("fill=\"{}\" fill-opacity=\"0.18\"", colour::GREEN),
                "range of the knee",
            );
        }
        post(canvas, plot, knee.load, "", around);
        if named {
            // Above the frame, beside nothing else that stands upright.
            let text = format!("kept up to {}", number(knee.load));
            let width = text_width(&text) * 1.1;
            let left = (plot.across(knee.load) + 4.0).min(RIGHT - width);
            canvas.text(left, plot.top - 3.0, Anchor::Start, "", &text);
        }
    }
    if let Some(expected) = ladder.expected.filter(|load| *load <= plot.x.end) {
        post(canvas, plot, expected, "1 3", around);
        if named {
            let foot = (plot.across(expected), plot.floor() - 9.0);
            around.name(canvas, "expected", "", foot, 1.0);
        }
    }
}

/// A line upright through the frame.
fn post(canvas: &mut Canvas, plot: &Plot, load: f64, dashes: &str, around: &mut Labels) {
    let x = plot.across(load);
    let ends = [(x, plot.top), (x, plot.floor())];
    canvas.line(ends[0], ends[1], "a", dashes);
    around.line(&ends);
}

fn goodput(canvas: &mut Canvas, rungs: &[&Rung], loads: &Axis, top: f64, ladder: &Ladder) -> Plot {
    let most = rungs
        .iter()
        .filter_map(|rung| rung.goodput)
        .fold(0.0, f64::max);
    let plot = Plot {
        x: loads.clone(),
        y: Axis::up_to(most, 4),
        top,
        height: PANEL,
    };
    plot.upright(canvas, "goodput, requests/s that met every target");
    let line: Vec<(f64, f64)> = rungs
        .iter()
        .filter_map(|rung| Some(plot.at(sent(rung), rung.goodput?)))
        .collect();
    canvas.path(&line, "class=\"l\" stroke-width=\"2\"");
    for rung in rungs {
        if let Some(value) = rung.goodput {
            let hint = format!("{}: {} requests/s", number(sent(rung)), number(value));
            mark(canvas, plot.at(sent(rung), value), rung.kept, &hint);
        }
    }
    posts(canvas, &plot, ladder, &mut plot.labels(), false);
    plot
}

fn description(ladder: &Ladder, rungs: &[&Rung]) -> String {
    let points: Vec<String> = rungs
        .iter()
        .map(|rung| {
            let time = |value: Option<f64>| value.map_or("–".into(), seconds);
            format!(
                "at {} TTFT {}, TPOT {}{}",
                number(sent(rung)),
                time(rung.ttft),
                time(rung.tpot),
                match rung.kept {
                    Some(false) => ", missed",
                    _ => "",
                }
            )
        })
        .collect();
    format!(
        "{} {} Dots keep the SLO, crosses miss it.",
        crate::run::ladder_answer(ladder),
        points.join("; ") + "."
    )
}

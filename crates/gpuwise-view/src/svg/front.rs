//! Cost against latency, with the Pareto front drawn and labelled.

use super::canvas::{Anchor, Axis, Canvas, FONT, Picture, WIDTH, colour, cut, text_width};
use crate::{
    figures::{TimeUnit, amount, number},
    plan::words,
};
use gpuwise_domain::deployment::{FrontPoint, Sizing};
use std::collections::BTreeSet;

const LEFT: f64 = 50.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 300.0;

/// A box that is taken: left, top, right, bottom.
type Frame = (f64, f64, f64, f64);

struct Plot {
    cost: Axis,
    latency: Axis,
    unit: TimeUnit,
}

impl Plot {
    fn place(&self, point: &FrontPoint) -> Option<(f64, f64)> {
        let x = point.per_hour? / self.cost.end;
        let y = point.end_to_end * self.unit.per_second() / self.latency.end;
        (x.is_finite() && y.is_finite())
            .then_some((LEFT + x * (RIGHT - LEFT), BOTTOM - y * (BOTTOM - TOP)))
    }
}

/// Hollow points drawn at most, so that a picture of many candidates stays small.
const OTHERS: usize = 200;

/// A scatter of priced candidates: those on the front, and the nearest of the others; `None` where
/// none has a price.
pub fn front(sizing: &Sizing, id: &str) -> Option<Picture> {
    let priced: Vec<&FrontPoint> = sizing
        .points
        .iter()
        .filter(|p| p.per_hour.is_some())
        .collect();
    let (best, others): (Vec<&FrontPoint>, Vec<&FrontPoint>) =
        priced.iter().partition(|p| p.on_front);
    let plot = plot(&best, &priced)?;
    let currency = words::currency(&sizing.deployments);
    let mut canvas = Canvas::default();
    axes(&mut canvas, &plot, &words::per(currency.as_deref(), "h"));
    let mut line: Vec<(&FrontPoint, (f64, f64))> = best
        .iter()
        .filter_map(|point| Some((*point, plot.place(point)?)))
        .collect();
    line.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let path = stairs(&line);
    if path.len() > 1 {
        let attributes = format!(
            "fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"",
            colour::SKY
        );
        canvas.path(&path, &attributes);
    }
    let mut taken: Vec<Frame> = Vec::new();
    let thinned = thinned(&others, &plot);
    for (point, (x, y)) in &thinned {
        canvas.dot(
            (*x, *y),
            3.5,
            "class=\"h\" stroke-width=\"1.5\"",
            &hint(point, &plot),
        );
        taken.push(around((*x, *y)));
    }
    for (point, at) in &line {
        let attributes = format!("fill=\"{}\" stroke=\"var(--gw-ground)\"", colour::BLUE);
        canvas.dot(*at, 5.0, &attributes, &hint(point, &plot));
        taken.push(around(*at));
    }
    for (point, at) in &line {
        label(&mut canvas, &point.label, *at, &path, &mut taken);
    }
    let foot = footnotes(
        &mut canvas,
        thinned.len(),
        others.len(),
        sizing.points.len() - priced.len(),
    );
    Some(canvas.finish(
        id,
        "Cost against latency".into(),
        description(&line, &plot),
        foot + 8.0,
    ))
}

/// Axes that show the front and what is near to it.
fn plot(best: &[&FrontPoint], priced: &[&FrontPoint]) -> Option<Plot> {
    let cost =
        |points: &[&FrontPoint]| points.iter().filter_map(|p| p.per_hour).fold(0.0, f64::max);
    let latency = |points: &[&FrontPoint]| points.iter().map(|p| p.end_to_end).fold(0.0, f64::max);
    let shown = if best.is_empty() { priced } else { best };
    let least = shown.iter().filter_map(|p| p.per_hour).reduce(f64::min)?;
    let most_cost = (cost(shown) * 1.15).max(least * 3.0).min(cost(priced));
    let most_latency = (latency(shown) * 1.5).min(latency(priced));
    let unit = TimeUnit::of([most_latency]);
    Some(Plot {
        cost: Axis::up_to(most_cost, 5),
        latency: Axis::up_to(most_latency * unit.per_second(), 5),
        unit,
    })
}

/// Points that are not on the front, one of those that would cover each other.
fn thinned<'a>(others: &[&'a FrontPoint], plot: &Plot) -> Vec<(&'a FrontPoint, (f64, f64))> {
    let mut cells: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut out: Vec<(&FrontPoint, (f64, f64))> = others
        .iter()
        .filter_map(|point| Some((*point, plot.place(point)?)))
        .filter(|(_, (x, y))| *x <= RIGHT && *y >= TOP)
        .filter(|(_, (x, y))| cells.insert(((x / 6.0) as u64, (y / 6.0) as u64)))
        .collect();
    // The nearest to the lower left corner: cheap and fast.
    out.sort_by(|a, b| (a.1.0 - a.1.1).total_cmp(&(b.1.0 - b.1.1)));
    out.truncate(OTHERS);
    out
}

fn around((x, y): (f64, f64)) -> Frame {
    (x - 6.0, y - 6.0, x + 6.0, y + 6.0)
}

/// What the marks mean and what is not drawn; the height of the last line.
fn footnotes(canvas: &mut Canvas, drawn: usize, others: usize, unpriced: usize) -> f64 {
    let mut lines = vec!["filled: none is cheaper and faster; hollow: others".to_string()];
    if drawn < others {
        lines.push(format!(
            "{} of the others are dearer, slower or too close to draw",
            others - drawn
        ));
    }
    if unpriced > 0 {
        lines.push(format!("{unpriced} without a price are not drawn"));
    }
    let mut y = BOTTOM + 56.0 - FONT * 1.4;
    for line in lines {
        y += FONT * 1.4;
        canvas.text(LEFT, y, Anchor::Start, "m", &line);
    }
    y
}

fn axes(canvas: &mut Canvas, plot: &Plot, money: &str) {
    for mark in &plot.latency.marks {
        let y = BOTTOM - mark / plot.latency.end * (BOTTOM - TOP);
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
    for mark in &plot.cost.marks {
        let x = LEFT + mark / plot.cost.end * (RIGHT - LEFT);
        canvas.line((x, BOTTOM), (x, BOTTOM + 4.0), "a", "");
        canvas.text(x, BOTTOM + 18.0, Anchor::Middle, "m", &number(*mark));
    }
    let title = format!("end-to-end latency, {}", plot.unit.symbol());
    canvas.text(4.0, 16.0, Anchor::Start, "", &title);
    canvas.text(
        RIGHT,
        BOTTOM + 36.0,
        Anchor::End,
        "",
        &format!("price, {money}"),
    );
}

/// The front as stairs: between two points only the worse of both is to be had. Points that are on
/// the front for another reason than end-to-end latency are passed by.
fn stairs(line: &[(&FrontPoint, (f64, f64))]) -> Vec<(f64, f64)> {
    let mut path: Vec<(f64, f64)> = Vec::new();
    for (_, (x, y)) in line {
        match path.last().copied() {
            Some((_, before)) if *y <= before => {}
            Some((_, before)) => path.extend([(*x, before), (*x, *y)]),
            None => path.push((*x, *y)),
        }
    }
    path
}

/// A label at the first place around its point where nothing is; rather on the stairs than not at
/// all, and rather not at all than on another.
fn label(
    canvas: &mut Canvas,
    text: &str,
    (x, y): (f64, f64),
    path: &[(f64, f64)],
    taken: &mut Vec<Frame>,
) {
    let text = cut(text, 250.0);
    let width = text_width(&text);
    let places = [
        (x + 9.0, y - 7.0, Anchor::Start),
        (x - 9.0, y + 20.0, Anchor::End),
        (x + 9.0, y + FONT * 0.35, Anchor::Start),
        (x - 9.0, y + FONT * 0.35, Anchor::End),
        (x + 9.0, y + 20.0, Anchor::Start),
        (x - 9.0, y - 9.0, Anchor::End),
        (x, y - 12.0, Anchor::Middle),
        (x, y + 22.0, Anchor::Middle),
        (x + 16.0, y - 26.0, Anchor::Start),
        (x - 16.0, y + 36.0, Anchor::End),
        (x - 16.0, y - 28.0, Anchor::End),
        (x + 16.0, y + 36.0, Anchor::Start),
        (x + 20.0, y - 44.0, Anchor::Start),
    ];
    let own = around((x, y));
    for clear in [true, false] {
        for (left, base, anchor) in places {
            let start = match anchor {
                Anchor::Start => left,
                Anchor::Middle => left - width / 2.0,
                Anchor::End => left - width,
            };
            let frame = (start, base - FONT * 0.85, start + width, base + FONT * 0.25);
            let inside = frame.0 >= LEFT
                && frame.2 <= WIDTH - 2.0
                && frame.1 >= TOP - 14.0
                && frame.3 <= BOTTOM;
            let free = taken
                .iter()
                .all(|other| *other == own || !overlap(*other, frame));
            let off_path = !clear
                || path
                    .windows(2)
                    .all(|ends| !overlap(segment_frame(ends), frame));
            if inside && free && off_path {
                // Away from its point a label needs a line to it.
                if (base - y).abs() > 23.0 {
                    let edge = if base < y { frame.3 } else { frame.1 };
                    canvas.line((x, y), (x.clamp(frame.0, frame.2), edge), "h", "");
                }
                canvas.text(left, base, anchor, "", &text);
                taken.push(frame);
                return;
            }
        }
    }
}

/// The box around a stretch of the stairs.
fn segment_frame(ends: &[(f64, f64)]) -> Frame {
    let fold = |pick: fn(&(f64, f64)) -> f64, by: fn(f64, f64) -> f64, from: f64| {
        ends.iter().map(pick).fold(from, by)
    };
    (
        fold(|p| p.0, f64::min, f64::INFINITY) - 1.0,
        fold(|p| p.1, f64::min, f64::INFINITY) - 1.0,
        fold(|p| p.0, f64::max, f64::NEG_INFINITY) + 1.0,
        fold(|p| p.1, f64::max, f64::NEG_INFINITY) + 1.0,
    )
}

fn overlap(a: Frame, b: Frame) -> bool {
    a.0 < b.2 && b.0 < a.2 && a.1 < b.3 && b.1 < a.3
}

fn hint(point: &FrontPoint, plot: &Plot) -> String {
    let price = point.per_hour.map_or_else(String::new, amount);
    let latency = number(point.end_to_end * plot.unit.per_second());
    format!(
        "{}: {price} an hour, {latency} {}",
        point.label,
        plot.unit.symbol()
    )
}

fn description(line: &[(&FrontPoint, (f64, f64))], plot: &Plot) -> String {
    let points: Vec<String> = line.iter().map(|(point, _)| hint(point, plot)).collect();
    format!(
        "End-to-end latency over the price of an hour. On the front, from the cheapest to the fastest: {}.",
        points.join("; ")
    )
}

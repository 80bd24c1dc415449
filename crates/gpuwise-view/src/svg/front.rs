//! Cost against latency, with the Pareto front drawn and labelled.

use super::canvas::{Anchor, Axis, Canvas, FONT, Picture, WIDTH, colour, cut, text_width};
use crate::{
    figures::{TimeUnit, amount, number},
    plan::words,
};
use gpuwise_domain::deployment::{FrontPoint, Sizing};

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

/// A scatter of every priced candidate; `None` where none has a price.
pub fn front(sizing: &Sizing, id: &str) -> Option<Picture> {
    let priced: Vec<&FrontPoint> = sizing
        .points
        .iter()
        .filter(|p| p.per_hour.is_some())
        .collect();
    if priced.is_empty() {
        return None;
    }
    let unit = TimeUnit::of(priced.iter().map(|p| p.end_to_end));
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let plot = Plot {
        cost: Axis::up_to(most(&mut priced.iter().filter_map(|p| p.per_hour)), 5),
        latency: Axis::up_to(
            most(&mut priced.iter().map(|p| p.end_to_end * unit.per_second())),
            5,
        ),
        unit,
    };
    let currency = words::currency(&sizing.deployments);
    let mut canvas = Canvas::default();
    axes(&mut canvas, &plot, &words::per(currency.as_deref(), "h"));
    let mut line: Vec<(&FrontPoint, (f64, f64))> = priced
        .iter()
        .filter(|point| point.on_front)
        .filter_map(|point| Some((*point, plot.place(point)?)))
        .collect();
    line.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    stairs(&mut canvas, &line);
    let mut taken: Vec<Frame> = Vec::new();
    for point in &priced {
        if let Some((x, y)) = plot.place(point) {
            taken.push((x - 6.0, y - 6.0, x + 6.0, y + 6.0));
            let hint = hint(point, &plot);
            if point.on_front {
                canvas.dot(
                    (x, y),
                    5.0,
                    &format!("fill=\"{}\" stroke=\"var(--gw-ground)\"", colour::BLUE),
                    &hint,
                );
            } else {
                canvas.dot((x, y), 3.5, "class=\"h\" stroke-width=\"1.5\"", &hint);
            }
        }
    }
    let path = stairs_through(&line);
    for (point, at) in &line {
        label(&mut canvas, &point.label, *at, &path, &mut taken);
    }
    let unpriced = sizing.points.len() - priced.len();
    let mut foot = BOTTOM + 56.0;
    canvas.text(
        LEFT,
        foot,
        Anchor::Start,
        "m",
        "filled: none is cheaper and faster; hollow: the others",
    );
    if unpriced > 0 {
        foot += FONT * 1.4;
        canvas.text(
            LEFT,
            foot,
            Anchor::Start,
            "m",
            &format!("{unpriced} without a price are not drawn"),
        );
    }
    let description = description(&line, &plot);
    Some(canvas.finish(id, "Cost against latency".into(), description, foot + 8.0))
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

/// The front as stairs: between two points only the worse of both is to be had.
fn stairs_through(line: &[(&FrontPoint, (f64, f64))]) -> Vec<(f64, f64)> {
    let mut path: Vec<(f64, f64)> = Vec::new();
    for (_, (x, y)) in line {
        if let Some((_, before)) = path.last().copied() {
            path.push((*x, before));
        }
        path.push((*x, *y));
    }
    path
}

fn stairs(canvas: &mut Canvas, line: &[(&FrontPoint, (f64, f64))]) {
    let path = stairs_through(line);
    if path.len() > 1 {
        let attributes = format!(
            "fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"",
            colour::SKY
        );
        canvas.path(&path, &attributes);
    }
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
    let own = (x - 6.0, y - 6.0, x + 6.0, y + 6.0);
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

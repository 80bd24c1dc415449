//! Cost against latency, with the Pareto front drawn and labelled.

use super::{
    canvas::{Anchor, Axis, Canvas, FONT, Picture, WIDTH, colour, cut},
    labels::Labels,
};
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

struct Plot {
    cost: Axis,
    latency: Axis,
    unit: TimeUnit,
}

impl Plot {
    fn place(&self, point: &FrontPoint) -> Option<(f64, f64)> {
        self.at(price(point), point.end_to_end)
    }

    /// Where a price and a latency are; `None` without a price.
    fn at(&self, per_hour: Option<f64>, end_to_end: f64) -> Option<(f64, f64)> {
        let x = self.cost.share(per_hour?);
        let y = self.latency.share(end_to_end * self.unit.per_second());
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
        .charts
        .points
        .iter()
        .filter(|p| p.per_hour.is_some())
        .collect();
    let (best, others): (Vec<&FrontPoint>, Vec<&FrontPoint>) =
        priced.iter().partition(|p| p.on_front);
    let plot = plot(&best, &priced)?;
    let currency = words::currency(&sizing.ranked);
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
    // Names stay off the titles above and below.
    let mut labels = Labels::within((LEFT + 2.0, TOP - 12.0, WIDTH - 2.0, BOTTOM - 2.0));
    labels.line(&path);
    let thinned = thinned(&others, &plot);
    for (point, at) in &thinned {
        canvas.dot(*at, 3.0, "class=\"h\"", &hint(point, &plot));
        labels.mark(*at, 4.0);
    }
    for (point, at) in &line {
        let attributes = format!("fill=\"{}\" stroke=\"var(--gw-ground)\"", colour::BLUE);
        canvas.dot(*at, 5.0, &attributes, &hint(point, &plot));
        labels.mark(*at, 6.0);
    }
    let beyond = ranks(&mut canvas, sizing, &plot, &mut labels);
    let unnamed = line
        .iter()
        .filter(|(point, at)| !labels.name(&mut canvas, &cut(&point.label, 250.0), "", *at, 6.0))
        .count();
    let foot = footnotes(
        &mut canvas,
        thinned.len(),
        others.len(),
        sizing.charts.points.len() - priced.len(),
        unnamed,
        &beyond,
    );
    Some(canvas.finish(
        id,
        "Cost against latency".into(),
        description(&line, &plot),
        foot + 8.0,
    ))
}

fn price(point: &FrontPoint) -> Option<f64> {
    point.per_hour.map(|price| price.0.as_f64())
}

/// Axes that show the front and what is near to it.
fn plot(best: &[&FrontPoint], priced: &[&FrontPoint]) -> Option<Plot> {
    let cost = |points: &[&FrontPoint]| points.iter().filter_map(|p| price(p)).fold(0.0, f64::max);
    let latency = |points: &[&FrontPoint]| points.iter().map(|p| p.end_to_end).fold(0.0, f64::max);
    let shown = if best.is_empty() { priced } else { best };
    let least = shown.iter().filter_map(|p| price(p)).reduce(f64::min)?;
    let most_cost = (cost(shown) * 1.15).max(least * 3.0).min(cost(priced));
    let most_latency = (latency(shown) * 1.5).min(latency(priced));
    let unit = TimeUnit::of([most_latency]);
    let fastest = shown
        .iter()
        .map(|p| p.end_to_end)
        .fold(most_latency, f64::min);
    Some(Plot {
        cost: Axis::spanning(least, most_cost, 5),
        latency: Axis::spanning(
            fastest * unit.per_second(),
            most_latency * unit.per_second(),
            5,
        ),
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

/// A ring and the rank around each deployment that is recommended; ranks that lie beyond the frame.
fn ranks(canvas: &mut Canvas, sizing: &Sizing, plot: &Plot, labels: &mut Labels) -> Vec<String> {
    let (mut placed, mut beyond) = (Vec::new(), Vec::new());
    for (index, deployment) in sizing.ranked.iter().enumerate() {
        let per_hour = deployment.cost.per_hour.map(|price| price.0.as_f64());
        let at = plot.at(per_hour, deployment.figures.end_to_end.value);
        let Some((x, y)) = at.filter(|(x, y)| *x <= RIGHT && *y >= TOP) else {
            beyond.push((index + 1).to_string());
            continue;
        };
        let attributes = format!(
            "fill=\"none\" stroke=\"{}\" stroke-width=\"2\"",
            colour::VERMILION
        );
        let hint = format!("{}. {}", index + 1, words::deployment(deployment));
        canvas.dot((x, y), 8.0, &attributes, &hint);
        labels.mark((x, y), 9.0);
        placed.push((index + 1, (x, y)));
    }
    for (rank, at) in placed {
        labels.name(canvas, &rank.to_string(), "b", at, 9.0);
    }
    beyond
}

/// What the marks mean and what is not drawn; the height of the last line.
fn footnotes(
    canvas: &mut Canvas,
    drawn: usize,
    others: usize,
    unpriced: usize,
    unnamed: usize,
    beyond: &[String],
) -> f64 {
    let mut lines = vec!["blue: none is cheaper and faster; ringed: ranked".to_string()];
    if drawn < others {
        lines.push(format!(
            "{} more are dearer, slower or too close to draw",
            others - drawn
        ));
    }
    if unpriced > 0 {
        lines.push(format!("{unpriced} without a price are not drawn"));
    }
    if !beyond.is_empty() {
        let ranks = beyond.join(", ");
        lines.push(format!(
            "▲ ranked {ranks}: beyond the frame, or without a price"
        ));
    }
    if unnamed > 0 {
        lines.push(format!(
            "no room for {unnamed} names: point at a dot for its name"
        ));
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
        let y = BOTTOM - plot.latency.share(*mark) * (BOTTOM - TOP);
        canvas.line((LEFT, y), (RIGHT, y), "g", "");
        canvas.text(
            LEFT - 6.0,
            y + FONT * 0.35,
            Anchor::End,
            "m",
            &number(*mark),
        );
    }
    canvas.line((LEFT, BOTTOM), (RIGHT, BOTTOM), "a", "");
    for mark in &plot.cost.marks {
        let x = LEFT + plot.cost.share(*mark) * (RIGHT - LEFT);
        canvas.line((x, BOTTOM), (x, BOTTOM + 4.0), "a", "");
        canvas.text(x, BOTTOM + 18.0, Anchor::Middle, "m", &number(*mark));
    }
    let title = format!(
        "end-to-end latency, {}{}",
        plot.unit.symbol(),
        plot.latency.scale()
    );
    canvas.text(4.0, 16.0, Anchor::Start, "", &title);
    let title = format!("price, {money}{}", plot.cost.scale());
    canvas.text(RIGHT, BOTTOM + 36.0, Anchor::End, "", &title);
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

fn hint(point: &FrontPoint, plot: &Plot) -> String {
    let price = price(point).map_or_else(String::new, amount);
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

//! What serves over days, by variant, and what that costs.

use super::{
    canvas::{Anchor, Axis, Canvas, Picture, WIDTH, colour, text_width},
    run::plot::Plot,
};
use crate::figures::amount;
use gpuwise_domain::scale::{ScaleMix, ScaleMixSample};

/// Points that are drawn at most: about one for each unit of the picture.
const POINTS: usize = 360;
const HEIGHT: f64 = 190.0;
const MONEY: f64 = 110.0;
const BETWEEN: f64 = 64.0;
const ROW: f64 = 20.0;
/// In the order of variants; further ones begin anew.
const HUES: [&str; 6] = [
    colour::BLUE,
    colour::SKY,
    colour::GREEN,
    colour::PINK,
    colour::VERMILION,
    colour::YELLOW,
];

const DAY: f64 = 8.64e13;

fn hue(at: usize) -> &'static str {
    HUES[at % HUES.len()]
}

/// A point stands for several samples: the mean of each.
struct Point {
    day: f64,
    rate: f64,
    /// Requests a second that each variant serves.
    serves: Vec<f64>,
    per_hour: f64,
}

fn points(mix: &ScaleMix) -> Vec<Point> {
    let every = mix.samples.len().div_ceil(POINTS).max(1);
    let each = mix.samples.chunks(every).map(|chunk| {
        let count = chunk.len().max(1) as f64;
        let mean = |of: &dyn Fn(&ScaleMixSample) -> f64| chunk.iter().map(of).sum::<f64>() / count;
        let serves = mix.variants.iter().enumerate().map(|(at, variant)| {
            let serving =
                |one: &ScaleMixSample| one.serving.get(at).map_or(0.0, |count| f64::from(*count));
            mean(&serving) * variant.rate
        });
        Point {
            day: chunk.first().map_or(0.0, |one| one.at.0 as f64 / DAY),
            rate: mean(&|one| one.rate),
            serves: serves.collect(),
            per_hour: mean(&|one| one.per_hour),
        }
    });
    each.collect()
}

/// One picture of a mix, and of what `alone` costs an hour in the mean: the cheapest variant by itself.
pub(crate) fn mix(mix: &ScaleMix, alone: Option<(&str, f64)>, title: &str, id: &str) -> Picture {
    let points = points(mix);
    let mut canvas = Canvas::default();
    let names: Vec<(&str, &str)> = (mix.variants.iter().enumerate())
        .map(|(at, one)| (one.variant.as_str(), hue(at)))
        .collect();
    let top = key(&mut canvas, &names) + 34.0;
    let days = points.last().map_or(1.0, |last| last.day).max(1e-3);
    let all = |one: &Point| one.serves.iter().sum::<f64>();
    let most = points
        .iter()
        .map(|one| all(one).max(one.rate))
        .fold(1.0, f64::max);
    let serves = Plot {
        x: Axis::up_to(days, 7),
        y: Axis::up_to(most, 4),
        top,
        height: HEIGHT,
    };
    serves.upright(&mut canvas, "requests/s that can be served");
    stacked(&mut canvas, &serves, &points, &names);
    line(
        &mut canvas,
        &serves,
        &points,
        |one| one.rate,
        colour::ORANGE,
    );
    let label = "orange: that come";
    canvas.text(WIDTH - 14.0, top - 12.0, Anchor::End, "", label);
    let dearest = points.iter().map(|one| one.per_hour).fold(0.0, f64::max);
    let money = Plot {
        x: Axis::up_to(days, 7),
        y: Axis::up_to(dearest.max(alone.map_or(0.0, |(_, cost)| cost)), 3),
        top: top + HEIGHT + BETWEEN,
        height: MONEY,
    };
    let currency = mix.per_month.currency.code();
    money.upright(&mut canvas, &format!("{currency} an hour"));
    line(
        &mut canvas,
        &money,
        &points,
        |one| one.per_hour,
        colour::BLUE,
    );
    if let Some((name, cost)) = alone {
        let mut labels = money.labels();
        let text = format!("{name} alone, in the mean");
        money.bound(&mut canvas, &mut labels, cost, &text);
    }
    money.level(&mut canvas, "days");
    let description = format!(
        "Up to {most:.0} requests a second can be served, for {} {currency} in 30 days.",
        amount(mix.per_month.as_f64())
    );
    canvas.finish(id, title.to_owned(), description, money.floor() + 40.0)
}

/// Which colour is whose, in as many rows as it takes; where they end.
fn key(canvas: &mut Canvas, names: &[(&str, &str)]) -> f64 {
    let (mut x, mut y) = (4.0, 16.0);
    for (name, hue) in names {
        let width = text_width(name) * 1.1 + 32.0;
        if x + width > WIDTH && x > 4.0 {
            (x, y) = (4.0, y + ROW);
        }
        let fill = format!("fill=\"{hue}\"");
        canvas.rectangle((x, y - 9.0), (12.0, 9.0), &fill, name);
        canvas.text(x + 18.0, y, Anchor::Start, "", name);
        x += width;
    }
    y
}

/// What each variant serves, one upon the other.
fn stacked(canvas: &mut Canvas, plot: &Plot, points: &[Point], names: &[(&str, &str)]) {
    let below = |one: &Point, count: usize| one.serves.iter().take(count).sum::<f64>();
    for (at, (name, hue)) in names.iter().enumerate() {
        let some = |one: &Point| one.serves.get(at).is_some_and(|served| *served > 0.0);
        if points.len() < 2 || !points.iter().any(some) {
            continue;
        }
        let upper = points
            .iter()
            .map(|one| plot.at(one.day, below(one, at + 1)));
        let lower = points
            .iter()
            .rev()
            .map(|one| plot.at(one.day, below(one, at)));
        let band: Vec<(f64, f64)> = upper.chain(lower).collect();
        let look = format!("fill=\"{hue}\" fill-opacity=\"0.75\"");
        canvas.area(&band, &look, name);
    }
}

fn line(canvas: &mut Canvas, plot: &Plot, points: &[Point], of: fn(&Point) -> f64, hue: &str) {
    let path: Vec<(f64, f64)> = points.iter().map(|one| plot.at(one.day, of(one))).collect();
    canvas.path(
        &path,
        &format!("fill=\"none\" stroke=\"{hue}\" stroke-width=\"1.2\""),
    );
}

//! What share of its roofline an operator reaches against its size, which is logarithmic.

use super::canvas::{Anchor, Axis, Canvas, FONT, Picture, WIDTH, colour, cut};
use crate::figures::number;

const LEFT: f64 = 46.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 40.0;
const HEIGHT: f64 = 240.0;
const PITCH: f64 = FONT * 1.5;
const COLOURS: [&str; 6] = [
    colour::BLUE,
    colour::ORANGE,
    colour::GREEN,
    colour::PINK,
    colour::SKY,
    colour::VERMILION,
];

/// One way of running an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct EfficiencySeries {
    /// What it is.
    pub name: String,
    /// Size, and the share of the roofline from 0 to 1.
    pub points: Vec<(f64, f64)>,
}

/// Shares of the roofline against size; `None` where there is nothing to draw.
pub fn efficiency(
    series: &[EfficiencySeries],
    title: &str,
    size: &str,
    id: &str,
) -> Option<Picture> {
    let all = || series.iter().flat_map(|one| one.points.iter());
    let least = all().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let most = all().map(|p| p.0).fold(0.0, f64::max);
    if !(least > 0.0 && most > least) {
        return None;
    }
    let across = Axis::spanning(least, most, 6);
    let floor = TOP + HEIGHT;
    let place = |(x, y): (f64, f64)| {
        (
            LEFT + across.share(x).clamp(0.0, 1.0) * (RIGHT - LEFT),
            floor - y.clamp(0.0, 1.0) * HEIGHT,
        )
    };
    let mut canvas = Canvas::default();
    for percent in [0.0, 20.0, 40.0, 60.0, 80.0, 100.0] {
        let y = floor - percent / 100.0 * HEIGHT;
        canvas.line((LEFT, y), (RIGHT, y), "g", "");
        let mark = number(percent);
        canvas.text(LEFT - 6.0, y + FONT * 0.35, Anchor::End, "m", &mark);
    }
    for mark in &across.marks {
        let (x, _) = place((*mark, 0.0));
        canvas.text(x, floor + 18.0, Anchor::Middle, "m", &number(*mark));
    }
    canvas.line((LEFT, floor), (RIGHT, floor), "a", "");
    canvas.text(4.0, TOP - 16.0, Anchor::Start, "b", "% of the roofline");
    let words = format!("{size}{}", across.scale());
    canvas.text(RIGHT, floor + 36.0, Anchor::End, "", &words);
    let mut foot = floor + 58.0;
    for (one, colour) in series.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<(f64, f64)> = one.points.iter().copied().map(place).collect();
        let stroke = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"");
        canvas.path(&points, &stroke);
        canvas.path(&[(LEFT, foot - 4.0), (LEFT + 22.0, foot - 4.0)], &stroke);
        let name = cut(&one.name, RIGHT - LEFT - 30.0);
        canvas.text(LEFT + 30.0, foot, Anchor::Start, "", &name);
        foot += PITCH;
    }
    let description = format!(
        "Share of the roofline against {size}, {} lines.",
        series.len()
    );
    Some(canvas.finish(id, title.into(), description, foot))
}

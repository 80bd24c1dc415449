//! Memory against model size, both logarithmic: a line for each way of using a model, a band for
//! what rules of thumb say.

use super::canvas::{Anchor, Axis, Canvas, FONT, Picture, WIDTH, colour, cut};
use crate::figures::number;

const LEFT: f64 = 54.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 40.0;
const HEIGHT: f64 = 260.0;
const PITCH: f64 = FONT * 1.5;
const COLOURS: [&str; 6] = [
    colour::BLUE,
    colour::ORANGE,
    colour::GREEN,
    colour::PINK,
    colour::SKY,
    colour::VERMILION,
];

/// One way of using models of several sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeSeries {
    /// What it is.
    pub name: String,
    /// Parameters and bytes of each model, by parameters.
    pub points: Vec<(f64, f64)>,
    /// Whether it is a rule of thumb.
    pub rule: bool,
}

/// Memory against model size; `None` where there is nothing to draw. `gpu` is a GPU's name and what
/// it has visible in bytes.
pub fn sizes(series: &[SizeSeries], gpu: (&str, f64), id: &str) -> Option<Picture> {
    let all: Vec<(f64, f64)> = series
        .iter()
        .flat_map(|one| one.points.iter().copied())
        .filter(|(x, y)| x.is_finite() && y.is_finite() && *x > 0.0 && *y > 0.0)
        .collect();
    let least = |pick: fn(&(f64, f64)) -> f64| all.iter().map(pick).fold(f64::INFINITY, f64::min);
    let most = |pick: fn(&(f64, f64)) -> f64| all.iter().map(pick).fold(0.0, f64::max);
    if all.is_empty() {
        return None;
    }
    let across = Axis::spanning(least(|p| p.0) / 1e9, most(|p| p.0) / 1e9, 5);
    let up = Axis::spanning(least(|p| p.1) / 1e9, most(|p| p.1) / 1e9, 6);
    let floor = TOP + HEIGHT;
    let place = |(x, y): (f64, f64)| {
        (
            LEFT + across.share(x / 1e9).clamp(0.0, 1.0) * (RIGHT - LEFT),
            floor - up.share(y / 1e9).clamp(0.0, 1.0) * HEIGHT,
        )
    };
    let mut canvas = Canvas::default();
    axes(&mut canvas, &across, &up, floor);
    let visible = place((all.first()?.0, gpu.1)).1;
    if (TOP..floor).contains(&visible) {
        canvas.line((LEFT, visible), (RIGHT, visible), "a", "2 4");
        let text = format!("one {}", gpu.0);
        canvas.text(RIGHT, visible - 4.0, Anchor::End, "m", &cut(&text, 200.0));
    }
    let mut foot = floor + 58.0;
    for (one, colour) in series.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<(f64, f64)> = one.points.iter().copied().map(place).collect();
        let dashes = if one.rule {
            " stroke-dasharray=\"5 3\""
        } else {
            ""
        };
        let stroke = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}");
        canvas.path(&points, &stroke);
        for (at, (parameters, bytes)) in points.iter().zip(&one.points) {
            let hint = format!(
                "{}: {} GB for {} × 10⁹ parameters",
                one.name,
                number(bytes / 1e9),
                number(parameters / 1e9)
            );
            canvas.dot(*at, 3.0, &format!("fill=\"{colour}\""), &hint);
        }
        canvas.path(&[(LEFT, foot - 4.0), (LEFT + 22.0, foot - 4.0)], &stroke);
        let name = cut(&one.name, RIGHT - LEFT - 30.0);
        canvas.text(LEFT + 30.0, foot, Anchor::Start, "", &name);
        foot += PITCH;
    }
    let description = format!(
        "GPU memory against parameters for {} ways of using a model.",
        series.len()
    );
    Some(canvas.finish(
        id,
        "GPU memory against model size".into(),
        description,
        foot,
    ))
}

fn axes(canvas: &mut Canvas, across: &Axis, up: &Axis, floor: f64) {
    for mark in &up.marks {
        let y = floor - up.share(*mark) * HEIGHT;
        canvas.line((LEFT, y), (RIGHT, y), "g", "");
        canvas.text(
            LEFT - 6.0,
            y + FONT * 0.35,
            Anchor::End,
            "m",
            &number(*mark),
        );
    }
    for mark in &across.marks {
        let x = LEFT + across.share(*mark) * (RIGHT - LEFT);
        canvas.text(x, floor + 18.0, Anchor::Middle, "m", &number(*mark));
    }
    canvas.line((LEFT, floor), (RIGHT, floor), "a", "");
    let title = format!("GPU memory in all, GB{}", up.scale());
    canvas.text(4.0, TOP - 16.0, Anchor::Start, "b", &title);
    let title = format!("parameters, 10⁹{}", across.scale());
    canvas.text(RIGHT, floor + 36.0, Anchor::End, "", &title);
}

//! Lines over two axes, each with its name below.

use super::canvas::{Anchor, Axis, Canvas, FONT, Picture, WIDTH, colour, cut};
use crate::figures::number;

const LEFT: f64 = 54.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 40.0;
const HEIGHT: f64 = 260.0;
const FLOOR: f64 = TOP + HEIGHT;
/// Between names of lines.
const PITCH: f64 = FONT * 1.5;
const COLOURS: [&str; 6] = [
    colour::BLUE,
    colour::ORANGE,
    colour::GREEN,
    colour::PINK,
    colour::SKY,
    colour::VERMILION,
];

/// A line to be drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    /// Where it passes, in units of the axes.
    pub(super) points: &'a [(f64, f64)],
    /// Whether it is no measurement of the thing itself.
    pub(super) dashed: bool,
}

/// Axes with the lines drawn so far.
#[derive(Debug)]
pub(super) struct Plot {
    canvas: Canvas,
    across: Axis,
    up: Axis,
    lines: usize,
}

impl Plot {
    /// Empty axes; the titles are those of the horizontal and the vertical one.
    pub(super) fn new(across: Axis, up: Axis, [right, top]: [&str; 2]) -> Self {
        let mut plot = Self {
            canvas: Canvas::default(),
            across,
            up,
            lines: 0,
        };
        for mark in plot.up.marks.clone() {
            let y = plot.height(mark);
            plot.canvas.line((LEFT, y), (RIGHT, y), "g", "");
            let (at, mark) = (y + FONT * 0.35, number(mark));
            plot.canvas.text(LEFT - 6.0, at, Anchor::End, "m", &mark);
        }
        for mark in plot.across.marks.clone() {
            let (x, _) = plot.place((mark, plot.up.end));
            let (at, mark) = (FLOOR + 18.0, number(mark));
            plot.canvas.text(x, at, Anchor::Middle, "m", &mark);
        }
        plot.canvas.line((LEFT, FLOOR), (RIGHT, FLOOR), "a", "");
        let top = format!("{top}{}", plot.up.scale());
        let right = format!("{right}{}", plot.across.scale());
        plot.canvas.text(4.0, TOP - 16.0, Anchor::Start, "b", &top);
        plot.canvas
            .text(RIGHT, FLOOR + 36.0, Anchor::End, "", &right);
        plot
    }

    fn height(&self, y: f64) -> f64 {
        FLOOR - self.up.share(y).clamp(0.0, 1.0) * HEIGHT
    }

    /// Where a point lies, in units of the picture.
    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let across = LEFT + self.across.share(x).clamp(0.0, 1.0) * (RIGHT - LEFT);
        (across, self.height(y))
    }

    /// A limit across the picture with its name on it, if it is within.
    pub(super) fn limit(&mut self, y: f64, name: &str) {
        let y = self.height(y);
        if (TOP..FLOOR).contains(&y) {
            self.canvas.line((LEFT, y), (RIGHT, y), "a", "2 4");
            let name = cut(name, 200.0);
            self.canvas.text(RIGHT, y - 4.0, Anchor::End, "m", &name);
        }
    }

    /// The next line, in a colour of its own; with dots where each point has a text for hovering.
    pub(super) fn line(&mut self, line: &Line<'_>, hints: &[String]) {
        let colour = COLOURS[self.lines % COLOURS.len()];
        let points: Vec<(f64, f64)> = line.points.iter().map(|p| self.place(*p)).collect();
        let dashes = if line.dashed {
            " stroke-dasharray=\"5 3\""
        } else {
            ""
        };
        let stroke = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}");
        self.canvas.path(&points, &stroke);
        for (at, hint) in points.iter().zip(hints) {
            let fill = format!("fill=\"{colour}\"");
            self.canvas.dot(*at, 3.0, &fill, hint);
        }
        let foot = self.foot();
        let sample = [(LEFT, foot - 4.0), (LEFT + 22.0, foot - 4.0)];
        self.canvas.path(&sample, &stroke);
        let name = cut(line.name, RIGHT - LEFT - 30.0);
        self.canvas
            .text(LEFT + 30.0, foot, Anchor::Start, "", &name);
        self.lines += 1;
    }

    /// Where the next name stands.
    fn foot(&self) -> f64 {
        FLOOR + 58.0 + self.lines as f64 * PITCH
    }

    pub(super) fn finish(self, id: &str, title: &str, description: String) -> Picture {
        let foot = self.foot();
        self.canvas.finish(id, title.into(), description, foot)
    }
}

/// The least and the most of what points give, above zero; infinite and 0 where there is none.
pub(super) fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|value| value.is_finite() && *value > 0.0)
        .fold((f64::INFINITY, 0.0), |(least, most), value| {
            (f64::min(least, value), f64::max(most, value))
        })
}

//! A frame with two axes.

use crate::{
    figures::number,
    svg::{
        canvas::{Anchor, Axis, Canvas, FONT, WIDTH, colour, text_width},
        labels::Labels,
    },
};

pub(in crate::svg) const LEFT: f64 = 50.0;
pub(in crate::svg) const RIGHT: f64 = WIDTH - 14.0;

/// A frame on the canvas.
#[derive(Debug, Clone)]
pub(in crate::svg) struct Plot {
    pub x: Axis,
    pub y: Axis,
    pub top: f64,
    pub height: f64,
}

impl Plot {
    pub(in crate::svg) fn floor(&self) -> f64 {
        self.top + self.height
    }

    /// Where a value is across, at most at the edges.
    pub(in crate::svg) fn across(&self, value: f64) -> f64 {
        LEFT + self.x.share(value).clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    /// Where a value is above the floor, at most at the edges.
    pub(in crate::svg) fn up(&self, value: f64) -> f64 {
        self.floor() - self.y.share(value).clamp(0.0, 1.0) * self.height
    }

    /// Where a value is above the floor, beyond the frame too.
    pub(in crate::svg) fn above(&self, value: f64) -> f64 {
        let share = self.y.share(value);
        let share = if share.is_finite() {
            share.clamp(0.0, 1e3)
        } else {
            1e3
        };
        self.floor() - share * self.height
    }

    /// What is drawn in which colour, right of the title, where nothing is crossed.
    pub(in crate::svg) fn key(&self, canvas: &mut Canvas, entries: &[(&str, &str)]) {
        let (mut x, base) = (RIGHT, self.top - 12.0);
        for (text, hue) in entries.iter().rev() {
            canvas.text(x, base, Anchor::End, "", text);
            x -= text_width(text) * 1.1 + 18.0;
            let fill = format!("fill=\"{hue}\"");
            canvas.rectangle((x, base - 9.0), (12.0, 9.0), &fill, text);
            x -= 14.0;
        }
    }

    /// Where names go within the frame.
    pub(in crate::svg) fn labels(&self) -> Labels {
        Labels::within((LEFT + 2.0, self.top, RIGHT + 12.0, self.floor() - 2.0))
    }

    pub(in crate::svg) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.across(x), self.up(y))
    }

    /// Lines and marks of the upright axis, and its title above.
    pub(in crate::svg) fn upright(&self, canvas: &mut Canvas, title: &str) {
        for mark in &self.y.marks {
            let y = self.up(*mark);
            let class = if *mark == 0.0 { "a" } else { "g" };
            canvas.line((LEFT, y), (RIGHT, y), class, "");
            canvas.text(
                LEFT - 6.0,
                y + FONT * 0.35,
                Anchor::End,
                "m",
                &number(*mark),
            );
        }
        canvas.text(4.0, self.top - 12.0, Anchor::Start, "b", title);
    }

    /// Marks of the level axis, and its title below them.
    pub(in crate::svg) fn level(&self, canvas: &mut Canvas, title: &str) {
        let mut end = f64::NEG_INFINITY;
        for mark in &self.x.marks {
            let (x, text) = (self.across(*mark), number(*mark));
            let half = text_width(&text) / 2.0;
            if x - half < end + 6.0 {
                continue;
            }
            end = x + half;
            canvas.text(x, self.floor() + 17.0, Anchor::Middle, "m", &text);
        }
        canvas.text(RIGHT, self.floor() + 35.0, Anchor::End, "", title);
    }

    /// A bound across the frame with its name.
    pub(in crate::svg) fn bound(
        &self,
        canvas: &mut Canvas,
        labels: &mut Labels,
        value: f64,
        text: &str,
    ) {
        let y = self.up(value);
        let line = [(LEFT, y), (RIGHT, y)];
        canvas.path(&line, &bound_stroke());
        labels.line(&line);
        labels.name(canvas, text, "", (LEFT + 4.0, y), 1.0);
    }
}

/// How a bound is drawn.
pub(in crate::svg) fn bound_stroke() -> String {
    format!(
        "fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\"",
        colour::VERMILION
    )
}

//! Series of different units over one time axis, each in a lane of its own.

use super::canvas::{Anchor, Canvas, FONT, Picture, WIDTH, colour, cut, short, text_width};
use crate::figures::number;
use std::fmt::Write as _;

const LEFT: f64 = 6.0;
const RIGHT: f64 = WIDTH - 6.0;
/// Height of a lane, without its title.
const LANE: f64 = 34.0;
/// From the top of one lane's title to that of the next.
const PITCH: f64 = LANE + FONT + GAP + 10.0;
/// From a title to its lane.
const GAP: f64 = 8.0;
/// Points of a line: more are not seen.
const POINTS: usize = 200;

/// A line of a lane.
#[derive(Debug, Clone)]
pub(crate) struct LaneLine {
    /// Shown on hovering.
    pub hint: String,
    /// Where it passes, in seconds and in the lane's unit, in order of time.
    pub points: Vec<(f64, f64)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Lane {
    pub name: String,
    /// What its least and its most are called.
    pub show: fn(f64) -> String,
    /// Where it ends above, where that is known: 1 of a share.
    pub top: Option<f64>,
    /// Whether it begins at 0 below.
    pub from_zero: bool,
    pub lines: Vec<LaneLine>,
}

/// Lanes over an axis of seconds.
#[derive(Debug, Clone)]
#[allow(clippy::struct_field_names, reason = "it is what it holds")]
pub(crate) struct Lanes<'a> {
    pub title: &'a str,
    pub description: String,
    pub from: f64,
    pub to: f64,
    /// A range that is marked through all lanes, and its name.
    pub band: Option<(f64, f64, &'a str)>,
    pub lanes: Vec<Lane>,
}

impl Lanes<'_> {
    /// `None` where there is nothing to draw.
    pub(crate) fn picture(&self, id: &str) -> Option<Picture> {
        if self.lanes.is_empty() || self.to <= self.from {
            return None;
        }
        let mut canvas = Canvas::default();
        let top = FONT + 8.0;
        let floor = top + PITCH * self.lanes.len() as f64;
        if let Some((from, to, name)) = self.band {
            let (left, right) = (
                self.across(from),
                self.across(to).max(self.across(from) + 1.5),
            );
            let shade = "fill=\"#808890\" fill-opacity=\"0.22\"";
            canvas.rectangle((left, top), (right - left, floor - top), shade, name);
            let middle = f64::midpoint(left, right);
            let half = text_width(name) / 2.0;
            let at = middle.clamp(LEFT + half, (RIGHT - half).max(LEFT + half));
            canvas.text(at, FONT, Anchor::Middle, "m", name);
        }
        for (place, lane) in self.lanes.iter().enumerate() {
            self.lane(&mut canvas, lane, top + PITCH * place as f64);
        }
        self.axis(&mut canvas, top, floor);
        Some(canvas.finish(
            id,
            self.title.into(),
            self.description.clone(),
            floor + FONT * 2.6,
        ))
    }

    fn across(&self, seconds: f64) -> f64 {
        let share = (seconds - self.from) / (self.to - self.from);
        LEFT + share.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    fn lane(&self, canvas: &mut Canvas, lane: &Lane, top: f64) {
        let drawn: Vec<Vec<(f64, f64)>> = lane
            .lines
            .iter()
            .map(|line| thinned(&line.points, self.from, self.to))
            .collect();
        let finite = || {
            drawn
                .iter()
                .flatten()
                .map(|point| point.1)
                .filter(|value| value.is_finite())
        };
        let most = finite().fold(f64::NEG_INFINITY, f64::max);
        let least = finite().fold(f64::INFINITY, f64::min);
        let high = lane.top.map_or(most, |top| top.max(most));
        let low = if lane.from_zero {
            least.min(0.0)
        } else {
            least
        };
        let (low, high) = match high - low {
            span if span > 0.0 => (low, high),
            // A level line lies in the middle.
            _ => (low - 1.0, high + 1.0),
        };
        let floor = top + FONT + GAP + LANE;
        let range = if least > most {
            "not in this time".to_owned()
        } else if least < most {
            format!("{} to {}", (lane.show)(least), (lane.show)(most))
        } else {
            (lane.show)(most)
        };
        let room = RIGHT - LEFT - text_width(&range) - 12.0;
        canvas.text(LEFT, top + FONT, Anchor::Start, "b", &cut(&lane.name, room));
        canvas.text(RIGHT, top + FONT, Anchor::End, "m", &range);
        canvas.line((LEFT, floor), (RIGHT, floor), "g", "");
        let above = |value: f64| floor - (value - low) / (high - low) * LANE;
        let opacity = if lane.lines.len() > 2 { 0.6 } else { 1.0 };
        for (line, points) in lane.lines.iter().zip(&drawn) {
            let mut data = String::new();
            let mut pen = 'M';
            for &(at, value) in points {
                if value.is_finite() {
                    let _ = write!(
                        data,
                        "{pen}{} {}",
                        short(self.across(at)),
                        short(above(value))
                    );
                    pen = 'L';
                } else {
                    pen = 'M';
                }
            }
            // A single sample is a mark.
            if data.matches('M').count() == 1 && !data.contains('L') {
                data.push_str("h3");
            }
            let stroke = format!(
                "fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" stroke-opacity=\"{opacity}\" stroke-linejoin=\"round\"",
                colour::BLUE
            );
            canvas.titled(&data, &stroke, &line.hint);
            let seen = |point: &&(f64, f64)| (self.from..=self.to).contains(&point.0);
            let broken = line
                .points
                .iter()
                .filter(|point| !point.1.is_finite())
                .filter(seen);
            if let Some((at, _)) = broken.clone().next() {
                let (x, y) = (self.across(*at), floor - LANE / 2.0);
                let cross = format!("M{} {}l8 8m0 -8l-8 8", short(x - 4.0), short(y - 4.0));
                let stroke = format!(
                    "fill=\"none\" stroke=\"{}\" stroke-width=\"2\"",
                    colour::VERMILION
                );
                canvas.titled(
                    &cross,
                    &stroke,
                    &format!(
                        "{}: no number from here, {} times",
                        line.hint,
                        broken.count()
                    ),
                );
            }
        }
    }

    fn axis(&self, canvas: &mut Canvas, top: f64, floor: f64) {
        let step = step(self.to - self.from);
        let mut mark = (self.from / step).ceil() * step;
        let mut end = f64::NEG_INFINITY;
        while mark <= self.to {
            // Near zero rounding leaves crumbs.
            let at = if mark.abs() < step * 1e-6 { 0.0 } else { mark };
            let (x, text) = (self.across(at), number(at).replace('-', "−"));
            let half = text_width(&text) / 2.0;
            if x - half > end + 8.0 && x - half >= 0.0 && x + half <= WIDTH {
                canvas.line((x, top), (x, floor), "g", "1 3");
                canvas.text(x, floor + FONT + 2.0, Anchor::Middle, "m", &text);
                end = x + half;
            }
            mark += step;
        }
        canvas.text(
            RIGHT,
            floor + FONT * 2.2 + 2.0,
            Anchor::End,
            "m",
            "s from the trace's first GPU work",
        );
    }
}

/// A round step with about six marks.
fn step(span: f64) -> f64 {
    let rough = span / 6.0;
    let power = 10_f64.powi(rough.log10().floor() as i32);
    let factors = [1.0, 2.0, 5.0, 10.0].into_iter();
    factors
        .map(|factor| factor * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(rough)
}

/// Points within the axis, and where the line crosses its ends; where there are many, the mean of each
/// stretch.
fn thinned(points: &[(f64, f64)], from: f64, to: f64) -> Vec<(f64, f64)> {
    let first = points.partition_point(|point| point.0 < from);
    let after = points.partition_point(|point| point.0 <= to);
    let crossing = |place: usize, at: f64| {
        let (before, next) = (points.get(place.checked_sub(1)?)?, points.get(place)?);
        let share = (at - before.0) / (next.0 - before.0);
        Some((at, before.1 + (next.1 - before.1) * share))
    };
    let within = points.get(first..after).unwrap_or_default();
    let mut out: Vec<(f64, f64)> = crossing(first, from).into_iter().collect();
    if within.len() <= POINTS {
        out.extend(within);
    } else {
        let stretches = within.chunks(within.len().div_ceil(POINTS));
        out.extend(stretches.filter_map(|stretch| {
            let count = stretch.len() as f64;
            // A value that is no number is not lost in a mean.
            Some((
                stretch.first()?.0,
                stretch.iter().map(|point| point.1).sum::<f64>() / count,
            ))
        }));
    }
    out.extend(crossing(after, to));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stand_where_their_time_is() {
        let lanes = Lanes {
            title: "Recorded",
            description: String::new(),
            from: -10.0,
            to: 30.0,
            band: Some((0.0, 10.0, "trace")),
            lanes: vec![Lane {
                name: "SM active".into(),
                show: number,
                top: Some(1.0),
                from_zero: true,
                lines: vec![LaneLine {
                    hint: "GPU 0".into(),
                    points: vec![(-10.0, 0.0), (10.0, 1.0), (30.0, 0.5)],
                }],
            }],
        };
        let svg = lanes.picture("a").expect("a picture").to_svg();
        // 408 units are 40 s: the middle is at 10 s; a lane is 34 high.
        let (floor, middle) = (FONT + 8.0 + FONT + GAP + LANE, LEFT + 204.0);
        let path = format!("M6 {floor}L{middle} {}L414 {}", floor - 34.0, floor - 17.0);
        assert!(svg.contains(&path), "{path}\n{svg}");
        // The trace from 0 to 10 s is shaded.
        assert!(svg.contains("M108 21L210 21"), "{svg}");
    }
}

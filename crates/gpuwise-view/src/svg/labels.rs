//! Where the names of points stand: beside them, where they cover neither points nor lines nor one
//! another; farther away with a line to the point where it is crowded.

use super::canvas::{Anchor, Canvas, FONT, short, text_width};

/// A box: left, top, right, bottom.
pub(super) type Frame = (f64, f64, f64, f64);

/// A place in a picture.
pub(super) type Point = (f64, f64);

/// Height of a line of text above and below its baseline.
const ASCENT: f64 = FONT * 0.85;
const DESCENT: f64 = FONT * 0.25;
/// Room around text. Fonts differ in width from what [`text_width`] takes.
const MARGIN: f64 = 2.0;
const WIDER: f64 = 1.1;
/// Between places that are tried, and how far from a point they go.
const STEP: f64 = 5.0;
const REACH: f64 = 130.0;
/// A text nearer than this needs no line to its point.
const NEAR: f64 = 9.0;
/// What a text on a line costs, in units of distance: near and on a line rather than far away.
const ON_LINE: f64 = 200.0;

/// What is drawn already, within which texts are placed.
#[derive(Debug, Clone)]
pub(super) struct Labels {
    within: Frame,
    /// Points, which no text covers.
    marks: Vec<Frame>,
    /// Texts, which neither texts nor lines to points cover.
    texts: Vec<Frame>,
    /// Lines, which are covered where there is no other place near.
    lines: Vec<[(f64, f64); 2]>,
}

impl Labels {
    pub(super) fn within(within: Frame) -> Self {
        Self {
            within,
            marks: Vec::new(),
            texts: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// A mark is drawn here.
    pub(super) fn mark(&mut self, (x, y): (f64, f64), radius: f64) {
        self.marks
            .push((x - radius, y - radius, x + radius, y + radius));
    }

    /// A line is drawn through these points.
    pub(super) fn line(&mut self, points: &[(f64, f64)]) {
        self.lines
            .extend(points.windows(2).filter_map(|ends| match ends {
                [from, to] => Some([*from, *to]),
                _ => None,
            }));
    }

    /// A text is drawn here, its baseline beginning at a place.
    pub(super) fn text(&mut self, (x, base): (f64, f64), text: &str) {
        self.texts.push(frame((x, base), text_width(text) * WIDER));
    }

    /// Writes the name of a mark of this radius; says whether there was a place for it.
    pub(super) fn name(
        &mut self,
        canvas: &mut Canvas,
        text: &str,
        classes: &str,
        at: (f64, f64),
        radius: f64,
    ) -> bool {
        let width = text_width(text) * WIDER;
        let mut best: Option<(f64, (f64, f64))> = None;
        for base in steps(at.1 - REACH, at.1 + REACH) {
            for left in steps(at.0 - REACH - width, at.0 + REACH) {
                let box_of = frame((left, base), width);
                let distance = (distance(box_of, at) - radius).max(0.0);
                // To the right of it and level with it reads best.
                let aside = if left < at.0 { 3.0 } else { 0.0 };
                let level = (base - FONT * 0.35 - at.1).abs() * 0.1;
                let cost = distance + aside + level;
                if distance > REACH || best.is_some_and(|(least, _)| cost >= least) {
                    continue;
                }
                let covered = self.lines.iter().any(|line| crosses(*line, box_of));
                let cost = cost + if covered { ON_LINE } else { 0.0 };
                if best.is_none_or(|(least, _)| cost < least) && self.free(box_of, at, radius) {
                    best = Some((cost, (left, base)));
                }
            }
        }
        let Some((_, (left, base))) = best else {
            return false;
        };
        let placed = frame((left, base), width);
        if distance(placed, at) - radius > NEAR {
            let (to, away) = (nearest(placed, at), distance(placed, at));
            let share = radius / away.max(radius);
            let from = (at.0 + (to.0 - at.0) * share, at.1 + (to.1 - at.1) * share);
            canvas.line(from, to, "h", "");
            self.lines.push([from, to]);
        }
        canvas.text(left, base, Anchor::Start, classes, text);
        self.texts.push(placed);
        true
    }

    /// Whether a text fits into a box, and a line from there to its mark touches no other text.
    fn free(&self, placed: Frame, at: (f64, f64), radius: f64) -> bool {
        let inside = placed.0 >= self.within.0
            && placed.1 >= self.within.1
            && placed.2 <= self.within.2
            && placed.3 <= self.within.3;
        let mut taken = self.marks.iter().chain(&self.texts);
        if !inside || taken.any(|other| overlap(*other, placed)) {
            return false;
        }
        let line = [at, nearest(placed, at)];
        distance(placed, at) - radius <= NEAR
            || !self.texts.iter().any(|other| crosses(line, *other))
    }
}

fn steps(from: f64, to: f64) -> impl Iterator<Item = f64> {
    (0..)
        .map(move |at| from + f64::from(at) * STEP)
        .take_while(move |at| *at <= to)
}

/// The box of a text of a width.
fn frame((x, base): (f64, f64), width: f64) -> Frame {
    (
        x - MARGIN,
        base - ASCENT - MARGIN,
        x + width + MARGIN,
        base + DESCENT + MARGIN,
    )
}

/// The place of a box that is nearest to a point.
fn nearest(frame: Frame, (x, y): (f64, f64)) -> (f64, f64) {
    (x.clamp(frame.0, frame.2), y.clamp(frame.1, frame.3))
}

fn distance(frame: Frame, at: (f64, f64)) -> f64 {
    let (x, y) = nearest(frame, at);
    (x - at.0).hypot(y - at.1)
}

fn overlap(a: Frame, b: Frame) -> bool {
    a.0 < b.2 && b.0 < a.2 && a.1 < b.3 && b.1 < a.3
}

/// Whether a line touches a box: what of it lies between all four sides is not empty.
fn crosses([from, to]: [(f64, f64); 2], frame: Frame) -> bool {
    let (mut begin, mut end) = (0.0_f64, 1.0_f64);
    for (start, by, low, high) in [
        (from.0, to.0 - from.0, frame.0, frame.2),
        (from.1, to.1 - from.1, frame.1, frame.3),
    ] {
        if by == 0.0 {
            if start < low || start > high {
                return false;
            }
            continue;
        }
        let (a, b) = ((low - start) / by, (high - start) / by);
        begin = begin.max(a.min(b));
        end = end.min(a.max(b));
    }
    begin <= end
}

/// What of a line lies at or below the top of a frame: beyond it the line is cut where it leaves.
/// The second part is where it leaves, if it does.
pub(super) fn below(points: &[Point], top: f64) -> (Vec<Point>, Option<Point>) {
    let mut out = Vec::with_capacity(points.len() + 2);
    let mut leaves = None;
    let mut before: Option<(f64, f64)> = None;
    for &(x, y) in points {
        if let Some((from_x, from_y)) = before
            && (from_y < top) != (y < top)
        {
            let share = (top - from_y) / (y - from_y);
            let edge = (from_x + (x - from_x) * share, top);
            out.push(edge);
            if y < top {
                leaves.get_or_insert(edge);
            }
        }
        out.push((x, y.max(top)));
        if before.is_none() && y < top {
            leaves.get_or_insert((x, top));
        }
        before = Some((x, y));
    }
    (out, leaves)
}

/// A mark for what lies beyond the top of a frame, with a text shown on hovering.
pub(super) fn arrow(canvas: &mut Canvas, (x, top): (f64, f64), attributes: &str, hint: &str) {
    let [left, right, foot] = [x - 4.5, x + 4.5, top + 8.0].map(short);
    canvas.titled(
        &format!("M{} {}L{right} {foot}L{left} {foot}Z", short(x), short(top)),
        attributes,
        hint,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_covers_neither_marks_nor_names() {
        let mut labels = Labels::within((0.0, 0.0, 400.0, 300.0));
        let mut canvas = Canvas::default();
        let marks: Vec<(f64, f64)> = (0..12)
            .map(|at| (60.0 + f64::from(at) * 20.0, 150.0))
            .collect();
        for mark in &marks {
            labels.mark(*mark, 5.0);
        }
        let named = marks.iter();
        let named = named.filter(|mark| labels.name(&mut canvas, "8 × H100", "", **mark, 5.0));
        assert!(named.count() > 3);
        for (at, one) in labels.texts.iter().enumerate() {
            let mut others = labels.texts.iter().skip(at + 1).chain(&labels.marks);
            assert!(others.all(|other| !overlap(*one, *other)), "{at}");
        }
        let mut full = Labels::within((0.0, 0.0, 30.0, 30.0));
        assert!(!full.name(&mut canvas, "8 × H100", "", (10.0, 10.0), 5.0));
    }

    #[test]
    fn a_line_is_cut_where_it_leaves() {
        let line = [(0.0, 20.0), (10.0, 0.0), (20.0, 20.0)];
        let (cut, leaves) = below(&line, 10.0);
        assert_eq!(leaves, Some((5.0, 10.0)));
        let within = [
            (0.0, 20.0),
            (5.0, 10.0),
            (10.0, 10.0),
            (15.0, 10.0),
            (20.0, 20.0),
        ];
        assert_eq!(cut, within);
        assert_eq!(below(&line, 0.0).1, None);
    }
}

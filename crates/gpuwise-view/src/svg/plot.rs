//! Lines over two axes, each with its name below; in as many panels as keep colours apart.

use super::{
    canvas::{Anchor, Axis, Canvas, FONT, Picture, colour, cut, text_width},
    run::plot::{LEFT, Plot as Frame, RIGHT},
};

const TOP: f64 = 40.0;
const HEIGHT: f64 = 230.0;
/// Between names of lines.
const PITCH: f64 = FONT * 1.5;
/// From the names of one panel to the title of the next.
const GAP: f64 = 34.0;
/// One for each line of a panel, none twice.
const COLOURS: [&str; 7] = [
    colour::BLUE,
    colour::ORANGE,
    colour::GREEN,
    colour::PINK,
    colour::SKY,
    colour::VERMILION,
    colour::YELLOW,
];
/// Dashes of lines that are context: grey, so that they take no colour.
const DASHES: [&str; 4] = ["6 3", "2 3", "9 3 2 3", "1 5"];

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Solid,
    /// It is no measurement of the thing itself.
    Dashed,
    /// It stands there to be compared with.
    Context,
}

/// A line to be drawn.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) name: String,
    /// Where it passes, in units of the axes.
    pub(super) points: Vec<(f64, f64)>,
    pub(super) look: Look,
    /// Texts shown on hovering for points that have a dot; none where points have no dots.
    pub(super) hints: Vec<String>,
}

/// Lines that belong together, under a title of their own.
#[derive(Debug, Clone)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) lines: Vec<Line>,
}

/// Axes with their titles, and a limit that goes through all panels.
#[derive(Debug, Clone)]
pub(super) struct Plot {
    pub(super) across: Axis,
    pub(super) up: Axis,
    pub(super) titles: [String; 2],
    pub(super) limit: Option<(f64, String)>,
}

impl Plot {
    /// The panels below each other, those of more lines than there are colours in parts.
    pub(super) fn picture(
        &self,
        panels: Vec<Panel>,
        id: &str,
        title: &str,
        description: String,
    ) -> Picture {
        let mut canvas = Canvas::default();
        let mut top = TOP;
        for Panel { title, lines } in panels {
            let (context, drawn): (Vec<Line>, Vec<Line>) =
                (lines.into_iter()).partition(|line| line.look == Look::Context);
            for part in drawn.chunks(COLOURS.len()) {
                top = self.panel(&mut canvas, top, &title, part, &context) + GAP;
            }
        }
        canvas.finish(id, title.into(), description, (top - GAP).max(TOP))
    }

    /// One panel; gives where it ends.
    fn panel(
        &self,
        canvas: &mut Canvas,
        top: f64,
        title: &str,
        lines: &[Line],
        context: &[Line],
    ) -> f64 {
        let frame = Frame {
            x: self.across.clone(),
            y: self.up.clone(),
            top,
            height: HEIGHT,
        };
        let [right, above] = &self.titles;
        let above = format!("{above}{}", self.up.scale());
        let above = match title {
            "" => above,
            title => format!("{title}: {above}"),
        };
        frame.upright(canvas, &above);
        frame.level(canvas, &format!("{right}{}", self.across.scale()));
        let mut labels = frame.labels();
        let mut foot = frame.floor() + 58.0;
        let greys = context.iter().zip(DASHES.iter().cycle());
        let greys = greys.map(|(line, dashes)| (line, "var(--gw-muted)", *dashes));
        let hues = lines.iter().zip(COLOURS).map(|(line, colour)| {
            let dashes = if line.look == Look::Dashed { "5 3" } else { "" };
            (line, colour, dashes)
        });
        for (line, colour, dashes) in hues.chain(greys) {
            let stroke = format!(
                "fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{}",
                if dashes.is_empty() {
                    String::new()
                } else {
                    format!(" stroke-dasharray=\"{dashes}\"")
                }
            );
            let points: Vec<(f64, f64)> =
                line.points.iter().map(|(x, y)| frame.at(*x, *y)).collect();
            canvas.path(&points, &stroke);
            labels.line(&points);
            for (at, hint) in points.iter().zip(&line.hints) {
                canvas.dot(*at, 3.0, &format!("fill=\"{colour}\""), hint);
                labels.mark(*at, 4.0);
            }
            canvas.path(&[(LEFT, foot - 4.0), (LEFT + 22.0, foot - 4.0)], &stroke);
            let name = cut(&line.name, RIGHT - LEFT - 30.0);
            canvas.text(LEFT + 30.0, foot, Anchor::Start, "", &name);
            foot += PITCH;
        }
        if let Some((value, name)) = &self.limit {
            let y = frame.above(*value);
            if (top..frame.floor()).contains(&y) {
                let line = [(LEFT, y), (RIGHT, y)];
                canvas.line(line[0], line[1], "a", "2 4");
                labels.line(&line);
                let name = cut(name, 200.0);
                let at = (RIGHT - text_width(&name) * 1.15, y);
                labels.name(canvas, &name, "m", at, 1.0);
            }
        }
        foot
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

//! What pictures are drawn with.

use crate::markup::escape;
use std::fmt::Write as _;

/// Width of every picture in its own units; text of 13 units is legible from 320 px up.
pub(super) const WIDTH: f64 = 420.0;
pub(super) const FONT: f64 = 13.0;

/// Rules for pictures: colours of text and ground follow the reader's light or dark.
pub const STYLE: &str = ".gw{display:block;width:100%;height:auto;color:#1b1f24;--gw-ground:#fff;\
--gw-grid:#d5dae0;--gw-muted:#57606a;--gw-line:#0072b2;font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;\
font-size:13px;font-variant-numeric:tabular-nums}\
.gw text{fill:currentColor;paint-order:stroke;stroke:var(--gw-ground);stroke-width:3px;stroke-linejoin:round}\
.gw .m{fill:var(--gw-muted)}.gw .g{stroke:var(--gw-grid);fill:none}.gw .a{stroke:currentColor;fill:none}\
.gw .h{stroke:var(--gw-muted);fill:none}.gw .l{stroke:var(--gw-line);fill:none}.gw .e{text-anchor:end}.gw .c{text-anchor:middle}.gw .b{font-weight:600}\
@media (prefers-color-scheme:dark){.gw{color:#e6e8eb;--gw-ground:#14171a;--gw-grid:#363d45;--gw-muted:#a2abb5;--gw-line:#56b4e9}}\
@media print{.gw{color:#000;--gw-ground:#fff;--gw-grid:#ccc;--gw-muted:#444;--gw-line:#0072b2}}";

pub(super) mod colour {
    pub(crate) const BLUE: &str = "#0072B2";
    pub(crate) const ORANGE: &str = "#E69F00";
    pub(crate) const GREEN: &str = "#009E73";
    pub(crate) const PINK: &str = "#CC79A7";
    pub(crate) const SKY: &str = "#56B4E9";
    pub(crate) const VERMILION: &str = "#D55E00";
    pub(crate) const YELLOW: &str = "#F0E442";
}

#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    id: String,
    title: String,
    description: String,
    height: f64,
    content: String,
}

impl Picture {
    /// A picture of its own: a file, with a ground that suits its text on any page.
    pub fn to_svg(&self) -> String {
        let ground = format!(
            "<style>{STYLE}</style><path d=\"M0 0H{WIDTH}V{}H0Z\" fill=\"var(--gw-ground)\"/>\n",
            short(self.height)
        );
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}",
            self.element(" xmlns=\"http://www.w3.org/2000/svg\"", &ground)
        )
    }

    /// A picture within a page that has [`STYLE`].
    pub fn to_inline(&self) -> String {
        self.element("", "")
    }

    fn element(&self, namespace: &str, style: &str) -> String {
        let id = escape(&self.id);
        format!(
            "<svg{namespace} class=\"gw\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" \
             aria-labelledby=\"{id}-title {id}-desc\">\n<title id=\"{id}-title\">{}</title>\n\
             <desc id=\"{id}-desc\">{}</desc>\n{style}{}</svg>\n",
            short(self.height),
            escape(&self.title),
            escape(&self.description),
            self.content
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture being drawn.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    content: String,
}

impl Canvas {
    pub(super) fn finish(
        self,
        id: &str,
        title: String,
        description: String,
        height: f64,
    ) -> Picture {
        Picture {
            id: id.into(),
            title,
            description,
            height,
            content: self.content,
        }
    }

    /// Text; `classes` are those of [`STYLE`].
    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, classes: &str, text: &str) {
        let side = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " c",
            Anchor::End => " e",
        };
        let classes = format!("{classes}{side}");
        let class = match classes.trim() {
            "" => String::new(),
            names => format!(" class=\"{names}\""),
        };
        let _ = writeln!(
            self.content,
            "<text x=\"{}\" y=\"{}\"{class}>{}</text>",
            short(x),
            short(y),
            escape(text)
        );
    }

    /// A line of a class: `g` grid, `a` axis, `h` hint.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str, dashes: &str) {
        let dashes = if dashes.is_empty() {
            String::new()
        } else {
            format!(" stroke-dasharray=\"{dashes}\"")
        };
        let _ = writeln!(
            self.content,
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{class}\"{dashes}/>",
            short(from.0),
            short(from.1),
            short(to.0),
            short(to.1)
        );
    }

    /// A path through points, with attributes as they are given.
    pub(super) fn path(&mut self, points: &[(f64, f64)], attributes: &str) {
        let data = data(points);
        let _ = writeln!(self.content, "<path d=\"{data}\" {attributes}/>");
    }

    /// Many shapes of one look as one path.
    pub(super) fn shapes(&mut self, data: &str, attributes: &str) {
        if !data.is_empty() {
            let _ = writeln!(self.content, "<path d=\"{data}\" {attributes}/>");
        }
    }

    /// A filled area, with a text shown on hovering.
    pub(super) fn area(&mut self, points: &[(f64, f64)], attributes: &str, hint: &str) {
        self.titled(&(data(points) + "Z"), attributes, hint);
    }

    /// A shape, with a text shown on hovering.
    pub(super) fn titled(&mut self, data: &str, attributes: &str, hint: &str) {
        let _ = writeln!(
            self.content,
            "<path d=\"{data}\" {attributes}><title>{}</title></path>",
            escape(hint)
        );
    }

    /// A rectangle from its corner.
    pub(super) fn rectangle(
        &mut self,
        corner: (f64, f64),
        size: (f64, f64),
        attributes: &str,
        hint: &str,
    ) {
        let (x, y) = corner;
        let (right, bottom) = (x + size.0, y + size.1);
        self.area(
            &[(x, y), (right, y), (right, bottom), (x, bottom)],
            attributes,
            hint,
        );
    }

    /// A dot, with a text shown on hovering.
    pub(super) fn dot(&mut self, at: (f64, f64), radius: f64, attributes: &str, hint: &str) {
        let _ = writeln!(
            self.content,
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" {attributes}><title>{}</title></circle>",
            short(at.0),
            short(at.1),
            short(radius),
            escape(hint)
        );
    }
}

/// At most one decimal: a tenth of a unit is not seen.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0")
        .map_or_else(|| text.clone(), Into::into)
}

/// How wide text is, on average, in units.
pub(super) fn text_width(text: &str) -> f64 {
    unicode_width::UnicodeWidthStr::width(text) as f64 * FONT * 0.56
}

/// Text cut to a width in units.
pub(super) fn cut(text: &str, width: f64) -> String {
    let most = (width / (FONT * 0.56)).max(2.0) as usize;
    crate::plan::ellipsis(&crate::style::clean(text), most)
}

/// An axis with round marks: linear from zero, or logarithmic where values span decades.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    /// Where it begins; above zero only where it is logarithmic.
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) marks: Vec<f64>,
}

impl Axis {
    /// A linear axis that reaches a little beyond `most` with about `count` marks.
    pub(super) fn up_to(most: f64, count: usize) -> Self {
        let most = if most.is_finite() && most > 0.0 {
            most
        } else {
            1.0
        };
        let rough = most / count.max(1) as f64;
        let power = 10_f64.powi(rough.log10().floor() as i32);
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(rough);
        let end = most * 1.04;
        let marks = (0..=count * 3)
            .map(|index| index as f64 * step)
            .take_while(|mark| *mark <= end)
            .collect();
        Self {
            start: 0.0,
            end,
            marks,
        }
    }

    /// A logarithmic axis where the values span about a decade, else a linear one.
    pub(super) fn spanning(least: f64, most: f64, count: usize) -> Self {
        if !(least > 0.0 && most.is_finite() && most > least * 8.0) {
            return Self::up_to(most, count);
        }
        let (start, end) = (least * 0.8, most * 1.15);
        let decades = (start.log10().floor() as i32)..=(end.log10().ceil() as i32);
        // Over many decades only their beginnings are marked.
        let factors: &[f64] = if most > least * 3000.0 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let marks = decades
            .flat_map(|decade| {
                factors
                    .iter()
                    .map(move |factor| factor * 10_f64.powi(decade))
            })
            .filter(|mark| (start..=end).contains(mark))
            .collect();
        Self { start, end, marks }
    }

    /// Whether it is logarithmic.
    pub(super) fn logarithmic(&self) -> bool {
        self.start > 0.0
    }

    /// Where a value lies: 0 at its beginning, 1 at its end.
    pub(super) fn share(&self, value: f64) -> f64 {
        if self.logarithmic() {
            (value / self.start).ln() / (self.end / self.start).ln()
        } else {
            value / self.end
        }
    }

    /// What its title says about its scale.
    pub(super) fn scale(&self) -> &'static str {
        if self.logarithmic() {
            ", log scale"
        } else {
            ""
        }
    }
}

/// The points as a path's data.
fn data(points: &[(f64, f64)]) -> String {
    let mut data = String::new();
    for (index, (x, y)) in points.iter().enumerate() {
        let _ = write!(
            data,
            "{}{} {}",
            if index == 0 { 'M' } else { 'L' },
            short(*x),
            short(*y)
        );
    }
    data
}

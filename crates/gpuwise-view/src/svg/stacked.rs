//! Amounts that add up, over time: areas on top of one another.

use super::{
    canvas::{Anchor, Axis, Canvas, FONT, Picture, WIDTH, colour, cut, text_width},
    run::plot::{LEFT, Plot, RIGHT},
};
use crate::figures::number;

const TOP: f64 = 36.0;
const HEIGHT: f64 = 190.0;
/// Between names of layers.
const PITCH: f64 = FONT * 1.5;
/// One for each layer, none twice; what is left over is grey.
const COLOURS: [&str; 7] = [
    colour::BLUE,
    colour::ORANGE,
    colour::GREEN,
    colour::PINK,
    colour::SKY,
    colour::VERMILION,
    colour::YELLOW,
];
const GREYS: [&str; 2] = ["#6e7781", "#b4bcc5"];

/// Layers over time, in units of the axes.
#[derive(Debug, Default)]
pub(crate) struct Stacked<'a> {
    pub title: &'a str,
    /// Titles of the level and the upright axis.
    pub axes: [&'a str; 2],
    /// Layers from the floor up: a name, and what stands beside it in the key. So many of the last are
    /// grey as `greys` says.
    pub layers: Vec<(String, String)>,
    pub greys: usize,
    /// Where each moment lies, and how thick each layer is from there to the next.
    pub moments: Vec<(f64, Vec<f64>)>,
    pub end: f64,
    /// A line over the layers: its name and its height at each moment.
    pub over: Option<(&'a str, Vec<f64>)>,
}

impl Stacked<'_> {
    fn colour(&self, layer: usize) -> &'static str {
        let coloured = self.layers.len().saturating_sub(self.greys);
        let grey = layer.checked_sub(coloured).and_then(|grey| GREYS.get(grey));
        let colour = grey.or_else(|| COLOURS.get(layer));
        colour.copied().unwrap_or("#6e7781")
    }

    /// The picture; `None` where there is too little to draw.
    pub(crate) fn picture(&self, id: &str) -> Option<Picture> {
        let sums = self.moments.iter().map(|(_, layers)| layers.iter().sum());
        let most = sums.fold(0.0, f64::max);
        let over = self.over.iter().flat_map(|(_, heights)| heights);
        let top = over.copied().fold(most, f64::max);
        if self.moments.len() < 2 || self.end <= 0.0 || most <= 0.0 {
            return None;
        }
        let mut x = Axis::up_to(self.end, 5);
        x.end = self.end;
        x.marks.retain(|mark| *mark <= x.end);
        let plot = Plot {
            x,
            y: Axis::up_to(top, 4),
            top: TOP,
            height: HEIGHT,
        };
        let mut canvas = Canvas::default();
        let [level, upright] = self.axes;
        plot.upright(&mut canvas, upright);
        plot.level(&mut canvas, level);
        let mut floor = vec![0.0; self.moments.len()];
        for (layer, (name, amount)) in self.layers.iter().enumerate() {
            let mut ceiling = floor.clone();
            for (height, (_, layers)) in ceiling.iter_mut().zip(&self.moments) {
                *height += layers.get(layer).copied().unwrap_or(0.0);
            }
            let lower = self.stairs(&plot, &floor);
            let outline: Vec<(f64, f64)> = self
                .stairs(&plot, &ceiling)
                .into_iter()
                .chain(lower.into_iter().rev())
                .collect();
            let fill = format!("fill=\"{}\"", self.colour(layer));
            canvas.area(&outline, &fill, &format!("{name}: {amount}"));
            floor = ceiling;
        }
        if let Some((_, heights)) = &self.over {
            let line = self.stairs(&plot, heights);
            canvas.path(&line, OVER);
        }
        let foot = self.key(&mut canvas, plot.floor() + 58.0);
        let description = format!(
            "{}: at most {} in all ({upright}).",
            self.title,
            number(most)
        );
        Some(canvas.finish(id, self.title.into(), description, foot))
    }

    /// A value holds until the next moment.
    fn stairs(&self, plot: &Plot, heights: &[f64]) -> Vec<(f64, f64)> {
        let next = self.moments.iter().skip(1).map(|(at, _)| *at);
        let ends = next.chain([self.end]);
        self.moments
            .iter()
            .zip(ends)
            .zip(heights)
            .flat_map(|(((from, _), to), height)| [plot.at(*from, *height), plot.at(to, *height)])
            .collect()
    }

    /// Names of layers below the picture, from the top one down as they lie; gives where it ends.
    fn key(&self, canvas: &mut Canvas, mut foot: f64) -> f64 {
        if let Some((name, _)) = &self.over {
            canvas.path(&[(LEFT, foot - 4.0), (LEFT + 14.0, foot - 4.0)], OVER);
            canvas.text(LEFT + 22.0, foot, Anchor::Start, "", name);
            foot += PITCH;
        }
        for (layer, (name, amount)) in self.layers.iter().enumerate().rev() {
            let fill = format!("fill=\"{}\"", self.colour(layer));
            canvas.rectangle((LEFT, foot - 11.0), (14.0, 12.0), &fill, name);
            let room = RIGHT - LEFT - 34.0 - text_width(amount);
            canvas.text(LEFT + 22.0, foot, Anchor::Start, "", &cut(name, room));
            canvas.text(WIDTH - 14.0, foot, Anchor::End, "m", amount);
            foot += PITCH;
        }
        foot
    }
}

const OVER: &str = "class=\"a\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\"";

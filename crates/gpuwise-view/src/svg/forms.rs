//! Forms of a model: what a request costs against what is lost.

use super::{
    canvas::{Anchor, Axis, Canvas, Picture, colour},
    run::plot::Plot,
};
use crate::figures::{amount, number};

const TOP: f64 = 40.0;
const HEIGHT: f64 = 230.0;
/// Below the frame, for the title of its level axis.
const FOOT: f64 = 46.0;
const LINE: f64 = 18.0;

/// A form of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct FormPoint {
    pub name: String,
    /// In percent of the original's score.
    pub loss: Option<f64>,
    /// Of a thousand requests, at the highest rate that keeps the SLO.
    pub cost: f64,
}

/// A scatter; `None` where no form has a known loss. `money` is the unit of the costs.
pub fn forms(points: &[FormPoint], money: &str, id: &str) -> Option<Picture> {
    let (known, unknown): (Vec<&FormPoint>, Vec<&FormPoint>) =
        points.iter().partition(|point| point.loss.is_some());
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let plot = Plot {
        x: Axis::up_to(most(&mut known.iter().filter_map(|point| point.loss)), 5),
        y: Axis::up_to(most(&mut known.iter().map(|point| point.cost)), 5),
        top: TOP,
        height: HEIGHT,
    };
    if known.is_empty() {
        return None;
    }
    let mut canvas = Canvas::default();
    plot.upright(&mut canvas, &format!("{money} for 1,000 requests"));
    plot.level(&mut canvas, "quality loss, %");
    let mut labels = plot.labels();
    let placed = known.iter().filter_map(|point| {
        let loss = point.loss?;
        Some((*point, plot.at(loss, point.cost), hint(point, money)))
    });
    let placed: Vec<_> = placed.collect();
    for (_, at, hint) in &placed {
        let look = format!("fill=\"{}\" stroke=\"var(--gw-ground)\"", colour::BLUE);
        canvas.dot(*at, 5.0, &look, hint);
        labels.mark(*at, 6.0);
    }
    for (point, at, _) in &placed {
        labels.name(&mut canvas, &point.name, "", *at, 6.0);
    }
    let mut foot = plot.floor() + FOOT;
    for point in &unknown {
        foot += LINE;
        let text = hint(point, money);
        canvas.text(4.0, foot, Anchor::Start, "m", &text);
    }
    let all: Vec<String> = points.iter().map(|point| hint(point, money)).collect();
    Some(canvas.finish(
        id,
        "What a request costs against what is lost".into(),
        format!("Forms of a model: {}.", all.join("; ")),
        foot + 8.0,
    ))
}

fn hint(point: &FormPoint, money: &str) -> String {
    let loss = point.loss.map_or("loss unknown".into(), |loss| {
        format!("loss {} %", number(loss))
    });
    format!("{}: {} {money}, {loss}", point.name, amount(point.cost))
}

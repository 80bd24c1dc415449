//! Replicas that follow demand over days: what demand needs, what serves, and what is warm beside it.

use super::{
    canvas::{Axis, Canvas, Picture, colour},
    run::plot::Plot,
};
use gpuwise_domain::scale::ScaleSample;

/// Points that are drawn at most: about one for each unit of the picture.
const POINTS: usize = 360;
const TOP: f64 = 40.0;
const HEIGHT: f64 = 190.0;

/// One picture; `rate`: requests a second of a replica.
pub(crate) fn scale(samples: &[ScaleSample], rate: f64, title: &str, id: &str) -> Picture {
    let every = samples.len().div_ceil(POINTS).max(1);
    // Of the samples that one point stands for the highest is drawn.
    let points: Vec<(f64, f64, f64, f64)> = samples
        .chunks(every)
        .map(|chunk| {
            let day = chunk.first().map_or(0.0, |one| one.at.0 as f64 / 8.64e13);
            let most = |of: &dyn Fn(&ScaleSample) -> f64| chunk.iter().map(of).fold(0.0, f64::max);
            (
                day,
                most(&|one| one.rate / rate),
                most(&|one| f64::from(one.serving)),
                most(&|one| f64::from(one.serving + one.warm)),
            )
        })
        .collect();
    let days = points.last().map_or(1.0, |last| last.0);
    let most = points
        .iter()
        .map(|one| one.3.max(one.1))
        .fold(1.0, f64::max);
    let plot = Plot {
        x: Axis::up_to(days.max(1e-3), 7),
        y: Axis::up_to(most, 4),
        top: TOP,
        height: HEIGHT,
    };
    let mut canvas = Canvas::default();
    plot.upright(&mut canvas, "replicas");
    plot.level(&mut canvas, "days");
    let upper = points.iter().map(|one| plot.at(one.0, one.3));
    let lower = points.iter().rev().map(|one| plot.at(one.0, one.2));
    let band: Vec<(f64, f64)> = upper.chain(lower).collect();
    if band.len() > 2 && points.iter().any(|one| one.3 > one.2) {
        let look = format!("fill=\"{}\" fill-opacity=\"0.35\"", colour::SKY);
        canvas.area(&band, &look, "warm, and lent meanwhile");
    }
    let mut line = |of: &dyn Fn(&(f64, f64, f64, f64)) -> f64, hue: &str, width: f64| {
        let path: Vec<(f64, f64)> = points.iter().map(|one| plot.at(one.0, of(one))).collect();
        canvas.path(
            &path,
            &format!("fill=\"none\" stroke=\"{hue}\" stroke-width=\"{width}\""),
        );
    };
    line(&|one| one.2, colour::BLUE, 1.4);
    line(&|one| one.1, colour::ORANGE, 1.0);
    plot.key(
        &mut canvas,
        &[
            ("needed", colour::ORANGE),
            ("serving", colour::BLUE),
            ("warm", colour::SKY),
        ],
    );
    let needed = points.iter().map(|one| one.1).fold(0.0, f64::max);
    let description =
        format!("Demand needs up to {needed:.0} replicas, up to {most:.0} serve or are warm.");
    canvas.finish(id, title.to_owned(), description, TOP + HEIGHT + 40.0)
}

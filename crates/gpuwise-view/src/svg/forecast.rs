//! A series, the range that was said before, and where it goes.

use super::{
    canvas::{Axis, Canvas, Picture, colour},
    run::plot::Plot,
};
use crate::forecast::coverage;
use gpuwise_domain::forecast::{HorizonForecast, SeriesForecast};

/// Points that are drawn at most: about one for each unit of the picture.
const POINTS: usize = 360;
const TOP: f64 = 40.0;
const HEIGHT: f64 = 190.0;

/// The last readings with what was said of them so far ahead.
pub(crate) fn forecast(series: &SeriesForecast, horizon: &HorizonForecast, id: &str) -> Picture {
    let count = series.readings.len();
    let first = count.saturating_sub(POINTS);
    let hours = series.period.0 as f64 / 3.6e12;
    let ahead = horizon.periods as usize;
    let shown = series.readings.get(first..).unwrap_or_default();
    let said: Vec<(usize, (f64, f64, f64))> = (first..count)
        .filter_map(|at| Some((at - first, horizon.said.get(at).copied().flatten()?)))
        .collect();
    let now = horizon.at(0.10).zip(horizon.at(0.90));
    let tops = shown.iter().copied().flatten();
    let most = tops
        .chain(said.iter().map(|(_, one)| one.2))
        .chain(now.map(|(_, high)| high))
        .fold(0.0, f64::max);
    let plot = Plot {
        x: Axis::up_to((shown.len() + ahead) as f64 * hours, 6),
        y: Axis::up_to(most, 4),
        top: TOP,
        height: HEIGHT,
    };
    let mut canvas = Canvas::default();
    plot.upright(&mut canvas, "requests/s");
    plot.level(&mut canvas, "hours");
    let place = |at: usize, value: f64| plot.at(at as f64 * hours, value);
    let low = said.iter().map(|(at, one)| place(*at, one.1));
    let high = said.iter().rev().map(|(at, one)| place(*at, one.2));
    let band: Vec<(f64, f64)> = low.chain(high).collect();
    if band.len() > 2 {
        let look = format!("fill=\"{}\" fill-opacity=\"0.35\"", colour::SKY);
        canvas.area(
            &band,
            &look,
            "between the 10 % and 90 % quantiles that were said before",
        );
    }
    let stroke =
        |hue: &str, width: f64| format!("fill=\"none\" stroke=\"{hue}\" stroke-width=\"{width}\"");
    for run in runs(shown) {
        let points: Vec<(f64, f64)> = run.iter().map(|(at, value)| place(*at, *value)).collect();
        canvas.path(&points, &stroke("currentColor", 1.2));
    }
    if let (Some((low, high)), Some(last)) = (now, series.last()) {
        let (from, to) = (shown.len().saturating_sub(1), shown.len() - 1 + ahead);
        let fan = [place(from, last), place(to, low), place(to, high)];
        let look = format!("fill=\"{}\" fill-opacity=\"0.5\"", colour::ORANGE);
        canvas.area(&fan, &look, "what is expected now, 10 % to 90 %");
        canvas.path(
            &[place(from, last), place(to, horizon.point)],
            &stroke(colour::VERMILION, 2.0),
        );
    }
    plot.key(
        &mut canvas,
        &[("said before", colour::SKY), ("expected", colour::ORANGE)],
    );
    let title = format!("{} {} ahead", series.name, horizon.ahead);
    let description = horizon.judged.as_ref().map_or_else(
        || "Too few readings to say how good it was.".into(),
        coverage,
    );
    canvas.finish(
        id,
        title.trim().to_owned(),
        description,
        TOP + HEIGHT + 40.0,
    )
}

/// Readings without the gaps between them.
fn runs(readings: &[Option<f64>]) -> Vec<Vec<(usize, f64)>> {
    let mut all: Vec<Vec<(usize, f64)>> = vec![Vec::new()];
    for (at, reading) in readings.iter().enumerate() {
        match (reading, all.last_mut()) {
            (Some(value), Some(run)) => run.push((at, *value)),
            (None, Some(run)) if !run.is_empty() => all.push(Vec::new()),
            _ => {}
        }
    }
    all.retain(|run| run.len() > 1);
    all
}

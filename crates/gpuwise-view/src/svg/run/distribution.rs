//! The distribution of a metric: which share of requests is at most so slow, with percentiles marked.

use super::plot::{LEFT, Plot, RIGHT, bound_stroke};
use crate::{
    figures::{TimeUnit, number},
    run::words,
    svg::{
        canvas::{Axis, Canvas, Picture},
        labels::Labels,
    },
};
use gpuwise_domain::run::{Distribution, Metric, MetricUnit, RunReport};
use gpuwise_units::Percentile;

const TOP: f64 = 36.0;
const HEIGHT: f64 = 170.0;
/// Percentiles with a dot and a number.
const MARKED: [Percentile; 3] = [Percentile::P50, Percentile::P95, Percentile::P99];

/// The distribution of a metric over all requests; `None` where there are fewer than two values.
pub fn distribution(report: &RunReport, metric: Metric, id: &str) -> Option<Picture> {
    let values = report.distribution(metric)?;
    if values.count < 2 || values.maximum <= 0.0 {
        return None;
    }
    let verdict = report
        .attainment
        .verdicts
        .iter()
        .find(|verdict| words::metric(verdict.about) == Some(metric));
    // The last percent would press all others to the left.
    let far = values.at(Percentile::P99).unwrap_or(values.maximum);
    let bound = verdict.map(|verdict| verdict.bound);
    let most = bound
        .filter(|bound| *bound < far * 3.0)
        .unwrap_or(0.0)
        .max(far * 1.05);
    let (unit, factor) = match metric.unit() {
        MetricUnit::Seconds => {
            let unit = TimeUnit::of([most]);
            (unit.symbol(), unit.per_second())
        }
        MetricUnit::Tokens => ("tokens", 1.0),
    };
    let least = values
        .at(Percentile::from_percent(1.0)?)
        .unwrap_or(values.minimum);
    let plot = Plot {
        x: Axis::spanning(least * factor, most * factor, 6),
        y: Axis {
            start: 0.0,
            end: 100.0,
            marks: vec![0.0, 25.0, 50.0, 75.0, 100.0],
        },
        top: TOP,
        height: HEIGHT,
    };
    let mut canvas = Canvas::default();
    plot.upright(
        &mut canvas,
        &format!("{}, % of {}", metric.name(), what(metric)),
    );
    plot.level(
        &mut canvas,
        &format!("{}, {unit}{}", metric.name(), plot.x.scale()),
    );
    let line = line(values, &plot, factor);
    canvas.path(&line, "class=\"l\" stroke-width=\"2\"");
    let shown = verdict
        .map(|verdict| verdict.bound)
        .filter(|bound| *bound <= most);
    names(&mut canvas, &plot, values, (factor, unit), &line, shown);
    Some(canvas.finish(
        id,
        format!("Distribution of {}", metric.name()),
        description(values, metric, factor, unit),
        TOP + HEIGHT + 46.0,
    ))
}

fn what(metric: Metric) -> &'static str {
    match metric {
        Metric::InterToken => "gaps",
        _ => "requests",
    }
}

/// Through every percentile that there are enough values for, from the lowest.
fn line(values: &Distribution, plot: &Plot, factor: f64) -> Vec<(f64, f64)> {
    let mut points = vec![plot.at(values.minimum * factor, 0.0)];
    for quantile in values.quantiles.iter().filter(|q| values.supports(q.at)) {
        points.push(plot.at(quantile.value * factor, quantile.at.fraction() * 100.0));
    }
    if values.maximum * factor <= plot.x.end {
        points.push(plot.at(values.maximum * factor, 100.0));
    }
    points
}

/// The bound, the marked percentiles and what lies beyond the frame, with their names.
fn names(
    canvas: &mut Canvas,
    plot: &Plot,
    values: &Distribution,
    (factor, unit): (f64, &str),
    line: &[(f64, f64)],
    bound: Option<f64>,
) {
    let within = (LEFT + 2.0, TOP + 2.0, RIGHT + 12.0, plot.floor() - 2.0);
    let mut labels = Labels::within(within);
    labels.line(line);
    let post = bound.map(|bound| plot.across(bound * factor));
    if let Some(x) = post {
        let ends = [(x, plot.top), (x, plot.floor())];
        canvas.path(&ends, &bound_stroke());
        labels.line(&ends);
    }
    draw_marks(canvas, plot, values, (factor, unit), &mut labels);
    if values.maximum * factor > plot.x.end {
        let text = format!("highest {} {unit}", number(values.maximum * factor));
        let tip = (RIGHT + 8.0, TOP);
        let fill = "fill=\"var(--gw-line)\"";
        canvas.area(&[(RIGHT, TOP - 4.5), tip, (RIGHT, TOP + 4.5)], fill, &text);
        labels.mark((RIGHT + 3.0, TOP), 6.0);
        labels.name(canvas, &text, "m", (RIGHT + 2.0, TOP), 6.0);
    }
    if let (Some(bound), Some(x)) = (bound, post) {
        let text = format!("SLO {}", crate::figures::seconds(bound));
        labels.name(canvas, &text, "", (x, plot.floor() - 10.0), 1.0);
    }
}

/// Dots with their values.
fn draw_marks(
    canvas: &mut Canvas,
    plot: &Plot,
    values: &Distribution,
    (factor, unit): (f64, &str),
    labels: &mut Labels,
) {
    let marks: Vec<(String, (f64, f64))> = MARKED
        .into_iter()
        .filter_map(|at| {
            let value = values.at(at)? * factor;
            let text = format!("{at} {} {unit}", number(value));
            Some((text, plot.at(value, at.fraction() * 100.0)))
        })
        .collect();
    for (text, at) in &marks {
        canvas.dot(*at, 3.5, "fill=\"var(--gw-line)\"", text);
        labels.mark(*at, 4.0);
    }
    for (text, at) in &marks {
        labels.name(canvas, text, "", *at, 4.0);
    }
}

fn description(values: &Distribution, metric: Metric, factor: f64, unit: &str) -> String {
    let mut parts = vec![format!("mean {} {unit}", number(values.mean * factor))];
    for at in MARKED {
        parts.extend(
            values
                .at(at)
                .map(|value| format!("{at} {} {unit}", number(value * factor))),
        );
    }
    parts.push(format!(
        "highest {} {unit}",
        number(values.maximum * factor)
    ));
    format!(
        "{} of {} values: {}.",
        metric.name(),
        crate::figures::count(values.count),
        parts.join(", ")
    )
}

//! Counted kernels: on their roofline, and against the peaks of compute and memory.

use super::{
    canvas::{Anchor, Axis, Canvas, FONT, Picture, colour, cut, text_width},
    labels::Labels,
    plot::span,
    run::plot::{LEFT, Plot, RIGHT},
};
use crate::figures::number;

const TOP: f64 = 40.0;
const HEIGHT: f64 = 250.0;
/// Kernels that have a number in the picture and a name below it.
const NAMED: usize = 6;

/// One kernel of a picture.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    pub name: String,
    /// Operations a byte and operations a second; or memory and compute in percent of peak.
    pub at: (f64, f64),
    /// What is shown on hovering.
    pub hint: String,
}

/// Operations a second against operations a byte of device memory; `None` where no kernel has both.
/// Roofs are bytes a second, and FP32 operations a second.
pub(crate) fn roofline(
    spots: &[Spot],
    memory: Option<f64>,
    compute: Option<f64>,
    id: &str,
) -> Option<Picture> {
    let (least, most) = span(spots.iter().map(|spot| spot.at.0));
    let (lowest, highest) = span(spots.iter().map(|spot| spot.at.1));
    if most <= 0.0 || highest <= 0.0 {
        return None;
    }
    let ridge = memory
        .zip(compute)
        .map(|(memory, compute)| compute / memory);
    let right = f64::max(most, ridge.unwrap_or(0.0)) * 4.0;
    let left = f64::min(least, ridge.unwrap_or(least)) / 4.0;
    let roof = memory.map_or(highest, |memory| memory * most);
    let top = compute.unwrap_or(f64::max(highest, roof)) * 1.6;
    let (unit, scale) = if top >= 1e12 {
        ("TFLOP/s", 1e-12)
    } else {
        ("GFLOP/s", 1e-9)
    };
    let plot = Plot {
        x: Axis::spanning(left, right, 5),
        y: Axis::spanning(f64::min(lowest, top / 100.0) / 2.0 * scale, top * scale, 5),
        top: TOP,
        height: HEIGHT,
    };
    let mut canvas = Canvas::default();
    plot.upright(&mut canvas, &format!("{unit}{}", plot.y.scale()));
    let level = format!("FLOP per byte of device memory{}", plot.x.scale());
    plot.level(&mut canvas, &level);
    let mut labels = plot.labels();
    if let Some(memory) = memory {
        let name = format!("memory {} GB/s", number(memory * 1e-9));
        slope(
            &mut canvas,
            &plot,
            memory * scale,
            compute.map(|rate| rate * scale),
            &name,
            &mut labels,
        );
    }
    if let Some(compute) = compute.map(|rate| rate * scale) {
        let from = ridge.map_or(plot.x.start, |ridge| ridge.max(plot.x.start));
        canvas.path(
            &[plot.at(from, compute), plot.at(plot.x.end, compute)],
            ROOF,
        );
        let name = format!("FP32 peak {} {unit}", number(compute));
        let (x, y) = plot.at(plot.x.end, compute);
        canvas.text(x, y - 6.0, Anchor::End, "m", &name);
        labels.text((x - text_width(&name) * 1.1, y - 6.0), &name);
    }
    dots(&mut canvas, &plot, spots, scale, &mut labels);
    let foot = numbers(&mut canvas, &plot, spots, scale, &mut labels);
    let description = format!("{} kernels on the roofline of their GPU.", spots.len());
    Some(canvas.finish(id, "Kernels on their roofline".into(), description, foot))
}

/// What device memory gives, up to the peak of compute or to the edge. Its name stands left of it,
/// where no kernel can lie.
fn slope(
    canvas: &mut Canvas,
    plot: &Plot,
    memory: f64,
    compute: Option<f64>,
    name: &str,
    labels: &mut Labels,
) {
    let highest = compute.unwrap_or(plot.y.end).min(plot.y.end);
    let from = plot.x.start.max(plot.y.start / memory);
    let to = (highest / memory).min(plot.x.end);
    let (begin, end) = (plot.at(from, from * memory), plot.at(to, to * memory));
    canvas.path(&[begin, end], ROOF);
    // As far down as there is room for it.
    let down = (LEFT + text_width(name) + 24.0 - begin.0) / (end.0 - begin.0).max(1.0);
    let down = down.clamp(0.3, 1.0);
    let (x, y) = (
        begin.0 + (end.0 - begin.0) * down,
        begin.1 + (end.1 - begin.1) * down,
    );
    canvas.text(x - 12.0, y, Anchor::End, "m", name);
    labels.text((x - 12.0 - text_width(name) * 1.1, y), name);
}

/// Compute against memory, each in percent of its peak, with the limits of the classes.
pub(crate) fn speed_of_light(spots: &[Spot], id: &str) -> Option<Picture> {
    if spots.is_empty() {
        return None;
    }
    let axis = || Axis {
        start: 0.0,
        end: 100.0,
        marks: vec![0.0, 20.0, 40.0, 60.0, 80.0, 100.0],
    };
    let plot = Plot {
        x: axis(),
        y: axis(),
        top: TOP,
        height: HEIGHT,
    };
    let mut canvas = Canvas::default();
    plot.upright(&mut canvas, "compute, % of peak");
    plot.level(&mut canvas, "memory and caches, % of peak");
    let dashes = "class=\"h\" stroke-dasharray=\"2 4\"";
    canvas.path(
        &[plot.at(60.0, 0.0), plot.at(60.0, 60.0), plot.at(0.0, 60.0)],
        dashes,
    );
    canvas.path(&[plot.at(60.0, 60.0), plot.at(100.0, 100.0)], dashes);
    let mut labels = plot.labels();
    dots(&mut canvas, &plot, spots, 1.0, &mut labels);
    for (x, y, text) in [
        (1.0, 67.0, "limited by compute"),
        (98.0, 5.0, "by memory"),
        (1.0, 53.0, "by latency"),
    ] {
        labels.name(&mut canvas, text, "m", plot.at(x, y), 0.0);
    }
    let foot = numbers(&mut canvas, &plot, spots, 1.0, &mut labels);
    let description = format!("{} kernels against the peaks of their GPU.", spots.len());
    Some(canvas.finish(
        id,
        "Compute and memory against their peaks".into(),
        description,
        foot,
    ))
}

/// Where kernels lie.
fn places(plot: &Plot, spots: &[Spot], scale: f64) -> Vec<(f64, f64)> {
    let at = |spot: &Spot| plot.at(spot.at.0, spot.at.1 * scale);
    spots.iter().map(at).collect()
}

/// A dot for each kernel.
fn dots(canvas: &mut Canvas, plot: &Plot, spots: &[Spot], scale: f64, labels: &mut Labels) {
    for (place, spot) in places(plot, spots, scale).iter().zip(spots).rev() {
        let edge = !inside(plot, spot.at.0, spot.at.1 * scale);
        // What lies beyond the frame is drawn hollow at its edge.
        let look = if edge {
            format!(
                "fill=\"none\" stroke=\"{}\" stroke-width=\"2\"",
                colour::BLUE
            )
        } else {
            format!("fill=\"{}\" fill-opacity=\"0.8\"", colour::BLUE)
        };
        canvas.dot(*place, 5.0, &look, &spot.hint);
        labels.mark(*place, 6.0);
    }
}

/// Numbers beside the first dots, with their names below the picture. Gives its end.
fn numbers(
    canvas: &mut Canvas,
    plot: &Plot,
    spots: &[Spot],
    scale: f64,
    labels: &mut Labels,
) -> f64 {
    let mut foot = plot.floor() + 58.0;
    let places = places(plot, spots, scale);
    for (index, (at, spot)) in places.iter().zip(spots).take(NAMED).enumerate() {
        let label = (index + 1).to_string();
        labels.name(canvas, &label, "b", *at, 6.0);
        canvas.text(LEFT - 6.0, foot, Anchor::End, "b", &label);
        canvas.text(
            LEFT + 2.0,
            foot,
            Anchor::Start,
            "",
            &cut(&spot.name, RIGHT - LEFT - 16.0),
        );
        foot += FONT * 1.5;
    }
    if spots.len() > NAMED {
        let more = format!("{} more in the table", spots.len() - NAMED);
        canvas.text(LEFT + 2.0, foot, Anchor::Start, "m", &more);
        foot += FONT * 1.5;
    }
    foot
}

fn inside(plot: &Plot, x: f64, y: f64) -> bool {
    let within = |share: f64| (-0.001..=1.001).contains(&share);
    within(plot.x.share(x)) && within(plot.y.share(y))
}

const ROOF: &str = "fill=\"none\" class=\"a\" stroke-width=\"1.75\"";

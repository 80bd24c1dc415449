//! Memory against model size, both logarithmic: a line for each way of using a model, a band for
//! what rules of thumb say.

use super::{
    canvas::{Axis, Picture},
    plot::{Line, Plot, span},
};
use crate::figures::number;

/// One way of using models of several sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeSeries {
    pub name: String,
    /// Parameters and bytes of each model, by parameters.
    pub points: Vec<(f64, f64)>,
    /// Whether it is a rule of thumb.
    pub rule: bool,
}

/// Memory against model size; `None` where there is nothing to draw. `gpu` is a GPU's name and what
/// it has visible in bytes.
pub fn sizes(series: &[SizeSeries], gpu: (&str, f64), id: &str) -> Option<Picture> {
    let all: Vec<(f64, f64)> = series
        .iter()
        .flat_map(|one| one.points.iter().map(|point| in_billions(*point)))
        .filter(|(x, y)| x.is_finite() && y.is_finite() && *x > 0.0 && *y > 0.0)
        .collect();
    if all.is_empty() {
        return None;
    }
    let (fewest, most) = span(all.iter().map(|point| point.0));
    let (least, largest) = span(all.iter().map(|point| point.1));
    let mut plot = Plot::new(
        Axis::spanning(fewest, most, 5),
        Axis::spanning(least, largest, 6),
        ["parameters, 10⁹", "GPU memory in all, GB"],
    );
    plot.limit(gpu.1 / 1e9, &format!("one {}", gpu.0));
    for one in series {
        let points: Vec<(f64, f64)> = one.points.iter().map(|p| in_billions(*p)).collect();
        let hint = |(parameters, gigabytes): &(f64, f64)| {
            let (parameters, gigabytes) = (number(*parameters), number(*gigabytes));
            format!(
                "{}: {gigabytes} GB for {parameters} × 10⁹ parameters",
                one.name
            )
        };
        let hints: Vec<String> = points.iter().map(hint).collect();
        let line = Line {
            name: &one.name,
            points: &points,
            dashed: one.rule,
        };
        plot.line(&line, &hints);
    }
    let description = format!(
        "GPU memory against parameters for {} ways of using a model.",
        series.len()
    );
    Some(plot.finish(id, "GPU memory against model size", description))
}

/// Parameters and bytes, each in 10⁹.
fn in_billions((parameters, bytes): (f64, f64)) -> (f64, f64) {
    (parameters / 1e9, bytes / 1e9)
}

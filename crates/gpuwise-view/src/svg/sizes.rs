//! Memory against model size, both logarithmic: a line for each way of using a model, a band for
//! what rules of thumb say.

use super::{
    canvas::{Axis, Picture},
    plot::{Line, Look, Panel, Plot, span},
};
use crate::figures::number;

/// One way of using models of several sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeSeries {
    pub name: String,
    /// What is done with the models: serving, or training.
    pub panel: &'static str,
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
    let plot = Plot {
        across: Axis::spanning(fewest, most, 5),
        up: Axis::spanning(least, largest, 6),
        titles: ["parameters, 10⁹".into(), "GPU memory, GB".into()],
        limit: Some((gpu.1 / 1e9, format!("one {}", gpu.0))),
    };
    let mut panels: Vec<Panel> = Vec::new();
    for one in series {
        let points: Vec<(f64, f64)> = one.points.iter().map(|p| in_billions(*p)).collect();
        let hint = |(parameters, gigabytes): &(f64, f64)| {
            let (parameters, gigabytes) = (number(*parameters), number(*gigabytes));
            format!(
                "{}: {gigabytes} GB for {parameters} × 10⁹ parameters",
                one.name
            )
        };
        let line = Line {
            name: one.name.clone(),
            hints: points.iter().map(hint).collect(),
            points,
            look: if one.rule { Look::Context } else { Look::Solid },
        };
        match panels.iter_mut().find(|panel| panel.title == one.panel) {
            Some(panel) => panel.lines.push(line),
            None => panels.push(Panel {
                title: one.panel.into(),
                lines: vec![line],
            }),
        }
    }
    let description = format!(
        "GPU memory against parameters for {} ways of using a model.",
        series.len()
    );
    Some(plot.picture(panels, id, "GPU memory against model size", description))
}

/// Parameters and bytes, each in 10⁹.
fn in_billions((parameters, bytes): (f64, f64)) -> (f64, f64) {
    (parameters / 1e9, bytes / 1e9)
}

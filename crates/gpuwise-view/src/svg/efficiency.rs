//! What share of its limit an operator reaches against its size, which is logarithmic.

use super::{
    canvas::{Axis, Picture},
    plot::{Line, Look, Panel, Plot, span},
};

/// One way of running an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct EfficiencySeries {
    pub name: String,
    /// Size, and the share of the limit from 0 to 1.
    pub points: Vec<(f64, f64)>,
    /// Whether nothing of the kind was measured on this GPU.
    pub extrapolated: bool,
}

/// Shares of a limit against size; `None` where there is nothing to draw.
pub fn efficiency(
    series: &[EfficiencySeries],
    title: &str,
    size: &str,
    id: &str,
) -> Option<Picture> {
    let (least, most) = span(series.iter().flat_map(|s| &s.points).map(|p| p.0));
    if most <= least {
        return None;
    }
    let up = Axis {
        start: 0.0,
        end: 100.0,
        marks: vec![0.0, 20.0, 40.0, 60.0, 80.0, 100.0],
    };
    let across = Axis::spanning(least, most, 6);
    let lines = series.iter().map(|one| Line {
        name: one.name.clone(),
        points: one.points.iter().map(|(x, y)| (*x, y * 100.0)).collect(),
        look: if one.extrapolated {
            Look::Dashed
        } else {
            Look::Solid
        },
        hints: Vec::new(),
    });
    let panel = Panel {
        title: String::new(),
        lines: lines.collect(),
    };
    let plot = Plot {
        across,
        up,
        titles: [size.into(), "% of the roofline".into()],
        limit: None,
    };
    let description = format!(
        "Share of the roofline against {size}, {} lines.",
        series.len()
    );
    Some(plot.picture(vec![panel], id, title, description))
}

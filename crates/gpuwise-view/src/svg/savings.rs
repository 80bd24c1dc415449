//! What proposals save, the one that saves most first.

use super::canvas::{Anchor, Axis, Canvas, FONT, Picture, WIDTH, colour, cut, text_width};
use crate::figures::amount;

const LEFT: f64 = 4.0;
const RIGHT: f64 = WIDTH - 14.0;
const ROW: f64 = 40.0;
/// Bars that are drawn.
const MOST: usize = 12;

/// What one proposal saves an hour: a name, the figure, and from where to where it may lie.
pub(crate) type SavingBar = (String, f64, (f64, f64));

/// Savings as bars; `None` where nothing is saved. `unit` is that of the figures.
pub(crate) fn savings(bars: &[SavingBar], unit: &str, id: &str) -> Option<Picture> {
    let description = format!("What {} proposals save, in {unit}.", bars.len());
    drawn(bars, unit, id, ("What proposals save", description))
}

/// What each of several ways costs, as bars; `None` where nothing does.
pub(crate) fn costs(bars: &[(String, f64)], unit: &str, id: &str) -> Option<Picture> {
    let exact = bars
        .iter()
        .map(|(name, cost)| (name.clone(), *cost, (*cost, *cost)));
    let exact: Vec<SavingBar> = exact.collect();
    let description = format!("What {} ways cost, in {unit}.", bars.len());
    drawn(&exact, unit, id, ("What each way costs", description))
}

fn drawn(
    bars: &[SavingBar],
    unit: &str,
    id: &str,
    (title, description): (&str, String),
) -> Option<Picture> {
    let most = bars.iter().map(|(_, saved, (_, high))| saved.max(*high));
    let most = most.fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let axis = Axis::up_to(most, 4);
    let across = |value: f64| LEFT + axis.share(value).clamp(0.0, 1.0) * (RIGHT - LEFT);
    let mut canvas = Canvas::default();
    let shown = bars.get(..bars.len().min(MOST)).unwrap_or(bars);
    let mut top = 4.0;
    for (name, saved, (low, high)) in shown {
        let value = format!("{} {unit}", amount(*saved));
        let name_width = RIGHT - LEFT - text_width(&value) - 12.0;
        canvas.text(LEFT, top + FONT, Anchor::Start, "", &cut(name, name_width));
        canvas.text(RIGHT, top + FONT, Anchor::End, "b", &value);
        let bar = (LEFT, top + 18.0);
        let fill = format!("fill=\"{}\"", colour::GREEN);
        let hint = if high > low {
            format!("{name}: {value}, {} to {}", amount(*low), amount(*high))
        } else {
            format!("{name}: {value}")
        };
        canvas.rectangle(bar, (across(*saved) - LEFT, 12.0), &fill, &hint);
        if high > low {
            let y = top + 24.0;
            canvas.line((across(*low), y), (across(*high), y), "a", "");
            for end in [*low, *high] {
                canvas.line((across(end), y - 4.0), (across(end), y + 4.0), "a", "");
            }
        }
        top += ROW;
    }
    Some(canvas.finish(id, title.into(), description, top))
}

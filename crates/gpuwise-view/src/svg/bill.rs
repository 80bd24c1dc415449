//! Hosts over months: those that the load needs, those that are owned by the calendar.

use super::canvas::{Anchor, Axis, Canvas, Picture, WIDTH, colour};
use crate::figures::number;
use gpuwise_domain::bill::{Bill, CalendarMonth};

const LEFT: f64 = 50.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 46.0;
const HEIGHT: f64 = 190.0;

/// The purchase calendar; `None` where there is none.
pub fn purchases(bill: &Bill, id: &str) -> Option<Picture> {
    let months = &bill.calendar;
    let (first, last) = (months.first()?, months.last()?);
    let most = months
        .iter()
        .map(|month| month.needed.max(month.owned))
        .max()?;
    let axis = Axis::up_to(most as f64, 5);
    let mut canvas = Canvas::default();
    let bottom = TOP + HEIGHT;
    // Hosts are whole.
    for mark in axis.marks.iter().filter(|mark| mark.fract() == 0.0) {
        let y = bottom - axis.share(*mark) * HEIGHT;
        canvas.line((LEFT, y), (RIGHT, y), "g", "");
        canvas.text(LEFT - 6.0, y + 4.0, Anchor::End, "m", &number(*mark));
    }
    canvas.text(
        LEFT,
        TOP - 26.0,
        Anchor::Start,
        "b",
        "Hosts owned, and hosts that the load needs",
    );
    let owned = steps(months, &axis, |month| month.owned);
    let mut area = vec![(LEFT, bottom)];
    area.extend(&owned);
    area.push((RIGHT, bottom));
    canvas.area(
        &area,
        &format!("fill=\"{}\" fill-opacity=\"0.3\"", colour::SKY),
        "owned by the calendar",
    );
    let needed = steps(months, &axis, |month| month.needed);
    canvas.path(
        &needed,
        &format!(
            "fill=\"none\" stroke=\"{}\" stroke-width=\"2\"",
            colour::VERMILION
        ),
    );
    for (index, month) in months
        .iter()
        .enumerate()
        .filter(|(_, month)| month.arriving > 0)
    {
        let at = (
            across(index, months.len()),
            bottom - axis.share(month.owned as f64) * HEIGHT,
        );
        let ordered = month.month.after(-i64::from(bill.lead));
        let hint = format!("{}: +{}, ordered {ordered}", month.month, month.arriving);
        canvas.dot(at, 3.5, &format!("fill=\"{}\"", colour::BLUE), &hint);
    }
    for (month, x, anchor) in [(first, LEFT, Anchor::Start), (last, RIGHT, Anchor::End)] {
        canvas.text(x, bottom + 18.0, anchor, "m", &month.month.to_string());
    }
    let key = "band: owned; line: needed; dots: deliveries";
    canvas.text(LEFT, bottom + 36.0, Anchor::Start, "m", key);
    let description = format!(
        "From {} to {} the load needs {} to {} hosts; {} to {} are owned by the calendar.",
        first.month, last.month, first.needed, last.needed, first.owned, last.owned
    );
    Some(canvas.finish(id, "What to buy by when".into(), description, bottom + 46.0))
}

fn across(index: usize, count: usize) -> f64 {
    LEFT + index as f64 / count.max(1) as f64 * (RIGHT - LEFT)
}

/// A line that is level within each month.
fn steps(
    months: &[CalendarMonth],
    axis: &Axis,
    pick: fn(&CalendarMonth) -> i64,
) -> Vec<(f64, f64)> {
    let mut out = Vec::new();
    for (index, month) in months.iter().enumerate() {
        let y = TOP + HEIGHT - axis.share(pick(month) as f64) * HEIGHT;
        out.push((across(index, months.len()), y));
        out.push((across(index + 1, months.len()), y));
    }
    out
}

//! What a GPU's memory holds as a stacked bar, with the capacity as a line.

use super::canvas::{Anchor, Canvas, FONT, Picture, WIDTH, colour, cut, text_width};
use crate::{
    figures::{bytes, gib, percent},
    memory::{Kind, Segment, capacity, segments, verdict},
};
use gpuwise_domain::deployment::MemoryReport;
use gpuwise_units::Bytes;

const LEFT: f64 = 8.0;
const BAR: f64 = 72.0;
const LABELS: f64 = 106.0;
const TOP: f64 = 30.0;
const PITCH: f64 = FONT * 1.5;

/// Colours of causes, none twice; greys alternate beyond them.
const HELD: [&str; 7] = [
    colour::BLUE,
    colour::ORANGE,
    colour::GREEN,
    colour::PINK,
    colour::SKY,
    colour::VERMILION,
    colour::YELLOW,
];
const GREYS: [&str; 2] = ["#6e7781", "#b4bcc5"];

/// A stacked bar; `id` is unique within the page.
pub fn memory(report: &MemoryReport, id: &str) -> Picture {
    let segments = segments(report);
    let height = (segments.len() as f64 * PITCH).max(220.0);
    let end = segments
        .iter()
        .map(|s| s.start + s.bytes)
        .max()
        .unwrap_or_default()
        .max(report.visible);
    let scale = height / end.as_f64().max(1.0);
    let at = |bytes: Bytes| TOP + height - bytes.as_f64() * scale;
    let mut canvas = Canvas::default();
    for segment in &segments {
        rectangle(
            &mut canvas,
            segment,
            at(segment.start),
            segment.bytes.as_f64() * scale,
        );
    }
    labels(&mut canvas, report.visible, &segments, &at, height);
    let over = segments.iter().any(|s| s.start + s.bytes > report.visible);
    let top = at(report.visible);
    canvas.line((LEFT - 6.0, top), (LEFT + BAR + 6.0, top), "a", "");
    let visible = format!("{} GiB visible", gib(report.visible));
    let budget_at = at(report.budget);
    canvas.line(
        (LEFT - 6.0, budget_at),
        (LEFT + BAR + 6.0, budget_at),
        "a",
        "3 3",
    );
    let mut foot = TOP + height + 20.0;
    if over {
        canvas.text(
            LEFT - 6.0,
            TOP - 10.0,
            Anchor::Start,
            "b",
            &format!("{} GiB short", gib(report.shortfall)),
        );
        canvas.text(
            LEFT - 6.0,
            foot,
            Anchor::Start,
            "m",
            &format!("solid line: {visible}"),
        );
        foot += FONT * 1.4;
    } else {
        canvas.text(LEFT - 6.0, TOP - 10.0, Anchor::Start, "b", &visible);
    }
    let budget = format!("dashed line: {} GiB for the engine", gib(report.budget));
    canvas.text(LEFT - 6.0, foot, Anchor::Start, "m", &budget);
    let description = format!("{}. {}.", capacity(report), verdict(report));
    canvas.finish(
        id,
        format!("Memory of {}", report.device),
        description,
        foot + 8.0,
    )
}

/// Parts of a GPU's memory by cause, each in a colour of its own, up to what may be used.
pub(crate) fn held(parts: &[(String, Bytes)], usable: Bytes, id: &str) -> Option<Picture> {
    let mut start = Bytes::ZERO;
    let mut segments = Vec::new();
    for (name, bytes) in parts.iter().filter(|(_, bytes)| *bytes > Bytes::ZERO) {
        segments.push(Segment {
            name: name.clone(),
            start,
            bytes: *bytes,
            kind: Kind::Overhead,
        });
        start += *bytes;
    }
    if segments.is_empty() {
        return None;
    }
    let end = start.max(usable);
    let height = (segments.len() as f64 * PITCH).max(180.0);
    let scale = height / end.as_f64().max(1.0);
    let at = |bytes: Bytes| TOP + height - bytes.as_f64() * scale;
    let mut canvas = Canvas::default();
    for (segment, fill) in segments
        .iter()
        .zip(HELD.into_iter().chain(GREYS.into_iter().cycle()))
    {
        let high = (segment.bytes.as_f64() * scale).max(1.0);
        let attributes =
            format!("fill=\"{fill}\" stroke=\"var(--gw-ground)\" stroke-width=\"0.5\"");
        let hint = format!("{}: {} GiB", segment.name, gib(segment.bytes));
        let corner = (LEFT, at(segment.start) - high);
        canvas.rectangle(corner, (BAR, high), &attributes, &hint);
    }
    labels(&mut canvas, usable, &segments, &at, height);
    let top = at(usable);
    canvas.line((LEFT - 6.0, top), (LEFT + BAR + 6.0, top), "a", "3 3");
    let said = format!("{} of {} GiB usable", gib(start), gib(usable));
    canvas.text(LEFT - 6.0, TOP - 10.0, Anchor::Start, "b", &said);
    let foot = TOP + height + 12.0;
    Some(canvas.finish(id, "Memory of a GPU by cause".into(), said, foot))
}

fn rectangle(canvas: &mut Canvas, segment: &Segment, bottom: f64, height: f64) {
    let fill = match segment.kind {
        Kind::Weights => colour::BLUE,
        Kind::Overhead => colour::ORANGE,
        Kind::Cache => colour::GREEN,
        Kind::Outside => colour::PINK,
        Kind::Unused => "none",
    };
    let height = height.max(1.0);
    let hint = format!("{}: {} GiB", segment.name, gib(segment.bytes));
    let attributes = if segment.kind == Kind::Unused {
        "class=\"g\"".to_string()
    } else {
        // The ground shows between parts of one kind.
        let line = if height > 3.0 { 1.0 } else { 0.0 };
        format!("fill=\"{fill}\" stroke=\"var(--gw-ground)\" stroke-width=\"{line}\"")
    };
    canvas.rectangle((LEFT, bottom - height), (BAR, height), &attributes, &hint);
}

/// A label for each part at its height, moved apart where they would overlap.
fn labels(
    canvas: &mut Canvas,
    visible: Bytes,
    segments: &[Segment],
    at: &impl Fn(Bytes) -> f64,
    height: f64,
) {
    let centre = |s: &Segment| at(Bytes::new(s.start.count() + s.bytes.count() / 2));
    let mut heights: Vec<f64> = segments.iter().map(centre).collect();
    // From the bottom up, then from the top down: no label leaves the picture.
    let mut floor = TOP + height - PITCH / 2.0 + FONT / 2.0;
    for y in &mut heights {
        *y = y.min(floor);
        floor = *y - PITCH;
    }
    let mut ceiling = TOP + PITCH / 2.0;
    for y in heights.iter_mut().rev() {
        *y = y.max(ceiling);
        ceiling = *y + PITCH;
    }
    for (segment, y) in segments.iter().zip(&heights) {
        let share = segment.bytes.as_f64() / visible.as_f64().max(1.0);
        let figure = format!("{}, {}", bytes(segment.bytes), percent(share));
        let room = WIDTH - LABELS - 8.0 - text_width(&figure) * 1.1 - 8.0;
        let middle = centre(segment);
        canvas.path(
            &[
                (LEFT + BAR + 2.0, middle),
                (LABELS - 16.0, *y),
                (LABELS - 4.0, *y),
            ],
            "class=\"g\"",
        );
        let baseline = y + FONT * 0.35;
        canvas.text(
            LABELS,
            baseline,
            Anchor::Start,
            "",
            &cut(&segment.name, room),
        );
        canvas.text(WIDTH - 8.0, baseline, Anchor::End, "m", &figure);
    }
}

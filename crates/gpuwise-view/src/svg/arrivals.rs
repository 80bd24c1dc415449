//! Which ranks came to a collective, and how far each got.

use super::canvas::{Anchor, Canvas, FONT, Picture, WIDTH, colour, cut};
use gpuwise_domain::profile::sources::Hang;
use std::collections::BTreeMap;

const LEFT: f64 = 4.0;
const ROW: f64 = 44.0;
/// Collectives that are drawn.
const MOST: usize = 8;
/// Ranks in a row of squares, at most.
const ACROSS: usize = 64;

gpuwise_units::named! {
    /// What became of a rank; each has a colour and a shape of its own.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Came: said {
        Completed = "finished it",
        Waits = "waits in it",
        NotBegun = "called it, not begun on the device",
        Elsewhere = "called something else",
        Late = "did not come",
        NoDump = "left no dump",
    }
}

impl Came {
    fn look(self) -> String {
        let hollow = |colour| {
            format!(
                "fill=\"{colour}\" fill-opacity=\"0.15\" stroke=\"{colour}\" stroke-width=\"2\""
            )
        };
        match self {
            Self::Completed => format!("fill=\"{}\"", colour::GREEN),
            Self::Waits => format!("fill=\"{}\"", colour::SKY),
            Self::NotBegun => hollow(colour::BLUE),
            Self::Elsewhere => hollow(colour::PINK),
            Self::Late => format!("fill=\"{}\"", colour::VERMILION),
            Self::NoDump => hollow(colour::VERMILION),
        }
    }
}

/// Ranks of each collective in which some wait; `None` where there is none.
pub(crate) fn arrivals(hangs: &[Hang], id: &str) -> Option<Picture> {
    let mut canvas = Canvas::default();
    let mut seen: Vec<Came> = Vec::new();
    let mut top = 8.0;
    for hang in hangs.iter().take(MOST) {
        let ranks = ranks(hang);
        let name = format!("{} {}, group {}", hang.operation, hang.sequence, hang.group);
        canvas.text(
            LEFT,
            top + FONT,
            Anchor::Start,
            "b",
            &cut(&name, WIDTH - 8.0),
        );
        let across = ranks.len().clamp(1, ACROSS);
        let pitch = ((WIDTH - 2.0 * LEFT) / across as f64).min(26.0);
        for (at, (rank, came)) in ranks.iter().enumerate() {
            let (column, line) = (at % ACROSS, at / ACROSS);
            let corner = (
                LEFT + column as f64 * pitch,
                top + 20.0 + line as f64 * pitch,
            );
            let side = (pitch * 0.82).max(2.0);
            let hint = format!("rank {rank} {}", came.said());
            canvas.rectangle(corner, (side, side), &came.look(), &hint);
            if pitch >= 22.0 {
                let text = rank.to_string();
                let place = (corner.0 + side / 2.0, corner.1 + side / 2.0 + 4.5);
                canvas.text(place.0, place.1, Anchor::Middle, "", &text);
            }
            if !seen.contains(came) {
                seen.push(*came);
            }
        }
        top += ROW + ranks.len().div_ceil(ACROSS) as f64 * pitch - 12.0;
    }
    for came in Came::ALL.into_iter().filter(|came| seen.contains(came)) {
        top += FONT * 1.5;
        canvas.rectangle((LEFT, top - 11.0), (12.0, 12.0), &came.look(), came.said());
        canvas.text(LEFT + 20.0, top, Anchor::Start, "", came.said());
    }
    let description = hangs.first().map(|hang| {
        let late: Vec<String> = hang.suspects().iter().map(u32::to_string).collect();
        format!("Ranks that the others wait for: {}.", late.join(", "))
    })?;
    Some(canvas.finish(
        id,
        "Who came to the collective".into(),
        description,
        top + 10.0,
    ))
}

/// Every rank of the group and what became of it, in order of rank.
fn ranks(hang: &Hang) -> BTreeMap<u32, Came> {
    let mut all = BTreeMap::new();
    let lists = [
        (&hang.completed, Came::Completed),
        (&hang.waiting, Came::Waits),
        (&hang.scheduled, Came::NotBegun),
        (&hang.missing, Came::NoDump),
    ];
    for (ranks, came) in lists {
        all.extend(ranks.iter().map(|rank| (*rank, came)));
    }
    all.extend(hang.late.iter().map(|late| (late.rank, Came::Late)));
    all.extend(hang.astray.iter().map(|(rank, _)| (*rank, Came::Elsewhere)));
    all
}

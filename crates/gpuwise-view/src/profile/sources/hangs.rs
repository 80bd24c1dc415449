//! Dumps of flight recorders: who is waited for.

use super::{Shown, cut};
use crate::figures::count;
use crate::table::{Cell, Column, Table};
use gpuwise_domain::profile::flight_recorder::Frame;
use gpuwise_domain::profile::sources::{Hang, HangSource};

/// Characters of a place in code.
const PLACE: usize = 60;
/// Ranks that are listed by number.
const RANKS: usize = 8;

/// Dumps of one job.
pub(super) fn hangs(source: &HangSource) -> Shown {
    let dumps = match source.dump_count {
        1 => "1 dump of a flight recorder".to_owned(),
        many => format!("{} dumps of flight recorders", count(many)),
    };
    let mut shown = Shown {
        answer: match source.hangs.first() {
            None => format!("{dumps}: every collective that was called was finished by all."),
            Some(hang) => format!("{dumps}: {}", said(hang)),
        },
        ..Shown::default()
    };
    let mut table = Table::new(vec![
        Column::left("group", "group"),
        Column::right("sequence", "number"),
        Column::left("operation", "collective"),
        Column::left("suspects", "look at ranks"),
        Column::right("waiting", "waiting"),
        Column::right("late", "late"),
        Column::right("missing", "without dump"),
        Column::left("place", "called at").wrap(20).priority(30),
    ]);
    for hang in &source.hangs {
        table.push(vec![
            Cell::text(
                hang.description
                    .clone()
                    .unwrap_or_else(|| hang.group.clone()),
            ),
            Cell::count(hang.sequence),
            Cell::text(hang.operation.clone()),
            Cell::text(ranks(&hang.suspects())),
            Cell::count(hang.waiting.len() as u64),
            Cell::count(hang.late.len() as u64),
            Cell::count(hang.missing.len() as u64),
            Cell::of(hang.frames.first(), |frame| Cell::text(place(frame))),
        ]);
    }
    shown.table("Collectives in which ranks wait", table);
    let mut late = Table::new(vec![
        Column::right("rank", "rank"),
        Column::right("sequence", "its last number"),
        Column::left("operation", "its last collective"),
        Column::left("place", "called at").wrap(20),
    ]);
    for one in source
        .hangs
        .first()
        .iter()
        .flat_map(|hang| &hang.late)
        .take(20)
    {
        let last = one.last.as_ref();
        late.push(vec![
            Cell::new(one.rank.to_string(), one.rank),
            Cell::of(last, |(sequence, _)| Cell::count(*sequence)),
            Cell::of(last, |(_, operation)| Cell::text(operation.clone())),
            Cell::of(one.frames.first(), |frame| Cell::text(place(frame))),
        ]);
    }
    shown.table("Ranks that did not come", late);
    shown
}

fn said(hang: &Hang) -> String {
    let suspects = hang.suspects();
    let who = match suspects.as_slice() {
        [] => "every rank came, none finished: the network or a device hangs".to_owned(),
        [one] => format!("rank {one} is what the others wait for"),
        many => format!("ranks {} are what the others wait for", ranks(many)),
    };
    format!(
        "{} {} of group {} hangs; {who}.",
        hang.operation, hang.sequence, hang.group
    )
}

fn ranks(ranks: &[u32]) -> String {
    let listed: Vec<String> = ranks.iter().take(RANKS).map(u32::to_string).collect();
    let listed = listed.join(", ");
    match ranks.len().saturating_sub(RANKS) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

fn place(frame: &Frame) -> String {
    cut(
        &format!("{} ({}:{})", frame.function, frame.file, frame.line),
        PLACE,
    )
}

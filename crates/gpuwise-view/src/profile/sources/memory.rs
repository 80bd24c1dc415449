//! Snapshots of an allocator, and memory by category.

use super::{Shown, cut};
use crate::figures::{bytes, count, gib, percent, seconds};
use crate::table::{Cell, Column, Table};
use gpuwise_domain::profile::memory_snapshot::Stacks;
use gpuwise_domain::profile::sources::{CategoryFigures, MemorySource, TraceFigures};
use gpuwise_domain::profile::timeline::Index;
use gpuwise_units::Bytes;
use std::fmt::Write as _;

/// Places that hold memory that are listed.
const HOLDERS: usize = 10;
/// Characters of a place in code.
const PLACE: usize = 64;

fn size(signed: i64) -> Bytes {
    Bytes::new(u64::try_from(signed).unwrap_or(0))
}

fn in_gib(amount: u64) -> Cell {
    Cell::new(gib(Bytes::new(amount)), amount)
}

fn in_gib_signed(amount: i64) -> Cell {
    match u64::try_from(amount) {
        Ok(positive) => Cell::new(gib(Bytes::new(positive)), amount),
        Err(_) => Cell::new(
            format!("−{}", gib(Bytes::new(amount.unsigned_abs()))),
            amount,
        ),
    }
}

pub(super) fn snapshot(memory: &MemorySource) -> Shown {
    let mut shown = Shown {
        answer: answer(memory),
        ..Shown::default()
    };
    shown.table("Memory of the allocator", amounts(memory));
    for trace in &memory.figures.traces {
        let title = match memory.figures.traces.len() {
            1 => "Who holds it at the peak".to_owned(),
            _ => format!("Who holds it at the peak, device {}", trace.device),
        };
        shown.table(&title, holders(trace, &memory.stacks));
    }
    shown.losses(&memory.losses);
    shown
}

/// The peak against what was taken, or what is held now where no history was recorded.
fn answer(memory: &MemorySource) -> String {
    let figures = &memory.figures;
    let mut said = String::new();
    for trace in &figures.traces {
        let of = match figures.traces.len() {
            1 => String::new(),
            _ => format!("device {}: ", trace.device),
        };
        let slack = trace.slack_at_peak();
        let share = match trace.reserved_at_peak {
            reserved if reserved > 0 => slack as f64 / reserved as f64,
            _ => 0.0,
        };
        let _ = write!(
            said,
            "{of}at most {} in use, of {} taken from the driver at that time: {} ({}) lay unused in \
             the allocator. ",
            bytes(size(trace.peak_live)),
            bytes(size(trace.reserved_at_peak)),
            bytes(size(slack)),
            percent(share),
        );
        if let Some(oom) = trace.out_of_memory.first() {
            let free = oom.device_free.map_or_else(String::new, |free| {
                format!(" while the device had {} free", bytes(Bytes::new(free)))
            });
            let _ = write!(
                said,
                "{} requests found no memory, the first for {}{free}. ",
                trace.out_of_memory.len(),
                bytes(Bytes::new(oom.asked)),
            );
        }
    }
    let _ = write!(
        said,
        "At the end {} in use of {} taken",
        bytes(Bytes::new(figures.allocated)),
        bytes(Bytes::new(figures.reserved)),
    );
    if let Some(fragmentation) = figures.external_fragmentation() {
        let _ = write!(
            said,
            "; the largest of {} free blocks is {}, external fragmentation {}",
            count(
                figures
                    .blocks
                    .get("inactive")
                    .map_or(0, |(blocks, _)| *blocks)
            ),
            bytes(Bytes::new(figures.largest_free_block)),
            percent(fragmentation),
        );
    }
    said.push('.');
    if figures.traces.is_empty() {
        said += " No history was recorded, so no peak can be told.";
    }
    said
}

fn amounts(memory: &MemorySource) -> Table {
    let figures = &memory.figures;
    let mut table = Table::new(vec![
        Column::left("what", "what"),
        Column::right("bytes", "size").unit("GiB"),
    ]);
    let mut row = |what: &str, cell: Cell| table.push(vec![Cell::text(what), cell]);
    for trace in &figures.traces {
        let of = match figures.traces.len() {
            1 => String::new(),
            _ => format!(", device {}", trace.device),
        };
        row(
            &format!("in use at the peak{of}"),
            in_gib_signed(trace.peak_live),
        );
        row(
            &format!("taken at that time{of}"),
            in_gib_signed(trace.reserved_at_peak),
        );
        row(
            &format!("in use on average{of}"),
            Cell::of(trace.mean_live, |mean| {
                Cell::new(gib(Bytes::new(mean.max(0.0) as u64)), mean)
            }),
        );
    }
    row("taken at the end", in_gib(figures.reserved));
    row("in use at the end", in_gib(figures.allocated));
    row(
        "lost to rounding",
        Cell::of(figures.internal_fragmentation, in_gib_signed),
    );
    row("free at the end", in_gib(figures.free));
    row("largest free block", in_gib(figures.largest_free_block));
    table
}

fn holders(trace: &TraceFigures, stacks: &Stacks) -> Table {
    let mut table = Table::new(vec![
        Column::right("bytes", "size").unit("GiB"),
        Column::right("count", "allocations"),
        Column::left("place", "where it was asked for").wrap(30),
    ]);
    let mut places: Vec<(String, u64, u64)> = Vec::new();
    for site in &trace.sites_at_peak {
        let place = place(stacks, site.stack);
        match places.iter_mut().find(|(known, _, _)| *known == place) {
            Some((_, bytes, count)) => {
                *bytes = bytes.saturating_add(site.bytes);
                *count += site.count;
            }
            None => places.push((place, site.bytes, site.count)),
        }
    }
    places.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    for (place, bytes, count) in places.iter().take(HOLDERS) {
        let place = Cell::text(place.as_str());
        table.push(vec![in_gib(*bytes), Cell::count(*count), place]);
    }
    let more = places.len().saturating_sub(HOLDERS);
    if more > 0 {
        table.footnote(format!("{} more places", count(more as u64)));
    }
    if trace.unattributed_at_peak > 0 && !table.is_empty() {
        let before = bytes(size(trace.unattributed_at_peak));
        table.footnote(format!(
            "{before} more was allocated before the recording began: who holds it cannot be told"
        ));
    }
    table
}

fn place(stacks: &Stacks, stack: Index) -> String {
    let owner = stacks.owner(stack);
    owner.map_or_else(|| "not recorded".into(), |owner| cut(&owner, PLACE))
}

pub(super) fn categories(figures: &CategoryFigures) -> Shown {
    let largest = figures.categories_at_peak.first();
    let largest = largest.map_or_else(String::new, |(category, amount)| {
        format!(
            ", {} of it {}",
            bytes(size(*amount)),
            words(category.name())
        )
    });
    let mut shown = Shown {
        answer: format!(
            "at most {} live{largest}, over {}.",
            bytes(size(figures.peak_live)),
            seconds(figures.time_span_ns as f64 * 1e-9),
        ),
        ..Shown::default()
    };
    let mut table = Table::new(vec![
        Column::left("category", "category"),
        Column::right("at_peak", "at the peak").unit("GiB"),
        Column::right("most", "its own peak").unit("GiB"),
    ]);
    for (category, most) in &figures.peak_by_category {
        let at_peak = figures.categories_at_peak.iter();
        let at_peak = at_peak.clone().find(|(known, _)| known == category);
        table.push(vec![
            Cell::new(words(category.name()), category.name()),
            in_gib_signed(at_peak.map_or(0, |(_, amount)| *amount)),
            in_gib_signed(*most),
        ]);
    }
    shown.table("Memory by what it is used for", table);
    shown
}

fn words(name: &str) -> String {
    name.replace('_', " ")
}

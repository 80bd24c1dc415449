//! How far each rank is from the others, by range and by step: shades with figures.
//!
//! Blue to orange, which eyes that do not tell red from green see as two; the figure stands in each
//! cell, so that a print without colours says the same.

use crate::{
    markup::escape,
    profile::{Profile, duration, streams::RangeRow},
};
use gpuwise_units::math;
use std::{collections::BTreeMap, fmt::Write as _};

/// Ranges that are shown, those with most kernel time first.
const RANGES: usize = 30;
/// Ranks across, and steps down, at most.
const RANKS: usize = 128;
const STEPS: usize = 60;
/// From one shade to the next, as a share of what most ranks take.
const SHADE: f64 = 0.05;

/// Both maps; empty of one rank.
pub(super) fn section(profile: &Profile) -> String {
    if profile.figures.ranks.len() < 2 {
        return String::new();
    }
    let maps = ranges(profile.ranges) + &steps(profile);
    if maps.is_empty() {
        return maps;
    }
    format!(
        "<p>By how much each rank takes longer (orange) or shorter (blue) than the median of all; a shade is 5 %. The times stand at each cell.</p>\n{maps}"
    )
}

/// A cell: its time, and what is said of it.
struct Cell {
    ns: f64,
    told: String,
}

/// The class of a shade, from h0 (far quicker) to h6.
fn shade(beside: f64) -> usize {
    ((beside / SHADE).round().clamp(-3.0, 3.0) + 3.0) as usize
}

/// A table of rows by ranks; a cell that is missing has no colour.
fn map(caption: &str, columns: &[String], rows: &[(String, Vec<Option<Cell>>)]) -> String {
    let caption = escape(caption);
    let mut out = format!(
        "<div class=\"wide heat\" role=\"region\" aria-label=\"{caption}\" tabindex=\"0\"><table>\n<caption>{caption}</caption>\n<thead><tr><th scope=\"col\"></th>"
    );
    for column in columns {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(column));
    }
    out += "</tr></thead>\n<tbody>\n";
    for (name, cells) in rows {
        let mut times: Vec<f64> = cells.iter().flatten().map(|cell| cell.ns).collect();
        times.sort_unstable_by(f64::total_cmp);
        let usual = math::median(&times).filter(|usual| *usual > 0.0);
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(name));
        for cell in cells {
            let (Some(cell), Some(usual)) = (cell, usual) else {
                out += "<td>–</td>";
                continue;
            };
            let beside = cell.ns / usual - 1.0;
            let _ = write!(
                out,
                "<td class=\"h{}\" title=\"{}\">{:+.1}&nbsp;%</td>",
                shade(beside),
                escape(&format!("{name}, {}", cell.told)),
                beside * 100.0
            );
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}

/// Ranges down, ranks across: the pace where it repeats on every rank, else the time on the device.
fn ranges(rows: &[RangeRow]) -> String {
    let mut order: Vec<&str> = Vec::new();
    let mut by_name: BTreeMap<&str, Vec<&RangeRow>> = BTreeMap::new();
    for row in rows {
        let known = by_name.entry(&row.name).or_default();
        if known.is_empty() {
            order.push(&row.name);
        }
        known.push(row);
    }
    order.retain(|name| by_name.get(name).is_some_and(|rows| rows.len() > 1));
    if order.is_empty() {
        return String::new();
    }
    let mut ranks: Vec<Option<u32>> = rows.iter().map(|row| row.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let all = ranks.len();
    ranks.truncate(RANKS);
    let columns: Vec<String> = ranks
        .iter()
        .map(|rank| rank.map_or_else(|| "–".to_owned(), |rank| rank.to_string()))
        .collect();
    let shown: Vec<(String, Vec<Option<Cell>>)> = order
        .iter()
        .take(RANGES)
        .map(|name| {
            let rows = by_name.get(name).map_or(&[][..], Vec::as_slice);
            let paced = rows.iter().all(|row| row.pace_median_ns.is_some());
            let cell = |rank: &Option<u32>| {
                let row = rows.iter().find(|row| row.rank == *rank)?;
                Some(range_cell(row, paced))
            };
            let what = if paced { "pace" } else { "time" };
            let name = format!("{name} ({what})");
            (name, ranks.iter().map(cell).collect())
        })
        .collect();
    let mut out = map("Ranges by rank", &columns, &shown);
    left_out(
        order.len().saturating_sub(RANGES),
        "ranges with less kernel time",
        &mut out,
    );
    left_out(all.saturating_sub(RANKS), "ranks", &mut out);
    out
}

fn range_cell(row: &RangeRow, paced: bool) -> Cell {
    let time = |ns: f64| duration(ns.round() as i64);
    let mut told = String::new();
    if let Some(rank) = row.rank {
        let _ = write!(told, "rank {rank}: ");
    }
    let _ = write!(
        told,
        "{} times, {} on the device, {} on the host",
        row.count,
        time(row.device_median_ns),
        time(row.host_median_ns)
    );
    if let Some(pace) = row.pace_median_ns {
        let _ = write!(told, ", one each {}", time(pace));
    }
    Cell {
        ns: row
            .pace_median_ns
            .filter(|_| paced)
            .unwrap_or(row.device_median_ns),
        told,
    }
}

/// Steps down, ranks across.
fn steps(profile: &Profile) -> String {
    let ranks: Vec<_> = profile
        .figures
        .ranks
        .iter()
        .enumerate()
        .filter_map(|(at, rank)| Some((at, rank.steps.as_ref()?)))
        .collect();
    if ranks.len() < 2 {
        return String::new();
    }
    let columns: Vec<String> = ranks
        .iter()
        .take(RANKS)
        .map(|(at, _)| {
            let label = profile.rank_label(*at);
            label
                .strip_prefix("rank ")
                .map_or_else(|| label.clone(), str::to_owned)
        })
        .collect();
    let mut by_number: BTreeMap<u64, Vec<Option<Cell>>> = BTreeMap::new();
    for (column, (at, steps)) in ranks.iter().take(RANKS).enumerate() {
        for (place, step) in (0_u64..).zip(&steps.steps) {
            let ns = step.end_ns.saturating_sub(step.start_ns);
            let row = by_number.entry(step.number.unwrap_or(place)).or_default();
            row.resize_with(columns.len(), || None);
            if let Some(cell) = row.get_mut(column) {
                let whose = profile.rank_label(*at);
                *cell = Some(Cell {
                    ns: ns as f64,
                    told: format!("{whose}: {}, busy {}", duration(ns), duration(step.busy_ns)),
                });
            }
        }
    }
    let all = by_number.len();
    let rows: Vec<(String, Vec<Option<Cell>>)> = by_number
        .into_iter()
        .take(STEPS)
        .map(|(number, cells)| (format!("step {number}"), cells))
        .collect();
    let mut out = map("Steps by rank", &columns, &rows);
    left_out(all.saturating_sub(STEPS), "later steps", &mut out);
    left_out(ranks.len().saturating_sub(RANKS), "ranks", &mut out);
    out
}

fn left_out(count: usize, what: &str, out: &mut String) {
    if count > 0 {
        let _ = writeln!(
            out,
            "<p class=\"note\">{count} more {what} are in <code>gpuwise profile --ranges --format csv</code>.</p>"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::shade;

    #[test]
    fn shades_are_even_and_end() {
        for (beside, expected) in [
            (-0.9, 0),
            (-0.05, 2),
            (-0.02, 3),
            (0.0, 3),
            (0.06, 4),
            (0.1, 5),
            (4.0, 6),
        ] {
            assert_eq!(shade(beside), expected, "{beside}");
        }
    }
}

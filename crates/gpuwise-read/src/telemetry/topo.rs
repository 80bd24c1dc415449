//! `nvidia-smi topo -m`.

use super::TelemetryError;
use gpuwise_domain::telemetry::{Telemetry, Topology, TopologyRow, UnusedField};

/// Parts of one machine.
const MOST_COLUMNS: usize = 4096;

pub(super) fn read(text: &str) -> Result<Telemetry, TelemetryError> {
    let plain = without_escapes(text);
    let mut topology = Topology::default();
    let mut out = Telemetry {
        form: "nvidia-smi topo -m".into(),
        ..Telemetry::default()
    };
    for line in plain.lines() {
        let cells = split(line);
        let Some(first) = cells.iter().find(|cell| !cell.is_empty()) else {
            continue;
        };
        if topology.columns.is_empty() {
            if is_part(first) {
                topology.columns = cells
                    .iter()
                    .filter(|cell| is_part(cell))
                    .take(MOST_COLUMNS)
                    .cloned()
                    .collect();
            }
        } else if cells.first().is_some_and(|cell| is_part(cell)) {
            let (row, problem) = row(&cells, topology.columns.len());
            if let Some(problem) = problem {
                out.unread.push(UnusedField {
                    field: row.name.clone(),
                    count: 1,
                    example: line.chars().take(60).collect(),
                    problem: Some(problem),
                });
            }
            topology.rows.push(row);
        } else if line.starts_with("Legend") {
            break;
        }
    }
    if topology.columns.is_empty() {
        return Err(TelemetryError::Form(
            "no header with GPU0 is in it; expected the output of `nvidia-smi topo -m`".into(),
        ));
    }
    if topology.rows.iter().all(|row| row.cpus.is_empty()) {
        out.notes
            .push("no row says which processors are near; NUMA mismatches cannot be told".into());
    }
    out.topology = Some(topology);
    Ok(out)
}

/// Terminals underline the header.
fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            for inner in letters.by_ref() {
                if inner.is_ascii_alphabetic() {
                    break;
                }
            }
        } else {
            out.push(letter);
        }
    }
    out
}

/// By tabs where there are any; else by spaces, as pasted tables have it.
fn split(line: &str) -> Vec<String> {
    if line.contains('\t') {
        line.split('\t')
            .map(|cell| cell.trim().to_owned())
            .collect()
    } else {
        line.split_whitespace().map(str::to_owned).collect()
    }
}

fn is_part(cell: &str) -> bool {
    ["GPU", "NIC", "mlx5_"].iter().any(|prefix| {
        cell.strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    })
}

fn row(cells: &[String], columns: usize) -> (TopologyRow, Option<String>) {
    let mut row = TopologyRow {
        name: cells.first().cloned().unwrap_or_default(),
        ..TopologyRow::default()
    };
    let mut rest = cells.iter().skip(1);
    let mut problem = None;
    while row.links.len() < columns {
        let Some(cell) = rest.next() else { break };
        let links = links(cell);
        if links.is_empty() {
            problem = Some(format!(
                "{} links under {columns} columns; the rest is not told",
                row.links.len()
            ));
            break;
        }
        if links.len() > 1 {
            problem = Some(format!(
                "{cell:?} lacks a tab; taken as {}",
                links.join(" and ")
            ));
        }
        row.links.extend(links);
    }
    row.links.truncate(columns);
    if let Some(cell) = rest.next() {
        row.cpus = ranges(cell);
    }
    if let Some(cell) = rest.next() {
        row.numa = ranges(cell)
            .into_iter()
            .flat_map(|(from, to)| from..=to.min(from.saturating_add(1024)))
            .collect();
    }
    (row, problem)
}

/// The links a cell holds; more than one where a tab is missing between them (`PIXNODE`).
fn links(cell: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = cell;
    while !rest.is_empty() {
        let digits = rest
            .strip_prefix("NV")
            .map(|after| after.bytes().take_while(u8::is_ascii_digit).count());
        let length = match digits {
            Some(digits) if digits > 0 => 2 + digits,
            _ => match ["NODE", "PIX", "PXB", "PHB", "SYS", "X"]
                .iter()
                .find(|name| rest.starts_with(**name))
            {
                Some(name) => name.len(),
                None => return Vec::new(),
            },
        };
        let (link, after) = rest.split_at(length);
        found.push(link.to_owned());
        rest = after;
    }
    found
}

/// `0-63,128-191`; empty for `N/A` and blanks.
fn ranges(text: &str) -> Vec<(u32, u32)> {
    text.split(',')
        .filter_map(|range| {
            let (from, to) = range.trim().split_once('-').unwrap_or((range, range));
            Some((from.trim().parse().ok()?, to.trim().parse().ok()?))
        })
        .filter(|(from, to)| from <= to)
        .collect()
}

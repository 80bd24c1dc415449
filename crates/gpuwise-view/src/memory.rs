//! What a GPU's memory holds: bars of its parts against what a program sees, and several GPUs
//! beside each other.

use crate::{
    figures::{self, count, gib, percent},
    markup::escape_markdown,
    style::{State, Style},
    table::{Cell, Column, Table},
};
use gpuwise_domain::deployment::{MemoryPart, MemoryReport};
use gpuwise_units::{Bytes, Tokens};
use std::fmt::Write as _;

/// A part of the stacked bar, in the order in which memory fills.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Segment {
    pub name: String,
    pub start: Bytes,
    pub bytes: Bytes,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Weights,
    /// What the engine needs beside them.
    Overhead,
    /// The key-value cache or state.
    Cache,
    /// What lies outside of the engine's budget.
    Outside,
    Unused,
}

/// The parts of one GPU's memory, in Markdown.
pub fn markdown(report: &MemoryReport) -> String {
    format!(
        "{}\n\n{}\n{}\n",
        escape_markdown(&capacity(report)),
        parts(report).to_markdown(),
        escape_markdown(&verdict(report))
    )
}

/// A row for each part of one GPU's memory.
pub fn parts(report: &MemoryReport) -> Table {
    let mut table = Table::new(vec![
        Column::left("part", "part").wrap(16),
        Column::right("bytes", "size").unit("GiB"),
        Column::right("share", "share"),
        Column::left("formula", "how").priority(50).wrap(24),
    ]);
    let formulas: Vec<&MemoryPart> = report.weights.iter().chain(&report.overheads).collect();
    for segment in segments(report) {
        let formula = formulas
            .iter()
            .find(|part| part.name == segment.name)
            .map(|part| part.formula.clone());
        let share = share(segment.bytes, report.visible);
        table.push(vec![
            Cell::text(segment.name),
            Cell::new(gib(segment.bytes), segment.bytes.count()),
            Cell::new(percent(share), share),
            Cell::of(formula.filter(|text| !text.is_empty()), Cell::text),
        ]);
    }
    table
}

/// The parts of one GPU's memory as bars.
pub fn text(report: &MemoryReport, style: Style) -> String {
    let segments = segments(report);
    let width = style.columns();
    let widest = |least: usize, cells: Vec<usize>| cells.into_iter().max().unwrap_or(0).max(least);
    let name_width =
        widest(4, segments.iter().map(|s| figures_width(&s.name)).collect()).min(width / 3);
    let end = segments
        .iter()
        .map(|s| s.start + s.bytes)
        .max()
        .unwrap_or_default()
        .max(report.visible);
    let track = width
        .saturating_sub(name_width + 2 + 6 + 2 + 6 + 2 + 1)
        .clamp(8, 60);
    let mut out = style.wrap(&capacity(report), 2) + "\n\n";
    let _ = writeln!(
        out,
        "{}  {:>6}  {:>6}",
        " ".repeat(name_width),
        "GiB",
        "share"
    );
    for segment in &segments {
        let name = crate::plan::ellipsis(&crate::style::clean(&segment.name), name_width);
        let pad = " ".repeat(name_width.saturating_sub(figures_width(&name)));
        let line = format!(
            "{name}{pad}  {:>6}  {:>6}  {}",
            gib(segment.bytes),
            percent(share(segment.bytes, report.visible)),
            bar(segment, report, end, track)
        );
        out += line.trim_end();
        out.push('\n');
    }
    let legend = format!(
        "┊ {} GiB that the engine may use   │ {} GiB visible",
        gib(report.budget),
        gib(report.visible)
    );
    out += &style.wrap(&legend, 2);
    out.push('\n');
    out += &style.finish(style.wrap(&verdict(report), 2));
    out.push('\n');
    out
}

fn figures_width(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// A bar that begins where the one above ends; `┊` is the engine's budget, `│` what is visible.
fn bar(segment: &Segment, report: &MemoryReport, end: Bytes, track: usize) -> String {
    let halves =
        |bytes: Bytes| (bytes.as_f64() / end.as_f64().max(1.0) * track as f64 * 2.0 + 0.5) as usize;
    let from = halves(segment.start);
    // Something is always to be seen of what is there.
    let to =
        halves(segment.start + segment.bytes).max(from + usize::from(segment.bytes > Bytes::ZERO));
    let full = if segment.kind == Kind::Unused {
        '░'
    } else {
        '█'
    };
    let (budget, visible) = (halves(report.budget) / 2, halves(report.visible) / 2);
    let cell = |index: usize| {
        let (left, right) = (index * 2, index * 2 + 1);
        let within = |half: usize| half >= from && half < to;
        match (within(left), within(right)) {
            (true, true) => full,
            (true, false) if full == '█' => '▌',
            (false, true) if full == '█' => '▐',
            _ if index == visible => '│',
            _ if index == budget => '┊',
            (true, _) | (_, true) => full,
            _ => ' ',
        }
    };
    (0..=track).map(cell).collect()
}

/// The parts in the order in which memory fills: weights, overheads, cache, what is outside of the
/// budget, and what remains.
pub(crate) fn segments(report: &MemoryReport) -> Vec<Segment> {
    let mut out: Vec<Segment> = Vec::new();
    let mut at = Bytes::ZERO;
    let mut add = |name: &str, bytes: Bytes, kind: Kind| {
        if bytes > Bytes::ZERO {
            out.push(Segment {
                name: name.into(),
                start: at,
                bytes,
                kind,
            });
            at += bytes;
        }
    };
    for part in &report.weights {
        add(
            &format!("weights: {}", part.name),
            part.bytes,
            Kind::Weights,
        );
    }
    for part in report.overheads.iter().filter(|part| !part.outside_budget) {
        add(&part.name, part.bytes, Kind::Overhead);
    }
    add("KV cache", report.cache, Kind::Cache);
    for part in report.overheads.iter().filter(|part| part.outside_budget) {
        add(&part.name, part.bytes, Kind::Outside);
    }
    let used = at;
    let mut add_unused = |bytes: Bytes| {
        if bytes > Bytes::ZERO {
            out.push(Segment {
                name: "not used".into(),
                start: used,
                bytes,
                kind: Kind::Unused,
            });
        }
    };
    add_unused(report.visible.saturating_sub(used));
    out
}

/// Whether weights and overheads fit.
pub(crate) fn fits(report: &MemoryReport) -> bool {
    report.shortfall == Bytes::ZERO
}

fn share(bytes: Bytes, of: Bytes) -> f64 {
    if of == Bytes::ZERO {
        f64::NAN
    } else {
        bytes.as_f64() / of.as_f64()
    }
}

/// `H100 SXM5 80GB: 79.2 GiB visible, 79.6 GiB as the driver reports it; the engine may use 71.3 GiB`.
pub(crate) fn capacity(report: &MemoryReport) -> String {
    let known = if report.visible_known {
        ""
    } else {
        " (estimated)"
    };
    let mut out = format!(
        "{}: {} GiB visible{known}",
        report.device,
        gib(report.visible)
    );
    if let Some(reported) = report.reported {
        let _ = write!(out, ", {} GiB as the driver reports it", gib(reported));
    }
    let _ = write!(out, "; the engine may use {} GiB", gib(report.budget));
    out
}

/// Whether it fits, and how much cache remains or how much is short.
pub(crate) fn verdict(report: &MemoryReport) -> String {
    if fits(report) {
        format!(
            "{} fits: {} GiB of KV cache, {} tokens as the engine logs it; {} concurrent requests of the asked length",
            State::Good.mark(),
            gib(report.cache),
            Tokens(report.cache_tokens),
            requests(report.sequences)
        )
    } else {
        let needed = report.weight_bytes() + report.overhead_bytes();
        format!(
            "{} does not fit: {} GiB short; weights and overheads take {} GiB, nothing is left for the KV cache",
            State::Bad.mark(),
            gib(report.shortfall),
            gib(needed)
        )
    }
}

/// Whole requests, one decimal below ten.
fn requests(sequences: f64) -> String {
    if !sequences.is_finite() || sequences < 0.0 {
        figures::MISSING.into()
    } else if sequences < 10.0 {
        figures::number((sequences * 10.0).floor() / 10.0)
    } else {
        count(sequences as u64)
    }
}

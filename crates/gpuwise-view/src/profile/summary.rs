//! A profile in the terminal and in Markdown: what limits first, then where the time went.

mod tables;
pub(in crate::profile) mod words;

use super::joined;
use crate::{
    Style,
    table::{Cell, Column, Table},
};
use gpuwise_domain::profile::{
    figure::{Figure, Summary, Value},
    figures::{ProfileFigures, RankFigures},
    parallel::LayoutComparison,
};
use std::fmt::Write as _;

/// A titled table of the summary.
#[derive(Debug)]
struct Section {
    title: String,
    table: Table,
}

/// The summary for a terminal.
pub fn text(figures: &ProfileFigures, summary: &Summary, style: Style) -> String {
    let mut out = style.wrap(&words::answer(figures, summary), 0);
    out += "\n\n";
    for line in words::facts(figures, summary) {
        out += &style.wrap(&line, 2);
        out.push('\n');
    }
    for section in sections(figures, summary) {
        let _ = writeln!(out, "\n{}", section.title);
        out += &section.table.to_text(style);
    }
    let findings = words::findings(summary);
    if !findings.is_empty() {
        out += "\nFindings, the one that gains most first\n";
        for line in findings {
            out += &style.wrap_after("- ", &line, 2);
            out.push('\n');
        }
    }
    for line in &summary.missing {
        out += "\n";
        out += &style.wrap_after("missing: ", line, 2);
    }
    if !summary.missing.is_empty() {
        out.push('\n');
    }
    style.finish(out)
}

pub fn markdown(figures: &ProfileFigures, summary: &Summary) -> String {
    let escape = crate::escape_markdown;
    let mut out = format!("{}\n\n", escape(&words::answer(figures, summary)));
    for line in words::facts(figures, summary) {
        let _ = writeln!(out, "- {}", escape(&line));
    }
    let findings = words::findings(summary);
    if !findings.is_empty() {
        out += "\n## Findings\n\n";
        for line in findings {
            let _ = writeln!(out, "- {}", escape(&line));
        }
    }
    for section in sections(figures, summary) {
        let _ = write!(
            out,
            "\n## {}\n\n{}",
            escape(&section.title),
            section.table.to_markdown()
        );
    }
    if !summary.missing.is_empty() {
        out += "\n## Missing\n\n";
        for line in &summary.missing {
            let _ = writeln!(out, "- {}", escape(line));
        }
    }
    out
}

/// Every figure as a row; `unit` tells the unit of a figure by its name.
pub fn figures(list: &[Figure], unit: impl Fn(&str) -> &'static str) -> Table {
    let mut table = Table::new(vec![
        Column::left("figure", "figure"),
        Column::right("rank", "rank"),
        Column::right("device", "device"),
        Column::left("part", "part"),
        Column::right("value", "value"),
        Column::left("unit", "unit"),
        Column::left("unknown", "why it is unknown"),
    ]);
    for figure in list {
        let (value, reason) = match &figure.value {
            Value::Integer(value) => (Cell::new(value.to_string(), *value), Cell::missing()),
            Value::Real(value) => (Cell::number(*value), Cell::missing()),
            Value::Unknown(reason) => (Cell::missing(), Cell::text(reason.clone())),
        };
        let scope = &figure.scope;
        table.push(vec![
            Cell::text(figure.name.clone()),
            Cell::of(scope.rank, |rank| Cell::new(rank.to_string(), rank)),
            Cell::of(scope.device, |device| Cell::new(device.to_string(), device)),
            Cell::of(scope.part.clone(), Cell::text),
            value,
            Cell::text(unit(&figure.name)),
            reason,
        ]);
    }
    table
}

fn sections(figures: &ProfileFigures, summary: &Summary) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut add = |title: &str, table: Option<Table>| {
        if let Some(table) = table.filter(|table| !table.is_empty()) {
            sections.push(Section {
                title: title.to_owned(),
                table,
            });
        }
    };
    match figures.ranks.as_slice() {
        [only] => {
            add("Where the time went", tables::time(only));
            if only.devices.len() > 1 {
                add("Devices", Some(tables::devices(only)));
            }
        }
        ranks => add(
            "Ranks",
            Some(tables::ranks(ranks, figures.stragglers.as_ref())),
        ),
    }
    if let Some(rank) = slowest(figures) {
        // Of several ranks one is shown: which, stands in the title.
        let of = match (figures.ranks.len(), rank.rank) {
            (0 | 1, _) => String::new(),
            (_, Some(number)) => format!(", rank {number}"),
            (_, None) => format!(", {}", rank.file),
        };
        add(&format!("Work by kind{of}"), Some(tables::kinds(rank)));
        add(&format!("Longest by name{of}"), Some(tables::kernels(rank)));
        add(&format!("Copies{of}"), Some(tables::copies(rank)));
        add(&format!("Collectives{of}"), Some(tables::collectives(rank)));
    }
    let _ = summary;
    if !figures.joined.is_empty() {
        add(
            "Recorded beside the trace",
            Some(joined::means(&figures.joined)),
        );
    }
    add(
        "Layouts on the same GPUs",
        figures.layouts.as_ref().map(layouts),
    );
    sections
}

/// The layout that runs, and others by their predicted step.
pub(in crate::profile) fn layouts(compared: &LayoutComparison) -> Table {
    let mut table = Table::new(vec![
        Column::left("layout", "layout"),
        Column::left("framework", "framework"),
        Column::right("step_seconds", "step, predicted"),
        Column::right("low", "from"),
        Column::right("high", "to"),
    ]);
    let all = std::iter::once((true, &compared.now))
        .chain(compared.others.iter().map(|one| (false, one)));
    for (runs, one) in all {
        let mark = if runs { " (runs)" } else { "" };
        let time = |value: f64| Cell::new(crate::figures::seconds(value), value);
        table.push(vec![
            Cell::text(format!("{}{mark}", one.written())),
            Cell::text(one.framework.title()),
            time(one.step.value),
            time(one.step.low),
            time(one.step.high),
        ]);
    }
    for (name, one) in [
        ("runs", Some(&compared.now)),
        ("first of the others", compared.others.first()),
    ] {
        if let Some(one) = one {
            table.footnote(format!("{name}: {}", one.command));
        }
    }
    table
}

/// The rank whose kernels are shown: the first, or the one that the others waited for most.
fn slowest(figures: &ProfileFigures) -> Option<&RankFigures> {
    let latest = figures.stragglers.as_ref().and_then(|stragglers| {
        stragglers
            .ranks
            .iter()
            .max_by_key(|rank| (rank.caused_ns, std::cmp::Reverse(rank.rank)))
    });
    figures
        .ranks
        .iter()
        .find(|rank| latest.is_some_and(|latest| Some(latest.rank) == rank.rank))
        .or_else(|| figures.ranks.first())
}

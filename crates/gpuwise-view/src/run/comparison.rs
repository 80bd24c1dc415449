//! The same figures from several sources side by side.

use crate::{
    figures::{TimeUnit, number, percent, ranged, ranged_in},
    style::Style,
    table::{Cell, Column, Table},
};
use gpuwise_domain::{
    estimate::Estimate,
    run::{Comparison, ComparisonRow, ComparisonUnit},
};

/// A row for each figure, a column for each source, and beside each but the reference its ratio.
pub fn comparison(found: &Comparison) -> Table {
    let mut columns = vec![
        Column::left("figure", "figure"),
        Column::left("unit", "unit"),
    ];
    for (index, name) in found.columns.iter().enumerate() {
        columns.push(Column::right(name.clone(), name.clone()));
        if found.reference.is_some_and(|reference| reference != index) {
            let of = found.reference.and_then(|at| found.columns.get(at));
            let of = of.map_or("", String::as_str);
            columns.push(Column::right(
                format!("{name}_over_{of}"),
                format!("/ {of}"),
            ));
        }
        columns.push(Column::raw(format!("{name}_low")));
        columns.push(Column::raw(format!("{name}_high")));
    }
    let mut table = Table::new(columns).when_empty("Nothing is known of both.");
    let mut bounded = false;
    for row in &found.rows {
        let unit = unit(row);
        let mut cells = vec![Cell::text(row.name.clone()), Cell::text(name(row, unit))];
        for index in 0..found.columns.len() {
            let value = row.values.get(index).copied().flatten();
            bounded |= value.is_some_and(|value| value.low < value.high);
            cells.push(Cell::of(value, |value| {
                Cell::new(shown(row, &value, unit), value.value)
            }));
            if let Some(reference) = found.reference.filter(|reference| *reference != index) {
                let ratio = row.ratio(index, reference);
                cells.push(Cell::of(ratio, |ratio| {
                    Cell::new(format!("{} ×", number(ratio)), ratio)
                }));
            }
            cells.push(Cell::of(value, |value| Cell::number(value.low)));
            cells.push(Cell::of(value, |value| Cell::number(value.high)));
        }
        table.push(cells);
    }
    if bounded {
        table.footnote("In brackets: the range of 8 in 10 cases.");
    }
    for note in &found.notes {
        table.footnote(note.clone());
    }
    table
}

pub fn comparison_text(found: &Comparison, style: Style) -> String {
    comparison(found).to_text(style)
}

fn unit(row: &ComparisonRow) -> TimeUnit {
    let values = row.values.iter().flatten().map(|estimate| estimate.value);
    super::words::unit(values)
}

fn name(row: &ComparisonRow, unit: TimeUnit) -> &'static str {
    match row.unit {
        ComparisonUnit::Seconds => unit.symbol(),
        ComparisonUnit::PerSecond => "1/s",
        ComparisonUnit::Share | ComparisonUnit::Number => "",
    }
}

fn shown(row: &ComparisonRow, value: &Estimate, unit: TimeUnit) -> String {
    match row.unit {
        ComparisonUnit::Seconds => ranged_in(value, unit),
        ComparisonUnit::PerSecond | ComparisonUnit::Number => ranged(value),
        ComparisonUnit::Share => percent(value.value),
    }
}

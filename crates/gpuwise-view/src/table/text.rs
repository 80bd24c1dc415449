//! A table in the terminal: two spaces between columns, one rule under the header.

use super::{
    Align, Column, Table,
    fit::{GAP, Need, fit},
};
use crate::style::Style;
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle, Width,
};
use unicode_width::UnicodeWidthStr;

impl Table {
    /// Terminal text, no line wider than the style allows; says which columns are left out for that.
    pub fn to_text(&self, style: Style) -> String {
        if self.is_empty() {
            return style.wrap(&self.empty, 0) + "\n";
        }
        let kept = fit(
            self.shown().map(|index| self.need(index)).collect(),
            style.columns(),
        );
        let mut out = style.finish(self.drawn(&kept));
        let left_out: Vec<&str> = self
            .shown()
            .filter(|index| kept.iter().all(|(other, _)| other != index))
            .filter_map(|index| self.columns.get(index))
            .map(|column| column.title.as_str())
            .collect();
        if !left_out.is_empty() {
            let line = format!("Left out at this width: {}.", left_out.join(", "));
            out += &style.wrap(&line, 2);
            out.push('\n');
        }
        for note in &self.footnotes {
            out += &style.finish(style.wrap(note, 2));
            out.push('\n');
        }
        out
    }

    fn drawn(&self, kept: &[(usize, usize)]) -> String {
        let mut drawn = comfy_table::Table::new();
        drawn.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─')));
        drawn.set_content_arrangement(ContentArrangement::Disabled);
        let columns: Vec<&Column> = kept
            .iter()
            .filter_map(|(index, _)| self.columns.get(*index))
            .collect();
        drawn.set_header(columns.iter().map(|column| header(column)));
        for row in &self.rows {
            let cells = kept.iter().filter_map(|(index, _)| row.get(*index));
            drawn.add_row(cells.map(super::Cell::shown));
        }
        let last = kept.len().saturating_sub(1);
        for ((position, (_, width)), column) in kept.iter().enumerate().zip(&columns) {
            let gap = if position == last { 0 } else { GAP };
            if let Some(target) = drawn.column_mut(position) {
                target.set_padding((0, gap as u16));
                target.set_constraint(ColumnConstraint::Absolute(Width::Fixed(
                    (width + gap) as u16,
                )));
                target.set_cell_alignment(match column.align {
                    Align::Left => CellAlignment::Left,
                    Align::Right => CellAlignment::Right,
                });
            }
        }
        let mut text = String::new();
        for line in drawn.lines() {
            text += line.trim_end();
            text.push('\n');
        }
        text
    }

    fn need(&self, index: usize) -> Need {
        let Some(column) = self.columns.get(index) else {
            return Need {
                index,
                natural: 0,
                floor: 0,
                priority: 0,
            };
        };
        let cells = self.rows.iter().filter_map(|row| row.get(index));
        let head = header(column)
            .lines()
            .map(UnicodeWidthStr::width)
            .max()
            .unwrap_or(0);
        let natural = cells
            .map(|cell| cell.shown.width())
            .max()
            .unwrap_or(0)
            .max(head)
            .max(1);
        // Words are kept whole, unless they are very long.
        let words = self
            .rows
            .iter()
            .filter_map(|row| row.get(index))
            .flat_map(|cell| cell.shown.split(' '));
        let word = words.map(UnicodeWidthStr::width).max().unwrap_or(0);
        let floor = |least: usize| natural.min(least.max(head).max(word.min(least * 2)));
        Need {
            index,
            natural,
            floor: column.wrap.map_or(natural, floor),
            priority: column.priority,
        }
    }
}

/// The title, and the unit on a line of its own.
fn header(column: &Column) -> String {
    if column.unit.is_empty() {
        column.title.clone()
    } else {
        format!("{}\n{}", column.title, column.unit)
    }
}

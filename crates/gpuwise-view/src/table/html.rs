//! A table of a page.

use super::{Align, Column, Table};
use crate::{markup::escape, style::State};
use std::fmt::Write as _;

impl Table {
    /// A table of a page, with a caption for those who do not see it, in a box that scrolls by
    /// itself where it is too wide; footnotes below.
    pub fn to_html(&self, caption: &str) -> String {
        if self.is_empty() {
            return format!("<p>{}</p>\n", escape(&self.empty));
        }
        let caption = escape(caption);
        let mut out = format!(
            "<div class=\"wide\" role=\"region\" aria-label=\"{caption}\" tabindex=\"0\"><table>\n\
             <caption>{caption}</caption>\n<thead><tr>"
        );
        let shown: Vec<usize> = self.shown().collect();
        // The first column of words names the row.
        let name = shown.iter().copied().find(|index| {
            self.columns
                .get(*index)
                .is_some_and(|column| column.align == Align::Left)
        });
        for column in shown.iter().filter_map(|index| self.columns.get(*index)) {
            let unit = if column.unit.is_empty() {
                String::new()
            } else {
                format!(" <small>{}</small>", escape(&column.unit))
            };
            let _ = write!(
                out,
                "<th scope=\"col\"{}>{}{unit}</th>",
                side(column),
                escape(&column.title)
            );
        }
        out += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            out += "<tr>";
            for index in &shown {
                let (Some(column), Some(cell)) = (self.columns.get(*index), row.get(*index)) else {
                    continue;
                };
                let text = marked(&escape(cell.shown()));
                let _ = if Some(*index) == name {
                    write!(out, "<th scope=\"row\">{text}</th>")
                } else {
                    write!(out, "<td{}>{text}</td>", side(column))
                };
            }
            out += "</tr>\n";
        }
        out += "</tbody></table></div>\n";
        for note in &self.footnotes {
            let _ = writeln!(out, "<p class=\"note\">{}</p>", marked(&escape(note)));
        }
        out
    }
}

fn side(column: &Column) -> &'static str {
    if column.align == Align::Right {
        " class=\"n\""
    } else {
        ""
    }
}

/// Marks of state in their colours.
pub(crate) fn marked(text: &str) -> String {
    [
        (State::Good, "good"),
        (State::Warning, "warning"),
        (State::Bad, "bad"),
    ]
    .into_iter()
    .fold(text.to_string(), |text, (state, class)| {
        text.replace(
            state.mark(),
            &format!("<span class=\"{class}\">{}</span>", state.mark()),
        )
    })
}

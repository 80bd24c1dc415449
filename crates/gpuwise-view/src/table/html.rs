//! A table of a page.

use super::{Align, Cell, Table};
use crate::{markup::escape, style::State};
use serde_json::Value;
use std::fmt::Write as _;

/// The number by which a page's script knows a value, where it does.
pub(crate) type Link<'a> = &'a dyn Fn(&str) -> Option<u32>;

impl Table {
    /// A table of a page, with a caption for those who do not see it, in a box that scrolls by
    /// itself where it is too wide; footnotes below.
    pub fn to_html(&self, caption: &str) -> String {
        self.to_html_with(caption, None)
    }

    /// The same for pages whose script sorts and copies: keys and values in full precision go with
    /// the cells, and what names a row becomes a button where `link` has a number for its value.
    pub(crate) fn to_live_html(&self, caption: &str, link: Link) -> String {
        self.to_html_with(caption, Some(link))
    }

    fn to_html_with(&self, caption: &str, live: Option<Link>) -> String {
        if self.is_empty() {
            return format!("<p>{}</p>\n", escape(&self.empty));
        }
        let caption = escape(caption);
        let mut out = format!(
            "<div class=\"wide\" role=\"region\" aria-label=\"{caption}\" tabindex=\"0\"><table>\n\
             <caption>{caption}</caption>\n<thead><tr>"
        );
        let shown: Vec<usize> = self.shown().collect();
        let classes: Vec<&str> = (0..self.columns.len()).map(|at| self.class(at)).collect();
        let class = |at: usize| classes.get(at).copied().unwrap_or_default();
        // The first column of words names the row.
        let name = shown.iter().copied().find(|index| {
            self.columns
                .get(*index)
                .is_some_and(|column| column.align == Align::Left)
        });
        for index in &shown {
            let Some(column) = self.columns.get(*index) else {
                continue;
            };
            let unit = if column.unit.is_empty() {
                String::new()
            } else {
                format!(" <small>{}</small>", escape(&column.unit))
            };
            let _ = write!(
                out,
                "<th scope=\"col\"{}{}>{}{unit}</th>",
                class(*index),
                if live.is_some() {
                    format!(" data-k=\"{}\"", escape(&column.key))
                } else {
                    String::new()
                },
                escape(&column.title)
            );
        }
        out += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            out += "<tr>";
            for index in &shown {
                let Some(cell) = row.get(*index) else {
                    continue;
                };
                let mut text = marked(&escape(cell.shown()));
                let value = live.map_or_else(String::new, |_| value(cell)) + &whole(cell);
                if let (true, Some(link), Some(raw)) =
                    (Some(*index) == name, live, cell.raw().as_str())
                    && let Some(number) = link(raw)
                {
                    text = format!(
                        "<button type=\"button\" class=\"link\" data-name=\"{number}\">{text}</button>"
                    );
                }
                let _ = if Some(*index) == name {
                    write!(out, "<th scope=\"row\"{}{value}>{text}</th>", class(*index))
                } else {
                    write!(out, "<td{}{value}>{text}</td>", class(*index))
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

impl Table {
    /// How cells of a column are set: numbers to the right; words so wide that a page that is narrow
    /// scrolls rather than breaking them into one word a line.
    fn class(&self, column: usize) -> &'static str {
        if (self.columns.get(column)).is_some_and(|column| column.align == Align::Right) {
            return " class=\"n\"";
        }
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        match cells.map(|cell| cell.shown().chars().count()).max() {
            Some(0..=12) | None => " class=\"one\"",
            Some(13..=28) => " class=\"few\"",
            Some(_) => " class=\"many\"",
        }
    }
}

/// The value of a cell as an attribute, where it is not what people see.
fn value(cell: &Cell) -> String {
    let raw = match cell.raw() {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if raw == cell.shown() {
        return String::new();
    }
    format!(" data-v=\"{}\"", escape(&raw))
}

/// The whole text of a cell that shows it shortened, for hovering.
fn whole(cell: &Cell) -> String {
    match cell.raw() {
        Value::String(text) if text.chars().count() > cell.shown().chars().count() => {
            format!(" title=\"{}\"", escape(text))
        }
        _ => String::new(),
    }
}

/// Marks of state in their colours; the text is escaped.
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

/// What stands between two backticks as code; one without a second stays. For sentences of ours alone: a
/// name with backticks would bring tags of its own.
pub(crate) fn code(text: &str) -> String {
    let mut parts = text.split('`');
    let mut out = parts.next().unwrap_or_default().to_owned();
    while let Some(within) = parts.next() {
        let _ = match parts.next() {
            Some(after) => write!(out, "<code>{within}</code>{after}"),
            None => write!(out, "`{within}"),
        };
    }
    out
}

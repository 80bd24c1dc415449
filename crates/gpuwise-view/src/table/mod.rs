//! Tables: columns and rows once, shown as terminal text, Markdown, CSV and JSON.

mod fit;
mod html;
mod text;

pub(crate) use html::{code, marked};

use crate::{figures::MISSING, markup::escape_markdown, style::clean};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// On which side a column is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name in CSV and JSON: snake_case, with its unit, such as `ttft_seconds`.
    pub key: String,
    pub title: String,
    /// The unit that its cells share; empty where each says its own.
    pub unit: String,
    pub align: Align,
    /// The lowest goes first where the terminal is too narrow; 255 is never left out.
    pub priority: u8,
    /// Down to how many characters its cells may be wrapped before a column is left out.
    pub wrap: Option<usize>,
    /// Whether people see it; CSV and JSON have every column.
    pub shown: bool,
    /// Whether programs read it.
    pub data: bool,
}

impl Column {
    pub fn left(key: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            title: title.into(),
            unit: String::new(),
            align: Align::Left,
            priority: u8::MAX,
            wrap: None,
            shown: true,
            data: true,
        }
    }

    pub fn right(key: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            align: Align::Right,
            ..Self::left(key, title)
        }
    }

    /// A column for programs only: it is in CSV and JSON, not in text and Markdown.
    pub fn raw(key: impl Into<String>) -> Self {
        let key = key.into();
        Self {
            shown: false,
            ..Self::left(key.clone(), key)
        }
    }

    #[must_use]
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// With a priority: the lowest is left out first.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// May be wrapped down to so many characters.
    #[must_use]
    pub fn wrap(mut self, least: usize) -> Self {
        self.wrap = Some(least);
        self
    }

    fn heading(&self) -> String {
        if self.unit.is_empty() {
            self.title.clone()
        } else {
            let separator = if self.unit.starts_with('/') {
                " "
            } else {
                ", "
            };
            format!("{}{separator}{}", self.title, self.unit)
        }
    }
}

/// A cell: what people see, and the value in full precision for CSV and JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    shown: String,
    raw: Value,
}

impl Cell {
    /// A cell whose shown text differs from its value.
    pub fn new(shown: impl AsRef<str>, raw: impl Into<Value>) -> Self {
        Self {
            shown: clean(shown.as_ref()),
            raw: raw.into(),
        }
    }

    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            shown: clean(&text),
            raw: Value::String(text),
        }
    }

    /// A value that is not known.
    pub fn missing() -> Self {
        Self {
            shown: MISSING.into(),
            raw: Value::Null,
        }
    }

    /// The cell of a value, or a missing one.
    pub fn of<T>(value: Option<T>, cell: impl FnOnce(T) -> Self) -> Self {
        value.map_or_else(Self::missing, cell)
    }

    /// A real in three significant digits.
    pub fn number(value: f64) -> Self {
        Self::new(crate::figures::number(value), value)
    }

    pub fn count(value: u64) -> Self {
        Self::new(crate::figures::count(value), value)
    }

    pub fn shown(&self) -> &str {
        &self.shown
    }

    pub fn raw(&self) -> &Value {
        &self.raw
    }
}

/// A table. Rows that are shorter than the columns end in missing cells; longer ones are cut.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    footnotes: Vec<String>,
    empty: String,
    /// What JSON has of the rows, where that is more than their cells.
    documents: Option<Vec<Value>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: Vec<Column>) -> Self {
        Self {
            columns,
            empty: "No rows.".into(),
            ..Self::default()
        }
    }

    /// What is said in place of no rows: what to do to get some.
    #[must_use]
    pub fn when_empty(mut self, text: impl Into<String>) -> Self {
        self.empty = text.into();
        self
    }

    /// With what JSON has of its rows.
    #[must_use]
    pub(crate) fn documents(mut self, documents: Vec<Value>) -> Self {
        self.documents = Some(documents);
        self
    }

    pub fn push(&mut self, mut row: Vec<Cell>) {
        row.resize_with(self.columns.len(), Cell::missing);
        self.rows.push(row);
    }

    /// Adds columns, of which the rows so far have nothing.
    pub fn widen(&mut self, columns: Vec<Column>) {
        self.columns.extend(columns);
        for row in &mut self.rows {
            row.resize_with(self.columns.len(), Cell::missing);
        }
    }

    /// Adds a footnote, once.
    pub fn footnote(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.footnotes.contains(&text) {
            self.footnotes.push(text);
        }
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    pub fn footnotes(&self) -> &[String] {
        &self.footnotes
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A table of Markdown with its footnotes below.
    pub fn to_markdown(&self) -> String {
        if self.rows.is_empty() {
            return format!("{}\n", escape_markdown(&self.empty));
        }
        let mut out = String::new();
        let shown: Vec<usize> = self.shown().collect();
        let columns = || shown.iter().filter_map(|index| self.columns.get(*index));
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        out += &line(columns().map(|c| escape_markdown(&c.heading())).collect());
        out += &line(
            columns()
                .map(|c| {
                    String::from(if c.align == Align::Right {
                        "---:"
                    } else {
                        "---"
                    })
                })
                .collect(),
        );
        for row in &self.rows {
            out += &line(
                shown
                    .iter()
                    .filter_map(|index| row.get(*index))
                    .map(|cell| escape_markdown(&cell.shown))
                    .collect(),
            );
        }
        for note in &self.footnotes {
            let _ = write!(out, "\n{}\n", escape_markdown(note));
        }
        out
    }

    /// CSV with a header of keys and every value in full precision; a missing one is empty.
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Writing to memory does not fail.
        let columns = || self.columns.iter().filter(|column| column.data);
        let _ = writer.write_record(columns().map(|column| column.key.as_str()));
        for row in &self.rows {
            let cells = self.columns.iter().zip(row);
            let data = cells.filter(|(column, _)| column.data);
            let _ = writer.write_record(data.map(|(_, cell)| plain(&cell.raw)));
        }
        let bytes = writer.into_inner().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// An array with an object for each row; a missing value is null.
    pub fn to_json(&self) -> Value {
        if let Some(documents) = &self.documents {
            return Value::Array(documents.clone());
        }
        let object = |row: &Vec<Cell>| {
            let pairs = self.columns.iter().zip(row);
            Value::Object(
                pairs
                    .map(|(c, cell)| (c.key.clone(), cell.raw.clone()))
                    .collect::<Map<_, _>>(),
            )
        };
        self.rows.iter().map(object).collect()
    }

    fn shown(&self) -> impl Iterator<Item = usize> {
        let columns = self.columns.iter().enumerate();
        columns
            .filter(|(_, column)| column.shown)
            .map(|(index, _)| index)
    }
}

/// A value as a CSV cell.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}

//! What every question stands on, and where its answer goes.

use crate::catalogue::Overrides;
use crate::schemas::AnswerName;
use gpuwise_view::{Style, table::Table};
use serde_json::{Map, Value};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// What every question stands on besides its own settings.
#[derive(Debug, Clone, Default)]
pub struct App {
    /// Rows of the user's own, over those of the catalogue.
    pub overrides: Overrides,
    /// Never touch the network.
    pub offline: bool,
    /// Of what is drawn at random.
    pub seed: u64,
}

impl App {
    /// With the catalogue that is shipped and nothing else: no network, no file of the user's.
    pub fn shipped() -> Self {
        Self {
            offline: true,
            ..Self::default()
        }
    }

    /// With the user's own rows, as `$GPUWISE_CATALOGUE` and the configuration directory have them.
    pub fn from_environment(offline: bool, seed: u64) -> Self {
        Self {
            overrides: Overrides::from_environment(),
            offline,
            seed,
        }
    }
}

/// In which form an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text for a terminal
    Table,
    /// JSON
    Json,
    /// CSV
    Csv,
    /// Markdown
    Md,
}

/// How an answer is shown.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// In which form.
    pub format: Format,
    /// Width and colour of text.
    pub style: Style,
    /// Whether CSV has the columns of FOCUS, where an answer can have them.
    pub focus: bool,
    /// Whether it is a page, where an answer can be one.
    pub html: bool,
}

/// Where answers go.
pub trait Sink: Send + Sync {
    /// Takes a part of an answer.
    ///
    /// # Errors
    /// When it can go nowhere.
    fn data(&self, text: &str) -> anyhow::Result<()>;
}

/// Keeps an answer as text.
#[derive(Debug, Default)]
pub struct TextSink(Mutex<String>);

impl TextSink {
    /// What came.
    pub fn text(&self) -> String {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.clone()
    }
}

impl Sink for TextSink {
    fn data(&self, text: &str) -> anyhow::Result<()> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_str(text);
        Ok(())
    }
}

/// A field of a document that is written field by field.
pub enum Part<'a> {
    Value(Value),
    /// Rows, one after the other.
    Rows(Box<dyn Iterator<Item = Value> + 'a>),
}

/// Bytes that are gathered before they are written.
const WRITTEN: usize = 1 << 16;

/// A document whose lines begin so.
fn indented(value: &Value, line: &str) -> String {
    // Line ends within texts are escaped.
    format!("{value:#}").replace('\n', line)
}

/// What every command gets besides its settings.
#[derive(Clone)]
pub struct Context {
    /// What it stands on.
    pub app: App,
    /// How it is shown.
    pub form: Form,
    answer: &'static str,
    sink: Arc<dyn Sink>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = f.debug_struct("Context");
        said.field("app", &self.app).field("form", &self.form);
        said.finish_non_exhaustive()
    }
}

impl Context {
    /// Answers in this form go to this sink.
    pub fn new(app: App, form: Form, sink: Arc<dyn Sink>) -> Self {
        Self {
            app,
            form,
            answer: "",
            sink,
        }
    }

    /// The same for an answer of this kind: its JSON says `gpuwise.NAME/v1`, and `gpuwise schema NAME`
    /// prints what it holds.
    #[must_use]
    pub fn answering(&self, answer: AnswerName) -> Self {
        Self {
            answer: answer.name(),
            ..self.clone()
        }
    }

    /// Gives a text.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn data(&self, text: &str) -> anyhow::Result<()> {
        self.sink.data(text)
    }

    /// Gives a JSON document, indented. It begins with its schema; a list becomes its `rows`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn json(&self, value: &Value) -> anyhow::Result<()> {
        self.data(&format!("{:#}\n", self.document(value)))
    }

    /// Gives a JSON document, indented, that begins with its schema: field by field, so that lists of a million
    /// rows are never there as a whole.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn json_parts(&self, parts: Vec<(&str, Part<'_>)>) -> anyhow::Result<()> {
        let schema = Value::from(schema_of(self.answer));
        let mut text = format!("{{\n  \"schema\": {schema}");
        for (name, part) in parts {
            text.extend([",\n  ", &Value::from(name).to_string(), ": "]);
            match part {
                Part::Value(value) => text += &indented(&value, "\n  "),
                Part::Rows(rows) => self.rows(&mut text, rows)?,
            }
        }
        text += "\n}\n";
        self.data(&text)
    }

    fn rows(
        &self,
        text: &mut String,
        rows: Box<dyn Iterator<Item = Value> + '_>,
    ) -> anyhow::Result<()> {
        text.push('[');
        let mut first = true;
        for row in rows {
            *text += if first { "\n    " } else { ",\n    " };
            *text += &indented(&row, "\n    ");
            first = false;
            if text.len() > WRITTEN {
                self.data(text)?;
                text.clear();
            }
        }
        *text += if first { "]" } else { "\n  ]" };
        Ok(())
    }

    /// Gives one document of a stream, on one line: each says its schema.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn json_line(&self, value: &Value) -> anyhow::Result<()> {
        self.data(&format!("{}\n", self.document(value)))
    }

    fn document(&self, value: &Value) -> Value {
        let mut document = Map::new();
        document.insert("schema".into(), schema_of(self.answer).into());
        match value {
            Value::Object(fields) => document.extend(fields.clone()),
            rows => document.extend([("rows".to_owned(), rows.clone())]),
        }
        Value::Object(document)
    }

    /// Gives a table in the form that was asked for.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn table(&self, table: &Table) -> anyhow::Result<()> {
        match self.form.format {
            Format::Table => self.data(&table.to_text(self.form.style)),
            Format::Json => self.json(&table.to_json()),
            Format::Csv => self.data(&table.to_csv()),
            Format::Md => self.data(&table.to_markdown()),
        }
    }
}

/// What the JSON of an answer says in `schema`.
pub fn schema_of(answer: &str) -> String {
    format!("gpuwise.{answer}/v1")
}

/// Whether the answer is yes; that it is no is not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// That of a job that was run.
    Code(u8),
}

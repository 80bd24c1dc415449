//! How answers of these commands are shown.

use crate::{commands::Context, made::made, schemas::AnswerName, settings::Format, write::Pending};
use gpuwise_view::{Style, record::Record, table::Table};

/// An answer that is a page, a text, a document and a table.
pub(super) struct Shown<T> {
    pub(super) name: AnswerName,
    pub(super) page: fn(&T, &str) -> String,
    pub(super) text: fn(&T, Style) -> String,
    pub(super) table: fn(&T) -> Table,
}

impl<T: Record> Shown<T> {
    /// Writes it as it was asked for, and the page where one was.
    pub(super) fn show(
        &self,
        context: &Context,
        html: Option<Pending>,
        answer: &T,
    ) -> anyhow::Result<()> {
        let context = context.answering(self.name);
        if let Some(file) = html {
            file.finish(&(self.page)(answer, &made()))?;
        }
        match context.form.format {
            Format::Table => context.data(&(self.text)(answer, context.form.style)),
            Format::Json => context.json(&gpuwise_view::record::json(answer)),
            _ => context.table(&(self.table)(answer)),
        }
    }
}

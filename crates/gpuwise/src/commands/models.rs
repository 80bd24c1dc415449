//! `gpuwise models`: the models of the catalogue.

use super::{Answer, Context};
use crate::{catalogue, cli::Models};
use gpuwise_domain::catalogue::folded;
use gpuwise_read::catalogue::ModelEntry;
use gpuwise_view::table::{Cell, Column, Table};

pub(crate) fn run(context: &Context, flags: &Models) -> anyhow::Result<Answer> {
    let loaded = catalogue::load(&context.overrides)?;
    let wanted = flags.pattern.as_deref().map(folded);
    let mut table = Table::new(vec![
        Column::left("model", "model"),
        Column::left("aliases", "aliases").priority(2).wrap(20),
        Column::left("source", "source").priority(1).wrap(20),
    ]);
    for entry in loaded.models.entries().iter().filter(|entry| {
        wanted
            .as_deref()
            .is_none_or(|wanted| matches(entry, wanted))
    }) {
        table.push(vec![
            Cell::text(&entry.id),
            Cell::text(entry.aliases.join(", ")),
            Cell::text(&entry.source),
        ]);
    }
    context.output.table(&table)?;
    Ok(if table.is_empty() {
        Answer::No
    } else {
        Answer::Yes
    })
}

fn matches(entry: &ModelEntry, wanted: &str) -> bool {
    let spellings = std::iter::once(&entry.id).chain(&entry.aliases);
    spellings
        .into_iter()
        .any(|spelling| folded(spelling).contains(wanted))
}

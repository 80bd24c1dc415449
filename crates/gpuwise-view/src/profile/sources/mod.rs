//! What files other than traces say, for a terminal and in Markdown.

mod counters;
mod exports;
mod hangs;
mod memory;
mod page;
mod pictures;

pub use page::report;

use crate::{Style, table::Table};
use gpuwise_domain::profile::sources::{Source, SourceContent};
use gpuwise_domain::profile::timeline::Loss;
use std::fmt::Write as _;

/// What is shown of one file: its answer in a sentence or two, and tables under titles.
#[derive(Debug, Default)]
struct Shown {
    answer: String,
    tables: Vec<(String, Table)>,
    missing: Vec<String>,
}

impl Shown {
    fn table(&mut self, title: &str, table: Table) {
        if !table.is_empty() {
            self.tables.push((title.to_owned(), table));
        }
    }

    fn losses(&mut self, losses: &[Loss]) {
        for loss in losses {
            let times = match loss.count {
                0 | 1 => String::new(),
                count => format!(" ({} times)", crate::figures::count(count)),
            };
            self.missing.push(format!("{}{times}", loss.what));
        }
    }
}

fn shown(source: &Source) -> Shown {
    match &source.content {
        SourceContent::Nsight(nsight) => exports::nsight(nsight),
        SourceContent::Planes(planes) => exports::planes(planes),
        SourceContent::Memory(memory) => memory::snapshot(memory),
        SourceContent::Categories(figures) => memory::categories(figures),
        SourceContent::Counters(counters) => counters::counters(counters),
        SourceContent::Hangs(source) => hangs::hangs(source),
    }
}

/// What files say, for a terminal; empty where there are none.
pub fn text(sources: &[Source], style: Style) -> String {
    let mut out = String::new();
    for source in sources {
        if !out.is_empty() {
            out.push('\n');
        }
        let shown = shown(source);
        let file = source.file.rsplit('/').next().unwrap_or(&source.file);
        out += &style.wrap_after("", &format!("{file}: {}", shown.answer), 0);
        out.push('\n');
        for (title, table) in &shown.tables {
            let _ = write!(out, "\n{title}\n{}", table.to_text(style));
        }
        for line in &shown.missing {
            let _ = write!(out, "\n{}\n", style.wrap_after("missing: ", line, 2));
        }
    }
    style.finish(out)
}

/// What files say, as Markdown; empty where there are none.
pub fn markdown(sources: &[Source]) -> String {
    let escape = crate::escape_markdown;
    let mut out = String::new();
    for source in sources {
        let shown = shown(source);
        let _ = write!(
            out,
            "\n## {}\n\n{}\n",
            escape(&source.file),
            escape(&shown.answer)
        );
        for (title, table) in &shown.tables {
            let _ = write!(out, "\n### {}\n\n{}", escape(title), table.to_markdown());
        }
        for line in &shown.missing {
            let _ = write!(out, "\nMissing: {}\n", escape(line));
        }
    }
    out
}

/// A name cut to a width, its end kept where the two differ there.
fn cut(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    let kept: String = name.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

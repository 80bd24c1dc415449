//! Sources of rows by number, so that each stands once below a table.

use gpuwise_view::table::{Cell, Table};

/// Sources in the order in which rows name them.
#[derive(Debug, Default)]
pub(super) struct Sources<'a> {
    known: Vec<&'a str>,
}

impl<'a> Sources<'a> {
    /// `[1]` for people, the source itself for programs.
    pub(super) fn cell(&mut self, source: &'a str) -> Cell {
        Cell::new(format!("[{}]", self.number(source)), source)
    }

    /// Its number, from 1.
    pub(super) fn number(&mut self, source: &'a str) -> usize {
        let at = self
            .known
            .iter()
            .position(|known| *known == source)
            .unwrap_or_else(|| {
                self.known.push(source);
                self.known.len() - 1
            });
        at + 1
    }

    pub(super) fn footnotes(&self, table: &mut Table) {
        for (at, source) in self.known.iter().enumerate() {
            table.footnote(format!("[{}] {source}", at + 1));
        }
    }
}

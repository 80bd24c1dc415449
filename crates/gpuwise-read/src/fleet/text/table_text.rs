//! A TOML text table by table: a broken one does not hide the others, and a million of them need the
//! memory of one.

use super::Problems;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// A top-level table with all that belongs to it.
#[derive(Debug, Clone, Copy)]
pub(in crate::fleet) struct TableText<'a> {
    /// Its name: `node` of `[[node]]`; empty for what stands before the first table.
    pub(in crate::fleet) table: &'a str,
    /// The line of its header, from 1.
    pub(in crate::fleet) line: usize,
    text: &'a str,
}

/// The pieces of a text. Tables of tables (`[job.worker]`) belong to the piece before them.
pub(in crate::fleet) fn pieces(text: &str) -> impl Iterator<Item = TableText<'_>> {
    let mut rest = text.trim_start_matches('\u{feff}');
    let mut line = 1;
    let mut done = false;
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        let (end, lines) = end_of_piece(rest);
        let (own, after) = rest.split_at(end);
        let piece = TableText {
            table: own.lines().next().and_then(header).unwrap_or(""),
            line,
            text: own,
        };
        rest = after;
        line += lines;
        done = after.is_empty();
        Some(piece)
    })
}

/// Where the next top-level table begins, and how many lines stand before it.
fn end_of_piece(text: &str) -> (usize, usize) {
    let mut quotes: Option<&str> = None;
    let (mut at, mut lines) = (0, 0);
    for line in text.split_inclusive('\n') {
        if lines > 0 && quotes.is_none() && header(line).is_some() {
            return (at, lines);
        }
        quotes = quotes_after(line, quotes);
        at += line.len();
        lines += 1;
    }
    (text.len(), lines)
}

/// The name of a top-level table whose header stands on this line.
fn header(line: &str) -> Option<&str> {
    let line = line.trim();
    let inner = line.strip_prefix("[[")?;
    let (name, after) = inner.split_once("]]")?;
    let (name, after) = (name.trim(), after.trim_start());
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (!name.is_empty() && name.chars().all(plain) && (after.is_empty() || after.starts_with('#')))
        .then_some(name)
}

/// Whether a text over several lines is open after this line, and of which kind.
fn quotes_after<'q>(line: &str, before: Option<&'q str>) -> Option<&'q str> {
    const KINDS: [&str; 2] = ["\"\"\"", "'''"];
    let mut open = before;
    let mut rest = line;
    loop {
        if let Some(kind) = open {
            let Some(at) = rest.find(kind) else {
                return open;
            };
            rest = rest.get(at + kind.len()..).unwrap_or("");
        }
        let next = KINDS
            .iter()
            .filter_map(|kind| Some((rest.find(kind)?, *kind)))
            .min_by_key(|(at, _)| *at);
        let (at, kind) = next?;
        // A comment opens nothing.
        if rest.get(..at).is_some_and(|before| before.contains('#')) {
            return None;
        }
        rest = rest.get(at + kind.len()..).unwrap_or("");
        open = Some(kind);
    }
}

impl TableText<'_> {
    /// Its only table; what is wrong with it is noted.
    pub(in crate::fleet) fn read<T: DeserializeOwned>(&self, problems: &mut Problems) -> Option<T> {
        let read = if self.table.is_empty() {
            toml::from_str::<T>(self.text).map(Some)
        } else {
            toml::from_str::<BTreeMap<String, Vec<T>>>(self.text)
                .map(|tables| tables.into_values().flatten().next())
        };
        read.map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let before = self.text.get(..at).unwrap_or(self.text);
            let said = error.message().lines().next().unwrap_or("").to_owned();
            let what = match self.table {
                "" => said,
                table => format!("{table}: {said}"),
            };
            problems.add(self.line + before.matches('\n').count(), what);
        })
        .ok()
        .flatten()
    }

    /// The line on which a field stands; the header's where it is not found.
    pub(in crate::fleet) fn line_of(&self, field: &str) -> usize {
        let is = |line: &str| {
            line.trim_start()
                .strip_prefix(field)
                .is_some_and(|rest| rest.trim_start().starts_with(['=', '.', ']']))
                || line
                    .trim()
                    .strip_suffix(']')
                    .and_then(|line| line.rsplit_once('.'))
                    .is_some_and(|(_, last)| last == field)
        };
        let at = self.text.lines().position(is).unwrap_or(0);
        self.line + at
    }
}

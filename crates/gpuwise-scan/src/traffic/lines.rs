//! Traces as JSON lines: Mooncake's and plain ones.

use super::{
    Trace, TraceError, TraceKind,
    columns::{Field, Row, Scalar, field, name},
    conversations, prefixes,
    rows::Rows,
};
use gpuwise_domain::request::Segment;
use serde::{
    Deserialize,
    de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor},
};
use std::{borrow::Cow, fmt};

/// Longest line; one of a conversation is far shorter.
const LONGEST_LINE: usize = 16 << 20;

#[derive(Debug, Default)]
struct Line<'a> {
    row: Row<'a>,
    hash_ids: Option<Vec<u64>>,
    /// Contents and their tokens, from the prompt's beginning.
    prefix: Option<Vec<(Scalar<'a>, u32)>>,
    conversation: bool,
}

/// A key, borrowed where it holds no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Line<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LineVisitor)
    }
}

struct LineVisitor;

impl<'de> Visitor<'de> for LineVisitor {
    type Value = Line<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object such as {\"arrival_s\": 0.5, \"isl\": 100, \"osl\": 20}")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut line = Line::default();
        while let Some(Key(key)) = map.next_key()? {
            match (&*key, field(&key)) {
                ("hash_ids", _) => line.hash_ids = map.next_value()?,
                ("prefix", _) => line.prefix = map.next_value()?,
                ("conversations", _) => {
                    map.next_value::<IgnoredAny>()?;
                    line.conversation = true;
                }
                (_, Some((field, rank))) => {
                    let value: Option<Scalar<'de>> = map
                        .next_value()
                        .map_err(|error| M::Error::custom(format!("`{key}`: {error}")))?;
                    if let Some(value) = value {
                        line.row.put(field, rank, value);
                    }
                }
                (_, None) => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(line)
    }
}

impl Line<'_> {
    /// Mooncake's lines have a time that is only called `timestamp`, and lengths called so.
    fn kind(&self) -> TraceKind {
        let called = |field: Field, wanted: &str| {
            let cell = self.row.get(field);
            cell.map(|cell| cell.name == wanted)
        };
        let mooncake = called(Field::Arrival, "timestamp") == Some(true)
            && called(Field::Input, "input_length") != Some(false);
        if mooncake {
            TraceKind::Mooncake
        } else {
            TraceKind::Plain
        }
    }

    /// What it says of its prompt beside its columns.
    fn prefix(&self, number: u64) -> Result<Option<Box<[Segment]>>, TraceError> {
        if let Some(ids) = &self.hash_ids {
            return Ok(prefixes::blocks(ids));
        }
        let Some(prefix) = &self.prefix else {
            return Ok(None);
        };
        let segments: Box<[Segment]> = prefix
            .iter()
            .filter(|(_, tokens)| *tokens > 0)
            .map(|(content, tokens)| Segment {
                content: match content {
                    Scalar::Whole(value) => prefixes::content(&value.to_string()),
                    Scalar::Real(value) => prefixes::content(&value.to_string()),
                    Scalar::Text(text) => prefixes::content(text),
                },
                tokens: *tokens,
            })
            .collect();
        let covered: u64 = segments.iter().map(|s| u64::from(s.tokens)).sum();
        let input = match self.row.get(Field::Input) {
            Some(cell) => u64::from(cell.tokens(number)?),
            None => 0,
        };
        if covered > input {
            return Err(TraceError::line(
                number,
                format!(
                    "`prefix` holds {covered} tokens; expected at most the {input} of the prompt"
                ),
            ));
        }
        Ok((!segments.is_empty()).then_some(segments))
    }
}

pub(super) fn read(text: &str) -> Result<Trace, TraceError> {
    let mut rows: Option<Rows> = None;
    for (number, line) in (1_u64..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if line.len() > LONGEST_LINE {
            let problem = format!("{} bytes; expected at most {LONGEST_LINE}", line.len());
            return Err(TraceError::line(number, problem));
        }
        let parsed: Line<'_> =
            serde_json::from_str(line).map_err(|error| in_line(number, &error))?;
        if rows.is_none() && parsed.conversation {
            return conversations::read_lines(text);
        }
        let rows = rows.get_or_insert_with(|| Rows::new(parsed.kind(), text));
        let names = match rows.kind {
            TraceKind::Mooncake => ["timestamp", "input_length", "output_length"],
            _ => [Field::Arrival, Field::Input, Field::Output].map(|field| name(field, 0)),
        };
        for (field, name) in [Field::Arrival, Field::Input, Field::Output]
            .iter()
            .zip(names)
        {
            if parsed.row.get(*field).is_none() {
                return Err(TraceError::line(number, format!("`{name}` is missing")));
            }
        }
        let prefix = parsed.prefix(number)?;
        rows.push(number, &parsed.row, prefix)?;
    }
    rows.ok_or(TraceError::Empty)?.finish(Vec::new())
}

/// What is wrong in a line, with its column; the parser counts the line as the first.
pub(super) fn in_line(number: u64, error: &serde_json::Error) -> TraceError {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let problem = text.strip_suffix(&place).unwrap_or(&text);
    TraceError::line(number, format!("column {}: {problem}", error.column()))
}

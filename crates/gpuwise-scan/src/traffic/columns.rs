//! What the columns and keys of traces are called, and the words in their cells.

use super::{TraceError, TraceKind, shortened};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::{borrow::Cow, fmt};

/// Longest cell that is read as a number or a name.
const LONGEST_CELL: usize = 4096;

/// What a column holds; also its place in a [`Row`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Arrival,
    Input,
    Output,
    Session,
    Round,
    PrefixGroup,
    PrefixTokens,
    Answer,
    Think,
    Tenant,
    Priority,
    Adapter,
    Stage,
}

/// How many there are.
pub(super) const FIELDS: usize = 13;

/// Names by field in lower case; the first that is present counts.
const NAMES: [(Field, &[&str]); FIELDS] = [
    (
        Field::Arrival,
        &[
            "arrival_s",
            "arrival_seconds",
            "arrival_time",
            "arrival",
            "arrived_at",
            "due_s",
            "due",
            "timestamp_s",
            "timestamp",
            "arrival_ms",
            "due_ms",
            "timestamp_ms",
            "arrival_us",
            "due_us",
            "timestamp_us",
            "arrival_ns",
            "due_ns",
            "timestamp_ns",
        ],
    ),
    (
        Field::Input,
        &[
            "isl",
            "input_tokens",
            "input_length",
            "input",
            "input_toks",
            "prompt_tokens",
            "num_prefill_tokens",
            "contexttokens",
            "request tokens",
        ],
    ),
    (
        Field::Output,
        &[
            "osl",
            "output_tokens",
            "output_length",
            "output",
            "output_toks",
            "completion_tokens",
            "num_decode_tokens",
            "generatedtokens",
            "response tokens",
        ],
    ),
    (
        Field::Session,
        &[
            "session",
            "session_id",
            "conversation_id",
            "user",
            "session id",
        ],
    ),
    (Field::Round, &["round", "turn"]),
    (Field::PrefixGroup, &["prefix_group", "prefix_id"]),
    (Field::PrefixTokens, &["prefix_tokens", "prefix_length"]),
    (Field::Answer, &["answer", "answer_id", "output_content"]),
    (Field::Think, &["think_s", "think_time_s", "delay_s"]),
    (
        Field::Tenant,
        &["tenant", "tenant_id", "client", "user_group"],
    ),
    (Field::Priority, &["priority"]),
    (Field::Adapter, &["adapter", "lora", "model_adapter"]),
    (Field::Stage, &["stage"]),
];

/// The field of that name in lower case, and how early the name stands among the field's.
pub(super) fn field(name: &str) -> Option<(Field, usize)> {
    NAMES.iter().find_map(|(field, names)| {
        let rank = names.iter().position(|known| *known == name)?;
        Some((*field, rank))
    })
}

pub(super) fn name(field: Field, rank: usize) -> &'static str {
    let (_, names) = &NAMES[field as usize];
    names.get(rank).or(names.first()).copied().unwrap_or("")
}

/// Of whom the names are typical.
pub(super) fn kind_of(input: &str) -> TraceKind {
    match input {
        "contexttokens" => TraceKind::Azure,
        "request tokens" => TraceKind::BurstGpt,
        _ => TraceKind::Plain,
    }
}

/// Decimal places from the unit that a column's name says to nanoseconds.
pub(super) fn places(name: &str) -> u32 {
    match name.rsplit_once('_').map_or("", |(_, unit)| unit) {
        "ms" => 6,
        "us" => 3,
        "ns" => 0,
        _ => 9,
    }
}

pub(super) const fn unit(places: u32) -> &'static str {
    match places {
        6 => "milliseconds",
        3 => "microseconds",
        0 => "nanoseconds",
        _ => "seconds",
    }
}

/// A cell, or a value of a JSON line.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar<'a> {
    Whole(u64),
    Real(f64),
    Text(Cow<'a, str>),
}

/// The cells of a row by field, with the ranks of their names.
#[derive(Debug, Default)]
pub(super) struct Row<'a>(pub(super) [Option<(usize, Scalar<'a>)>; FIELDS]);

impl<'a> Row<'a> {
    /// Takes a cell unless one of an earlier name is there.
    pub(super) fn put(&mut self, field: Field, rank: usize, value: Scalar<'a>) {
        let place = &mut self.0[field as usize];
        if place.as_ref().is_none_or(|(known, _)| *known > rank) {
            *place = Some((rank, value));
        }
    }

    /// The cell with its column's name.
    pub(super) fn get(&self, field: Field) -> Option<Cell<'_>> {
        let (rank, value) = self.0[field as usize].as_ref()?;
        Some(Cell {
            name: name(field, *rank),
            value,
        })
    }
}

/// A cell and the name of its column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell<'a> {
    pub(super) name: &'static str,
    pub(super) value: &'a Scalar<'a>,
}

impl Cell<'_> {
    /// A whole number of at most `most`.
    pub(super) fn whole(self, line: u64, most: u64, expected: &str) -> Result<u64, TraceError> {
        let whole = match self.value {
            Scalar::Whole(value) => Some(*value),
            Scalar::Real(value) => whole(*value),
            Scalar::Text(text) => text
                .parse()
                .ok()
                .or_else(|| text.parse().ok().and_then(whole)),
        };
        whole
            .filter(|value| *value <= most)
            .ok_or_else(|| self.wrong(line, expected))
    }

    pub(super) fn tokens(self, line: u64) -> Result<u32, TraceError> {
        self.whole(
            line,
            u64::from(u32::MAX),
            "a whole number of tokens from 0 to 4294967295",
        )
        .map(|tokens| tokens as u32)
    }

    /// A whole number that may be negative.
    pub(super) fn signed(self, line: u64) -> Result<i16, TraceError> {
        let value = match self.value {
            Scalar::Whole(value) => i16::try_from(*value).ok(),
            Scalar::Real(value) if value.fract() == 0.0 && value.abs() <= 32_767.0 => {
                Some(*value as i16)
            }
            Scalar::Real(_) => None,
            Scalar::Text(text) => text.parse().ok(),
        };
        value.ok_or_else(|| self.wrong(line, "a whole number from -32768 to 32767"))
    }

    /// Nanoseconds of a time in a unit of so many decimal places, or of a date with a time.
    pub(super) fn time(self, line: u64, places: u32) -> Result<i128, TraceError> {
        let found = match self.value {
            Scalar::Whole(value) => Some(i128::from(*value) * 10_i128.pow(places)),
            Scalar::Real(value) => scaled(*value, places),
            Scalar::Text(text) => super::timestamp::decimal(text, places)
                .or_else(|| super::timestamp::nanoseconds(text)),
        };
        // Beyond the year 5000 a number is of another unit.
        found
            .filter(|time| time.abs() <= 100_000_000_000 * 1_000_000_000)
            .ok_or_else(|| {
                let unit = unit(places);
                let hint = if places == 9 {
                    ", or a date such as 2023-11-16 18:17:03.97996 (a column in milliseconds is named `timestamp_ms`)"
                } else {
                    ""
                };
                self.wrong(line, &format!("a time in {unit}{hint}"))
            })
    }

    /// A name, as it stands; empty: none.
    pub(super) fn text(&self, line: u64) -> Result<Option<Cow<'_, str>>, TraceError> {
        let text = match self.value {
            Scalar::Whole(value) => Cow::Owned(value.to_string()),
            Scalar::Real(value) => Cow::Owned(value.to_string()),
            Scalar::Text(text) if text.len() > LONGEST_CELL => {
                return Err(self.wrong(line, &format!("a name of at most {LONGEST_CELL} bytes")));
            }
            Scalar::Text(text) => Cow::Borrowed(text.trim()),
        };
        Ok((!text.is_empty()).then_some(text))
    }

    /// That the cell is not as it should be.
    pub(super) fn wrong(self, line: u64, expected: &str) -> TraceError {
        let shown = match self.value {
            Scalar::Whole(value) => value.to_string(),
            Scalar::Real(value) => value.to_string(),
            Scalar::Text(text) if text.parse::<f64>().is_ok() && text.len() <= 40 => {
                text.to_string()
            }
            Scalar::Text(text) => shortened(text),
        };
        TraceError::line(
            line,
            format!("`{}` is {shown}; expected {expected}", self.name),
        )
    }
}

/// A real that is a whole number.
fn whole(value: f64) -> Option<u64> {
    (value.fract() == 0.0 && (0.0..9e15).contains(&value)).then_some(value as u64)
}

/// A real times a power of ten, as far as it makes sense for a time.
pub(super) fn scaled(value: f64, places: u32) -> Option<i128> {
    let scaled = value * 10_i64.pow(places) as f64;
    (scaled.abs() <= 1e21).then_some(scaled.round() as i128)
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a number or a text")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Scalar::Whole(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(u64::try_from(value).map_or(Scalar::Real(value as f64), Scalar::Whole))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Scalar::Real(value))
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Owned(value.to_owned())))
    }
}

//! Traces as CSV: Azure's, BurstGPT's and plain ones.

use super::{
    Trace, TraceError, TraceKind,
    columns::{Field, Row, field, kind_of, name},
    rows::{Rows, cell},
};
use crate::table_error;

/// Longest row; what is longer lacks a quote.
const LONGEST_ROW: usize = 1 << 20;

/// Which columns mean what.
#[derive(Debug)]
pub(super) struct Layout {
    kind: TraceKind,
    /// Column, its field, and how early its name stands among the field's.
    columns: Vec<(usize, Field, usize)>,
}

/// The layout of a table with these columns (in lower case), if it is one of those known.
pub(super) fn layout(columns: &[String]) -> Option<Layout> {
    let columns: Vec<(usize, Field, usize)> = columns
        .iter()
        .enumerate()
        .filter_map(|(place, column)| field(column).map(|(field, rank)| (place, field, rank)))
        .collect();
    let first = |wanted: Field| {
        columns
            .iter()
            .filter(|(_, field, _)| *field == wanted)
            .min_by_key(|(_, _, rank)| *rank)
    };
    first(Field::Arrival)?;
    first(Field::Output)?;
    let (_, _, rank) = first(Field::Input)?;
    Some(Layout {
        kind: kind_of(name(Field::Input, *rank)),
        columns,
    })
}

/// What such columns lack of a trace, if they look like one.
pub(super) fn lacking(columns: &[String]) -> Option<String> {
    let has = |wanted: Field| {
        let mut fields = columns.iter().filter_map(|column| field(column));
        fields.any(|(field, _)| field == wanted)
    };
    if !has(Field::Input) && !has(Field::Output) {
        return None;
    }
    let lacking: Vec<String> = [
        (Field::Arrival, "arrivals"),
        (Field::Input, "prompt tokens"),
        (Field::Output, "generated tokens"),
    ]
    .iter()
    .filter(|(field, _)| !has(*field))
    .map(|(field, what)| {
        format!(
            "no column of {what}: name it `{}` or `{}`",
            name(*field, 0),
            name(*field, 1)
        )
    })
    .collect();
    Some(lacking.join("; "))
}

pub(super) fn read(text: &str, layout: &Layout) -> Result<Trace, TraceError> {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let mut record = csv::StringRecord::new();
    let mut rows = Rows::new(layout.kind, text);
    loop {
        let more = reader.read_record(&mut record).map_err(|error| {
            TraceError::line(
                error.position().map_or(0, csv::Position::line),
                table_error(&error, None),
            )
        })?;
        if !more {
            break;
        }
        let line = record.position().map_or(0, csv::Position::line);
        if record.as_slice().len() > LONGEST_ROW {
            return Err(TraceError::line(
                line,
                format!(
                    "a row of {} bytes; expected at most {LONGEST_ROW}: a quote is missing, or it is no table",
                    record.as_slice().len()
                ),
            ));
        }
        let mut row = Row::default();
        for (column, field, rank) in &layout.columns {
            if let Some(value) = record.get(*column).and_then(cell) {
                row.put(*field, *rank, value);
            }
        }
        // A missing cell is named as the column is, not as the first of its names.
        for wanted in [Field::Arrival, Field::Input, Field::Output] {
            if row.get(wanted).is_none() {
                let column = layout.columns.iter().find(|(_, field, _)| *field == wanted);
                let rank = column.map_or(0, |(_, _, rank)| *rank);
                let problem = format!("`{}` is missing", name(wanted, rank));
                return Err(TraceError::line(line, problem));
            }
        }
        rows.push(line, &row, None)?;
    }
    rows.finish(Vec::new())
}

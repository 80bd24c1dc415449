//! Traces as CSV: Azure's, BurstGPT's and plain ones.

use super::{
    MOST_REQUESTS, Request, Trace, TraceError, TraceKind, finish, seconds, timestamp, tokens,
};

/// Which columns mean what.
#[derive(Debug)]
pub(super) struct Layout {
    kind: TraceKind,
    arrival: usize,
    input: usize,
    output: usize,
    /// The names of these columns, for messages.
    names: [String; 3],
}

/// Names of the columns of each kind, in lower case, the first present counts.
const KINDS: [(TraceKind, [&[&str]; 3]); 3] = [
    (
        TraceKind::Azure,
        [&["timestamp"], &["contexttokens"], &["generatedtokens"]],
    ),
    (
        TraceKind::BurstGpt,
        [&["timestamp"], &["request tokens"], &["response tokens"]],
    ),
    (
        TraceKind::Plain,
        [
            &[
                "arrival_s",
                "arrival_seconds",
                "arrival",
                "arrived_at",
                "timestamp_s",
            ],
            &[
                "isl",
                "input_tokens",
                "input_length",
                "input",
                "prompt_tokens",
                "num_prefill_tokens",
            ],
            &[
                "osl",
                "output_tokens",
                "output_length",
                "output",
                "completion_tokens",
                "num_decode_tokens",
            ],
        ],
    ),
];

/// The layout of a table with these columns (in lower case), if it is one of those known.
pub(super) fn layout(columns: &[String]) -> Option<Layout> {
    let position = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| columns.iter().position(|column| column == name))
    };
    KINDS.iter().find_map(|(kind, [arrival, input, output])| {
        let at = [position(arrival)?, position(input)?, position(output)?];
        Some(Layout {
            kind: *kind,
            arrival: at[0],
            input: at[1],
            output: at[2],
            names: at.map(|column| columns[column].clone()),
        })
    })
}

pub(super) fn read(text: &str, layout: &Layout) -> Result<Trace, TraceError> {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let mut record = csv::StringRecord::new();
    let mut requests = Vec::new();
    let mut failed: u64 = 0;
    let mut first_time = None;
    loop {
        let more = reader.read_record(&mut record).map_err(|error| {
            TraceError::line(
                error.position().map_or(0, csv::Position::line),
                error.to_string(),
            )
        })?;
        if !more {
            break;
        }
        let line = record.position().map_or(0, csv::Position::line);
        let request = request(&record, line, layout, &mut first_time)?;
        // BurstGPT marks failures by an empty response.
        if layout.kind == TraceKind::BurstGpt && request.output == 0 {
            failed += 1;
            continue;
        }
        if requests.len() >= MOST_REQUESTS {
            return Err(TraceError::TooMany);
        }
        requests.push(request);
    }
    let mut notes = Vec::new();
    if failed > 0 {
        notes.push(format!(
            "{failed} failed requests (no response tokens) are left out"
        ));
    }
    finish(layout.kind, requests, true, notes)
}

fn request(
    record: &csv::StringRecord,
    line: u64,
    layout: &Layout,
    first_time: &mut Option<i128>,
) -> Result<Request, TraceError> {
    let cell = |column: usize, name: &str| {
        record
            .get(column)
            .filter(|cell| !cell.is_empty())
            .ok_or_else(|| TraceError::line(line, format!("`{name}` is missing")))
    };
    let number = |column: usize, name: &str| -> Result<f64, TraceError> {
        let cell = cell(column, name)?;
        cell.parse()
            .map_err(|_| TraceError::line(line, format!("`{name}` is {cell:?}; expected a number")))
    };
    let [arrival, input, output] = &layout.names;
    let arrival_seconds = if layout.kind == TraceKind::Azure {
        let cell = cell(layout.arrival, arrival)?;
        let time = timestamp::nanoseconds(cell).ok_or_else(|| {
            TraceError::line(
                line,
                format!(
                    "`{arrival}` is {cell:?}; expected a time such as 2023-11-16 18:17:03.97996"
                ),
            )
        })?;
        // Whole differences first: seconds since 1970 leave no room for microseconds.
        (time - *first_time.get_or_insert(time)) as f64 / 1e9
    } else {
        seconds(line, arrival, number(layout.arrival, arrival)?)?
    };
    Ok(Request {
        arrival_seconds,
        input: tokens(line, input, number(layout.input, input)?)?,
        output: tokens(line, output, number(layout.output, output)?)?,
        prefix_blocks: None,
    })
}

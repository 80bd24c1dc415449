//! Request traces: when requests came, and how long they were.
//!
//! The kind of a file shows in its first line: Azure's and BurstGPT's tables, Mooncake's lines,
//! ShareGPT's conversations, ServeGen's rates and lengths, and plain tables of arrivals.

mod clients;
mod columns;
mod conversations;
mod decompress;
mod lines;
mod prefixes;
mod rows;
mod series;
mod servegen;
mod starts;
mod summary;
mod tables;
pub mod timestamp;

pub use decompress::{DecompressError, decompress};
pub use series::{Counts, DECODE, PREFILL, RateSeries, Readings, read_series};
pub use servegen::{LengthTable, LengthWindow, RateSummary, RateTable, RateWindow};
pub use starts::{SeenStart, read_starts};
pub use summary::{LengthSummary, TraceSummary};

use gpuwise_domain::request::Request;
use gpuwise_units::Nanoseconds;

/// More requests than any published trace; the limit bounds memory.
pub const MOST_REQUESTS: usize = 20_000_000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The first line shows none of the kinds that are read.
    #[error(
        "line {line}: no kind of trace that is read begins like this: {found}; expected a CSV header with \
         `TIMESTAMP,ContextTokens,GeneratedTokens` (Azure), `Timestamp,…,Request tokens,Response tokens` (BurstGPT) or \
         `arrival_s,isl,osl`, JSON lines with `timestamp`, `input_length` and `output_length` (Mooncake) or \
         `arrival_s`, `isl` and `osl`, or a JSON list of conversations (ShareGPT)"
    )]
    Unknown { line: u64, found: String },
    /// One entry cannot be.
    #[error("line {line}: {problem}")]
    Line {
        /// Line in the file, from 1 (for ShareGPT the conversation, from 1).
        line: u64,
        /// What is wrong and what would be right.
        problem: String,
    },
    #[error("line {line}, byte {column} of it: this is no text in UTF-8; {hint}")]
    NotText {
        /// Line in the file, from 1.
        line: u64,
        /// Byte in the line, from 1.
        column: u64,
        hint: &'static str,
    },
    #[error("the trace holds no requests")]
    Empty,
    /// More requests than are read.
    #[error("the trace holds more than {MOST_REQUESTS} requests")]
    TooMany,
    /// A table of ServeGen, where requests were asked for.
    #[error(
        "this is a table of {0} by window, not of requests: rates and lengths are read from it separately"
    )]
    NotRequests(&'static str),
}

impl TraceError {
    fn line(line: u64, problem: impl Into<String>) -> Self {
        Self::Line {
            line,
            problem: problem.into(),
        }
    }
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum TraceKind: name {
        /// Azure's production traces of 2023 and 2024.
        Azure = "Azure",
        /// Mooncake's traces with blocks of 512 tokens.
        Mooncake = "Mooncake",
        BurstGpt = "BurstGPT",
        /// ShareGPT conversations: no times, and tokens are estimated.
        ShareGpt = "ShareGPT",
        /// A plain table or lines of arrivals and lengths.
        Plain = "plain",
    }
}

/// Requests in the order in which they came.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    pub kind: TraceKind,
    /// The requests; the first is due at 0, and where the file says nothing of time all are.
    pub requests: Vec<Request>,
    /// Whether the file says when requests came.
    pub timed: bool,
    /// Tokens of a block, where blocks are given.
    pub block_tokens: Option<u32>,
    /// Names of tenants, in the order of their numbers from 1.
    pub tenants: Vec<String>,
    /// Names of LoRA adapters, in the order of their numbers from 1.
    pub adapters: Vec<String>,
    /// What was estimated, sorted or left out, in words for a reader.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum TrafficFile {
    Trace(Trace),
    /// Rates by window (ServeGen).
    Rates(RateTable),
    /// Lengths by window (ServeGen).
    Lengths(LengthTable),
}

/// Reads a trace of requests; its kind is told by its first line.
///
/// # Errors
/// When the kind is unknown, an entry cannot be, or it holds rates instead of requests.
pub fn read_trace(text: &str) -> Result<Trace, TraceError> {
    match read_traffic(text)? {
        TrafficFile::Trace(trace) => Ok(trace),
        TrafficFile::Rates(_) => Err(TraceError::NotRequests("rates")),
        TrafficFile::Lengths(_) => Err(TraceError::NotRequests("lengths")),
    }
}

/// Reads a file of traffic of any kind; told by its first line.
///
/// # Errors
/// When the kind is unknown, or an entry cannot be.
pub fn read_traffic(text: &str) -> Result<TrafficFile, TraceError> {
    // Files saved on Windows begin with a mark.
    let text = text.trim_start_matches('\u{feff}');
    let (line, first) = match (1..)
        .zip(text.lines())
        .find(|(_, line)| !line.trim().is_empty())
    {
        Some((line, first)) => (line, first.trim()),
        None => return Err(TraceError::Empty),
    };
    if first.starts_with('[') {
        return conversations::read(text).map(TrafficFile::Trace);
    }
    if first.starts_with('{') {
        return lines::read(text).map(TrafficFile::Trace);
    }
    let columns: Vec<String> = first
        .split(',')
        .map(|name| name.trim().trim_matches('"').to_ascii_lowercase())
        .collect();
    let has = |name: &str| columns.iter().any(|column| column == name);
    if has("t_s") && has("rate_rps") {
        return servegen::rates(text).map(TrafficFile::Rates);
    }
    if has("t_s") && has("field") && has("mean") {
        return servegen::lengths(text).map(TrafficFile::Lengths);
    }
    if let Some(layout) = tables::layout(&columns) {
        return tables::read(text, &layout).map(TrafficFile::Trace);
    }
    Err(match tables::lacking(&columns) {
        Some(problem) => TraceError::line(line, problem),
        None => TraceError::Unknown {
            line,
            found: shortened(first),
        },
    })
}

fn shortened(line: &str) -> String {
    let short: String = line.chars().take(60).collect();
    if short.len() < line.len() {
        format!("{short:?}…")
    } else {
        format!("{short:?}")
    }
}

impl Trace {
    /// A trace of these requests: put in order, counted from the first. Times mean nothing where it is
    /// not `timed`.
    ///
    /// # Errors
    /// When there are none.
    pub fn new(
        kind: TraceKind,
        mut requests: Vec<Request>,
        timed: bool,
        mut notes: Vec<String>,
    ) -> Result<Self, TraceError> {
        if timed && !requests.is_sorted_by_key(|request| request.due) {
            requests.sort_by_key(|request| request.due);
            notes.push(rows::SORTED.into());
        }
        let Some(first) = requests.first().map(|request| request.due) else {
            return Err(TraceError::Empty);
        };
        for request in &mut requests {
            let due = if timed { request.due.0 - first.0 } else { 0 };
            request.due = Nanoseconds(due);
        }
        Ok(Self {
            kind,
            requests,
            timed,
            block_tokens: None,
            tenants: Vec::new(),
            adapters: Vec::new(),
            notes,
        })
    }

    /// The requests, as a simulated or a measured service gets them.
    pub fn into_requests(self) -> Vec<Request> {
        self.requests
    }
}

/// The text of a trace's bytes.
///
/// # Errors
/// When they are no UTF-8, with the line and column of the first that is not.
pub fn text(bytes: &[u8]) -> Result<&str, TraceError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or(bytes);
        let line = before.split(|byte| *byte == b'\n').count() as u64;
        let column = before.rsplit(|byte| *byte == b'\n').next().unwrap_or(&[]);
        let wide = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
        TraceError::NotText {
            line,
            column: column.len() as u64 + 1,
            hint: if wide {
                "it begins as UTF-16 does: save it as UTF-8"
            } else {
                "save it as UTF-8"
            },
        }
    })
}

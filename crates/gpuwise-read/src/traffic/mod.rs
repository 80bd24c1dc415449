//! Request traces: when requests came, and how long they were.
//!
//! The kind of a file shows in its first line: Azure's and BurstGPT's tables, Mooncake's lines,
//! ShareGPT's conversations, ServeGen's rates and lengths, and plain tables of arrivals.

mod conversations;
mod decompress;
mod lines;
mod servegen;
mod summary;
mod tables;
mod timestamp;

pub use decompress::{DecompressError, decompress};
pub use servegen::{LengthTable, LengthWindow, RateSummary, RateTable, RateWindow};
pub use summary::{LengthSummary, TraceSummary};

/// More requests than any published trace; the limit bounds memory.
pub const MOST_REQUESTS: usize = 20_000_000;

/// What is wrong with a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The first line shows none of the kinds that are read.
    #[error(
        "line {line}: no kind of trace that is read begins like this: {found}; expected a CSV header with \
         `TIMESTAMP,ContextTokens,GeneratedTokens` (Azure), `Timestamp,…,Request tokens,Response tokens` (BurstGPT) or \
         `arrival_s,isl,osl`, JSON lines with `timestamp`, `input_length` and `output_length` (Mooncake) or \
         `arrival_s`, `isl` and `osl`, or a JSON list of conversations (ShareGPT)"
    )]
    Unknown {
        /// The line.
        line: u64,
        /// How it begins.
        found: String,
    },
    /// One entry cannot be.
    #[error("line {line}: {problem}")]
    Line {
        /// Line in the file, from 1 (for ShareGPT the conversation, from 1).
        line: u64,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// No requests.
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

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Seconds after the first request; 0 where the file says nothing of time.
    pub arrival_seconds: f64,
    /// Tokens of the prompt.
    pub input: u32,
    /// Tokens generated.
    pub output: u32,
    /// Ids of the prompt's blocks in order, equal where the prompt up to there is equal.
    pub prefix_blocks: Option<Vec<u64>>,
}

/// From what a trace was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceKind {
    /// Azure's production traces of 2023 and 2024.
    Azure,
    /// Mooncake's traces with blocks of 512 tokens.
    Mooncake,
    /// BurstGPT.
    BurstGpt,
    /// ShareGPT conversations: no times, and tokens are estimated.
    ShareGpt,
    /// A plain table or lines of arrivals and lengths.
    Plain,
}

impl TraceKind {
    /// Its usual name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Azure => "Azure",
            Self::Mooncake => "Mooncake",
            Self::BurstGpt => "BurstGPT",
            Self::ShareGpt => "ShareGPT",
            Self::Plain => "plain",
        }
    }
}

/// Requests in the order in which they came.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// From what it was read.
    pub kind: TraceKind,
    /// The requests.
    pub requests: Vec<Request>,
    /// Whether the file says when requests came.
    pub timed: bool,
    /// Tokens of a block, where blocks are given.
    pub block_tokens: Option<u32>,
    /// What was estimated, sorted or left out, in words for a reader.
    pub notes: Vec<String>,
}

/// What a file of traffic holds.
#[derive(Debug, Clone, PartialEq)]
pub enum TrafficFile {
    /// Requests one by one.
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
    match tables::layout(&columns) {
        Some(layout) => tables::read(text, &layout).map(TrafficFile::Trace),
        None => Err(TraceError::Unknown {
            line,
            found: shortened(first),
        }),
    }
}

fn shortened(line: &str) -> String {
    let short: String = line.chars().take(60).collect();
    if short.len() < line.len() {
        format!("{short:?}…")
    } else {
        format!("{short:?}")
    }
}

/// Puts requests in order, counts time from the first, and checks that there are any.
fn finish(
    kind: TraceKind,
    mut requests: Vec<Request>,
    timed: bool,
    mut notes: Vec<String>,
) -> Result<Trace, TraceError> {
    if requests.is_empty() {
        return Err(TraceError::Empty);
    }
    if timed && !requests.is_sorted_by(|a, b| a.arrival_seconds <= b.arrival_seconds) {
        requests.sort_by(|a, b| a.arrival_seconds.total_cmp(&b.arrival_seconds));
        notes.push("requests were not in the order of their arrival: sorted".into());
    }
    let first = requests[0].arrival_seconds;
    for request in &mut requests {
        request.arrival_seconds -= first;
    }
    let block_tokens = requests
        .iter()
        .any(|request| request.prefix_blocks.is_some())
        .then_some(lines::BLOCK_TOKENS);
    Ok(Trace {
        kind,
        requests,
        timed,
        block_tokens,
        notes,
    })
}

/// A number of tokens that can be.
fn tokens(line: u64, field: &str, value: f64) -> Result<u32, TraceError> {
    if value.is_finite() && (0.0..=f64::from(u32::MAX)).contains(&value) && value.fract() == 0.0 {
        Ok(value as u32)
    } else {
        Err(TraceError::line(
            line,
            format!("`{field}` is {value}; expected a whole number of tokens from 0"),
        ))
    }
}

/// A time in seconds that can be: some 30,000 years bound what differences can lose.
fn seconds(line: u64, field: &str, value: f64) -> Result<f64, TraceError> {
    if value.is_finite() && value.abs() <= 1e12 {
        Ok(value)
    } else {
        Err(TraceError::line(
            line,
            format!("`{field}` is {value}; expected a time in seconds"),
        ))
    }
}

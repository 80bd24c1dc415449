//! Traces as JSON lines: Mooncake's and plain ones.

use super::{
    MOST_REQUESTS, Request, Trace, TraceError, TraceKind, conversations, finish, seconds, tokens,
};
use serde::Deserialize;

/// Tokens of a block in Mooncake's traces; the last block of a prompt may be partial.
pub(super) const BLOCK_TOKENS: u32 = 512;

/// One line; which fields are there tells the kind.
#[derive(Deserialize)]
struct Line {
    /// Milliseconds.
    timestamp: Option<f64>,
    input_length: Option<f64>,
    output_length: Option<f64>,
    hash_ids: Option<Vec<u64>>,
    /// Seconds.
    #[serde(alias = "arrival_seconds", alias = "arrival_time")]
    arrival_s: Option<f64>,
    #[serde(alias = "input_tokens", alias = "input_toks", alias = "prompt_tokens")]
    isl: Option<f64>,
    #[serde(
        alias = "output_tokens",
        alias = "output_toks",
        alias = "completion_tokens"
    )]
    osl: Option<f64>,
    conversations: Option<serde::de::IgnoredAny>,
}

pub(super) fn read(text: &str) -> Result<Trace, TraceError> {
    let mut requests = Vec::new();
    let mut kind = TraceKind::Plain;
    for (number, line) in (1_u64..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let parsed: Line = serde_json::from_str(line)
            .map_err(|error| TraceError::line(number, error.to_string()))?;
        if requests.is_empty() {
            if parsed.conversations.is_some() {
                return conversations::read_lines(text);
            }
            if parsed.timestamp.is_some() {
                kind = TraceKind::Mooncake;
            }
        }
        if requests.len() >= MOST_REQUESTS {
            return Err(TraceError::TooMany);
        }
        requests.push(request(parsed, number, kind)?);
    }
    finish(kind, requests, true, Vec::new())
}

fn request(line: Line, number: u64, kind: TraceKind) -> Result<Request, TraceError> {
    let need = |field: &str, value: Option<f64>| {
        value.ok_or_else(|| TraceError::line(number, format!("`{field}` is missing")))
    };
    let (arrival, names, input, output) = if kind == TraceKind::Mooncake {
        let milliseconds = need("timestamp", line.timestamp)?;
        (
            milliseconds / 1e3,
            ["timestamp", "input_length", "output_length"],
            line.input_length,
            line.output_length,
        )
    } else {
        let arrival = need("arrival_s", line.arrival_s)?;
        let (input, output) = (
            line.isl.or(line.input_length),
            line.osl.or(line.output_length),
        );
        (arrival, ["arrival_s", "isl", "osl"], input, output)
    };
    Ok(Request {
        arrival_seconds: seconds(number, names[0], arrival)?,
        input: tokens(number, names[1], need(names[1], input)?)?,
        output: tokens(number, names[2], need(names[2], output)?)?,
        prefix_blocks: line.hash_ids,
    })
}

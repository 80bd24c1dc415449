//! ShareGPT: conversations as texts, of which the first question and answer make a request.

use super::{MOST_REQUESTS, Trace, TraceError, TraceKind, lines::in_line};
use gpuwise_domain::request::Request;
use serde::Deserialize;

/// Characters of a token in English text, roughly; a tokenizer would tell.
const CHARACTERS_PER_TOKEN: usize = 4;

#[derive(Deserialize)]
struct Conversation {
    #[serde(alias = "conversation", default)]
    conversations: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    #[serde(alias = "content", default)]
    value: String,
}

/// A JSON list of conversations.
pub(super) fn read(text: &str) -> Result<Trace, TraceError> {
    let conversations: Vec<Conversation> = serde_json::from_str(text)
        .map_err(|error| TraceError::line(error.line() as u64, error.to_string()))?;
    trace(conversations.iter().map(request))
}

/// A conversation a line.
pub(super) fn read_lines(text: &str) -> Result<Trace, TraceError> {
    let mut requests = Vec::new();
    for (number, line) in (1_u64..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let conversation: Conversation =
            serde_json::from_str(line).map_err(|error| in_line(number, &error))?;
        requests.push(request(&conversation));
    }
    trace(requests.into_iter())
}

fn request(conversation: &Conversation) -> Option<Request> {
    let [question, answer, ..] = conversation.conversations.as_slice() else {
        return None;
    };
    let tokens = |turn: &Turn| {
        let characters = turn.value.chars().count();
        u32::try_from(characters.div_ceil(CHARACTERS_PER_TOKEN)).unwrap_or(u32::MAX)
    };
    Some(Request {
        input: tokens(question),
        output: tokens(answer),
        ..Request::default()
    })
}

fn trace(candidates: impl Iterator<Item = Option<Request>>) -> Result<Trace, TraceError> {
    let mut requests = Vec::new();
    let mut short: u64 = 0;
    for candidate in candidates {
        match candidate {
            Some(_) if requests.len() >= MOST_REQUESTS => return Err(TraceError::TooMany),
            Some(request) => requests.push(request),
            None => short += 1,
        }
    }
    let mut notes = vec![format!(
        "tokens are estimated as characters / {CHARACTERS_PER_TOKEN}, and the file says nothing of arrivals"
    )];
    if short > 0 {
        notes.push(format!(
            "{short} conversations without an answer are left out"
        ));
    }
    Trace::new(TraceKind::ShareGpt, requests, false, notes)
}

//! What one event of a stream, or a whole answer, says.

use serde::Deserialize;
use serde_json::Value;

/// Texts of servers are shown up to this many characters.
const LONGEST_MESSAGE: usize = 200;

/// What the data of an event means.
#[derive(Debug, Clone, PartialEq)]
pub enum Chunk {
    /// The stream ends here.
    Done,
    ChunkDelta(ChunkDelta),
    /// The server says that it failed.
    Error(String),
    /// It is none of these: how it begins.
    Garbage(String),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChunkDelta {
    /// It brings text, reasoning or a tool call, so at least one token; pieces that bring a role or
    /// the reason of the end bring none.
    pub has_tokens: bool,
    /// Its text, reasoning left out.
    pub text: String,
    /// It says why the answer ends.
    pub finished: bool,
    /// Token counts of the whole request.
    pub usage: Option<Usage>,
    /// What the server measured itself, where it says so.
    pub timings: Option<Timings>,
}

/// Token counts as the server reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: Option<u64>,
    pub completion: Option<u64>,
    /// Tokens of the prompt that the prefix cache held.
    pub cached: Option<u64>,
}

/// Times that llama.cpp reports with an answer, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Timings {
    pub prompt_ms: Option<f64>,
    pub predicted_ms: Option<f64>,
    /// Each of them on average.
    pub predicted_per_token_ms: Option<f64>,
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    timings: Option<Timings>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    text: Option<String>,
    #[serde(default, alias = "message")]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<Value>,
}

#[derive(Deserialize, Default)]
struct Delta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Value>>,
}

impl Chunk {
    /// Reads the data of an event, or the body of an answer that is no stream.
    pub fn read(data: &[u8]) -> Self {
        if data.trim_ascii() == b"[DONE]" {
            return Self::Done;
        }
        let Ok(body) = serde_json::from_slice::<Body>(data) else {
            return Self::Garbage(shortened(&String::from_utf8_lossy(data)));
        };
        if let Some(error) = body.error.as_ref().filter(|error| !error.is_null()) {
            return Self::Error(message(error));
        }
        if body.choices.is_none() && body.usage.is_none() {
            return Self::Garbage(shortened(&String::from_utf8_lossy(data)));
        }
        let mut piece = ChunkDelta {
            usage: body
                .usage
                .as_ref()
                .filter(|usage| usage.is_object())
                .map(usage),
            timings: body.timings,
            ..ChunkDelta::default()
        };
        for choice in body.choices.unwrap_or_default() {
            let delta = choice.delta.unwrap_or_default();
            piece.has_tokens |= [
                &choice.text,
                &delta.content,
                &delta.reasoning_content,
                &delta.reasoning,
                &delta.refusal,
            ]
            .into_iter()
            .flatten()
            .any(|text| !text.is_empty())
                || delta.tool_calls.is_some_and(|calls| !calls.is_empty());
            piece.finished |= choice.finish_reason.is_some_and(|reason| !reason.is_null());
            for text in [choice.text, delta.content].into_iter().flatten() {
                if piece.text.is_empty() {
                    piece.text = text;
                } else {
                    piece.text.push_str(&text);
                }
            }
        }
        Self::ChunkDelta(piece)
    }
}

/// The message of an error that a server sent, in whichever of the usual forms.
pub(crate) fn error_message(body: &[u8]) -> String {
    match serde_json::from_slice::<Value>(body) {
        Ok(value) => message(value.get("error").unwrap_or(&value)),
        Err(_) => shortened(&String::from_utf8_lossy(body)),
    }
}

fn message(error: &Value) -> String {
    let text = error
        .as_str()
        .or_else(|| error.get("message").and_then(Value::as_str))
        .or_else(|| error.get("detail").and_then(Value::as_str));
    match text {
        Some(text) => shortened(text),
        None => shortened(&error.to_string()),
    }
}

/// The beginning of a text, on one line.
pub(crate) fn shortened(text: &str) -> String {
    let mut short: String = text
        .trim()
        .chars()
        .take(LONGEST_MESSAGE)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.trim().chars().nth(LONGEST_MESSAGE).is_some() {
        short.push('…');
    }
    short
}

fn usage(value: &Value) -> Usage {
    let count = |name: &str| value.get(name).and_then(Value::as_u64);
    let details = value.get("prompt_tokens_details");
    Usage {
        prompt: count("prompt_tokens"),
        completion: count("completion_tokens"),
        cached: details
            .and_then(|details| details.get("cached_tokens"))
            .and_then(Value::as_u64),
    }
}

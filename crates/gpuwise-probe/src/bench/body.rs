//! Bodies of requests, in the words that the server takes.

use super::{
    prompt::{Role, Turn},
    target::Interface,
};
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// Which fields the server takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// `ignore_eos` and `min_tokens`: answers are exactly as long as asked.
    pub exact_length: bool,
    /// `stream_options.include_usage`: streams end with token counts.
    pub stream_usage: bool,
    /// `max_completion_tokens` in place of `max_tokens`.
    pub completion_limit: bool,
}

impl Dialect {
    /// From the richest to the poorest.
    pub(crate) const ALL: [Self; 5] = [
        Self::new(true, true, false),
        Self::new(false, true, false),
        Self::new(false, true, true),
        Self::new(false, false, false),
        Self::new(false, false, true),
    ];

    const fn new(exact_length: bool, stream_usage: bool, completion_limit: bool) -> Self {
        Self {
            exact_length,
            stream_usage,
            completion_limit,
        }
    }
}

/// Everything of a body that all requests share.
#[derive(Debug, Clone)]
pub(crate) struct Bodies {
    pub(crate) model: String,
    pub(crate) interface: Interface,
    pub(crate) stream: bool,
    pub(crate) dialect: Dialect,
    /// Fields of the user's own, which win.
    pub(crate) extra: Map<String, Value>,
}

impl Bodies {
    /// The body of a request for so many tokens.
    pub(crate) fn of(&self, turns: &[Turn], output: u32) -> Bytes {
        let output = output.max(1);
        let mut body = Map::new();
        body.insert("model".into(), self.model.clone().into());
        match self.interface {
            Interface::Chat => {
                let messages = turns.iter().map(|turn| {
                    let role = match turn.role {
                        Role::User => "user",
                        Role::Assistant => "assistant",
                    };
                    json!({"role": role, "content": turn.text})
                });
                body.insert("messages".into(), messages.collect());
            }
            Interface::Completions => {
                let texts: Vec<&str> = turns.iter().map(|turn| turn.text.trim()).collect();
                body.insert("prompt".into(), texts.join(" ").into());
            }
        }
        let limit = if self.dialect.completion_limit {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        body.insert(limit.into(), output.into());
        if self.dialect.exact_length {
            body.insert("min_tokens".into(), output.into());
            body.insert("ignore_eos".into(), true.into());
        }
        body.insert("stream".into(), self.stream.into());
        if self.stream && self.dialect.stream_usage {
            body.insert("stream_options".into(), json!({"include_usage": true}));
        }
        for (name, value) in &self.extra {
            body.insert(name.clone(), value.clone());
        }
        Bytes::from(Value::Object(body).to_string())
    }
}

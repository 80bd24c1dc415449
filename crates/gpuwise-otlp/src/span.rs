//! A span, and how OTLP writes it.

use crate::Context;
use serde_json::{Value, json};

/// How what a span is of went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody says.
    Unset,
    Ok,
    /// Why not, in words.
    Failed(String),
}

/// Something that took time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub at: Context,
    /// The span that it hangs on, of the same trace; `None`: the trace begins with it.
    pub parent: Option<String>,
    pub name: String,
    /// Nanoseconds since 1970.
    pub start: u64,
    /// The same; a span never ends before it starts.
    pub end: u64,
    /// Names and values; those that are empty are left out.
    pub attributes: Vec<(&'static str, String)>,
    pub outcome: Outcome,
}

impl Span {
    pub(crate) fn json(&self) -> Value {
        let given = self.attributes.iter().filter(|(_, text)| !text.is_empty());
        let attributes: Vec<Value> = given
            .map(|(key, text)| json!({"key": key, "value": {"stringValue": text}}))
            .collect();
        let mut span = json!({
            "traceId": self.at.trace,
            "spanId": self.at.span,
            "parentSpanId": self.parent.as_deref().unwrap_or_default(),
            "name": self.name,
            "kind": 1,
            "startTimeUnixNano": self.start.to_string(),
            "endTimeUnixNano": self.end.max(self.start).to_string(),
            "attributes": attributes,
        });
        match &self.outcome {
            Outcome::Unset => {}
            Outcome::Ok => span["status"] = json!({"code": 1}),
            Outcome::Failed(why) => span["status"] = json!({"code": 2, "message": why}),
        }
        span
    }
}

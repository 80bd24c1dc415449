//! What takes spans.

use crate::Span;
use serde_json::{Value, json};
use std::time::Duration;

/// How long a collector has to take spans.
const PATIENCE: Duration = Duration::from_secs(5);

/// Spans of one message at most.
pub(crate) const BATCH: usize = 1000;

/// A collector as one reaches it.
#[derive(Debug, Clone)]
pub struct Collector {
    url: String,
    agent: ureq::Agent,
    /// Who sends, as `service.name`.
    service: &'static str,
}

impl Collector {
    /// `endpoint`, such as `http://localhost:4318`.
    pub fn new(endpoint: &str, service: &'static str) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE));
        Self {
            url: format!("{}/v1/traces", endpoint.trim_end_matches('/')),
            agent: config.build().into(),
            service,
        }
    }

    /// Gives it spans, and waits until it has taken them.
    ///
    /// # Errors
    /// How many it did not take, and why the last of these.
    pub fn take(&self, spans: &[Span]) -> Result<(), (usize, String)> {
        let mut lost = None;
        for some in spans.chunks(BATCH) {
            let sent = self
                .agent
                .post(&self.url)
                .header("content-type", "application/json")
                .send(self.message(some).to_string());
            if let Err(why) = sent {
                let before = lost.map_or(0, |(count, _)| count);
                lost = Some((before + some.len(), format!("{}: {why}", self.url)));
            }
        }
        lost.map_or(Ok(()), Err)
    }

    fn message(&self, spans: &[Span]) -> Value {
        let name = json!([{"key": "service.name", "value": {"stringValue": self.service}}]);
        let scope = json!({"name": "gpuwise", "version": env!("CARGO_PKG_VERSION")});
        let spans: Vec<Value> = spans.iter().map(Span::json).collect();
        json!({"resourceSpans": [{
            "resource": {"attributes": name},
            "scopeSpans": [{"scope": scope, "spans": spans}],
        }]})
    }
}

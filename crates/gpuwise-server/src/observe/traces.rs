//! Traces go to a collector by OTLP over HTTP, as JSON.

use super::spans::Lives;
use crate::writer::Shown;
use gpuwise_store::LogEntry;
use serde_json::{Value, json};
use std::{
    io,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};
use tokio::sync::broadcast::{Receiver, error::RecvError};

/// How long a collector has to take spans.
const PATIENCE: Duration = Duration::from_secs(5);

/// Spans of one message at most.
const BATCH: usize = 1000;

/// Follows the log and tells a collector.
#[derive(Debug, Clone, Default)]
pub(crate) struct Traces {
    sent: Arc<AtomicU64>,
    lost: Arc<AtomicU64>,
}

impl Traces {
    /// Tells the collector at `endpoint`, such as `http://localhost:4318`, until the log is written no more.
    pub(crate) fn follow(
        &self,
        endpoint: &str,
        shown: Shown,
        mut events: Receiver<Arc<LogEntry>>,
    ) -> io::Result<()> {
        let url = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .build()
            .into();
        let told = self.clone();
        let read = move |shown: &Shown, lives: &mut Lives| {
            lives.ended(&shown.read().unwrap_or_else(PoisonError::into_inner))
        };
        thread::Builder::new()
            .name("traces".into())
            .spawn(move || {
                let mut lives = Lives::new(&shown.read().unwrap_or_else(PoisonError::into_inner));
                loop {
                    match events.blocking_recv() {
                        Ok(_) | Err(RecvError::Lagged(_)) => {}
                        Err(RecvError::Closed) => return,
                    }
                    // What came meanwhile is looked at at once.
                    while events.try_recv().is_ok() {}
                    for spans in read(&shown, &mut lives).chunks(BATCH) {
                        told.send(&agent, &url, spans);
                    }
                }
            })?;
        Ok(())
    }

    fn send(&self, agent: &ureq::Agent, url: &str, spans: &[Value]) {
        let name = json!([{"key": "service.name", "value": {"stringValue": "gpuwise"}}]);
        let scope = json!({"name": "gpuwise", "version": env!("CARGO_PKG_VERSION")});
        let message = json!({"resourceSpans": [{
            "resource": {"attributes": name},
            "scopeSpans": [{"scope": scope, "spans": spans}],
        }]});
        let said = agent
            .post(url)
            .header("content-type", "application/json")
            .send(message.to_string());
        // A collector that is not there costs spans, and nothing else.
        let count = if said.is_ok() { &self.sent } else { &self.lost };
        count.fetch_add(spans.len() as u64, Ordering::Relaxed);
    }

    /// Spans that a collector has taken, and that none has.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.sent.load(Ordering::Relaxed),
            self.lost.load(Ordering::Relaxed),
        )
    }
}

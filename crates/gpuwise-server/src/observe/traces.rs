//! Traces go to a collector by OTLP over HTTP, as JSON.

use super::spans::Lives;
use crate::writer::Shown;
use gpuwise_otlp::{Collector, Span};
use gpuwise_store::LogEntry;
use std::{
    io,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};
use tokio::sync::broadcast::{Receiver, error::RecvError};

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
        let collector = Collector::new(endpoint, "gpuwise");
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
                    told.send(&collector, &read(&shown, &mut lives));
                }
            })?;
        Ok(())
    }

    fn send(&self, collector: &Collector, spans: &[Span]) {
        // A collector that is not there costs spans, and nothing else.
        let lost = collector.take(spans).err().map_or(0, |(lost, _)| lost);
        self.sent
            .fetch_add((spans.len() - lost) as u64, Ordering::Relaxed);
        self.lost.fetch_add(lost as u64, Ordering::Relaxed);
    }

    /// Spans that a collector has taken, and that none has.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.sent.load(Ordering::Relaxed),
            self.lost.load(Ordering::Relaxed),
        )
    }
}

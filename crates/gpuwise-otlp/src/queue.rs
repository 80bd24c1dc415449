//! Spans on their way to a collector: put in without waiting, sent by a thread.

use crate::{Collector, Span, collector::BATCH};
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, SyncSender},
    },
    thread,
    time::Duration,
};

/// Spans that wait at most, some 10 MB; what comes beyond them is dropped.
const MOST: usize = 16_384;

/// What became of spans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The collector has taken them.
    pub sent: u64,
    /// It has not taken them when they were sent.
    pub refused: u64,
    /// There was no room for them.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct Told {
    sent: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
    trouble: Mutex<Option<String>>,
}

impl Told {
    fn trouble(&self, why: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

/// A bounded queue before a collector; clones put into the same.
#[derive(Debug, Clone)]
pub struct Queue {
    spans: SyncSender<Message>,
    told: Arc<Told>,
}

#[derive(Debug)]
enum Message {
    Span(Box<Span>),
    /// All before it was sent, or refused.
    Flush(SyncSender<()>),
}

impl Queue {
    /// Starts to send what is put in.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn new(collector: Collector) -> io::Result<Self> {
        Self::holding(MOST, collector)
    }

    fn holding(most: usize, collector: Collector) -> io::Result<Self> {
        let (spans, taken) = mpsc::sync_channel(most);
        let told = Arc::new(Told::default());
        let counted = Arc::clone(&told);
        thread::Builder::new()
            .name("traces".into())
            .spawn(move || send(&collector, &taken, &counted))?;
        Ok(Self { spans, told })
    }

    /// Puts a span in; where there is no room it is dropped and counted.
    pub fn put(&self, span: Span) {
        if self.spans.try_send(Message::Span(Box::new(span))).is_err() {
            self.told.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all that was put in is sent or refused, so long at most.
    pub fn flush(&self, patience: Duration) {
        let (done, ended) = mpsc::sync_channel(1);
        if self.spans.try_send(Message::Flush(done)).is_ok() {
            let _ = ended.recv_timeout(patience);
        }
    }

    pub fn counts(&self) -> Counts {
        let number = |value: &AtomicU64| value.load(Ordering::Relaxed);
        Counts {
            sent: number(&self.told.sent),
            refused: number(&self.told.refused),
            dropped: number(&self.told.dropped),
        }
    }

    /// Why spans were not taken last; `None`: the last ones were.
    pub fn trouble(&self) -> Option<String> {
        let trouble = &self.told.trouble;
        let known = trouble.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }
}

/// Sends what waits, together, until nobody puts anything in.
fn send(collector: &Collector, taken: &Receiver<Message>, told: &Told) {
    while let Ok(first) = taken.recv() {
        let mut spans = Vec::new();
        let mut waiting = Vec::new();
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Span(span) => spans.push(*span),
                Message::Flush(done) => waiting.push(done),
            }
            next = (spans.len() < BATCH)
                .then(|| taken.try_recv().ok())
                .flatten();
        }
        let all = spans.len() as u64;
        if all > 0 {
            match collector.take(&spans) {
                Ok(()) => {
                    told.sent.fetch_add(all, Ordering::Relaxed);
                    told.trouble(None);
                }
                Err((_, why)) => {
                    told.refused.fetch_add(all, Ordering::Relaxed);
                    told.trouble(Some(why));
                }
            }
        }
        for done in waiting {
            let _ = done.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Collector, Counts, Queue};
    use crate::{Context, Outcome, Span};
    use std::{net::TcpListener, time::Duration};

    fn span() -> Span {
        Span {
            at: Context {
                trace: "1".repeat(32),
                span: "2".repeat(16),
            },
            parent: None,
            name: "one".into(),
            start: 2,
            end: 1,
            attributes: Vec::new(),
            outcome: Outcome::Unset,
        }
    }

    #[test]
    fn who_puts_in_never_waits_and_what_is_lost_is_counted() {
        // It takes connections and never answers.
        let silent = TcpListener::bind("127.0.0.1:0").expect("listens");
        let endpoint = format!("http://{}", silent.local_addr().expect("an address"));
        let queue = Queue::holding(3, Collector::new(&endpoint, "test")).expect("a thread");
        for _ in 0..2000 {
            queue.put(span());
        }
        let counts = queue.counts();
        // A message is in its hands, and three wait.
        assert!(counts.dropped >= 2000 - 1000 - 3, "{counts:?}");
        assert_eq!(counts.sent, 0);
    }

    #[test]
    fn a_collector_that_is_not_there_costs_spans_and_is_named() {
        let gone = TcpListener::bind("127.0.0.1:0").expect("listens");
        let endpoint = format!("http://{}", gone.local_addr().expect("an address"));
        drop(gone);
        let queue = Queue::new(Collector::new(&endpoint, "test")).expect("a thread");
        queue.put(span());
        queue.flush(Duration::from_secs(20));
        let refused = Counts {
            refused: 1,
            ..Counts::default()
        };
        assert_eq!(queue.counts(), refused);
        let why = queue.trouble().expect("it is said");
        assert!(why.starts_with(&endpoint), "{why}");
    }
}

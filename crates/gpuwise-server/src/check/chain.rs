//! The chain over a log's events, followed while it is read.

use gpuwise_store::{Head, LogEntry};

/// The chain as it comes to be, and what it must come to at some events.
#[derive(Default)]
pub(super) struct Chain {
    pub(super) head: Head,
    /// Ends of the log as they were noted, at which it has not arrived.
    pub(super) wanted: Vec<Head>,
    /// Whether it holds from the first event that was read, or from one whose chain is believed.
    followed: bool,
}

impl Chain {
    /// Goes on with an event, beside what was kept of it when it was written; what is wrong with it.
    pub(super) fn follow(&mut self, entry: &LogEntry, kept: Option<&Head>) -> Vec<String> {
        let before = std::mem::take(&mut self.head);
        self.head = before.with(entry);
        let mut problems = Vec::new();
        if let Some(kept) = kept.filter(|kept| !kept.chain.is_empty()) {
            let believed = !self.followed && entry.seq > 1 && before.chain.is_empty();
            if kept.chain != self.head.chain {
                if !believed {
                    problems.push(format!(
                        "event {} is not what was written, or one before it was put in or taken out: the chain \
                         does not hold",
                        entry.seq
                    ));
                }
                // What comes after it is held to what was written.
                self.head = kept.clone();
            }
        }
        self.followed = true;
        let head = &self.head;
        let here = self.wanted.extract_if(.., |wanted| wanted.seq == head.seq);
        for wanted in here.collect::<Vec<_>>() {
            if wanted.chain != self.head.chain {
                problems.push(format!(
                    "event {} does not prove what was noted of the log: {wanted}",
                    wanted.seq
                ));
            }
        }
        problems
    }

    /// What is wrong with where it ended.
    pub(super) fn ended(&self) -> Vec<String> {
        let last = self.head.seq;
        let each = self.wanted.iter().map(|wanted| {
            let seq = wanted.seq;
            if seq > last {
                format!("events after {last} are missing: the log was written up to event {seq}")
            } else {
                format!("event {seq} was not read, as it is archived: --archive names its file")
            }
        });
        each.collect()
    }
}

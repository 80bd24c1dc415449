//! A chain over the events of a log: each proves those before it, so that what is missing, changed or put in
//! between is seen.

use crate::{
    LogEntry, Store,
    error::{StoreError, failed},
    hash,
    log::number,
};
use sha2::{Digest as _, Sha256};
use sqlx::Row as _;
use std::{fmt, str::FromStr, sync::PoisonError};

/// Events read at a time.
const PAGE: u32 = 2_000;

/// The end of a chain: an event, and what proves it and all before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// 0: there is no event yet.
    pub seq: u64,
    /// In hexadecimal.
    pub chain: String,
}

impl Head {
    /// The end of the chain with one more event.
    #[must_use]
    pub fn with(&self, entry: &LogEntry) -> Self {
        let mut sum = Sha256::new();
        sum.update(self.chain.as_bytes());
        sum.update(entry.seq.to_le_bytes());
        sum.update(entry.at_ns.to_le_bytes());
        for text in [&entry.kind, &entry.body] {
            sum.update((text.len() as u64).to_le_bytes());
            sum.update(text.as_bytes());
        }
        Self {
            seq: entry.seq,
            chain: hash::hex(&sum.finalize()),
        }
    }
}

impl fmt::Display for Head {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.seq, self.chain)
    }
}

/// A text is no head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an event and its chain, such as 42:9f86d0…, as `gpuwise store check` prints it")]
pub struct NoHead;

impl FromStr for Head {
    type Err = NoHead;

    fn from_str(text: &str) -> Result<Self, NoHead> {
        let (seq, chain) = text.split_once(':').ok_or(NoHead)?;
        let is_sum = chain.len() == 64 && chain.bytes().all(|one| one.is_ascii_hexdigit());
        let seq = seq.parse().ok().filter(|seq| *seq > 0).ok_or(NoHead)?;
        is_sum
            .then(|| Self {
                seq,
                chain: chain.to_ascii_lowercase(),
            })
            .ok_or(NoHead)
    }
}

impl Store {
    /// The last event that was written, whatever became of it since; of a log from before there was a chain,
    /// and of an empty one, event 0.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn head(&self) -> Result<Head, StoreError> {
        let read = self.runtime.block_on(async {
            let head = "SELECT head_seq, head FROM log_leader WHERE one = 1";
            let row = sqlx::query(head).fetch_optional(&self.pool).await?;
            row.map_or(Ok(Head::default()), |row| {
                Ok(Head {
                    seq: row.try_get::<i64, _>(0)?.unsigned_abs(),
                    chain: row.try_get(1)?,
                })
            })
        });
        read.map_err(failed("reading the end of the log"))
    }

    /// What the chain of events after one was when they were written; at most so many.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn chains_after(&self, seq: u64, most: u32) -> Result<Vec<Head>, StoreError> {
        let read = self.runtime.block_on(async {
            let some = "SELECT seq, chain FROM log_events WHERE seq > $1 ORDER BY seq LIMIT $2";
            let query = sqlx::query(some).bind(number(seq)).bind(i64::from(most));
            let rows = query.fetch_all(&self.pool).await?;
            let rows = rows.iter().map(|row| {
                Ok(Head {
                    seq: row.try_get::<i64, _>(0)?.unsigned_abs(),
                    chain: row.try_get(1)?,
                })
            });
            rows.collect::<Result<Vec<_>, sqlx::Error>>()
        });
        read.map_err(failed("reading the log"))
    }

    /// Finds the end of the log before anything is added, of one from before there was a chain by reading it.
    ///
    /// # Errors
    /// When the database refuses, or events at the end of the log are missing.
    pub fn find_head(&self) -> Result<(), StoreError> {
        let head = self.head_before(self.last_event()? + 1)?;
        self.keep_head(Some(head));
        Ok(())
    }

    /// The chain up to the event before one that is to be written.
    pub(crate) fn head_before(&self, seq: u64) -> Result<Head, StoreError> {
        let last = seq.saturating_sub(1);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|known| known.seq == last) {
            return Ok(known.clone());
        }
        drop(known);
        let mut head = self.head()?;
        if head.seq > last {
            return Err(StoreError::Tail {
                last,
                head: head.seq,
            });
        }
        if head.seq == 0 {
            head.seq = self.archived()?.min(last);
        }
        // What was written before there was a chain.
        while head.seq < last {
            let page = self.events_after(head.seq, PAGE)?;
            if page.is_empty() {
                break;
            }
            for entry in page.iter().filter(|entry| entry.seq <= last) {
                head = head.with(entry);
            }
        }
        Ok(head)
    }

    /// Remembers the end of what was kept; `None`: it is not known.
    pub(crate) fn keep_head(&self, head: Option<Head>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = head;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_is_written() {
        let entry = LogEntry {
            seq: 1,
            at_ns: 5,
            kind: "fleet".into(),
            body: "{}".into(),
        };
        let head = Head::default().with(&entry);
        assert_eq!(head.to_string().parse(), Ok(head.clone()));
        for changed in [
            LogEntry {
                seq: 2,
                ..entry.clone()
            },
            LogEntry {
                at_ns: 6,
                ..entry.clone()
            },
            LogEntry {
                kind: "flee".into(),
                body: "t{}".into(),
                ..entry.clone()
            },
        ] {
            assert_ne!(Head::default().with(&changed).chain, head.chain);
        }
        assert_ne!(head.with(&entry).chain, head.chain);
        for bad in ["", "1", "1:", "0:ab", "x:y"] {
            assert_eq!(bad.parse::<Head>(), Err(NoHead), "{bad}");
        }
    }
}

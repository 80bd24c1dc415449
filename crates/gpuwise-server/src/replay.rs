//! The state that a log comes to, followed event by event.

use crate::writer::Stopped;
use gpuwise_broker::{Broken, Broker, FORM};
use gpuwise_store::{LogEntry, Store, StoreError};
use gpuwise_wire::broker::LoggedEvent;
use std::{sync::mpsc, thread};

/// Events read at a time.
const PAGE: u32 = 2_000;

/// Pages that may wait to be applied.
const AHEAD: usize = 4;

/// A state and the last event that is in it. Whoever waits to write follows the log with it, so that it
/// knows the state when it is its turn.
#[derive(Debug, Default)]
pub struct Replay {
    state: Option<Broker>,
    last: u64,
    /// The last event that a snapshot held from which it began; 0: there was none.
    from: u64,
}

impl Replay {
    /// Begins with the newest snapshot that this build can read. One that cannot be read is as if it were
    /// not there: the log makes the same state.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn open(store: &Store) -> Result<Self, StoreError> {
        let Some(snapshot) = store.snapshot(FORM)? else {
            return Ok(Self::default());
        };
        let within = snapshot.seq <= store.last_event()?;
        let state = Broker::of_image(&snapshot.body).ok().filter(|_| within);
        Ok(match state {
            None => Self::default(),
            state => Self {
                state,
                last: snapshot.seq,
                from: snapshot.seq,
            },
        })
    }

    /// The last event of the snapshot from which it began; 0: it began with the first event.
    pub const fn from(&self) -> u64 {
        self.from
    }

    /// Applies the next event of a log.
    ///
    /// # Errors
    /// When it is none that this program knows, or cannot have happened after those before it.
    pub fn apply(&mut self, entry: &LogEntry) -> Result<(), Broken> {
        self.follow(entry.seq, &event(entry)?)
    }

    pub(crate) fn follow(&mut self, seq: u64, logged: &LoggedEvent) -> Result<(), Broken> {
        match &mut self.state {
            None => self.state = Some(Broker::begin(logged)?),
            Some(state) => state.apply(logged)?,
        }
        self.last = seq;
        Ok(())
    }

    /// Applies all that is in the log by now. Documents are read by another thread than events are applied by.
    ///
    /// # Errors
    /// When the database refuses, or the log does not fit together.
    pub fn catch_up(&mut self, store: &Store) -> Result<(), Stopped> {
        let first = store.events_after(self.last, PAGE)?;
        if first.len() < PAGE as usize {
            return Ok(first.iter().try_for_each(|entry| self.apply(entry))?);
        }
        let (sender, receiver) = mpsc::sync_channel(AHEAD);
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut page = Ok(first);
                loop {
                    let parsed = page.map_err(Stopped::from).and_then(|page| parsed(&page));
                    let last = parsed.as_ref().ok().and_then(|page| page.last());
                    let last = last.map(|(seq, _)| *seq);
                    // Where nobody applies any more, nothing is to be read.
                    let heard = sender.send(parsed).is_ok();
                    match last {
                        Some(last) if heard => page = store.events_after(last, PAGE),
                        _ => return,
                    }
                }
            });
            for page in receiver {
                for (seq, logged) in page? {
                    self.follow(seq, &logged)?;
                }
            }
            Ok(())
        })
    }

    pub fn state(&self) -> Option<&Broker> {
        self.state.as_ref()
    }

    /// The number of the last event that is in it.
    pub const fn last(&self) -> u64 {
        self.last
    }

    pub(crate) fn into_state(self) -> Option<(Broker, u64)> {
        self.state.map(|state| (state, self.last))
    }
}

fn parsed(page: &[LogEntry]) -> Result<Vec<(u64, LoggedEvent)>, Stopped> {
    let each = page.iter().map(|entry| Ok((entry.seq, event(entry)?)));
    each.collect()
}

/// An event of the log.
///
/// # Errors
/// When its document is none that we know.
pub(crate) fn event(entry: &LogEntry) -> Result<LoggedEvent, Broken> {
    let event = serde_json::from_str(&entry.body).map_err(|error| {
        let LogEntry { seq, kind, .. } = entry;
        Broken::Document(format!("event {seq} of the log, of kind {kind:?}: {error}"))
    })?;
    Ok(LoggedEvent {
        at_ns: entry.at_ns.unsigned_abs(),
        event,
    })
}

//! Keeping what happens: durable before it is shown and answered, undone where it was not kept.

use super::{Reply, Stopped, Trouble, Writer, entry};
use crate::{lead::BEAT, message::Failure, replay::event, standing::Stage};
use gpuwise_broker::Broker;
use gpuwise_store::{LogEntry, StoreError};
use gpuwise_wire::broker::LoggedEvent;
use std::{
    sync::{Arc, PoisonError},
    time::Instant,
};

/// Events read at a time, after an append whose answer was lost.
const PAGE: u32 = 2_000;

impl Writer {
    /// Says that we are alive, where it is time to. A database that does not answer may come back.
    pub(super) fn beat(&mut self) -> Result<(), Stopped> {
        if self.beaten.elapsed() < BEAT {
            return Ok(());
        }
        let beaten = self.store.beat(self.epoch, self.clock.now().0);
        self.beaten = Instant::now();
        match beaten {
            Ok(()) => {
                self.standing.written();
                if self.trouble == Trouble::Refused {
                    self.well();
                }
            }
            Err(error) => {
                self.bearable(error)?;
                if self.trouble == Trouble::None {
                    self.trouble = Trouble::Refused;
                }
            }
        }
        Ok(())
    }

    /// The log is written again.
    pub(super) fn well(&mut self) {
        self.trouble = Trouble::None;
        self.standing.set(Stage::Writes);
    }

    /// An error that may pass; that somebody else writes does not.
    pub(super) fn bearable(&self, error: StoreError) -> Result<Arc<StoreError>, Stopped> {
        if matches!(error, StoreError::Fenced { .. }) {
            return Err(error.into());
        }
        self.standing.set(Stage::Troubled(whole(&error)));
        Ok(Arc::new(error))
    }

    /// Finds out what an append came to whose answer was lost, and goes on from there; why that cannot be
    /// found out yet.
    pub(super) fn make_sure(&mut self) -> Result<Option<Arc<StoreError>>, Stopped> {
        let last = match self.store.settled(self.epoch) {
            Ok(last) => last,
            Err(error) => return self.bearable(error).map(Some),
        };
        while self.last < last {
            let page = match self.store.events_after(self.last, PAGE) {
                Ok(page) => page,
                Err(error) => return self.bearable(error).map(Some),
            };
            for entry in page {
                self.write().apply(&event(&entry)?)?;
                self.last = entry.seq;
                let _ = self.followers.send(Arc::new(entry));
            }
        }
        let before = self.read().clone();
        self.ahead = before;
        self.trouble = Trouble::Refused;
        Ok(None)
    }

    /// Keeps what has happened, shows it, and answers; whether it was kept. Where it was not it has not
    /// happened.
    pub(super) fn settle(
        &mut self,
        events: &[LoggedEvent],
        replies: Vec<Reply>,
    ) -> Result<bool, Stopped> {
        let entries: Vec<LogEntry> = (self.last + 1..)
            .zip(events)
            .map(|(seq, event)| entry(seq, event))
            .collect();
        if !entries.is_empty() {
            if let Err(error) = self.keep(&entries) {
                self.undo(error, replies)?;
                return Ok(false);
            }
            self.last += entries.len() as u64;
            let mut shown = self.write();
            for event in events {
                shown.apply(event)?;
            }
            drop(shown);
            if self.trouble != Trouble::None {
                self.well();
            }
        }
        for (answer, said) in replies {
            // Nobody may be waiting any more.
            let _ = answer.send(said);
        }
        for entry in entries {
            let _ = self.followers.send(Arc::new(entry));
        }
        Ok(true)
    }

    /// Appends; where the answer was lost, asks what became of it.
    fn keep(&mut self, entries: &[LogEntry]) -> Result<(), StoreError> {
        let Err(error) = self.store.append(self.epoch, entries) else {
            return Ok(());
        };
        self.trouble = Trouble::Refused;
        if !error.is_unsure() {
            return Err(error);
        }
        match self.store.settled(self.epoch) {
            Ok(last) if last == self.last => Err(error),
            Ok(_) => Ok(()),
            Err(asking) => {
                self.trouble = Trouble::Unsure;
                let fenced = matches!(asking, StoreError::Fenced { .. });
                Err(if fenced { asking } else { error })
            }
        }
    }

    /// Goes back to what is durable, and says so to those who asked.
    fn undo(&mut self, error: StoreError, replies: Vec<Reply>) -> Result<(), Stopped> {
        let before = self.read().clone();
        self.ahead = before;
        let fenced = matches!(error, StoreError::Fenced { .. });
        self.standing.set(Stage::Troubled(whole(&error)));
        let error = Arc::new(error);
        for (answer, _) in replies {
            let error = Arc::clone(&error);
            let _ = answer.send(Err(match self.trouble {
                Trouble::Unsure => Failure::Unsure(error),
                Trouble::None | Trouble::Refused => Failure::Store(error),
            }));
        }
        if fenced {
            let epoch = self.epoch.0;
            return Err(StoreError::Fenced { epoch }.into());
        }
        Ok(())
    }

    pub(super) fn write(&self) -> std::sync::RwLockWriteGuard<'_, Broker> {
        self.shown.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn read(&self) -> std::sync::RwLockReadGuard<'_, Broker> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An error with its causes.
fn whole(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

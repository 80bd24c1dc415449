//! What can be told of the watches themselves.

use crate::inventory::Kind;
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Counts of each kind's watch.
#[derive(Debug, Default)]
pub struct Figures {
    kinds: Mutex<BTreeMap<Kind, Counted>>,
    published: Mutex<u64>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counted {
    objects: u64,
    events: u64,
    lists: u64,
    errors: u64,
    newest: Option<Instant>,
}

/// Figures of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KindFigures {
    /// Objects that are held.
    pub objects: u64,
    /// Changes since the start, those of lists included.
    pub events: u64,
    /// Lists begun: the first, and one each time that a watch was too old.
    pub lists: u64,
    /// Times that a watch or a list failed.
    pub errors: u64,
    /// How long ago the newest event came; `None`: none has.
    pub newest: Option<Duration>,
}

impl Figures {
    fn counted(&self, kind: Kind, change: impl FnOnce(&mut Counted)) {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        change(kinds.entry(kind).or_default());
    }

    pub(super) fn event(&self, kind: Kind) {
        self.counted(kind, |counted| {
            counted.events += 1;
            counted.newest = Some(Instant::now());
        });
    }

    pub(super) fn list(&self, kind: Kind) {
        self.counted(kind, |counted| counted.lists += 1);
    }

    pub(super) fn error(&self, kind: Kind) {
        self.counted(kind, |counted| counted.errors += 1);
    }

    pub(super) fn objects(&self, kind: Kind, count: usize) {
        self.counted(kind, |counted| counted.objects = count as u64);
    }

    pub(super) fn published(&self) {
        *self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner) += 1;
    }

    /// Copies of the inventory that were published.
    pub fn copies(&self) -> u64 {
        *self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub fn of(&self, kind: Kind) -> KindFigures {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = kinds.get(&kind).copied().unwrap_or_default();
        KindFigures {
            objects: counted.objects,
            events: counted.events,
            lists: counted.lists,
            errors: counted.errors,
            newest: counted.newest.map(|then| then.elapsed()),
        }
    }
}

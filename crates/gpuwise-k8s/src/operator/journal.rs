//! What the operator has to say beside its events: once, and not again while it is the same.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// Takes a line for people.
type Sink = dyn Fn(&str) + Send + Sync;

/// Says what goes wrong, each thing when it begins and when it is another.
pub struct Journal {
    sink: Box<Sink>,
    last: Mutex<BTreeMap<&'static str, String>>,
}

impl Journal {
    pub fn new(sink: Box<Sink>) -> Self {
        Self {
            sink,
            last: Mutex::default(),
        }
    }

    /// Says that something that was said of holds no more; nothing, where nothing was said of it.
    pub(super) fn over(&self, what: &'static str, how: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.remove(what).is_some() {
            (self.sink)(&format!("{what}: {how}"));
        }
    }

    /// Says of something how it is, unless that was said last.
    pub(super) fn say(&self, what: &'static str, why: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.get(what).is_none_or(|known| known != why) {
            (self.sink)(&format!("{what}: {why}"));
            last.insert(what, why.to_owned());
        }
    }
}

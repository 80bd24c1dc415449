//! Keys under which something was asked for, so that what is asked twice is done once.

use crate::Refusal;
use gpuwise_units::Nanoseconds;
use std::collections::{BTreeMap, BTreeSet};

/// For so long after its request a key is known; later it is a new one.
pub(crate) const KNOWN: Nanoseconds = Nanoseconds(24 * 3_600_000_000_000);

/// A tenant, and a key of its own.
type Key = (String, String);

/// What was asked under which key: when, its hash, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Keys<T> {
    known: BTreeMap<Key, (Nanoseconds, String, T)>,
    by_time: BTreeSet<(Nanoseconds, Key)>,
}

impl<T> Default for Keys<T> {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            by_time: BTreeSet::new(),
        }
    }
}

impl<T> Keys<T> {
    pub(crate) fn keep(&mut self, at: Nanoseconds, key: Key, hash: String, came: T) {
        self.by_time.insert((at, key.clone()));
        if let Some((before, ..)) = self.known.insert(key.clone(), (at, hash, came))
            && before != at
        {
            self.by_time.remove(&(before, key));
        }
    }

    /// Forgets what was asked too long ago, so that what is known is bounded by a day.
    pub(crate) fn forget(&mut self, now: Nanoseconds) {
        while let Some((at, _)) = self.by_time.first()
            && is_over(*at, now)
        {
            if let Some((_, key)) = self.by_time.pop_first() {
                self.known.remove(&key);
            }
        }
    }

    /// What came of what was asked under a key; `None`: it is new, or new again.
    ///
    /// # Errors
    /// When something else was asked for under it.
    pub(crate) fn of(
        &self,
        now: Nanoseconds,
        tenant: &str,
        (key, hash): &(String, String),
    ) -> Result<Option<&T>, Refusal> {
        let known = self.known.get(&(tenant.to_owned(), key.clone()));
        match known.filter(|(at, ..)| !is_over(*at, now)) {
            None => Ok(None),
            Some((_, own, came)) if own == hash => Ok(Some(came)),
            Some(_) => Err(Refusal::KeyReused),
        }
    }
}

fn is_over(at: Nanoseconds, now: Nanoseconds) -> bool {
    now.0.saturating_sub(at.0) >= KNOWN.0
}

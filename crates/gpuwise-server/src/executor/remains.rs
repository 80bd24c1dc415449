//! Leases that are to end or have ended, and of which something still runs: what their GPUs wait for.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

/// By the number of the lease and its worker. Written by an executor, read by whoever answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remains(Arc<RwLock<BTreeMap<(u32, usize), String>>>);

impl Remains {
    /// This runs still; `None`: nothing does.
    pub(crate) fn set(&self, lease: u32, worker: usize, what: Option<String>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match what {
            Some(what) => all.insert((lease, worker), what),
            None => all.remove(&(lease, worker)),
        };
    }

    /// What a lease waits for, in words; `None`: for nothing.
    pub(crate) fn of(&self, lease: u32) -> Option<String> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let own = all.range((lease, 0)..=(lease, usize::MAX));
        let words: Vec<&str> = own.map(|(_, what)| what.as_str()).collect();
        (!words.is_empty()).then(|| {
            let words = words.join(", ");
            format!("processes that still run: {words}; its GPUs are free when these have ended")
        })
    }
}

//! What is asked of services that follow demand, from when it comes: who waits is part of it.

use gpuwise_units::Nanoseconds;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What was asked of one service since this daemon began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) arrived: u64,
    pub(crate) waiting: u64,
    /// Requests that were sent on or given up, and those of them that had waited too long.
    pub(crate) requests: u64,
    pub(crate) late: u64,
}

/// By the first lease of each service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Demand(Arc<Mutex<BTreeMap<u32, Asked>>>);

impl Demand {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Asked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request has come.
    pub(super) fn comes(&self, service: u32, now: Nanoseconds, wait: Nanoseconds) -> Waiting {
        let mut all = self.lock();
        let asked = all.entry(service).or_default();
        asked.arrived += 1;
        asked.waiting += 1;
        Waiting {
            demand: self.clone(),
            service,
            late: now + wait,
            sent: None,
        }
    }

    pub(crate) fn of(&self, service: u32) -> Asked {
        self.lock().get(&service).copied().unwrap_or_default()
    }
}

/// A request that waits; one that is given up has waited too long.
#[derive(Debug)]
pub(super) struct Waiting {
    demand: Demand,
    service: u32,
    late: Nanoseconds,
    sent: Option<Nanoseconds>,
}

impl Waiting {
    /// It goes to a replica.
    pub(super) fn sent(mut self, now: Nanoseconds) {
        self.sent = Some(now);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut all = self.demand.lock();
        let asked = all.entry(self.service).or_default();
        asked.waiting = asked.waiting.saturating_sub(1);
        asked.requests += 1;
        asked.late += u64::from(self.sent.is_none_or(|at| at > self.late));
    }
}

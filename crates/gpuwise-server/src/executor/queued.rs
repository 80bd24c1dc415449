//! Leases whose jobs wait at the system that runs them: what that says of them.

use super::{Accounts, Remains};
use crate::endpoints::Endpoints;
use gpuwise_wire::broker::QueuedAnswer;
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

/// By the number of the lease. Written by an executor at every look, read by whoever answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queued(Arc<RwLock<BTreeMap<u32, QueuedAnswer>>>);

impl Queued {
    /// These wait, and nobody else.
    pub(crate) fn set(&self, all: BTreeMap<u32, QueuedAnswer>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// This one waits, or does not any more.
    pub(crate) fn one(&self, lease: u32, waits: Option<QueuedAnswer>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match waits {
            Some(waits) => all.insert(lease, waits),
            None => all.remove(&lease),
        };
    }

    pub(crate) fn of(&self, lease: u32) -> Option<QueuedAnswer> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&lease).cloned()
    }
}

/// What executors show beside the log: it is there again with their first look.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shows {
    /// Where services answer.
    pub(crate) endpoints: Endpoints,
    /// What leases that end wait for.
    pub(crate) remains: Remains,
    /// Leases whose jobs wait.
    pub(crate) queued: Queued,
    /// Accounts of tenants.
    pub(crate) accounts: Accounts,
}

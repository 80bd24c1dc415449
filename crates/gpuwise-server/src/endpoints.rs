//! Where services answer: what the executor says, and the gateway asks.

use gpuwise_units::Nanoseconds;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU32, Ordering},
    },
};
use tokio::sync::watch;

/// A worker of a service that answers.
#[derive(Debug)]
pub struct Replica {
    /// Host and port.
    pub address: String,
    in_flight: AtomicU32,
    health: watch::Sender<Health>,
}

/// What a replica said of itself since it was ready.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// Questions in a row without a good answer.
    failures: u32,
    /// Since when it is not well, and why.
    unwell: Option<(Nanoseconds, String)>,
}

impl Health {
    /// Since when it is not well, and why; `None`: it is.
    pub(crate) fn unwell(&self) -> Option<(Nanoseconds, &str)> {
        let (since, why) = self.unwell.as_ref()?;
        Some((*since, why))
    }
}

/// A request at a replica, as long as it is there.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Replica>);

impl Replica {
    /// Requests that it has now.
    pub(crate) fn load(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    pub(crate) fn is_well(&self) -> bool {
        self.health.borrow().unwell.is_none()
    }

    /// It said that it is well, or did not; after so many failures in a row it is not.
    pub(crate) fn is_seen(&self, seen: Result<(), String>, most: u32, now: Nanoseconds) {
        self.health.send_if_modified(|health| {
            let before = health.unwell.is_some();
            match seen {
                Ok(()) => *health = Health::default(),
                Err(why) => {
                    health.failures = health.failures.saturating_add(1);
                    let since = health.unwell.as_ref().map(|(since, _)| *since);
                    if since.is_some() || health.failures >= most {
                        health.unwell = Some((since.unwrap_or(now), why));
                    }
                }
            }
            before != health.unwell.is_some()
        });
    }

    pub(crate) fn enter(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }
}

impl InFlight {
    pub(crate) fn address(&self) -> &str {
        &self.0.address
    }

    pub(crate) const fn replica(&self) -> &Arc<Replica> {
        &self.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Replicas by lease.
#[derive(Debug, Clone)]
pub struct Endpoints(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    replicas: RwLock<BTreeMap<u32, Vec<Arc<Replica>>>>,
    changes: watch::Sender<u64>,
}

impl Default for Endpoints {
    fn default() -> Self {
        Self(Arc::new(Inner {
            replicas: RwLock::default(),
            changes: watch::Sender::new(0),
        }))
    }
}

impl Endpoints {
    /// A lease answers here, and nowhere else. What answered here before goes on with what it has.
    pub fn set(&self, lease: u32, addresses: Vec<String>) {
        self.change(|all| {
            let before = all.remove(&lease).unwrap_or_default();
            let replica = |address: String| {
                let same = before.iter().find(|one| one.address == address);
                same.map_or_else(
                    || {
                        Arc::new(Replica {
                            address,
                            in_flight: AtomicU32::new(0),
                            health: watch::Sender::default(),
                        })
                    },
                    Arc::clone,
                )
            };
            all.insert(lease, addresses.into_iter().map(replica).collect())
        });
    }

    /// A lease answers no more.
    pub fn remove(&self, lease: u32) {
        self.change(|all| all.remove(&lease));
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<u32, Vec<Arc<Replica>>>) -> T) {
        let mut all = self
            .0
            .replicas
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        change(&mut all);
        drop(all);
        self.0.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn of(&self, lease: u32) -> Vec<Arc<Replica>> {
        let all = self
            .0
            .replicas
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        all.get(&lease).cloned().unwrap_or_default()
    }

    /// How many replicas of all leases are well, and how many are not.
    pub(crate) fn well(&self) -> (usize, usize) {
        let all = self
            .0
            .replicas
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let well = all.values().flatten().filter(|one| one.is_well()).count();
        (well, all.values().flatten().count() - well)
    }

    /// Changes whenever a service begins or ceases to answer.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }
}

//! Where services answer: what the executor says, and the gateway asks.

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
}

/// A request at a replica, as long as it is there.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Replica>);

impl Replica {
    /// Requests that it has now.
    pub(crate) fn load(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
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

    /// Changes whenever a service begins or ceases to answer.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }
}

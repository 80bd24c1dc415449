//! What was granted is held against what is charged while the broker runs, once an hour of its clock and for each
//! lease that ends: as `gpuwise store check` does of a whole log, and without reading it.

use crate::{serve::Said, standing::Standing};
use gpuwise_account::period::HOUR;
use gpuwise_broker::Broker;
use gpuwise_units::Nanoseconds;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// GPUs of leases of which something else was granted than is charged, as metrics read it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unconserved(Arc<AtomicU64>);

impl Unconserved {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// When it was looked at last, and what was found.
#[derive(Debug, Default)]
pub(crate) struct Conservation {
    pub(crate) found: Unconserved,
    /// The hour of the last look at leases that are not over.
    hour: u64,
    /// Of leases that are not over.
    open: u64,
    said: u64,
}

impl Conservation {
    /// Looks at leases that are over at each call, which costs nothing, and at all others once an hour.
    pub(crate) fn look(&mut self, now: Nanoseconds, broker: &Broker, standing: &Standing) {
        let (over, breaches) = broker.breaches();
        let hour = now.0 / HOUR;
        let mut first = breaches.first().map(ToString::to_string);
        if hour != self.hour {
            self.hour = hour;
            let open = broker.unmetered();
            self.open = open.len() as u64;
            first = open.first().map(ToString::to_string).or(first);
        }
        let count = over + self.open;
        self.found.0.store(count, Ordering::Relaxed);
        if count > self.said
            && let Some(first) = first
        {
            standing.tell(&Said::NotCharged { count, first });
        }
        self.said = count;
    }
}

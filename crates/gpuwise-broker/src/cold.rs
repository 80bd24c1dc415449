//! What a service takes from nothing to its first answer, as it was seen.

use crate::{Broker, Lease};
use gpuwise_units::Nanoseconds;

/// Cold starts of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cold {
    pub starts: usize,
    pub p50: Nanoseconds,
    /// The longest of fewer than a hundred.
    pub p99: Nanoseconds,
}

impl Broker {
    /// Cold starts of what a tenant serves under a name, of all its leases: first starts, and returns after its GPUs
    /// were given back, from when it was wanted. `None`: it was never started.
    pub fn cold(&self, tenant: &str, model: &str) -> Option<Cold> {
        let same = |lease: &&Lease| {
            let service = lease.ask.service.as_ref();
            lease.ask.tenant == tenant && service.is_some_and(|service| service.model == model)
        };
        let each = self.leases().filter(same);
        let times: Vec<Nanoseconds> = each
            .flat_map(|lease| lease.starts.iter().chain(&lease.returned))
            .copied()
            .collect();
        Some(Cold {
            starts: times.len(),
            p50: Lease::percentile(&times, 50)?,
            p99: Lease::percentile(&times, 99)?,
        })
    }
}

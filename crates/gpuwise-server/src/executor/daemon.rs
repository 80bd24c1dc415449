//! The daemon, as executors of other crates see it.

use crate::{endpoints::Endpoints, message::Incoming};
use gpuwise_broker::{Host, Lease, Observation};
use std::sync::mpsc::Sender;

#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) sender: Sender<Incoming>,
    pub(crate) endpoints: Endpoints,
}

impl Host for Daemon {
    fn observed(&self, what: Observation) {
        // The writer may be gone already.
        let _ = self.sender.send(Incoming::Observed(what));
    }

    fn answers(&self, lease: u32, addresses: Vec<String>) {
        if addresses.is_empty() {
            self.endpoints.remove(lease);
        } else {
            self.endpoints.set(lease, addresses);
        }
    }

    fn trace(&self, lease: &Lease) -> (&'static str, String) {
        crate::observe::traceparent(lease)
    }
}

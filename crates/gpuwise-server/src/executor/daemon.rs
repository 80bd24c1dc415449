//! The daemon, as executors of other crates see it.

use super::Shows;
use crate::message::Incoming;
use gpuwise_broker::{Host, Lease, Observation};
use gpuwise_wire::broker::QueuedAnswer;
use std::sync::mpsc::Sender;

#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) sender: Sender<Incoming>,
    pub(crate) shows: Shows,
}

impl Host for Daemon {
    fn observed(&self, what: Observation) {
        // The writer may be gone already.
        let _ = self.sender.send(Incoming::Observed(what));
    }

    fn answers(&self, lease: u32, addresses: Vec<String>) {
        if addresses.is_empty() {
            self.shows.endpoints.remove(lease);
        } else {
            self.shows.endpoints.set(lease, addresses);
        }
    }

    fn waits(&self, lease: u32, how: Option<QueuedAnswer>) {
        self.shows.queued.one(lease, how);
    }

    fn trace(&self, lease: &Lease) -> (&'static str, String) {
        crate::observe::traceparent(lease)
    }
}

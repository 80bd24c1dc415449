//! Pages of metrics of leases, read side by side: one that is silent holds up no other, and no other tenant's.

use super::Collector;
use crate::{
    http::Shared,
    lease_page::{OfSystem, PageSaid, Reads, RunsAt},
};
use gpuwise_broker::{Lease, LeaseState};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{ServiceUse, UsageDocument};
use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

/// Pages of a tenant that are read at once.
const EACH: usize = 4;

/// How long a look waits for pages; those that come later are told by the next.
const PATIENCE: Duration = Duration::from_millis(400);

/// What was read of a lease's page, and when.
struct Read {
    lease: u32,
    at: Nanoseconds,
    /// `None`: it did not answer, which leaves a gap, which is billed by grant.
    page: Option<ServiceUse>,
}

/// Pages that are being read.
pub(super) struct PageReaders {
    reads: Reads,
    send: mpsc::Sender<Read>,
    receive: mpsc::Receiver<Read>,
    under_way: usize,
    /// When each was begun last, in looks: those that waited longest go first.
    begun: BTreeMap<u32, u64>,
    looks: u64,
}

impl Default for PageReaders {
    fn default() -> Self {
        let (send, receive) = mpsc::channel();
        Self {
            reads: Reads::default(),
            send,
            receive,
            under_way: 0,
            begun: BTreeMap::new(),
            looks: 0,
        }
    }
}

impl PageReaders {
    /// Begins to read the pages of leases, as far as their tenants may.
    fn begin(&mut self, shared: &Arc<Shared>, leases: &[&Lease]) {
        self.looks += 1;
        self.begun
            .retain(|number, _| leases.iter().any(|lease| lease.number == *number));
        let mut leases = leases.to_vec();
        leases.sort_by_key(|lease| self.begun.get(&lease.number).copied().unwrap_or(0));
        for lease in leases {
            let Some(text) = &lease.ask.metrics else {
                continue;
            };
            let number = lease.number;
            let Some(under_way) = self.reads.begin(&lease.ask.tenant, &lease.id(), EACH) else {
                continue;
            };
            self.begun.insert(number, self.looks);
            let (shared, text, lease, send) = (
                Arc::clone(shared),
                text.clone(),
                lease.clone(),
                self.send.clone(),
            );
            let read = move || {
                let page = page(&shared, &lease, &text).ok();
                let at = shared.clock.now();
                drop(under_way);
                // The collector has ended.
                let _ = send.send(Read {
                    lease: number,
                    at,
                    page,
                });
            };
            // Where the machine has no thread for it, it is read at the next look.
            if thread::Builder::new()
                .name("page".into())
                .spawn(read)
                .is_ok()
            {
                self.under_way += 1;
            }
        }
    }

    /// What has come, and comes soon.
    fn arrived(&mut self) -> Vec<Read> {
        let end = Instant::now() + PATIENCE;
        let mut all = Vec::new();
        while self.under_way > 0 {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(read) = self.receive.recv_timeout(left) else {
                break;
            };
            self.under_way -= 1;
            all.push(read);
        }
        all
    }
}

fn page(shared: &Shared, lease: &Lease, text: &str) -> Result<ServiceUse, String> {
    // Leases of older logs may say what none may say now.
    let said = PageSaid::read(text).map_err(|error| error.to_string())?;
    let runs = RunsAt::of(shared, &shared.broker(), lease);
    let page = runs.page(&said, &OfSystem)?;
    shared.desk.metrics(&page)
}

impl Collector {
    /// What engines' pages say that was counted since they were read last.
    pub(super) fn read(&mut self, leases: &[&Lease]) -> Vec<UsageDocument> {
        self.readers.begin(&self.shared, leases);
        let mut told = Vec::new();
        for read in self.readers.arrived() {
            let lease = {
                let broker = self.shared.broker();
                let lease = broker.lease(read.lease);
                lease
                    .filter(|lease| broker.state(lease).0 == LeaseState::Active)
                    .cloned()
            };
            let Some((lease, page)) = lease.zip(read.page) else {
                continue;
            };
            let address = lease.ask.metrics.as_deref().unwrap_or_default();
            let source = format!("gpuwise/metrics/{address}");
            let source = (lease.number, source);
            told.extend(self.baselines.read(read.at, source, page));
        }
        told
    }
}

//! The engines' own queues: requests that were sent on to a replica and wait there for a place in its batch.

use crate::{
    desk::{Answered, EngineQueue},
    http::Shared,
    lease_page::{OfSystem, PageSaid, Reads, RunsAt},
};
use gpuwise_broker::{Broker, LeaseState, Scaling};
use gpuwise_units::Nanoseconds;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::task::JoinSet;

/// An engine that does not answer within this is not counted.
const PATIENCE: Duration = Duration::from_millis(400);

/// Pages of the engines of one tenant that are read at once.
const EACH: usize = 64;

/// What the engines of a service said together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Queued {
    pub(super) waiting: f64,
    pub(super) running: f64,
    /// Shares of key-value caches that are used, together, and engines that said theirs.
    cache: (f64, u32),
    /// What each has answered, by its lease and the address of its page.
    pub(super) answered: Vec<(u32, String, Answered)>,
}

impl Queued {
    /// The share of caches that is used, in the mean of those that say it.
    pub(super) fn cache(&self) -> Option<f64> {
        let (sum, engines) = self.cache;
        (engines > 0).then(|| sum / f64::from(engines))
    }
}

/// A page of metrics.
#[derive(Debug)]
pub(super) struct Page {
    service: u32,
    lease: u32,
    tenant: String,
    address: String,
    said: PageSaid,
    runs: RunsAt,
}

/// The pages of services that are due.
pub(super) fn pages(shared: &Shared, broker: &Broker, now: Nanoseconds) -> Vec<Page> {
    let due = broker.scaled().filter(|(_, scaling)| now >= scaling.due());
    due.flat_map(|(service, scaling)| of(shared, broker, service, scaling))
        .collect()
}

fn of(shared: &Shared, broker: &Broker, service: u32, scaling: &Scaling) -> Vec<Page> {
    let mut pages = Vec::new();
    for (number, _) in scaling.replicas() {
        let lease = broker.lease(number);
        let active = lease.filter(|lease| broker.state(lease).0 == LeaseState::Active);
        let Some(lease) = active else { continue };
        let page = |address, said, runs| Page {
            service,
            lease: number,
            tenant: lease.ask.tenant.clone(),
            address,
            said,
            runs,
        };
        let said = lease
            .ask
            .metrics
            .as_deref()
            .map(|text| (text, PageSaid::read(text)));
        let path = match said {
            // Of the first lease: its replicas answer elsewhere.
            Some((text, Ok(said @ PageSaid::Url { .. }))) if number == service => {
                let runs = RunsAt::of(shared, broker, lease);
                pages.push(page(text.to_owned(), said, runs));
                continue;
            }
            Some((_, Ok(PageSaid::Path(path)))) => path,
            _ => "/metrics".to_owned(),
        };
        for replica in shared.endpoints.of(number) {
            let runs = RunsAt {
                given: vec![replica.address.clone()],
                nodes: Vec::new(),
            };
            let address = format!("http://{}{path}", replica.address);
            pages.push(page(address, PageSaid::Path(path.clone()), runs));
        }
    }
    pages
}

/// Asks all of them at once, but those that have not answered when they were asked last.
pub(super) async fn read(
    shared: &Arc<Shared>,
    pages: Vec<Page>,
    reads: &Reads,
) -> BTreeMap<u32, Queued> {
    let mut asked = JoinSet::new();
    for page in pages {
        let Some(under_way) = reads.begin(&page.tenant, &page.address, EACH) else {
            continue;
        };
        let desk = Arc::clone(&shared.desk);
        asked.spawn_blocking(move || {
            let found = page.runs.page(&page.said, &OfSystem);
            let queue = found.and_then(|found| desk.queue(&found)).ok();
            drop(under_way);
            (page, queue)
        });
    }
    let mut all: BTreeMap<u32, Queued> = BTreeMap::new();
    let answers = async {
        while let Some(said) = asked.join_next().await {
            if let Ok((page, Some(queue))) = said {
                add(all.entry(page.service).or_default(), page, queue);
            }
        }
    };
    let _ = tokio::time::timeout(PATIENCE, answers).await;
    // Who has not answered is left to himself: a thread that reads cannot be stopped.
    asked.detach_all();
    all
}

fn add(sum: &mut Queued, page: Page, queue: EngineQueue) {
    sum.waiting += queue.waiting;
    sum.running += queue.running;
    if let Some(used) = queue.cache {
        sum.cache.0 += used;
        sum.cache.1 += 1;
    }
    let answered = queue.answered.map(|one| (page.lease, page.address, one));
    sum.answered.extend(answered);
}

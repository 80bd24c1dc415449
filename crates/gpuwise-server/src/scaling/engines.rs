//! The engines' own queues: requests that were sent on to a replica and wait there for a place in its batch.

use crate::{
    desk::{Answered, EngineQueue},
    http::Shared,
};
use gpuwise_broker::{Broker, LeaseState, Scaling};
use gpuwise_units::Nanoseconds;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::task::JoinSet;

/// An engine that does not answer within this is not counted.
const PATIENCE: Duration = Duration::from_millis(400);

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
    address: String,
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
        let own = shared.endpoints.of(number);
        let own = own
            .iter()
            .map(|one| format!("http://{}/metrics", one.address));
        let page = |address| Page {
            service,
            lease: number,
            address,
        };
        match &lease.ask.metrics {
            // Of the first lease: its replicas answer elsewhere.
            Some(said) if number == service => pages.push(page(said.clone())),
            _ => pages.extend(own.map(page)),
        }
    }
    pages
}

/// Asks all of them at once.
pub(super) async fn read(shared: &Arc<Shared>, pages: Vec<Page>) -> BTreeMap<u32, Queued> {
    let mut asked = JoinSet::new();
    for page in pages {
        let desk = Arc::clone(&shared.desk);
        asked.spawn_blocking(move || {
            let queue = desk.queue(&page.address).ok();
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

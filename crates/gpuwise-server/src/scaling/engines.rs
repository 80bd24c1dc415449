//! The engines' own queues: requests that were sent on to a replica and wait there for a place in its batch.

use crate::{desk::EngineQueue, http::Shared};
use gpuwise_broker::{Broker, LeaseState, Scaling};
use gpuwise_units::Nanoseconds;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::task::JoinSet;

/// An engine that does not answer within this is not counted.
const PATIENCE: Duration = Duration::from_millis(400);

/// What the engines of a service said together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Queued {
    pub(super) waiting: f64,
    pub(super) running: f64,
    /// Engines that said it.
    pub(super) engines: u32,
}

/// A page of metrics, by the service that its engine is of.
type Page = (u32, String);

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
        match &lease.ask.metrics {
            // Of the first lease: its replicas answer elsewhere.
            Some(said) if number == service => pages.push((service, said.clone())),
            _ => pages.extend(own.map(|address| (service, address))),
        }
    }
    pages
}

/// Asks all of them at once.
pub(super) async fn read(shared: &Arc<Shared>, pages: Vec<Page>) -> BTreeMap<u32, Queued> {
    let mut asked = JoinSet::new();
    for (service, address) in pages {
        let desk = Arc::clone(&shared.desk);
        asked.spawn_blocking(move || (service, desk.queue(&address).ok()));
    }
    let mut all: BTreeMap<u32, Queued> = BTreeMap::new();
    let answers = async {
        while let Some(said) = asked.join_next().await {
            if let Ok((service, Some(queue))) = said {
                add(all.entry(service).or_default(), queue);
            }
        }
    };
    let _ = tokio::time::timeout(PATIENCE, answers).await;
    // Who has not answered is left to himself: a thread that reads cannot be stopped.
    asked.detach_all();
    all
}

fn add(sum: &mut Queued, queue: EngineQueue) {
    sum.waiting += queue.waiting;
    sum.running += queue.running;
    sum.engines += 1;
}

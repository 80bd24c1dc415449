//! Services that follow demand: what was seen of each goes to the writer, once a period.

mod engines;
mod lengths;
mod rehearsed;

use crate::{http::Shared, lease_page::Reads, message::Command, standing::Gate};
use engines::Queued;
use gpuwise_broker::{Broker, LeaseState, Look, Scaling};
use gpuwise_units::Nanoseconds;
use lengths::{Counted, Lengths};
pub use rehearsed::Rehearsal;
use rehearsed::Rehearsed;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Between two looks at whether a service is due, in real time.
const SHORTEST: Duration = Duration::from_millis(5);
/// Between two looks at whose weights lie in the memory of nodes.
const POOLED: Nanoseconds = Nanoseconds(60_000_000_000);
const LONGEST: Duration = Duration::from_millis(500);

/// Looks until it is dropped.
pub(crate) async fn watch(gate: Arc<Gate>) {
    let mut seen = Seen::default();
    let mut pooled = None;
    let reads = Reads::default();
    loop {
        let wait = match gate.shared() {
            None => LONGEST,
            Some(shared) => {
                let now = shared.clock.now();
                let pages = {
                    let broker = shared.broker();
                    engines::pages(shared, &broker, now)
                };
                let queues = engines::read(shared, pages, &reads).await;
                let looks = {
                    let broker = shared.broker();
                    seen.looks(shared, &broker, now, &queues)
                };
                pool(shared, now, &mut pooled).await;
                for look in looks {
                    // Where it cannot be kept now it is looked at again.
                    let _ = shared.ask(Command::Scale(Box::new(look))).await;
                }
                next(shared)
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Looks at whose weights lie in the memory of nodes, from time to time.
async fn pool(shared: &Shared, now: Nanoseconds, last: &mut Option<Nanoseconds>) {
    let due = last.is_none_or(|at| now.0 >= at.0.saturating_add(POOLED.0));
    if !due {
        return;
    }
    let any = shared.broker().residents().next().is_some();
    if shared.warm_memory > 0 || any {
        *last = Some(now);
        // Where it cannot be kept now it is looked at again.
        let _ = shared.ask(Command::Pool(shared.warm_memory)).await;
    }
}

/// How long until the next service is due.
fn next(shared: &Shared) -> Duration {
    let broker = shared.broker();
    let due = broker.scaled().map(|(_, scaling)| scaling.due()).min();
    let wait = due.map_or(LONGEST, |due| shared.clock.until(due));
    // A service that sleeps is always due: it is not looked at more often than its period.
    let periods = broker.scaled().map(|(_, scaling)| scaling.rules().period);
    let period = periods.min().map_or(LONGEST, |period| {
        shared.clock.until(shared.clock.now() + period)
    });
    wait.max(period / 4).clamp(SHORTEST, LONGEST)
}

/// What was seen when services were looked at last.
#[derive(Debug, Default)]
struct Seen {
    /// When, and requests that had come by then.
    services: BTreeMap<u32, (Nanoseconds, u64)>,
    lengths: BTreeMap<u32, Lengths>,
    rehearsed: BTreeMap<u32, Rehearsed>,
}

impl Seen {
    /// Services that are due.
    fn looks(
        &mut self,
        shared: &Shared,
        broker: &Broker,
        now: Nanoseconds,
        queues: &BTreeMap<u32, Queued>,
    ) -> Vec<Look> {
        let mut looks = Vec::new();
        for (service, scaling) in broker.scaled() {
            let before = self.services.get(&service).copied();
            let period = scaling.rules().period;
            let lately = before.is_some_and(|(at, _)| now < at + period);
            if now < scaling.due() || lately {
                continue;
            }
            let comes = broker.lease(service).and_then(|lease| {
                let model = &lease.ask.service.as_ref()?.model;
                let rehearsed = shared.rehearsed.iter().find(|(name, _)| name == model);
                Some((&rehearsed?.1, lease.requested))
            });
            let look = if let Some((demand, since)) = comes {
                let flow = self.rehearsed.entry(service).or_default();
                flow.look(
                    (service, scaling),
                    demand,
                    now,
                    since,
                    ready(broker, scaling),
                )
            } else {
                let engines = queues.get(&service);
                let lengths = self.lengths.entry(service).or_default();
                lengths.note(now, counted(shared, scaling, engines));
                let before = before.map(|(_, arrived)| arrived);
                asked(shared, (service, scaling), before, engines, lengths)
            };
            let arrived = shared.demand.of(service).arrived;
            self.services.insert(service, (now, arrived));
            looks.push(look);
        }
        let there = |service: &u32| broker.lease(*service).is_some_and(|one| one.over.is_none());
        self.services.retain(|service, _| there(service));
        self.lengths.retain(|service, _| there(service));
        looks
    }
}

/// Replicas that serve.
fn ready(broker: &Broker, scaling: &Scaling) -> u32 {
    let all = scaling
        .replicas()
        .filter_map(|(lease, _)| broker.lease(lease));
    let active = all.filter(|lease| {
        broker.state(lease).0 == LeaseState::Active && broker.takes_requests(lease)
    });
    u32::try_from(active.count()).unwrap_or(u32::MAX)
}

/// What replicas of a service have answered.
fn counted(shared: &Shared, scaling: &Scaling, engines: Option<&Queued>) -> Vec<Counted> {
    let each = scaling.replicas().map(|(lease, _)| {
        let tally = shared.traffic.of(lease);
        let said = engines.into_iter().flat_map(|one| &one.answered);
        let own = said.filter(|(of, ..)| *of == lease);
        Counted {
            lease,
            gateway: tally.map(|tally| tally.answered()).unwrap_or_default(),
            engines: own
                .map(|(_, address, said)| (address.clone(), *said))
                .collect(),
        }
    });
    each.collect()
}

/// What the gateway saw of a service. What came before this daemon began to look, nobody knows.
fn asked(
    shared: &Shared,
    (service, scaling): (u32, &Scaling),
    before: Option<u64>,
    engines: Option<&Queued>,
    lengths: &Lengths,
) -> Look {
    let counted = shared.demand.of(service);
    let open = |lease: u32| shared.traffic.of(lease).map_or(0, |tally| tally.open);
    let each = scaling.replicas().map(|(lease, _)| (lease, open(lease)));
    let each: Vec<(u32, u64)> = each.collect();
    let busy: BTreeSet<u32> = each
        .iter()
        .filter(|(_, open)| *open > 0)
        .map(|(lease, _)| *lease)
        .collect();
    let running: u64 = each.iter().map(|(_, open)| open).sum();
    // What was sent on waits in the engine or runs there; engines know of requests that did not come this way, too.
    let waiting = engines.map(|said| said.waiting);
    let sent = running as f64 - waiting.unwrap_or(0.0);
    let batched = engines.map_or(sent, |said| said.running.max(sent)).max(0.0);
    let arrived = before.map(|before| counted.arrived.saturating_sub(before) as f64);
    let by_tokens = arrived.filter(|_| scaling.rules().tokens.is_some());
    Look {
        service,
        arrived,
        tokens: by_tokens.and_then(|arrived| lengths.of(arrived)),
        cache: engines.and_then(Queued::cache),
        queued: counted.waiting as f64 + waiting.unwrap_or(0.0),
        engine_queued: waiting,
        running: batched,
        requests: counted.requests as f64,
        late: counted.late as f64,
        busy,
        // The bound is the writer's.
        waiting: None,
    }
}

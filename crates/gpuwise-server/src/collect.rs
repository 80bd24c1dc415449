//! Telemetry of services and of GPUs is collected, and held against sizes.
//!
//! One thread looks at every lease that serves a model: it reads its engine's page of metrics, or has the
//! service simulated, and tells the writer what was used since it looked last. From time to time it asks
//! whether the size is still right. It decides nothing: all that it finds becomes events by the writer.

mod gpus;

use crate::{
    desk::{Review, TrueSpeed},
    gateway::Tally,
    http::Shared,
    message::{Answer, Command, Failure, Incoming, Message},
};
use gpuwise_account::period::{HOUR, Interval};
use gpuwise_broker::{Lease, LeaseState, Observation};
use gpuwise_domain::placement::{JobId, Part};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{GpuUse, LatencyHistogram, ServiceUse, UsageDocument};
use std::{
    collections::BTreeMap,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// What is done with what telemetry says of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RightSize {
    /// Nothing.
    Off,
    /// Proposals are made; people decide.
    Propose,
    /// Proposals are made and accepted.
    Accept,
}

/// How telemetry is collected.
#[derive(Debug, Clone, PartialEq)]
pub struct Collect {
    /// How fast simulated services are; `None`: nothing of them is told.
    pub speeds: Option<Vec<TrueSpeed>>,
    /// How often sizes are looked at.
    pub review: Nanoseconds,
    /// How often services are asked what they did.
    pub every: Nanoseconds,
    pub right_size: RightSize,
}

/// Real time between two looks, however fast simulated time goes.
const LOOK: Duration = Duration::from_millis(500);
/// How soon it is noticed that the daemon ends.
const STEP: Duration = Duration::from_millis(50);

pub(crate) struct Collector {
    shared: Arc<Shared>,
    settings: Collect,
    /// What pages said last, by lease, and when they were read.
    pages: BTreeMap<u32, (Nanoseconds, ServiceUse)>,
    /// How busy each service was when that was told last, in thousandths.
    busy: BTreeMap<u32, u32>,
    /// When each service's size was looked at last.
    reviewed: BTreeMap<u32, Nanoseconds>,
    /// Until when the monitoring system was read.
    watched: Option<Nanoseconds>,
}

impl Collector {
    pub(crate) const fn new(shared: Arc<Shared>, settings: Collect) -> Self {
        Self {
            shared,
            settings,
            pages: BTreeMap::new(),
            busy: BTreeMap::new(),
            reviewed: BTreeMap::new(),
            watched: None,
        }
    }

    /// Until the daemon ends.
    pub(crate) fn run(&mut self) {
        let mut looked = self.shared.clock.now();
        loop {
            let began = Instant::now();
            let next = Nanoseconds(looked.0.saturating_add(self.settings.every.0));
            let wait = LOOK.max(self.shared.clock.until(next));
            while began.elapsed() < wait {
                if *self.shared.closing.borrow() {
                    return;
                }
                thread::sleep(STEP.min(wait));
            }
            looked = self.shared.clock.now();
            self.look(looked);
            if self.settings.right_size != RightSize::Off {
                self.review(looked);
            }
        }
    }

    fn ask(&self, command: Command) -> Result<Answer, Failure> {
        let (answer, said) = tokio::sync::oneshot::channel();
        let message = Incoming::Asked(Message {
            command,
            origin: None,
            answer,
        });
        let sent = self.shared.inbox.send(message);
        sent.map_err(|_| Failure::Closed)?;
        said.blocking_recv().map_err(|_| Failure::Closed)?
    }

    /// Leases that serve now.
    fn serving(&self) -> Vec<Lease> {
        let broker = self.shared.broker();
        let active = broker.open().filter(|lease| {
            let serves = lease.deployment.is_some()
                || lease.ask.metrics.is_some()
                || lease.ask.service.is_some();
            serves && broker.state(lease).0 == LeaseState::Active
        });
        active.cloned().collect()
    }

    fn look(&mut self, now: Nanoseconds) {
        let mut told = Vec::new();
        let serving = self.serving();
        for lease in &serving {
            if lease.ask.metrics.is_some() {
                told.extend(self.read(now, lease));
            } else if lease.ask.service.is_some() {
                told.extend(self.relayed(now, lease));
            } else if self.settings.speeds.is_some() {
                told.extend(self.simulate(now, lease));
            }
        }
        told.extend(self.watch(now));
        self.tell_busy(&told);
        told.extend(self.relayed_last(now, &serving));
        if !told.is_empty() {
            // Where it cannot be kept now it is told again: what was collected is known by its last interval.
            let _ = self.ask(Command::Usage(told));
        }
    }

    /// How busy services are, where the scheduler may lend what idles: by what was measured of their GPUs,
    /// else by whether anybody asked them. What stays the same is not told again.
    fn tell_busy(&mut self, told: &[UsageDocument]) {
        if told.is_empty() {
            return;
        }
        let policy = {
            let broker = self.shared.broker().slice();
            self.shared.desk.policy(&broker)
        };
        if policy.disruptions.reclaim.is_none() {
            return;
        }
        let share = |lease: u32| {
            let broker = self.shared.broker();
            broker
                .lease(lease)
                .map_or(1.0, |lease| broker.share_of(lease))
        };
        let follows = |lease: u32| {
            let broker = self.shared.broker();
            let lease = broker.lease(lease);
            lease.is_some_and(|lease| broker.scaling_of(lease).is_some())
        };
        for (lease, milli) in busy_of(told, share) {
            // How many of them there are is decided by what comes.
            if follows(lease) {
                continue;
            }
            let before = self.busy.insert(lease, milli);
            let same = before.is_some_and(|before| {
                (before == 0) == (milli == 0) && before.abs_diff(milli) < 100
            });
            if !same {
                let job = JobId(lease);
                let seen = Incoming::Observed(Observation::Busy { job, milli });
                // The writer may be gone already.
                let _ = self.shared.inbox.send(seen);
            }
        }
    }

    /// What an engine's page says that was counted since it was read last.
    fn read(&mut self, now: Nanoseconds, lease: &Lease) -> Option<UsageDocument> {
        let address = lease.ask.metrics.as_deref()?;
        // One that does not answer leaves a gap, which is billed by grant.
        let page = self.shared.desk.metrics(address).ok()?;
        let source = format!("gpuwise/metrics/{address}");
        self.since(now, lease, source, page)
    }

    /// What the gateway passed on to a service since it was looked at last, from its first request on.
    fn relayed(&mut self, now: Nanoseconds, lease: &Lease) -> Option<UsageDocument> {
        let tally = self.shared.traffic.of(lease.number).unwrap_or_default();
        let began = lease.started.unwrap_or(now).max(self.shared.began);
        let none = (began, Tally::default().counted());
        self.pages.entry(lease.number).or_insert(none);
        self.since(now, lease, "gpuwise/gateway".into(), tally.counted())
    }

    /// The same of services that are over, or gave their GPUs back: what was answered last counts, too.
    fn relayed_last(&mut self, now: Nanoseconds, serving: &[Lease]) -> Vec<UsageDocument> {
        let all = self.shared.traffic.all();
        let rest = all
            .keys()
            .filter(|number| serving.iter().all(|lease| lease.number != **number));
        let mut told = Vec::new();
        for number in rest {
            let lease = self.shared.broker().lease(*number).cloned();
            let Some(lease) = lease.filter(|lease| lease.ask.metrics.is_none()) else {
                continue;
            };
            let end = lease.over.as_ref().map_or(now, |over| over.at.min(now));
            let before = self.pages.get(number);
            let news = before.is_none_or(|(at, page)| {
                *at < end
                    && all
                        .get(number)
                        .is_some_and(|tally| tally.counted() != *page)
            });
            if news {
                told.extend(self.relayed(end, &lease));
            }
        }
        told
    }

    /// What was counted since the page before.
    fn since(
        &mut self,
        now: Nanoseconds,
        lease: &Lease,
        source: String,
        page: ServiceUse,
    ) -> Option<UsageDocument> {
        let before = self.pages.remove(&lease.number);
        let counted = before
            .as_ref()
            .map(|(since, before)| (*since, counted_since(&page, before)));
        self.pages.insert(lease.number, (now, page));
        let (since, service) = counted?;
        let service = service?;
        Some(UsageDocument {
            source,
            id: format!("{}/{}", lease.id(), since.0),
            lease: lease.number,
            start_ns: since.0,
            end_ns: now.0,
            gpus: Vec::new(),
            service,
        })
    }

    /// What a simulated service did since it was looked at last, cut at full hours.
    fn simulate(&self, now: Nanoseconds, lease: &Lease) -> Vec<UsageDocument> {
        let speeds = self.settings.speeds.as_deref().unwrap_or_default();
        let (last, uids) = {
            let broker = self.shared.broker();
            let last = broker.telemetry(lease.number).map(|one| one.last);
            let shares = lease.place.iter().flat_map(|one| &one.gpus);
            let uids = shares
                .filter(|share| share.part == Part::Whole)
                .filter_map(|share| {
                    let state = broker.world().gpu(share.gpu)?;
                    Some(state.gpu.uid.to_string())
                });
            (last, uids.collect::<Vec<_>>())
        };
        let Some(started) = lease.started else {
            return Vec::new();
        };
        let mut start = last.unwrap_or(started).max(started);
        let mut told = Vec::new();
        while start < now {
            let hour = Nanoseconds((start.0 / HOUR + 1).saturating_mul(HOUR));
            let within = Interval::new(start, hour.min(now));
            start = within.end;
            let Some((service, busy, joules)) = self.shared.desk.served(lease, within, speeds)
            else {
                break;
            };
            let seconds = Nanoseconds(within.length()).seconds().get();
            let count = uids.len().max(1) as f64;
            let gpus = uids.iter().map(|uid| GpuUse {
                uid: uid.clone(),
                sm_seconds: busy.map(|busy| busy * seconds),
                memory_byte_seconds: None,
                joules: joules.map(|joules| joules / count),
            });
            told.push(UsageDocument {
                source: "gpuwise/simulated".into(),
                id: format!("{}/{}", lease.id(), within.start.0),
                lease: lease.number,
                start_ns: within.start.0,
                end_ns: within.end.0,
                gpus: gpus.collect(),
                service,
            });
        }
        told
    }

    /// Holds services against their sizes, each once in a while.
    fn review(&mut self, now: Nanoseconds) {
        for lease in self.serving() {
            if self.shared.broker().scaling_of(&lease).is_some() {
                // More replicas, not larger ones.
                continue;
            }
            let due = self.reviewed.get(&lease.origin).map_or_else(
                || lease.started.unwrap_or(now) + self.settings.review,
                |last| *last + self.settings.review,
            );
            if now < due || *self.shared.closing.borrow() {
                continue;
            }
            self.reviewed.insert(lease.origin, now);
            let broker = self.shared.broker().clone();
            let review = self.shared.desk.review(&broker, &lease, now);
            self.found(&lease, review);
        }
    }

    fn found(&self, lease: &Lease, review: Review) {
        if let Some((rows, reason)) = review.learned {
            // It is looked at again, whatever becomes of this.
            let _ = self.ask(Command::Learn(lease.origin, rows, reason));
        }
        let Some(proposal) = review.proposal else {
            return;
        };
        if self.ask(Command::Propose(Box::new(proposal))).is_err() {
            return;
        }
        if self.settings.right_size == RightSize::Accept {
            let open = {
                let broker = self.shared.broker();
                let about = broker.proposal_about(lease);
                about
                    .filter(|one| one.state == gpuwise_wire::broker::ProposalState::Open)
                    .map(gpuwise_broker::Proposal::id)
            };
            if let Some(id) = open {
                let reason = "accepted by policy (--right-size accept)".into();
                let _ = self.ask(Command::DecideProposal(id, true, reason));
            }
        }
    }
}

/// How busy each lease was, in thousandths of the time of what it has of GPUs: by what was measured of them, else by
/// whether anybody asked it.
fn busy_of(told: &[UsageDocument], share: impl Fn(u32) -> f64) -> BTreeMap<u32, u32> {
    #[derive(Default)]
    struct Seen {
        worked: f64,
        time: f64,
        requests: Option<u64>,
    }
    let mut all: BTreeMap<u32, Seen> = BTreeMap::new();
    for usage in told {
        let length = Nanoseconds(usage.end_ns.saturating_sub(usage.start_ns));
        let seen = all.entry(usage.lease).or_default();
        for worked in usage.gpus.iter().filter_map(|gpu| gpu.sm_seconds) {
            seen.worked += worked;
            seen.time += length.seconds().get();
        }
        if let Some(requests) = usage.service.requests {
            seen.requests = Some(seen.requests.unwrap_or(0).saturating_add(requests));
        }
    }
    let busy = |lease: u32, seen: &Seen| match seen.requests {
        _ if seen.time > 0.0 => {
            let of_it = seen.worked / seen.time / share(lease);
            Some((of_it * 1000.0).clamp(0.0, 1000.0) as u32)
        }
        Some(0) => Some(0),
        Some(_) => Some(1000),
        None => None,
    };
    let each = all.iter();
    each.filter_map(|(lease, seen)| Some((*lease, busy(*lease, seen)?)))
        .collect()
}

/// What was counted between two pages; `None`: the engine started anew between them.
fn counted_since(now: &ServiceUse, before: &ServiceUse) -> Option<ServiceUse> {
    let since = |now: Option<u64>, before: Option<u64>| match (now, before) {
        (Some(now), Some(before)) => now.checked_sub(before).map(Some),
        (now, _) => Some(now),
    };
    let histogram = |now: &Option<LatencyHistogram>, before: &Option<LatencyHistogram>| {
        let (Some(now), Some(before)) = (now, before) else {
            return Some(now.clone());
        };
        if now.bounds != before.bounds || now.counts.len() != before.counts.len() {
            return None;
        }
        let pairs = now.counts.iter().zip(&before.counts);
        let counts = pairs.map(|(now, before)| now.checked_sub(*before));
        Some(Some(LatencyHistogram {
            bounds: now.bounds.clone(),
            counts: counts.collect::<Option<_>>()?,
            sum: (now.sum - before.sum).max(0.0),
        }))
    };
    Some(ServiceUse {
        prompt_tokens: since(now.prompt_tokens, before.prompt_tokens)?,
        completion_tokens: since(now.completion_tokens, before.completion_tokens)?,
        requests: since(now.requests, before.requests)?,
        failed: since(now.failed, before.failed)?,
        good: None,
        ttft: histogram(&now.ttft, &before.ttft)?,
        tpot: histogram(&now.tpot, &before.tpot)?,
        quality: BTreeMap::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(requests: u64, counts: [u64; 2]) -> ServiceUse {
        ServiceUse {
            requests: Some(requests),
            ttft: Some(LatencyHistogram {
                bounds: vec![1.0],
                counts: counts.to_vec(),
                sum: requests as f64,
            }),
            ..ServiceUse::default()
        }
    }

    #[test]
    fn pages_are_subtracted_and_a_restart_is_seen() {
        let since = counted_since(&page(10, [9, 1]), &page(4, [4, 0])).expect("goes on");
        assert_eq!(since.requests, Some(6));
        assert_eq!(since.ttft.expect("some").counts, [5, 1]);
        assert_eq!(counted_since(&page(3, [3, 0]), &page(4, [4, 0])), None);
    }
}

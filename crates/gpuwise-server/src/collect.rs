//! Telemetry of services and of GPUs is collected, and held against sizes.
//!
//! One thread looks at every lease that serves a model: it reads its engine's page of metrics, or has the
//! service simulated, and tells the writer what was used since it looked last. From time to time it asks
//! whether the size is still right. It decides nothing: all that it finds becomes events by the writer.

mod baselines;
mod busy;
mod gpus;
mod pages;

use crate::{
    desk::{Review, TrueSpeed},
    gateway::Tally,
    http::Shared,
    message::{Answer, Command, Failure, Incoming, Message},
    serve::Said,
};
use baselines::Baselines;
use gpuwise_account::period::{HOUR, Interval};
use gpuwise_broker::{Lease, LeaseState};
use gpuwise_domain::placement::Part;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{GpuUse, UsageDocument};
use pages::PageReaders;
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
    /// From where on services are counted.
    baselines: Baselines,
    readers: PageReaders,
    /// When each service's size was looked at last.
    reviewed: BTreeMap<u32, Nanoseconds>,
    /// Until when the monitoring system was read.
    watched: Option<Nanoseconds>,
}

impl Collector {
    pub(crate) fn new(shared: Arc<Shared>, settings: Collect) -> Self {
        Self {
            shared,
            settings,
            baselines: Baselines::default(),
            readers: PageReaders::default(),
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
        let again = self.baselines.told();
        if !again.is_empty() {
            self.tell(again, None);
            if !self.baselines.told().is_empty() {
                // What comes is counted once that is kept.
                return;
            }
        }
        let mut told = Vec::new();
        let serving = self.serving();
        let mut paged = Vec::new();
        for lease in &serving {
            if lease.ask.metrics.is_some() {
                paged.push(lease);
            } else if lease.ask.service.is_some() {
                told.extend(self.relayed(now, lease));
            } else if self.settings.speeds.is_some() {
                told.extend(self.simulate(now, lease));
            }
        }
        told.extend(self.read(&paged));
        let (seen, watched) = self.watch(now);
        told.extend(seen);
        self.tell_busy(&told);
        told.extend(self.relayed_last(now, &serving));
        if told.is_empty() {
            self.watched_until(watched);
        } else {
            self.tell(told, watched);
        }
    }

    /// Tells the writer what was collected. What the log does not keep is told again: nothing that was collected
    /// counts as told until then.
    fn tell(&mut self, told: Vec<UsageDocument>, watched: Option<Nanoseconds>) {
        match self.ask(Command::Usage(told)) {
            Ok(_) => {
                self.baselines.kept();
                self.watched_until(watched);
            }
            // The log's own trouble is said already.
            Err(Failure::Store(_) | Failure::Unsure(_) | Failure::Clock(_) | Failure::Closed) => {}
            Err(Failure::Refused(refusal)) => {
                self.baselines.refused();
                let said = Said::UsageRefused(refusal.to_string());
                self.shared.standing.tell(&said);
            }
        }
    }

    /// What the gateway passed on to a service since it was looked at last, from its first request on.
    fn relayed(&mut self, now: Nanoseconds, lease: &Lease) -> Option<UsageDocument> {
        let tally = self.shared.traffic.of(lease.number).unwrap_or_default();
        let began = lease.started.unwrap_or(now).max(self.shared.began);
        let none = (began, Tally::default().counted());
        self.baselines.begin(lease.number, || none);
        let source = (lease.number, "gpuwise/gateway".into());
        self.baselines.read(now, source, tally.counted())
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
            let before = self.baselines.of(*number);
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
                by: None,
                tenant: None,
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

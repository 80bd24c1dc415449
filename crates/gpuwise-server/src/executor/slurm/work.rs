//! Who asks Slurm: one thread, so that the broker never waits for it. What it is told becomes a state that is
//! wanted; every look brings the cluster nearer to it, and tells what has happened.

use super::{
    super::{Queued, asking::Asking, local::Place},
    GRACE, SlurmSettings,
    commands::{Refused, eprintln_line, run},
    fair_share::FairShare,
    held::{Held, Listing, Part, Phase},
    jobs::JobPhase,
    listings::Listings,
    nodes::Nodes,
    script::{Ask, ENDS, named, ours},
};
use crate::{endpoints::Endpoints, message::Incoming};
use gpuwise_broker::{Observation, OrderId};
use gpuwise_domain::placement::JobId;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::AtomicBool,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::{Duration, Instant},
};

/// What is to run of a lease.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) order: OrderId,
    pub(super) job: JobId,
    pub(super) parts: Vec<Ask>,
    pub(super) asking: Option<Asking>,
    /// Whether it was started before, and is only to be found.
    pub(super) known: bool,
}

#[derive(Debug)]
pub(super) enum Told {
    /// All that is to be found; what else there is of this log is ended. Nodes with the features that the fleet says.
    Adopt(Vec<Start>, BTreeMap<String, Vec<String>>),
    Start(Start),
    Stop {
        order: OrderId,
        job: JobId,
        grace: Duration,
    },
    /// Its GPUs are given up, and its jobs held.
    Requeue {
        order: OrderId,
        job: JobId,
    },
    Forget(JobId),
}

/// What came of asking a service whether it is ready.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) job: JobId,
    pub(super) order: OrderId,
    /// Where it answers, or why it does not.
    pub(super) came: Result<Vec<String>, String>,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) settings: SlurmSettings,
    pub(super) log: String,
    pub(super) place: Place,
    inbox: Sender<Incoming>,
    pub(super) endpoints: Endpoints,
    pub(super) held: BTreeMap<JobId, Held>,
    pub(super) nodes: Nodes,
    listings: Listings,
    fair_share: FairShare,
    /// What is said of leases whose jobs wait.
    queued: Queued,
    /// Whether it is known what is to be found.
    adopted: bool,
    /// Whether nothing of this log was left at Slurm when it was last asked, and nothing was told since.
    idle: bool,
    /// What Slurm said last when it did not answer, so that it is said once.
    silent: Option<String>,
    pub(super) answers: (Sender<Answered>, Receiver<Answered>),
}

impl Worker {
    pub(super) fn new(
        settings: SlurmSettings,
        log: String,
        place: Place,
        inbox: Sender<Incoming>,
        (endpoints, queued): (Endpoints, Queued),
    ) -> std::io::Result<Self> {
        let listings = Listings::new(&settings)?;
        Ok(Self {
            settings,
            log,
            place,
            inbox,
            endpoints,
            held: BTreeMap::new(),
            nodes: Nodes::default(),
            listings,
            fair_share: FairShare::default(),
            queued,
            adopted: false,
            idle: false,
            silent: None,
            answers: channel(),
        })
    }

    pub(super) fn run(mut self, told: &Receiver<Told>) {
        loop {
            let first = match told.recv_timeout(self.settings.every) {
                Ok(one) => Some(one),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            for one in first.into_iter().chain(told.try_iter()) {
                self.take(one);
            }
            self.look();
        }
    }

    pub(super) fn tell(&self, observation: Observation) {
        // The writer may be gone already.
        let _ = self.inbox.send(Incoming::Observed(observation));
    }

    fn take(&mut self, told: Told) {
        match told {
            Told::Adopt(starts, features) => {
                self.nodes.expect(features);
                for start in starts {
                    self.hold(start);
                }
                self.adopted = true;
            }
            Told::Start(start) => {
                let waits = self.held.remove(&start.job);
                match waits {
                    Some(held) if held.phase == Phase::Requeued => self.release(held, start),
                    Some(held) => {
                        // It moves, or is started anew: what ran before ends first.
                        self.endpoints.remove(start.job.0);
                        cancel(&held, &[]);
                        self.hold(start);
                    }
                    None => self.hold(start),
                }
            }
            Told::Stop { order, job, grace } => self.stop(order, job, grace),
            Told::Requeue { order, job } => self.requeue(order, job),
            Told::Forget(job) => {
                self.endpoints.remove(job.0);
                if let Some(held) = self.held.remove(&job) {
                    cancel(&held, &[]);
                }
            }
        }
    }

    fn hold(&mut self, start: Start) {
        for ask in &start.parts {
            if !start.known {
                // How one before it ended says nothing of this one.
                let _ = std::fs::remove_file(self.place.end_file(start.job, ask.worker));
            }
        }
        let parts = start.parts.into_iter().map(|ask| Part {
            ask,
            job: None,
            missed: 0,
            hurry: None,
        });
        let held = Held {
            order: start.order,
            parts: parts.collect(),
            asking: start.asking,
            known: start.known,
            phase: Phase::Starting,
            since: Instant::now(),
            running: 0,
            gone: Arc::new(AtomicBool::new(false)),
        };
        self.held.insert(start.job, held);
    }

    /// What was requeued and is held runs again, on other nodes: under the numbers that people know it by.
    fn release(&mut self, mut held: Held, start: Start) {
        let alike = held.parts.len() == start.parts.len()
            && held.parts.iter().zip(&start.parts).all(|(before, now)| {
                before.ask.nodes.len() == now.nodes.len() && before.ask.words == now.words
            });
        let released = alike
            && held.parts.iter().zip(&start.parts).all(|(before, now)| {
                let comment = now.comment(&self.log, start.order.0);
                before
                    .job
                    .is_some_and(|job| released(job, &before.ask, now, &comment))
            });
        if !released {
            cancel(&held, &[]);
            return self.hold(start);
        }
        for (part, ask) in held.parts.iter_mut().zip(start.parts) {
            let _ = std::fs::remove_file(self.place.end_file(start.job, ask.worker));
            (part.ask, part.missed) = (ask, 0);
        }
        (held.order, held.known, held.asking) = (start.order, false, start.asking);
        (held.phase, held.since, held.running) = (Phase::Starting, Instant::now(), 0);
        held.gone = Arc::new(AtomicBool::new(false));
        self.held.insert(start.job, held);
    }

    fn stop(&mut self, order: OrderId, job: JobId, grace: Duration) {
        self.endpoints.remove(job.0);
        let Some(held) = self.held.get_mut(&job) else {
            return self.tell(Observation::Done(order));
        };
        for job in held.parts.iter().filter_map(|part| part.job) {
            // What does not run has nothing to save.
            if grace.is_zero() || matches!(held.phase, Phase::Starting | Phase::Requeued) {
                scancel(&[], job);
            } else {
                scancel(&[ENDS, "--batch"], job);
            }
        }
        held.phase = Phase::Stopping {
            order,
            end: Instant::now() + grace,
            killed: false,
        };
    }

    fn requeue(&mut self, order: OrderId, job: JobId) {
        self.endpoints.remove(job.0);
        let runs = (self.held.get(&job)).is_some_and(|held| {
            matches!(held.phase, Phase::Running | Phase::Answering)
                && held.parts.iter().all(|part| part.job.is_some())
        });
        if !runs {
            return self.stop(order, job, GRACE);
        }
        let Some(held) = self.held.get_mut(&job) else {
            return;
        };
        let numbers: Vec<u64> = held.parts.iter().filter_map(|part| part.job).collect();
        held.phase = Phase::Requeueing(order);
        let refused = numbers.iter().any(|number| {
            let words = ["requeuehold".to_owned(), number.to_string()];
            matches!(run("scontrol", &words, ""), Err(Refused::No(_)))
        });
        if refused {
            // Such as a cluster where JobRequeue is off.
            self.stop(order, job, GRACE);
        }
    }

    /// Whether Slurm has answered.
    fn look_at_nodes(&mut self) -> bool {
        match self.nodes.look(Instant::now(), &mut self.listings) {
            Ok(changes) => {
                for one in changes {
                    self.tell(one);
                }
                true
            }
            Err(refused) => {
                self.says(refused);
                false
            }
        }
    }

    fn look(&mut self) {
        while let Ok(answered) = self.answers.1.try_recv() {
            self.answered(answered);
        }
        if !self.look_at_nodes() {
            return;
        }
        self.idle &= self.held.is_empty();
        if self.idle || self.held.is_empty() && !self.adopted {
            return self.queued.set(BTreeMap::new());
        }
        let listed = match self.listings.jobs(&ours(&self.log)) {
            Ok(listed) => listed,
            Err(refused) => {
                // What waited is not known any more.
                self.queued.set(BTreeMap::new());
                return self.says(refused);
            }
        };
        if self.silent.take().is_some() {
            eprintln_line("Slurm answers again");
        }
        let mut listing = Listing::default();
        for job in listed {
            if let Some(name) = named(&job.comment) {
                listing.named.insert(name, job.id);
            }
            listing.jobs.insert(job.id, job);
        }
        let strays = self.sweep(&listing);
        self.idle = self.adopted && self.held.is_empty() && !strays;
        if self.held.values().any(|held| held.is_troubled(&listing)) {
            // Whether its node is down is known before it is judged.
            self.nodes.hurry();
            if !self.look_at_nodes() {
                return;
            }
        }
        for job in self.held.keys().copied().collect::<Vec<_>>() {
            self.reconcile(job, &listing);
        }
        self.show_queued(&listing);
    }

    /// Shows what Slurm says of those that wait for it.
    fn show_queued(&mut self, listing: &Listing) {
        let mut all = BTreeMap::new();
        for (lease, held) in &self.held {
            if let Some(mut one) = held.queued(listing) {
                let account = one.account.as_deref();
                one.fair_share = account.and_then(|account| self.fair_share.of(account));
                all.insert(lease.0, one);
            }
        }
        self.queued.set(all);
    }

    /// Ends what nobody wants, such as jobs of a broker that is no more; whether there was something.
    fn sweep(&mut self, listing: &Listing) -> bool {
        let mut strays = false;
        if !self.adopted {
            return strays;
        }
        for (name, number) in &listing.named {
            let held = self.held.get_mut(&JobId(name.0));
            let part = held.and_then(|held| {
                let order = held.order.0;
                let mut parts = held.parts.iter_mut();
                parts.find(|part| part.ask.worker == name.1 && order == name.2)
            });
            let alive = |job: &super::jobs::SlurmJob| !matches!(job.state, JobPhase::Over(_));
            match part {
                Some(part) => {
                    part.job.get_or_insert(*number);
                }
                None if listing.jobs.get(number).is_some_and(alive) => {
                    strays = true;
                    scancel(&[], *number);
                }
                None => {}
            }
        }
        strays
    }

    fn says(&mut self, refused: Refused) {
        let words = refused.words();
        if self.silent.is_none() {
            eprintln_line(&format!(
                "Slurm does not answer; it is asked again: {words}"
            ));
        }
        self.silent = Some(words);
    }
}

/// Ends all jobs of a lease but these.
pub(super) fn cancel(held: &Held, but: &[u64]) {
    let jobs = held.parts.iter().filter_map(|part| part.job);
    jobs.filter(|job| !but.contains(job))
        .for_each(|job| scancel(&[], job));
}

/// Where it is refused, the next look finds the job still there.
pub(super) fn scancel(more: &[&str], job: u64) {
    let mut words: Vec<String> = more.iter().map(|&word| word.into()).collect();
    words.push(job.to_string());
    let _ = run("scancel", &words, "");
}

/// A requeued job starts at once: Slurm alone would wait for two minutes.
pub(super) const NOW: &str = "StartTime=now";

/// Sends a held job to other nodes; `false`: Slurm does not want that.
fn released(job: u64, before: &Ask, now: &Ask, comment: &str) -> bool {
    let mut words = vec![
        "update".to_owned(),
        format!("JobId={job}"),
        format!("ReqNodeList={}", now.nodes.join(",")),
        NOW.to_owned(),
        format!("Comment={comment}"),
    ];
    if before.gres() != now.gres() {
        words.push(format!("TresPerNode=gres:{}", now.gres()));
    }
    let release = ["release".to_owned(), job.to_string()];
    run("scontrol", &words, "").is_ok() && run("scontrol", &release, "").is_ok()
}

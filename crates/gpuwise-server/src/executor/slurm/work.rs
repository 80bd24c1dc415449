//! Who asks Slurm: one thread, so that the broker never waits for it. What it is told becomes a state that is
//! wanted; every look brings the cluster nearer to it, and tells what has happened.

use super::{
    super::{Queued, Shows, local::Place},
    SlurmSettings,
    accounting::Accounting,
    commands::{Refused, eprintln_line},
    held::{Held, Listing, UNSETTLED},
    listings::Listings,
    nodes::Nodes,
    script::ours,
    shares::Shares,
    told::Told,
};
use crate::{endpoints::Endpoints, message::Incoming};
use gpuwise_broker::{Observation, OrderId};
use gpuwise_domain::placement::JobId;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::Instant,
};

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
    /// By what jobs of this log are known at Slurm; empty until something is told.
    pub(super) log: String,
    pub(super) place: Place,
    inbox: Sender<Incoming>,
    pub(super) endpoints: Endpoints,
    pub(super) held: BTreeMap<JobId, Held>,
    pub(super) nodes: Nodes,
    listings: Listings,
    shares: Shares,
    /// What is said of leases whose jobs wait.
    queued: Queued,
    pub(super) accounting: Accounting,
    /// Whether it is known what is to be found.
    pub(super) adopted: bool,
    /// Orders that a broker before this one may have carried out, and that are told again.
    pub(super) expected: BTreeSet<(JobId, u64)>,
    /// When something was last submitted without an answer: its job may still appear.
    pub(super) unanswered: Option<Instant>,
    /// Whether nothing of this log was left at Slurm when it was last asked, and nothing was told since.
    idle: bool,
    /// What Slurm said last when it did not answer, so that it is said once.
    silent: Option<String>,
    pub(super) answers: (Sender<Answered>, Receiver<Answered>),
}

impl Worker {
    pub(super) fn new(
        settings: SlurmSettings,
        place: Place,
        inbox: Sender<Incoming>,
        shows: Shows,
    ) -> std::io::Result<Self> {
        let listings = Listings::new(&settings)?;
        let shares = Shares::new(&settings.accounts, shows.accounts);
        Ok(Self {
            settings,
            log: String::new(),
            place,
            inbox,
            endpoints: shows.endpoints,
            held: BTreeMap::new(),
            nodes: Nodes::default(),
            listings,
            shares,
            queued: shows.queued,
            accounting: Accounting::default(),
            adopted: false,
            expected: BTreeSet::new(),
            unanswered: None,
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
        self.shares.look(Instant::now());
        self.idle &= self.held.is_empty();
        if self.idle || !self.adopted {
            return self.queued.set(BTreeMap::new());
        }
        let asked = Instant::now();
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
        let listing = Listing::of(asked, listed);
        let strays = self.sweep(&listing);
        let appears = |since: Instant| asked < since + UNSETTLED * 2;
        let unsettled = self.unanswered.is_some_and(appears);
        let waits = strays || unsettled || !self.expected.is_empty();
        self.idle = self.adopted && self.held.is_empty() && !waits;
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
                one.fair_share = account.and_then(|account| self.shares.fair_share(account));
                all.insert(lease.0, one);
            }
        }
        self.queued.set(all);
    }

    pub(super) fn says(&mut self, refused: Refused) {
        let words = refused.words();
        if self.silent.is_none() {
            eprintln_line(&format!(
                "Slurm does not answer; it is asked again: {words}"
            ));
        }
        self.silent = Some(words);
    }
}

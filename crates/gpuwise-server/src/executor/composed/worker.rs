//! Who asks the service: one thread takes orders, and one for each host that is being composed, so that hosts do not
//! wait for one another.

use super::{
    errand::{Came, Errand},
    look::look,
    refusal::Refusal,
};
use crate::{message::Incoming, redfish::Client};
use gpuwise_broker::{NodeSeen, Observation, OrderId};
use gpuwise_domain::placement::resource_block_uid;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

/// A GPU is to come to a host, or to leave it.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) order: OrderId,
    pub(super) attach: bool,
    /// The GPU's block, and the host's.
    pub(super) gpu: String,
    pub(super) host: String,
    /// The name of the host's node.
    pub(super) name: String,
    /// All GPUs that the host is to have by then.
    pub(super) wanted: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) enum Told {
    /// Hosts by their blocks, with the names of their nodes, and blocks of GPUs.
    Fleet {
        hosts: BTreeMap<String, String>,
        gpus: BTreeSet<String>,
    },
    Change(Change),
    /// What came of composing a host.
    Came(String, Result<Came, Refusal>),
    /// The broker ends. What the service was told goes on there, and is found by the next.
    End,
}

/// What is done for a host.
#[derive(Debug, Default)]
struct Work {
    /// Orders that are being carried out, with the GPU of each and whether it comes.
    under_way: BTreeMap<OrderId, (String, bool)>,
    /// Those that came since.
    next: BTreeMap<OrderId, (String, bool)>,
    name: String,
    wanted: BTreeSet<String>,
    /// What it has, or may have, while it is being composed.
    touched: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct Worker {
    client: Client,
    inbox: Sender<Incoming>,
    /// Where threads of hosts tell what came.
    own: Sender<Told>,
    hosts: BTreeMap<String, String>,
    gpus: BTreeSet<String>,
    works: BTreeMap<String, Work>,
    /// Hosts that somebody else has, or that do not work.
    closed: BTreeSet<String>,
    /// When is looked next.
    due: Option<Instant>,
    /// What the service said last when it could not be asked, so that it is said once.
    silent: Option<String>,
}

/// Where orders of one plan come one after the other, their host is composed once.
const TOGETHER: Duration = Duration::from_millis(20);

impl Worker {
    pub(super) fn new(client: Client, inbox: Sender<Incoming>, own: Sender<Told>) -> Self {
        Self {
            client,
            inbox,
            own,
            hosts: BTreeMap::new(),
            gpus: BTreeSet::new(),
            works: BTreeMap::new(),
            closed: BTreeSet::new(),
            due: None,
            silent: None,
        }
    }

    pub(super) fn run(mut self, told: &Receiver<Told>) {
        loop {
            let every = self.client.settings.every;
            let due = self
                .due
                .map(|at| at.saturating_duration_since(Instant::now()));
            let first = match told.recv_timeout(due.unwrap_or(every)) {
                Ok(one) => Some(one),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if matches!(first, Some(Told::Change(_))) {
                thread::sleep(TOGETHER);
            }
            let mut ends = false;
            for one in first.into_iter().chain(told.try_iter()) {
                ends |= matches!(one, Told::End);
                self.take(one);
            }
            if ends {
                break;
            }
            self.begin();
            if self.due.is_some_and(|at| at <= Instant::now()) {
                self.look();
            }
        }
        self.client.log_out();
    }

    fn tell(&self, observation: Observation) {
        // The writer may be gone already.
        let _ = self.inbox.send(Incoming::Observed(observation));
    }

    fn take(&mut self, told: Told) {
        match told {
            Told::Fleet { hosts, gpus } => {
                (self.hosts, self.gpus) = (hosts, gpus);
                self.due = Some(Instant::now());
            }
            Told::Change(change) => {
                let work = self.works.entry(change.host).or_default();
                if work.under_way.contains_key(&change.order) {
                    return;
                }
                work.next.insert(change.order, (change.gpu, change.attach));
                (work.name, work.wanted) = (change.name, change.wanted);
            }
            Told::Came(host, came) => self.came(&host, came),
            Told::End => {}
        }
    }

    /// Hosts that have orders and are not being composed are.
    fn begin(&mut self) {
        for (host, work) in &mut self.works {
            if work.next.is_empty() || !work.under_way.is_empty() {
                continue;
            }
            work.under_way = std::mem::take(&mut work.next);
            work.touched = work.wanted.clone();
            let moved = work.under_way.values().map(|(gpu, _)| gpu.clone());
            work.touched.extend(moved);
            let errand = Errand {
                name: work.name.clone(),
                host: host.clone(),
                wanted: work.wanted.clone(),
            };
            let (client, own, at) = (self.client.clone(), self.own.clone(), host.clone());
            let begun = thread::Builder::new().name(format!("redfish {host}"));
            let begun = begun.spawn(move || {
                let came = errand.run(&client);
                // Where nobody listens any more the broker has ended.
                let _ = own.send(Told::Came(at, came));
            });
            if let Err(error) = begun {
                let trouble = crate::redfish::Trouble::Unreachable(error.to_string());
                let _ = self.own.send(Told::Came(host.clone(), Err(trouble.into())));
            }
        }
    }

    fn came(&mut self, host: &str, came: Result<Came, Refusal>) {
        let said = match &came {
            Ok(came) => !came.refused.is_empty(),
            Err(refusal) => !matches!(refusal, Refusal::Service(_) | Refusal::Late(..)),
        };
        if said {
            // What else is not to be had is known before it is decided anew.
            self.look();
        }
        let Some(work) = self.works.get_mut(host) else {
            return;
        };
        let orders = std::mem::take(&mut work.under_way);
        let waits = !work.next.is_empty();
        for (order, (gpu, attach)) in orders {
            let refusal = match &came {
                Ok(came) => came.refused.get(&gpu).filter(|_| attach),
                Err(refusal) => Some(refusal),
            };
            self.tell(match refusal {
                None => Observation::Done(order),
                Some(refusal) => Observation::Failed {
                    order,
                    cause: refusal.cause(),
                    reason: refusal.to_string(),
                },
            });
        }
        if !waits {
            self.works.remove(host);
        }
        if said || came.is_err() {
            // What it has now is not what was believed.
            self.due = Some(Instant::now());
        }
        let refused = came.map(|came| came.refused).unwrap_or_default();
        for (gpu, refusal) in refused {
            if let Some(seen) = refusal.seen() {
                let uid = resource_block_uid(&gpu);
                self.tell(Observation::Gpu { uid, seen });
            }
        }
    }

    /// Tells whether a host can be composed, where that is new.
    fn judge(&mut self, host: String, ours: bool) {
        let Some(name) = self.hosts.get(&host).cloned() else {
            return;
        };
        let new = if ours {
            self.closed.remove(&host)
        } else {
            self.closed.insert(host)
        };
        if new {
            let seen = if ours {
                NodeSeen::Up
            } else {
                NodeSeen::Draining
            };
            let by = "Redfish".to_owned();
            self.tell(Observation::Node { name, seen, by });
        }
    }

    /// Tells what the service says of each GPU.
    fn look(&mut self) {
        self.due = Some(Instant::now() + self.client.settings.every);
        let busy: BTreeSet<&str> = self
            .works
            .iter()
            .flat_map(|(host, work)| {
                let touched = work.touched.iter().chain(&work.wanted);
                std::iter::once(host).chain(touched)
            })
            .map(String::as_str)
            .collect();
        match look(&self.client, &self.hosts, &self.gpus, &busy) {
            Ok(looked) => {
                if self.silent.take().is_some() {
                    say("the Redfish service answers again");
                }
                looked.gpus.into_iter().for_each(|one| self.tell(one));
                for (host, ours) in looked.hosts {
                    self.judge(host, ours);
                }
            }
            Err(trouble) => {
                let words = trouble.to_string();
                if self.silent.is_none() {
                    say(&format!("{words}; it is asked again"));
                }
                self.silent = Some(words);
            }
        }
    }
}

/// A line on the broker's standard error.
fn say(text: &str) {
    // Nobody is there to be told that it cannot be written.
    let _ = writeln!(std::io::stderr(), "{text}");
}

//! Who watches the cluster: one thread, so that the broker never waits for it. What it is told becomes a state that
//! is wanted; whatever the watches bring, the cluster is brought nearer to it, and what has happened is told.

use super::{
    Settings,
    ask::LOG,
    held::Held,
    logs::{Followers, Place},
    nodes::Nodes,
    seen::PodSeen,
    told::Told,
};
use crate::watch::Trouble;
use futures_util::{Stream, StreamExt as _};
use gpuwise_broker::{Host, Observation, OrderId};
use gpuwise_domain::placement::JobId;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Config, Event},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    pin::Pin,
    sync::Arc,
    time::Instant,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

type Events<T> = Pin<Box<dyn Stream<Item = watcher::Result<Event<T>>> + Send>>;

pub(super) struct Worker {
    pub(super) settings: Settings,
    pub(super) client: Client,
    pub(super) pods_api: Api<Pod>,
    pub(super) host: Arc<dyn Host>,
    /// By when the log began; empty until something is told.
    pub(super) log: String,
    pub(super) held: BTreeMap<JobId, Held>,
    pub(super) pods: BTreeMap<String, PodSeen>,
    pub(super) nodes: Nodes,
    pub(super) followers: Followers,
    /// Starts that are about to be told again: their pods are no strays.
    pub(super) expected: BTreeSet<(JobId, OrderId)>,
    /// Leases that something has happened to.
    pub(super) stirred: BTreeSet<JobId>,
    /// Pods that a list that goes on has not named yet; `None`: none goes on.
    left: Option<BTreeSet<String>>,
    /// Whether all pods of this log are known.
    listed: bool,
    /// What was said last of a server that does not answer, so that it is said once.
    silent: bool,
}

/// What wakes the thread.
enum Happened {
    Told(Option<Told>),
    Pod(Option<Box<watcher::Result<Event<Pod>>>>),
    Node(Option<Box<watcher::Result<Event<Node>>>>),
    /// All that a pod wrote is kept.
    Read(String),
    Time,
}

async fn next<T>(events: &mut Option<Events<T>>) -> Option<Box<watcher::Result<Event<T>>>> {
    match events {
        Some(events) => events.next().await.map(Box::new),
        None => std::future::pending().await,
    }
}

impl Worker {
    pub(super) fn new(
        settings: Settings,
        client: Client,
        host: Arc<dyn Host>,
        place: Place,
    ) -> (Self, UnboundedReceiver<String>) {
        let (read, reads): (UnboundedSender<String>, _) = unbounded_channel();
        let pods_api = Api::namespaced(client.clone(), &settings.namespace);
        let worker = Self {
            followers: Followers::new(pods_api.clone(), place, read),
            settings,
            client,
            pods_api,
            host,
            log: String::new(),
            held: BTreeMap::new(),
            pods: BTreeMap::new(),
            nodes: Nodes::default(),
            expected: BTreeSet::new(),
            stirred: BTreeSet::new(),
            left: None,
            listed: false,
            silent: false,
        };
        (worker, reads)
    }

    pub(super) async fn run(
        mut self,
        mut told: UnboundedReceiver<Told>,
        mut reads: UnboundedReceiver<String>,
    ) {
        let (mut pods, mut nodes) = (None, None);
        loop {
            let wake = self.wake();
            let happened = tokio::select! {
                one = told.recv() => Happened::Told(one),
                one = next(&mut pods) => Happened::Pod(one),
                one = next(&mut nodes) => Happened::Node(one),
                Some(name) = reads.recv() => Happened::Read(name),
                () = until(wake) => Happened::Time,
            };
            match happened {
                Happened::Told(None) | Happened::Pod(None) | Happened::Node(None) => return,
                Happened::Told(Some(one)) => {
                    let first = self.log.is_empty();
                    self.take(one);
                    if first && !self.log.is_empty() {
                        (pods, nodes) = self.watches();
                    }
                }
                Happened::Pod(Some(event)) => match *event {
                    Ok(event) => self.pod(event).await,
                    Err(error) => self.silent(&error),
                },
                Happened::Node(Some(event)) => match *event {
                    Ok(event) => self.node(event),
                    Err(error) => self.silent(&error),
                },
                Happened::Read(name) => {
                    if let Some(pod) = self.pods.get(&name) {
                        self.stirred.insert(JobId(pod.lease));
                    }
                }
                Happened::Time => self.due(),
            }
            self.settle().await;
        }
    }

    fn watches(&self) -> (Option<Events<Pod>>, Option<Events<Node>>) {
        let ours = Config::default().labels(&format!("{LOG}={}", self.log));
        let pods = watcher::watcher(self.pods_api.clone(), ours).default_backoff();
        let nodes = Api::all(self.client.clone());
        let nodes = watcher::watcher(nodes, Config::default()).default_backoff();
        (Some(pods.boxed()), Some(nodes.boxed()))
    }

    pub(super) fn tell(&self, observation: Observation) {
        self.host.observed(observation);
    }

    async fn pod(&mut self, event: Event<Pod>) {
        self.answers_again();
        match event {
            Event::Init => self.left = Some(self.pods.keys().cloned().collect()),
            Event::InitApply(pod) | Event::Apply(pod) => self.saw(&pod),
            Event::InitDone => {
                for name in self.left.take().unwrap_or_default() {
                    // It may be younger than the list; the watch says so, too, where it is not answered now.
                    if !matches!(self.look_up(&name).await, Ok(true)) {
                        self.gone(&name);
                    }
                }
                self.listed = true;
                let all = self.pods.values().map(|pod| JobId(pod.lease));
                let all: Vec<JobId> = all.chain(self.held.keys().copied()).collect();
                self.stirred.extend(all);
            }
            Event::Delete(pod) => self.gone(&pod.metadata.name.unwrap_or_default()),
        }
    }

    /// What a pod is now.
    pub(super) fn saw(&mut self, pod: &Pod) {
        let name = pod.metadata.name.clone().unwrap_or_default();
        if let Some(left) = &mut self.left {
            left.remove(&name);
        }
        let Some(seen) = PodSeen::of(pod) else {
            return;
        };
        self.followers.follow(&name, &seen);
        self.stirred.insert(JobId(seen.lease));
        self.pods.insert(name, seen);
    }

    pub(super) fn gone(&mut self, name: &str) {
        self.followers.forget(name);
        if let Some(pod) = self.pods.remove(name) {
            self.stirred.insert(JobId(pod.lease));
        }
    }

    fn node(&mut self, event: Event<Node>) {
        self.answers_again();
        for change in self.nodes.happen(event) {
            self.tell(change);
            self.stirred.extend(self.held.keys().copied());
        }
    }

    async fn settle(&mut self) {
        if !self.listed {
            return;
        }
        // What happens meanwhile stirs anew.
        for job in std::mem::take(&mut self.stirred) {
            self.reconcile(job).await;
            self.sweep(job).await;
        }
    }

    fn wake(&self) -> Option<Instant> {
        if !self.listed {
            return None;
        }
        let patience = self.settings.patience;
        let held = self.held.values();
        held.filter_map(|held| held.deadline(patience)).min()
    }

    fn due(&mut self) {
        let (now, patience) = (Instant::now(), self.settings.patience);
        let due = |held: &&mut Held| held.deadline(patience).is_some_and(|at| at <= now);
        let mut due: Vec<&mut Held> = self.held.values_mut().filter(due).collect();
        for held in &mut due {
            held.again = held.again.filter(|at| *at > now);
            self.stirred.insert(held.job);
        }
    }

    fn silent(&mut self, error: &watcher::Error) {
        let trouble = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Trouble::of_client(None, error).to_string(),
            other => other.to_string(),
        };
        // A watch that was too old is listed again, and nothing is wrong.
        let old = matches!(error, watcher::Error::WatchError(status) if status.code == 410);
        if !old && !std::mem::replace(&mut self.silent, true) {
            say(&format!(
                "Kubernetes does not answer; it is asked again: {trouble}"
            ));
        }
    }

    fn answers_again(&mut self) {
        if std::mem::take(&mut self.silent) {
            say("Kubernetes answers again");
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// A line on the broker's standard error.
pub(super) fn say(text: &str) {
    // Nobody is there to be told that it cannot be written.
    let _ = writeln!(std::io::stderr(), "{text}");
}

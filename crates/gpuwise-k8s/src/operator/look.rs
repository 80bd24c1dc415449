//! A look: what is there, what is decided of it, what is written.

use super::{
    Journal, Settings, Sizer, Sleeper, clock,
    heed::Heeded,
    lead::Term,
    meter::Wanted,
    metrics::Metrics,
    own,
    say::{Said, say_all},
    seen::State,
    traces::{self, Traces},
    unanswered::Unanswered,
    unread,
    watches::Change,
    workloads,
    writes::Writer,
};
use crate::{
    manifests::Mode,
    steer::{Decision, Health, Kept, Pod, decide_after},
};
use gpuwise_units::Nanoseconds;
use kube::Client;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

/// Changes that come within this are looked at together.
const TOGETHER: Duration = Duration::from_millis(10);

/// Events that wait to be written, at most.
const EVENTS: usize = 16_384;

/// After the first failure a pod is left alone for so long, twice as long after the next, at most [`MOST`].
const FIRST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_mins(1);

pub(super) struct Looks {
    pub(super) writer: Writer,
    pub(super) journal: Arc<Journal>,
    pub(super) events: mpsc::Sender<Said>,
    pub(super) mode: Mode,
    terms: watch::Receiver<Option<Term>>,
    products: watch::Sender<Arc<BTreeSet<String>>>,
    pub(super) sizer: Option<Arc<dyn Sizer>>,
    pub(super) sleeper: Option<Arc<dyn Sleeper>>,
    pub(super) state: State,
    /// Of the last decision, for the next.
    kept: Kept,
    /// The number of the last plan of this term.
    pub(super) plan: u64,
    /// When time alone may change something.
    pub(super) wake: Option<Instant>,
    /// Looks in turn of which not all was written.
    incomplete: u32,
    /// Something about a node was not written.
    pub(super) unwritten: bool,
    /// Since when nodes are suspect or well.
    pub(super) health: Health,
    /// When nodes were last cut.
    pub(super) cut: BTreeMap<String, Instant>,
    /// Pods whose writes failed: how often, and until when they are left alone.
    pub(super) failed: BTreeMap<String, (u32, Instant)>,
    /// Pods whose gates may be off, as writes got no answer.
    pub(super) unanswered: Unanswered,
    /// What was last said of pods that wait, and when.
    pub(super) said: BTreeMap<String, (&'static str, String, Instant)>,
    own: own::Written,
    /// Pods that found no place at the last look, by uid.
    pub(super) waits: BTreeSet<String>,
    pub(super) workloads: workloads::Workloads,
    /// What is to be measured; `None`: nobody measures.
    pub(super) wanted: Option<watch::Sender<Arc<Wanted>>>,
    /// `None`: nobody is told.
    pub(super) traces: Option<Traces>,
    /// What definitions of our kinds lack, and watches that do not go.
    pub(super) heeded: Heeded,
    /// How far the API server's clock was said to be ahead, in seconds.
    pub(super) skew: i64,
    pub(super) unread: unread::Said,
}

/// What is counted, what is to be measured, and who is told.
type Told = (
    Arc<Metrics>,
    Option<watch::Sender<Arc<Wanted>>>,
    Option<Traces>,
);

impl Looks {
    pub(super) fn new(
        client: Client,
        settings: &Settings,
        terms: watch::Receiver<Option<Term>>,
        products: watch::Sender<Arc<BTreeSet<String>>>,
        (metrics, wanted, traces): Told,
        heeded: Heeded,
    ) -> Self {
        let writer = Writer { client, metrics };
        let (events, said) = mpsc::channel(EVENTS);
        tokio::spawn(say_all(writer.clone(), said));
        Self {
            writer,
            events,
            journal: Arc::clone(&settings.journal),
            mode: settings.mode,
            terms,
            products,
            sizer: settings.sizer.clone(),
            sleeper: settings.sleeper.clone(),
            state: State::new(Some(Arc::clone(&settings.boards))),
            kept: Kept::default(),
            plan: 0,
            wake: None,
            incomplete: 0,
            unwritten: false,
            health: Health::default(),
            cut: BTreeMap::new(),
            failed: BTreeMap::new(),
            unanswered: Unanswered::default(),
            said: BTreeMap::new(),
            own: own::Written::default(),
            waits: BTreeSet::new(),
            workloads: workloads::Workloads::default(),
            wanted,
            traces,
            heeded,
            skew: 0,
            unread: unread::Said::new(),
        }
    }

    /// Looks whenever something has changed, for as long as there are watches.
    pub(super) async fn run(mut self, mut changes: mpsc::Receiver<Change>) {
        let mut stale = true;
        loop {
            let retry = self.failed.values().map(|(_, until)| *until);
            let retry = retry.chain(self.wake).min();
            tokio::select! {
                change = changes.recv() => {
                    let Some(change) = change else { return };
                    stale |= self.state.take(change);
                }
                turn = self.terms.changed() => {
                    if turn.is_err() {
                        return;
                    }
                    // Who begins to lead says everything anew.
                    self.forget();
                    stale = true;
                }
                Ok(()) = self.heeded.lacking.changed() => stale = true,
                Ok(()) = self.heeded.troubles.changed() => self.troubled(),
                () = until(retry) => stale = true,
            }
            self.heed_clock();
            let end = Instant::now() + TOGETHER;
            while let Ok(Some(change)) = tokio::time::timeout_at(end, changes.recv()).await {
                stale |= self.state.take(change);
            }
            while let Ok(change) = changes.try_recv() {
                stale |= self.state.take(change);
            }
            if !self.state.is_read() {
                continue;
            }
            let leads = self.terms.borrow().as_ref().is_some_and(Term::holds);
            if let Some(traces) = self.traces.as_mut().filter(|_| leads) {
                traces.follow(&self.state, &self.journal);
            }
            if !stale {
                continue;
            }
            self.state.refresh();
            self.writer.metrics.synced();
            self.products.send_replace(self.state.products());
            let term = self.terms.borrow().clone();
            if let Some(term) = term.filter(Term::holds) {
                stale = false;
                self.look(&term).await;
            }
        }
    }

    fn forget(&mut self) {
        self.plan = 0;
        self.wake = None;
        self.failed.clear();
        self.unanswered.clear();
        self.said.clear();
        self.unread.clear();
        self.own = own::Written::default();
        self.workloads = workloads::Workloads::default();
        if let Some(traces) = &mut self.traces {
            traces.forget();
        }
    }

    async fn look(&mut self, term: &Term) {
        let began = Instant::now();
        self.failed.retain(|_, (_, until)| *until > began);
        self.settle(term);
        let failed = &self.failed;
        let left_alone = |pod: &Pod| failed.contains_key(&pod.uid);
        let mut seen = self.state.seen(self.mode, &left_alone);
        self.unanswered.hold(&mut seen, left_alone);
        let waiting = self.state.waiting();
        self.writer.metrics.depth(waiting);
        let (mut result, mut whole) = ("success", true);
        let at = clock::now_since_1970();
        self.wake = None;
        self.own.held = self.heeded.lacking.borrow().kinds();
        let decided = if waiting == 0 && seen.is_quiet() {
            Ok(Decision::default())
        } else {
            // The kernel takes as long as it takes; watches and the lease go on meanwhile.
            tokio::task::block_in_place(|| decide_after(&mut self.kept, &seen, at))
        };
        let took = began.elapsed().as_secs_f64();
        if let Some(traces) = &mut self.traces {
            traces.watch(&self.state);
            traces.decided((at.0, traces::now()));
        }
        match decided {
            Ok(decision) => {
                let waiting = decision.waits.iter();
                let waiting = waiting.filter_map(|one| Some(seen.pods.get(one.pod)?.uid.clone()));
                self.waits = waiting.collect();
                let mut waits: BTreeMap<&'static str, u64> = BTreeMap::new();
                for one in &decision.waits {
                    *waits.entry(one.reason).or_default() += 1;
                }
                self.writer.metrics.decided(took, waits);
                if !decision.troubles.is_empty() {
                    self.journal
                        .say("the cluster does not add up", &decision.troubles.join("; "));
                }
                self.own
                    .accept(term, &self.writer, &self.state, None, &decision.troubles)
                    .await;
                self.wakes(at, decision.wake);
                whole = self.carry_out(term, &seen, &decision, at).await;
            }
            Err(why) => {
                result = "error";
                self.journal.say("nothing can be decided", &why);
                self.own
                    .accept(term, &self.writer, &self.state, Some(&why), &[])
                    .await;
            }
        }
        self.heed_unread(term).await;
        whole &= self.look_at_workloads(term).await;
        if whole {
            self.incomplete = 0;
        } else {
            let failed = result == "error";
            result = if failed { result } else { "requeue_after" };
            // Where no watch brings a change of what was refused it is tried again all the same.
            let wait = FIRST.saturating_mul(1 << self.incomplete.min(10)).min(MOST);
            self.incomplete += 1;
            let again = Instant::now() + wait;
            self.wake = Some(self.wake.map_or(again, |wake| wake.min(again)));
        }
        let took = began.elapsed().as_secs_f64();
        self.writer.metrics.looked(result, took);
    }

    /// Looks again at a moment, where nothing changes before.
    pub(super) fn wakes(&mut self, now: Nanoseconds, at: Option<Nanoseconds>) {
        let wake = at.map(|at| Instant::now() + Duration::from_nanos(at.0.saturating_sub(now.0)));
        self.wake = self.wake.into_iter().chain(wake).min();
    }

    pub(super) fn back_off(&mut self, uid: &str) {
        let tries = self.failed.get(uid).map_or(0, |(tries, _)| *tries);
        let wait = FIRST.saturating_mul(1 << tries.min(10)).min(MOST);
        self.failed
            .insert(uid.to_owned(), (tries + 1, Instant::now() + wait));
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

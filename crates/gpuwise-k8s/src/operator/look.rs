//! A look: what is there, what is decided of it, what is written.

use super::{
    Journal, Settings, Sizer,
    lead::Term,
    meter::Wanted,
    metrics::Metrics,
    own,
    seen::State,
    watches::Change,
    workloads,
    writes::{Writer, Wrote},
};
use crate::{
    manifests::Mode,
    steer::{Decision, Placed, Pod, Seen, Waits, decide},
};
use futures_util::StreamExt as _;
use gpuwise_units::Nanoseconds;
use jiff::Timestamp;
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

/// Writes at once at most.
const AT_ONCE: usize = 32;

/// Events that wait to be written, at most, and how many are written at once: gates go first.
const EVENTS: usize = 16_384;
const EVENTS_AT_ONCE: usize = 4;

/// Something to be said of a pod that was placed.
type Said = (Term, Arc<Pod>, String);

/// After the first failure a pod is left alone for so long, twice as long after the next, at most [`MOST`].
const FIRST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_mins(1);

/// The same reason in other words is written again only after so long.
const AGAIN: Duration = Duration::from_mins(1);

pub(super) struct Looks {
    writer: Writer,
    journal: Arc<Journal>,
    events: mpsc::Sender<Said>,
    mode: Mode,
    terms: watch::Receiver<Option<Term>>,
    products: watch::Sender<Arc<BTreeSet<String>>>,
    sizer: Option<Arc<dyn Sizer>>,
    state: State,
    /// The number of the last plan of this term.
    plan: u64,
    /// Pods whose writes failed: how often, and until when they are left alone.
    failed: BTreeMap<String, (u32, Instant)>,
    /// What was last said of pods that wait, and when.
    said: BTreeMap<String, (&'static str, String, Instant)>,
    own: own::Written,
    workloads: workloads::Workloads,
    /// What is to be measured; `None`: nobody measures.
    wanted: Option<watch::Sender<Arc<Wanted>>>,
}

impl Looks {
    pub(super) fn new(
        client: Client,
        settings: &Settings,
        terms: watch::Receiver<Option<Term>>,
        products: watch::Sender<Arc<BTreeSet<String>>>,
        (metrics, wanted): (Arc<Metrics>, Option<watch::Sender<Arc<Wanted>>>),
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
            state: State::default(),
            plan: 0,
            failed: BTreeMap::new(),
            said: BTreeMap::new(),
            own: own::Written::default(),
            workloads: workloads::Workloads::default(),
            wanted,
        }
    }

    /// Looks whenever something has changed, for as long as there are watches.
    pub(super) async fn run(mut self, mut changes: mpsc::Receiver<Change>) {
        let mut stale = true;
        loop {
            let retry = self.failed.values().map(|(_, until)| *until).min();
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
                () = until(retry) => stale = true,
            }
            let end = Instant::now() + TOGETHER;
            while let Ok(Some(change)) = tokio::time::timeout_at(end, changes.recv()).await {
                stale |= self.state.take(change);
            }
            while let Ok(change) = changes.try_recv() {
                stale |= self.state.take(change);
            }
            if !self.state.is_read() || !stale {
                continue;
            }
            self.state.refresh();
            self.writer.metrics.synced();
            self.products.send_replace(Arc::new(self.state.products()));
            let term = self.terms.borrow().clone();
            if let Some(term) = term.filter(Term::holds) {
                stale = false;
                self.look(&term).await;
            }
        }
    }

    fn forget(&mut self) {
        self.plan = 0;
        self.failed.clear();
        self.said.clear();
        self.own = own::Written::default();
        self.workloads = workloads::Workloads::default();
    }

    async fn look(&mut self, term: &Term) {
        let began = Instant::now();
        let now = Instant::now();
        self.failed.retain(|_, (_, until)| *until > now);
        let failed = &self.failed;
        let seen = self
            .state
            .seen(self.mode, &|pod| failed.contains_key(&pod.uid));
        let waiting = self.state.waiting();
        self.writer.metrics.depth(waiting);
        let mut result = "success";
        let decided = if waiting == 0 {
            Ok(Decision::default())
        } else {
            // The kernel takes as long as it takes; watches and the lease go on meanwhile.
            let at =
                Nanoseconds(u64::try_from(Timestamp::now().as_nanosecond()).unwrap_or_default());
            tokio::task::block_in_place(|| decide(&seen, at))
        };
        let took = began.elapsed().as_secs_f64();
        match decided {
            Ok(decision) => {
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
                if !self.carry_out(term, &seen, &decision).await {
                    result = "requeue_after";
                }
            }
            Err(why) => {
                result = "error";
                self.journal.say("nothing can be decided", &why);
                self.own
                    .accept(term, &self.writer, &self.state, Some(&why), &[])
                    .await;
            }
        }
        if let Some(sizer) = self.sizer.clone() {
            let acts = self.mode == Mode::Act;
            let mut hands = workloads::Hands {
                term,
                writer: &self.writer,
                state: &self.state,
                sizer: &*sizer,
                acts,
                says: self.mode != Mode::Observe,
                measures: self.wanted.is_some(),
                plan: &mut self.plan,
            };
            self.workloads.look(&mut hands, self.state.measured()).await;
            if let Some(wanted) = &self.wanted {
                let new = workloads::wanted(&self.state, acts);
                wanted.send_if_modified(|old| {
                    let another = **old != *new;
                    *old = new;
                    another
                });
            }
        }
        self.writer
            .metrics
            .looked(result, began.elapsed().as_secs_f64());
    }

    /// Writes what was decided; whether all of it was written.
    async fn carry_out(&mut self, term: &Term, seen: &Seen, decision: &Decision) -> bool {
        if self.mode == Mode::Observe || (decision.placed.is_empty() && decision.waits.is_empty()) {
            return true;
        }
        self.plan += 1;
        let plan = format!("{}.{}", term.number, self.plan);
        let mut whole = true;
        if self.mode == Mode::Act {
            whole &= self.release(term, seen, &decision.placed, &plan).await;
        } else {
            let proposed: Vec<Waits> = decision.placed.iter().map(proposal).collect();
            whole &= self.say(term, seen, &proposed, &plan).await;
        }
        whole & self.say(term, seen, &decision.waits, &plan).await
    }

    /// Takes gates off, gang by gang.
    async fn release(&mut self, term: &Term, seen: &Seen, placed: &[Placed], plan: &str) -> bool {
        let writer = &self.writer;
        let state = &self.state;
        let ready = placed.iter().filter_map(|one| {
            let pod = seen.pods.get(one.pod)?;
            Some((one, pod, state.hostname(&one.node)?))
        });
        let releases = ready.map(|(one, pod, hostname)| async move {
            let own = state.since_arrival(pod).map(|since| since.as_secs_f64());
            let wrote = writer
                .release(term, pod, &one.node, &hostname, &one.words, plan)
                .await;
            if wrote == Wrote::Done {
                let since = pod
                    .gated_at
                    .map(|at| Timestamp::now().duration_since(at).as_secs_f64());
                writer.metrics.placed(since, own);
            }
            (one, pod, wrote)
        });
        let done: Vec<(&Placed, &Arc<Pod>, Wrote)> = futures_util::stream::iter(releases)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut whole = true;
        for (one, pod, wrote) in done {
            match wrote {
                Wrote::Done => {
                    self.state.sent(pod, &one.node);
                    self.failed.remove(&pod.uid);
                    self.said.remove(&pod.uid);
                    let words = format!("Goes to {} (plan {plan})", one.words);
                    // An event more or less changes nothing: nobody waits for it.
                    let _ = self.events.try_send((term.clone(), Arc::clone(pod), words));
                }
                // A watch brings what is.
                Wrote::Changed => whole = false,
                Wrote::Fenced => return false,
                Wrote::Failed(why) => {
                    whole = false;
                    self.journal.say("a gate cannot be taken off", &why);
                    self.back_off(&pod.uid);
                }
            }
        }
        whole
    }

    fn back_off(&mut self, uid: &str) {
        let tries = self.failed.get(uid).map_or(0, |(tries, _)| *tries);
        let wait = FIRST.saturating_mul(1 << tries.min(10)).min(MOST);
        self.failed
            .insert(uid.to_owned(), (tries + 1, Instant::now() + wait));
    }

    /// Says why pods wait, where that is new.
    async fn say(&mut self, term: &Term, seen: &Seen, waits: &[Waits], plan: &str) -> bool {
        let now = Instant::now();
        let mut new: Vec<(Arc<Pod>, &Waits)> = Vec::new();
        for one in waits {
            let Some(pod) = seen.pods.get(one.pod) else {
                continue;
            };
            let known = self.said.get(&pod.uid);
            let same = known.is_some_and(|(reason, words, at)| {
                *reason == one.reason && (*words == one.words || now.duration_since(*at) < AGAIN)
            });
            if !same {
                new.push((Arc::clone(pod), one));
            }
        }
        let writer = &self.writer;
        let conditions = new.into_iter().map(|(pod, one)| async move {
            let words = format!("{} (plan {plan})", one.words);
            let wrote = writer.condition(term, &pod, one.reason, &words).await;
            (pod, one, wrote)
        });
        let done: Vec<_> = futures_util::stream::iter(conditions)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut whole = true;
        for (pod, one, wrote) in done {
            whole &= wrote == Wrote::Done;
            if let Wrote::Failed(why) = &wrote {
                self.journal.say("a condition cannot be written", why);
            }
            if wrote == Wrote::Done {
                self.said
                    .insert(pod.uid.clone(), (one.reason, one.words.clone(), now));
            }
        }
        // Who is gone need not be remembered.
        if self.said.len() > 2 * seen.pods.len() + 1000 {
            let there: BTreeSet<&str> = seen.pods.iter().map(|pod| pod.uid.as_str()).collect();
            self.said.retain(|uid, _| there.contains(uid.as_str()));
        }
        whole
    }
}

async fn say_all(writer: Writer, said: mpsc::Receiver<Said>) {
    let all = futures_util::stream::unfold(said, |mut said| async move {
        let next = said.recv().await?;
        Some((next, said))
    });
    let writer = &writer;
    all.for_each_concurrent(EVENTS_AT_ONCE, |(term, pod, words)| async move {
        writer.event(&term, &pod, "Placed", &words).await;
    })
    .await;
}

/// What is said of a pod that would be placed, where nobody acts.
fn proposal(one: &Placed) -> Waits {
    Waits {
        pod: one.pod,
        reason: "Proposed",
        words: format!("it would go to {}", one.words),
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

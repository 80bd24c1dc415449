//! One trace from the object that somebody made to the processes of its pods.
//!
//! A trace is that of the annotation `traceparent`, else it begins with the GpuWorkload, with what controls the pod,
//! or with the pod: ids follow from uids, so that another operator goes on with the same. Times are those that the API
//! tells where it tells them.

mod carry;
mod changed;
mod life;
mod made;
mod moving;

pub(super) use carry::carried;
pub(super) use changed::Stepped;
pub(super) use gpuwise_otlp::Outcome;

use super::{Journal, seen::PLAN, seen::State, watches::Own};
use crate::{
    inventory::Pod,
    resources::{GpuWorkloadSpec, Object},
    steer::GATE,
};
use gpuwise_otlp::{Context, Queue, Span};
use jiff::Timestamp;
use life::{Life, Over};
use moving::Moving;
use std::collections::{BTreeMap, BTreeSet};

/// The present moment in nanoseconds since 1970.
pub(super) fn now() -> u64 {
    super::clock::now_since_1970().0
}

fn nanoseconds_of(text: &str) -> Option<u64> {
    let at = text.parse::<Timestamp>().ok()?.as_nanosecond();
    u64::try_from(at).ok()
}

/// Follows what is steered, and tells a collector.
pub(super) struct Traces {
    queue: Queue,
    /// Pods whose start is not over, by uid.
    open: BTreeMap<String, Life>,
    /// Pods that move, by uid.
    moves: BTreeMap<String, Moving>,
    /// Uids of what a trace began with and has been told of.
    begun: BTreeSet<String>,
    /// Whether nobody was looked at in this term.
    fresh: bool,
    /// When the last decision began, and when it was made.
    decided: (u64, u64),
}

impl Traces {
    pub(super) const fn new(queue: Queue) -> Self {
        Self {
            queue,
            open: BTreeMap::new(),
            moves: BTreeMap::new(),
            begun: BTreeSet::new(),
            fresh: true,
            decided: (0, 0),
        }
    }

    /// Who begins to lead looks anew.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.queue.clone());
    }

    /// A decision was made: when it began and ended.
    pub(super) const fn decided(&mut self, took: (u64, u64)) {
        self.decided = took;
    }

    /// Takes in who waits behind our gate and who moves; at first those too that are on their way, whoever sent them.
    pub(super) fn watch(&mut self, state: &State) {
        let gated = |pod: &Pod| pod.gates.iter().any(|gate| **gate == *GATE);
        let fresh = std::mem::take(&mut self.fresh);
        for pod in state.inventory().pods.values() {
            if fresh && pod.ready {
                self.begun.extend(begins(state, pod));
            }
            if !self.moves.contains_key(&*pod.uid)
                && let Some(moving) = Moving::of(pod)
            {
                self.moves.insert(pod.uid.to_string(), moving);
            }
            let sent = || fresh && !pod.ready && pod.annotation(PLAN).is_some();
            if pod.phase.ended() || !(gated(pod) || sent()) || self.open.contains_key(&*pod.uid) {
                continue;
            }
            let life = Life::new(pod, gated(pod));
            self.open.insert(life.uid.clone(), life);
        }
    }

    /// A gate is off: by which plan, where to and why.
    pub(super) fn released(
        &mut self,
        uid: &str,
        written: u64,
        (plan, node, why): (&str, &str, &str),
    ) {
        let Some(life) = self.open.get_mut(uid) else {
            return;
        };
        let words = [
            ("gpuwise.plan", plan.to_owned()),
            ("k8s.node.name", node.to_owned()),
            ("gpuwise.reason", why.to_owned()),
        ];
        for span in life.released(self.decided, written, &words) {
            self.queue.put(span);
        }
    }

    /// Goes on with those whose start is not over.
    pub(super) fn follow(&mut self, state: &State, journal: &Journal) {
        let now = now();
        let pods = &state.inventory().pods;
        let mut begins = Vec::new();
        let queue = &self.queue;
        self.open.retain(|uid, life| {
            let known = pods.get(&life.namespace, &life.name);
            let (spans, over) = match known.filter(|pod| *pod.uid == **uid) {
                Some(pod) => life.goes_on(pod, now),
                None => (life.gone(now), Over::Failed),
            };
            for span in spans {
                queue.put(span);
            }
            if let Over::At(at) = over {
                begins.push((begin(life, state, at), at));
            }
            over == Over::No
        });
        self.moves.retain(|_, moving| {
            let there = pods.get(&moving.namespace, &moving.name);
            let ended = moving.ended(there.map(|pod| &**pod), now);
            let stays = ended.is_none();
            if let Some(span) = ended {
                queue.put(span);
            }
            stays
        });
        for (begin, at) in begins {
            if let Some((uid, span)) = begin.filter(|(uid, _)| !self.begun.contains(uid)) {
                let first = self.open.values().filter(|life| life.owner_is(&uid));
                let start = first.map(|life| life.created).min();
                self.queue.put(Span {
                    start: start.unwrap_or(at).min(span.start),
                    ..span
                });
                self.begun.insert(uid);
            }
        }
        self.say(journal);
    }

    fn say(&self, journal: &Journal) {
        if let Some(why) = self.queue.trouble() {
            journal.say("traces are lost", &why);
        }
        if self.queue.counts().dropped > 0 {
            let why = "the collector is slower than they come; \
                       gpuwise_operator_trace_spans_total says how many";
            journal.say("traces are dropped", why);
        }
    }
}

impl Life {
    fn owner_is(&self, uid: &str) -> bool {
        self.owner.as_ref().is_some_and(|[.., own]| own == uid)
    }
}

/// The GpuWorkload that a pod serves.
fn workload(
    state: &State,
    namespace: &str,
    serves: Option<&str>,
) -> Option<Object<GpuWorkloadSpec>> {
    let serves = serves?;
    let mut all = state.objects(Own::Workload);
    let found = all.find(|one| {
        one.metadata.name.as_deref() == Some(serves)
            && one.metadata.namespace.as_deref() == Some(namespace)
    })?;
    serde_json::from_value(serde_json::to_value(found).ok()?).ok()
}

/// The uids of what the trace of a pod may begin with.
fn begins(state: &State, pod: &Pod) -> impl Iterator<Item = String> {
    let serves = pod.label(super::watches::SERVED);
    let object = workload(state, &pod.namespace, serves);
    let owner = pod.owner_uid.as_deref().map(str::to_owned);
    owner.into_iter().chain(object.map(|one| one.metadata.uid))
}

/// The span with which the trace of a pod begins, now that it is ready, and of which uid it is; `None`: it begins with
/// the pod, or is another's.
fn begin(life: &Life, state: &State, ready: u64) -> Option<(String, Span)> {
    if let Some(object) = workload(state, &life.namespace, life.serves.as_deref()) {
        let span = made::whole(&object, ready);
        let above = life.hangs.parent.as_ref() == Some(&span.at.span);
        return above.then_some((object.metadata.uid, span));
    }
    let [kind, name, uid] = life.owner.as_ref()?;
    let hangs = carry::hangs(uid, None);
    let span = Span {
        at: Context { ..hangs.at },
        parent: None,
        name: kind.clone(),
        start: life.created,
        end: ready,
        attributes: vec![
            ("k8s.namespace.name", life.namespace.clone()),
            ("k8s.object.name", name.clone()),
        ],
        outcome: Outcome::Ok,
    };
    Some((uid.clone(), span))
}

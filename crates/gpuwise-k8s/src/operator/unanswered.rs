//! Gates of which the API server did not say in time whether they are off: a watch shows it.

use super::{
    lead::Term,
    look::Looks,
    release::{Off, gated_for},
    seen::{NODE, PLAN, REASON},
    traces,
};
use crate::{
    inventory::{self, Table},
    steer::{GATE, Place, Pod, Seen},
};
use std::{collections::BTreeMap, sync::Arc};

/// What the annotation [`REASON`] of a pod begins with that is left to kube-scheduler.
pub(super) const LEFT: &str = "left to kube-scheduler: ";

/// A pod whose gate may be off.
struct Asked {
    pod: Arc<Pod>,
    /// Where it goes, where we say so.
    node: Option<String>,
    /// Seconds from a watch's word of it to our write, where known.
    own: Option<f64>,
}

/// By uid.
#[derive(Default)]
pub(super) struct Unanswered(BTreeMap<String, Asked>);

/// What a watch shows of such a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// It has its gate still: the write is tried again.
    Gated,
    Placed {
        plan: String,
        node: String,
        why: String,
    },
    Left(String),
    /// It is gone, or its gate was taken off by another.
    Gone,
}

pub(super) fn shown(pods: &Table<inventory::Pod>, of: &Pod) -> Shown {
    let Some(pod) = pods
        .get(&of.namespace, &of.name)
        .filter(|pod| *pod.uid == *of.uid)
    else {
        return Shown::Gone;
    };
    if pod.gates.iter().any(|gate| **gate == *GATE) {
        return Shown::Gated;
    }
    let why = pod.annotation(REASON).unwrap_or_default();
    match (pod.annotation(PLAN), pod.annotation(NODE)) {
        (Some(plan), Some(node)) => Shown::Placed {
            plan: plan.to_owned(),
            node: node.to_owned(),
            why: why.to_owned(),
        },
        _ => why
            .strip_prefix(LEFT)
            .map_or(Shown::Gone, |why| Shown::Left(why.to_owned())),
    }
}

impl Unanswered {
    /// A write of a gate got no answer.
    pub(super) fn put(&mut self, pod: &Arc<Pod>, node: Option<&str>, own: Option<f64>) {
        let asked = Asked {
            pod: Arc::clone(pod),
            node: node.map(str::to_owned),
            own,
        };
        self.0.insert(pod.uid.clone(), asked);
    }

    /// It was answered after all.
    pub(super) fn answered(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Pods that are left alone for now hold what they may have been sent to: it is given to no other.
    pub(super) fn hold(&self, seen: &mut Seen, left_alone: impl Fn(&Pod) -> bool) {
        for asked in self.0.values().filter(|asked| left_alone(&asked.pod)) {
            let Some(node) = &asked.node else { continue };
            if seen.pods.iter().any(|pod| pod.uid == asked.pod.uid) {
                continue;
            }
            let mut pod = Pod::clone(&asked.pod);
            pod.place = Place::Sent(node.clone());
            seen.pods.push(Arc::new(pod));
        }
    }
}

impl Looks {
    /// Takes gates as off that watches show to be off, whatever became of the answers.
    pub(super) fn settle(&mut self, term: &Term) {
        for (uid, asked) in std::mem::take(&mut self.unanswered.0) {
            let pod = &asked.pod;
            match shown(&self.state.inventory().pods, pod) {
                Shown::Gated => drop(self.unanswered.0.insert(uid, asked)),
                Shown::Gone => {}
                Shown::Placed { plan, node, why } => {
                    self.writer.metrics.placed(gated_for(pod), asked.own);
                    self.gate_is_off(term, pod, traces::now(), Off::Sent(&plan, &node, &why));
                }
                Shown::Left(why) => {
                    self.gate_is_off(term, pod, traces::now(), Off::Left(&why));
                }
            }
        }
    }
}

//! A pod: what many of one workload share is held once, what is its own beside it.

mod read;

pub(super) use read::read;

use super::{Key, Text, asks::Amounts};
use crate::objects::{PodClaim, Term, Toleration};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What replicas of one template have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Shape {
    pub asks: Amounts,
    /// Labels, but those that number a pod.
    pub labels: BTreeMap<Text, Text>,
    pub node_selector: BTreeMap<Text, Text>,
    /// One of these terms is met by its node; `None`: it does not say.
    pub node_terms: Option<Box<[Term]>>,
    pub tolerations: Box<[Toleration]>,
    /// It says beside which other pods it may be, or how they are spread: what nodes alone do not tell.
    pub minds_others: bool,
    /// It has a volume that is claimed, which may be of one node alone.
    pub claims_volumes: bool,
    pub priority: i32,
    pub priority_class: Option<Text>,
    /// It does not take the place of others.
    pub never_preempts: bool,
    pub scheduler: Option<Text>,
    /// Seconds that it has to stop.
    pub grace: Option<i64>,
    pub claims: Box<[PodClaim]>,
    /// Annotations of ours, and those by which people keep autoscalers away.
    pub annotations: BTreeMap<Text, Text>,
    /// What of it cannot be read, a sentence each.
    pub problems: Box<[String]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

impl Phase {
    /// It ended and holds nothing any more.
    pub const fn ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Why a pod has no node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// Somebody holds it back by scheduling gates.
    Gated(Arc<[Text]>),
    /// The scheduler found no node; its words.
    Unschedulable(Text),
    /// The scheduler has not come to it.
    Unseen,
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gated(gates) => {
                write!(f, "held back by the scheduling gates {}", gates.join(", "))
            }
            Self::Unschedulable(words) => write!(f, "no node was found: {words}"),
            Self::Unseen => f.write_str("the scheduler has not come to it"),
        }
    }
}

/// When a pod came how far, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Came {
    /// It was bound to its node.
    pub scheduled: Option<i64>,
    /// The last of its containers started; not set: one has not.
    pub started: Option<i64>,
    /// It is ready, since then.
    pub ready: Option<i64>,
    /// The last of its containers ended; not set: one has not.
    pub ended: Option<i64>,
}

/// An owner that an object names as its controller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    pub kind: Text,
    pub name: Text,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    pub name: Text,
    pub namespace: Text,
    pub uid: Box<str>,
    /// `metadata.resourceVersion`, for writes that must not pass over a change.
    pub version: Box<str>,
    pub shape: Arc<Shape>,
    pub phase: Phase,
    /// Where it is bound.
    pub node: Option<Text>,
    /// Where room is being made for it.
    pub nominated: Option<Text>,
    pub gates: Arc<[Text]>,
    /// What the scheduler said last of why there is no node.
    pub unschedulable: Option<Text>,
    pub ready: bool,
    /// Seconds since 1970.
    pub created: i64,
    pub started: Option<i64>,
    /// By when it is gone.
    pub deleting: Option<i64>,
    /// It is to leave its place, as its condition `gpuwise.dev/Leaving` says.
    pub leaves: bool,
    pub owner: Option<Owner>,
    /// The uid of it.
    pub owner_uid: Option<Text>,
    /// The span that it goes on with (W3C Trace Context), as its annotation says.
    pub traceparent: Option<Text>,
    /// How far it came, and when.
    pub came: Came,
    /// The gang that it says it is of.
    pub group: Option<Text>,
    /// The number of it among those of its workload.
    pub index: Option<u32>,
    /// Claims made of templates for it: by the name in the pod, the claim's own.
    pub made_claims: Box<[(Text, Text)]>,
}

/// Labels that tell pods of one template apart.
const NUMBERS: [&str; 5] = [
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "leaderworkerset.sigs.k8s.io/group-index",
];
/// The annotation of the span that it goes on with.
pub(crate) const TRACEPARENT: &str = "traceparent";
/// Beginnings and parts of names of annotations that are kept.
const NOTED: [&str; 7] = [
    "gpuwise",
    "controller.kubernetes.io/pod-deletion-cost",
    "safe-to-evict",
    "karpenter.sh/do-not-",
    "kueue.x-k8s.io/",
    "leaderworkerset.sigs.k8s.io/size",
    "scheduling.k8s.io/group-name",
];

impl Pod {
    pub fn key(&self) -> Key {
        Key {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// Why it has no node; `None`: it has one, or has ended.
    pub fn waiting(&self) -> Option<Waiting> {
        if self.node.is_some() || self.phase.ended() {
            return None;
        }
        if !self.gates.is_empty() {
            return Some(Waiting::Gated(self.gates.clone()));
        }
        Some(match &self.unschedulable {
            Some(words) => Waiting::Unschedulable(words.clone()),
            None => Waiting::Unseen,
        })
    }

    /// Whether it holds what it asks on its node.
    pub fn holds(&self) -> bool {
        self.node.is_some() && !self.phase.ended()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.shape.labels.get(key).map(AsRef::as_ref)
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.shape.annotations.get(key).map(AsRef::as_ref)
    }

    /// The name of the claim that one of its claims is, once there is one.
    pub fn claim(&self, claim: &PodClaim) -> Option<Text> {
        if let Some(name) = &claim.resource_claim_name {
            return Some(name.as_str().into());
        }
        let mut made = self.made_claims.iter();
        let found = made.find(|(name, _)| **name == *claim.name);
        found.map(|(_, made)| made.clone())
    }
}

/// Shapes that are held.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    all: BTreeSet<Arc<Shape>>,
    kept: usize,
}

impl Shapes {
    fn held(&mut self, shape: Shape) -> Arc<Shape> {
        if let Some(known) = self.all.get(&shape) {
            return known.clone();
        }
        let made = Arc::new(shape);
        self.all.insert(made.clone());
        made
    }

    pub(super) fn sweep(&mut self) {
        if self.all.len() > 256 && self.all.len() / 2 > self.kept {
            self.all.retain(|shape| Arc::strong_count(shape) > 1);
            self.kept = self.all.len();
        }
    }
}

//! Which workload a pod is of: its controller, and that one's.

use super::{Inventory, Key, Owner, Pod, Text, text::Names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;

/// Kinds whose controllers are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnerKind {
    ReplicaSet,
    StatefulSet,
    Job,
}

/// A controller that is itself made by another, or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    pub owner: Option<Owner>,
}

/// What somebody runs: the topmost of what made its pods.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Workload {
    pub namespace: Text,
    /// `Deployment`, `Job`, `Pod` of one that nothing made.
    pub kind: Text,
    pub name: Text,
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Steps from a pod up that are gone at most: a pod of a leader-worker set has four.
const STEPS: usize = 8;
/// Labels that name the whole of which several controllers make a part.
const WHOLES: [(&str, &str); 3] = [
    ("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    ("ray.io/cluster", "RayCluster"),
];

impl Inventory {
    /// The workload that a pod is of. A ReplicaSet that is not known is told by its name and hash.
    pub fn workload(&self, pod: &Pod) -> Workload {
        let of = |kind: &str, name: &str| Workload {
            namespace: pod.namespace.clone(),
            kind: kind.into(),
            name: name.into(),
        };
        for (label, kind) in WHOLES {
            if let Some(name) = pod.label(label) {
                return of(kind, name);
            }
        }
        let Some(mut owner) = pod.owner.clone() else {
            return of("Pod", &pod.name);
        };
        for _ in 0..STEPS {
            match self.above(pod, &owner) {
                Some(above) => owner = above,
                None => break,
            }
        }
        of(&owner.kind, &owner.name)
    }

    fn above(&self, pod: &Pod, owner: &Owner) -> Option<Owner> {
        let kind = match &*owner.kind {
            "ReplicaSet" => OwnerKind::ReplicaSet,
            "StatefulSet" => OwnerKind::StatefulSet,
            "Job" => OwnerKind::Job,
            _ => return None,
        };
        let known = self.controllers.get(&kind);
        if let Some(known) = known.and_then(|table| table.get(&pod.namespace, &owner.name)) {
            return known.owner.clone();
        }
        let hash = pod.label("pod-template-hash")?;
        let name = owner.name.strip_suffix(hash)?.strip_suffix('-')?;
        Some(Owner {
            kind: "Deployment".into(),
            name: name.into(),
        })
    }

    /// The gang that a pod is bound with, and how many are bound together or not at all; `None` of these: its group
    /// is not there yet. Who is in a group of which each is for itself, as those of plain Jobs are, is in no gang.
    pub fn gang(&self, pod: &Pod) -> Option<(Key, Option<u32>)> {
        let name = pod.group.clone()?;
        let group = self.groups.get(&pod.namespace, &name);
        let least = match group {
            Some(group) => Some(group.min_count?),
            None => None,
        };
        let key = Key {
            namespace: pod.namespace.clone(),
            name,
        };
        Some((key, least))
    }
}

/// The reference to what controls an object.
pub(super) fn controlled_by(meta: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = meta.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

/// The owner that is said to be the controller.
pub(super) fn controller(meta: &ObjectMeta, names: &mut Names) -> Option<Owner> {
    let found = controlled_by(meta)?;
    Some(Owner {
        kind: names.text(&found.kind),
        name: names.text(&found.name),
    })
}

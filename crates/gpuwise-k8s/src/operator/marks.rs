//! What was written of pods and no watch has shown yet: a decision in between takes it as written.

use crate::{
    inventory::{self, Table},
    steer::{Place, Pod},
};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// Something that was written of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mark {
    /// Its gate is off; in whose stead it starts.
    Sent(String, Option<String>),
    /// Its gate is off, and nobody says where it goes.
    LetGo,
    Nominated(String),
    Leaves(bool),
    /// It is being evicted.
    Ends,
    Moves(Option<(String, Nanoseconds)>),
}

/// By uid.
#[derive(Debug, Default)]
pub(super) struct Marks(BTreeMap<String, Marked>);

/// A pod that something was written of.
#[derive(Debug)]
struct Marked {
    namespace: String,
    name: String,
    version: String,
    /// What was written of that version, in turn.
    marks: Vec<Mark>,
}

impl Marks {
    pub(super) fn put(&mut self, pod: &Pod, mark: Mark) {
        let known = self.0.entry(pod.uid.clone());
        let marked = known.or_insert_with(|| Marked {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            version: pod.version.clone(),
            marks: Vec::new(),
        });
        if marked.version != pod.version {
            marked.marks.clear();
            marked.version.clone_from(&pod.version);
        }
        marked.marks.push(mark);
    }

    /// A pod as it is with what was written of it.
    pub(super) fn on(&self, mut pod: Pod) -> Pod {
        let marked = self.0.get(&pod.uid);
        let Some(marked) = marked.filter(|marked| marked.version == pod.version) else {
            return pod;
        };
        for mark in marked.marks.iter().cloned() {
            let standing = &mut pod.standing;
            match mark {
                Mark::Sent(node, replaces) => {
                    standing.replaces = replaces;
                    if pod.place == Place::Gated {
                        pod.place = Place::Sent(node);
                    }
                }
                Mark::LetGo => pod.place = Place::Free,
                Mark::Nominated(node) => standing.nominated = Some(node),
                Mark::Leaves(leaves) => standing.leaves = leaves,
                Mark::Ends => standing.ends = true,
                Mark::Moves(moves) => standing.moves = moves,
            }
        }
        pod
    }

    /// Forgets what a watch has shown, and who is gone.
    pub(super) fn retain(&mut self, pods: &Table<inventory::Pod>) {
        self.0.retain(|uid, marked| {
            pods.get(&marked.namespace, &marked.name)
                .is_some_and(|pod| *pod.uid == **uid && *pod.version == *marked.version)
        });
    }
}

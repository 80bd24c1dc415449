//! What was written of pods and no watch has shown yet: a decision in between takes it as written.

use crate::steer::{Place, Pod};
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

/// By uid: of which version of the pod, and what in turn.
#[derive(Debug, Default)]
pub(super) struct Marks(BTreeMap<String, (String, Vec<Mark>)>);

impl Marks {
    pub(super) fn put(&mut self, pod: &Pod, mark: Mark) {
        let known = self.0.entry(pod.uid.clone());
        let (version, marks) = known.or_insert_with(|| (pod.version.clone(), Vec::new()));
        if *version != pod.version {
            marks.clear();
            version.clone_from(&pod.version);
        }
        marks.push(mark);
    }

    /// A pod as it is with what was written of it.
    pub(super) fn on(&self, mut pod: Pod) -> Pod {
        let Some((version, marks)) = self.0.get(&pod.uid) else {
            return pod;
        };
        if *version != pod.version {
            return pod;
        }
        for mark in marks.iter().cloned() {
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

    /// Forgets what a watch has shown, and who is gone: `versions` of pods by uid.
    pub(super) fn retain(&mut self, versions: &BTreeMap<&str, &str>) {
        self.0
            .retain(|uid, (version, _)| versions.get(uid.as_str()) == Some(&version.as_str()));
    }
}

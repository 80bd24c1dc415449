//! Replicas of a workload and its warm pods, as they are.

use super::{seen::State, watches::SERVED};
use crate::{inventory::Pod, steer::WARM};
use std::{collections::BTreeSet, sync::Arc};

/// Pods of a workload that are neither over nor being deleted.
pub(super) struct Stands {
    pub replicas: Vec<Arc<Pod>>,
    pub warm: Vec<Arc<Pod>>,
}

impl State {
    pub(super) fn stands(&self, namespace: &str, name: &str) -> Stands {
        let all = self.inventory().pods.values();
        let own = all.filter(|pod| {
            &*pod.namespace == namespace
                && pod.label(SERVED) == Some(name)
                && !pod.phase.ended()
                && pod.deleting.is_none()
        });
        let (warm, replicas) = own.cloned().partition(|pod| pod.label(WARM) == Some(name));
        Stands { replicas, warm }
    }
}

impl Stands {
    /// Warm pods that could be replicas now, oldest first.
    fn could(&self, adopted: &BTreeSet<String>) -> Vec<&Arc<Pod>> {
        let could = |pod: &&Arc<Pod>| {
            pod.ready && pod.node.is_some() && !pod.leaves && !adopted.contains(&*pod.uid)
        };
        let mut all: Vec<&Arc<Pod>> = self.warm.iter().filter(could).collect();
        all.sort_by_key(|pod| (pod.created, pod.name.clone()));
        all
    }

    /// How many warm pods are ready.
    pub(super) fn ready(&self) -> u32 {
        self.could(&BTreeSet::new()).len() as u32
    }

    /// How many replicas are ready, and how many are not yet.
    pub(super) fn serving(&self) -> (u32, u32) {
        let ready = self.replicas.iter().filter(|pod| pod.ready).count();
        (ready as u32, (self.replicas.len() - ready) as u32)
    }

    /// How many warm pods found no place.
    pub(super) fn lent(&self, waits: &BTreeSet<String>) -> u32 {
        let lent = |pod: &&Arc<Pod>| pod.node.is_none() && waits.contains(&*pod.uid);
        self.warm.iter().filter(lent).count() as u32
    }

    /// Warm pods that are to be replicas where so many are wanted: for those that are not there, and for those that
    /// were begun after them and are not ready. `adopted`: those that are replicas already, and are not shown so yet.
    pub(super) fn adoptable(&self, wanted: u32, adopted: &BTreeSet<String>) -> Vec<Arc<Pod>> {
        let could = self.could(adopted);
        let there = self.replicas.len() + adopted.len();
        let missing = (wanted as usize).saturating_sub(there).min(could.len());
        let (first, rest) = could.split_at(missing);
        let ready = self.replicas.iter().filter(|pod| pod.ready).count();
        let lacking = (wanted as usize).saturating_sub(ready + adopted.len() + missing);
        let starting = self.replicas.iter().filter(|pod| !pod.ready);
        let mut starting: Vec<i64> = starting.map(|pod| pod.created).collect();
        starting.sort_by_key(|created| std::cmp::Reverse(*created));
        let later = rest.iter().zip(starting).take(lacking);
        let later = later.take_while(|(pod, began)| pod.created < *began);
        let later = later.map(|(pod, _)| pod);
        first
            .iter()
            .chain(later)
            .map(|pod| Arc::clone(pod))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Stands;
    use crate::{
        inventory::{Change, Fold},
        objects,
    };
    use kube::runtime::watcher::Event;
    use serde_json::json;
    use std::collections::BTreeSet;

    /// Pods that were made so many seconds after another, and whether they are ready.
    fn stands(replicas: &[(u8, bool)], warm: &[(u8, bool)]) -> Stands {
        let mut fold = Fold::default();
        let all = replicas.iter().map(|one| ("r", one));
        for (kind, (second, ready)) in all.chain(warm.iter().map(|one| ("w", one))) {
            let status = if *ready { "True" } else { "False" };
            let pod: objects::Pod = serde_json::from_value(json!({
                "metadata": {"name": format!("{kind}{second}"), "namespace": "team",
                    "uid": format!("{kind}{second}"),
                    "creationTimestamp": format!("2026-11-27T10:00:{second:02}Z")},
                "spec": {"nodeName": "n"},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
            }))
            .expect("a pod");
            fold.apply(Change::Pod(Event::Apply(pod)));
        }
        let pods = fold.inventory().pods.values().cloned();
        let (replicas, warm) = pods.partition(|pod| pod.name.starts_with('r'));
        Stands { replicas, warm }
    }

    fn taken(stands: &Stands, wanted: u32, adopted: &[&str]) -> Vec<String> {
        let adopted: BTreeSet<String> = adopted.iter().map(|uid| (*uid).to_owned()).collect();
        let found = stands.adoptable(wanted, &adopted);
        found.iter().map(|pod| pod.name.to_string()).collect()
    }

    #[test]
    fn replicas_are_ready_or_start() {
        let of = stands(&[(1, true), (2, false), (3, false)], &[(4, true)]);
        assert_eq!(of.serving(), (1, 2));
    }

    #[test]
    fn who_is_missing_or_was_begun_later_is_a_warm_pod_before() {
        let warm = [(1, true), (2, true), (3, false)];
        // One is missing: the oldest that is ready.
        assert_eq!(taken(&stands(&[(5, true)], &warm), 2, &[]), ["w1"]);
        // One was begun later and starts; one that was begun before is further.
        assert_eq!(taken(&stands(&[(5, false)], &warm), 1, &[]), ["w1"]);
        assert!(taken(&stands(&[(0, false)], &warm), 1, &[]).is_empty());
        // As many as are wanted are there, or are on the way to be.
        assert!(taken(&stands(&[(5, true)], &warm), 1, &[]).is_empty());
        assert!(taken(&stands(&[], &warm), 1, &["w1"]).is_empty());
        assert_eq!(taken(&stands(&[], &warm), 9, &["w1"]), ["w2"]);
        // Fewer are wanted than there are.
        assert!(taken(&stands(&[(5, false), (6, false)], &warm), 0, &[]).is_empty());
    }
}

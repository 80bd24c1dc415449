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

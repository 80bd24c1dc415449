//! What pods hold of each node, kept as they come and go.

use super::{Key, Pod, Text};
use std::{collections::BTreeMap, sync::Arc};

/// What the pods of one node hold together. Sums are wide enough that taking away gives back what was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Held {
    pub cpu_milli: i128,
    pub memory: i128,
    /// By resource; what nobody holds is left out.
    pub extended: BTreeMap<Text, i128>,
    /// Those that hold it, by namespace and name.
    pub pods: std::collections::BTreeSet<Key>,
}

impl Held {
    pub fn of(&self, resource: &str) -> i128 {
        self.extended.get(resource).copied().unwrap_or(0)
    }

    fn count(&mut self, pod: &Pod, sign: i128) {
        let asks = &pod.shape.asks;
        self.cpu_milli += sign * i128::from(asks.cpu_milli);
        self.memory += sign * i128::from(asks.memory);
        for (resource, count) in &asks.extended {
            let known = self.extended.entry(resource.clone()).or_default();
            *known += sign * i128::from(*count);
        }
        self.extended.retain(|_, count| *count != 0);
    }
}

/// By node; also of nodes that are not known (yet, or any more).
pub(super) type HeldBy = BTreeMap<Text, Arc<Held>>;

pub(super) fn take(all: &mut Arc<HeldBy>, pod: &Pod, key: &Key) {
    let Some(node) = pod.node.as_ref().filter(|_| pod.holds()) else {
        return;
    };
    let held = Arc::make_mut(all).entry(node.clone()).or_default();
    let held = Arc::make_mut(held);
    held.count(pod, 1);
    held.pods.insert(key.clone());
}

pub(super) fn give_back(all: &mut Arc<HeldBy>, pod: &Pod, key: &Key) {
    let Some(node) = pod.node.as_ref().filter(|_| pod.holds()) else {
        return;
    };
    let all = Arc::make_mut(all);
    let Some(held) = all.get_mut(node) else {
        return;
    };
    let held = Arc::make_mut(held);
    held.count(pod, -1);
    held.pods.remove(key);
    if held.pods.is_empty() {
        all.remove(node);
    }
}

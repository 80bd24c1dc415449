//! What the watches have brought, as far as a decision needs it.

mod decided;
mod refresh;
#[cfg(test)]
mod tests;

use super::{
    Boards,
    claims::AllClaims,
    kept::Kept,
    marks::{Mark, Marks},
    meter::Measured,
    rules::Begun,
    surges::Surges,
    watches::{Change, Own},
};
use crate::{
    inventory::{self, Fold, Key, Kind},
    resources::{Object, Resource},
    steer::{Claims, GATE, Pod},
};
use kube::runtime::watcher::Event;
use refresh::{Made, Touched};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// The node that a pod was sent to, as its annotation says.
pub(super) const NODE: &str = "gpuwise.dev/node";
/// The plan that sent it there.
pub(super) const PLAN: &str = "gpuwise.dev/plan";
/// Why there.
pub(super) const REASON: &str = "gpuwise.dev/reason";
/// Where one more of a pod's Deployment starts before it ends, and since when.
pub(super) const MOVES_TO: &str = "gpuwise.dev/moves-to";
pub(super) const MOVES_SINCE: &str = "gpuwise.dev/moves-since";
/// The uid of the pod that moves, in whose stead this one was started.
pub(super) const REPLACES: &str = "gpuwise.dev/replaces";
/// The label of a Deployment that has one pod more than was asked: the uid of the pod that moves.
pub(super) const SURGE: &str = "gpuwise.dev/surge";
/// The label by which a node selector names one node.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

/// All that was seen.
#[derive(Default)]
pub(super) struct State {
    fold: Fold,
    own: BTreeMap<Own, Kept>,
    own_read: BTreeSet<Own>,
    made: Made,
    /// What we have written of pods, until a watch shows it.
    marks: Marks,
    /// Deployments that have one pod more, for a move.
    pub(super) surges: Surges,
    pub(super) begun: Begun,
    known: Option<Boards>,
    /// The same of products that nodes have.
    boards: Arc<BTreeMap<String, BTreeMap<String, u32>>>,
    /// What the API server said last where a pod could not be evicted, by the pod's uid.
    pub(super) refused: BTreeMap<String, String>,
    /// When a watch first told of pods that wait behind our gate: by uid.
    arrived: BTreeMap<String, (Key, Instant)>,
    measured: Option<Measured>,
    claims: AllClaims,
}

impl State {
    /// `known`: what GPUs can be cut into.
    pub(super) fn new(known: Option<Boards>) -> Self {
        Self {
            known,
            ..Self::default()
        }
    }

    /// Takes a change in; whether a decision may be another now.
    pub(super) fn take(&mut self, change: Change) -> bool {
        match change {
            Change::Cluster(change) => {
                self.arrives(&change);
                let touched = Touched::by(&change);
                let another = self.fold.apply(*change);
                if another {
                    self.made.touch(touched);
                }
                another
            }
            Change::Own(which, event) => {
                if matches!(*event, Event::InitDone) {
                    self.own_read.insert(which);
                }
                let another = self.own.entry(which).or_default().take(*event);
                // How far a Deployment is lies in its status; who has a turn in annotations.
                another || matches!(which, Own::Served | Own::Tiered | Own::Turns)
            }
            Change::Absent(which) => self.own_read.insert(which),
            Change::Measured(new) => {
                let audit = self.measured.take().and_then(|old| old.audit);
                self.measured = Some(Measured { audit, ..*new });
                true
            }
            Change::Audited(new) => {
                self.measured.get_or_insert_default().audit = Some(*new);
                true
            }
            Change::Surge(event) => self.surges.take(*event),
        }
    }

    fn arrives(&mut self, change: &inventory::Change) {
        let inventory::Change::Pod(Event::Apply(pod) | Event::InitApply(pod)) = change else {
            return;
        };
        let gated = pod
            .spec
            .scheduling_gates
            .iter()
            .any(|gate| gate.name == GATE);
        if let Some(uid) = pod.metadata.uid.as_ref().filter(|_| gated) {
            let key = refresh::key(&pod.metadata);
            let now = || (key, Instant::now());
            self.arrived.entry(uid.clone()).or_insert_with(now);
        }
    }

    /// How long ago a watch first told of a pod.
    pub(super) fn since_arrival(&self, pod: &Pod) -> Option<Duration> {
        self.arrived.get(&pod.uid).map(|(_, then)| then.elapsed())
    }

    /// Whether all has been read once.
    pub(super) fn is_read(&self) -> bool {
        let inventory = self.fold.inventory();
        let read = |kind: Kind| match inventory.state(kind) {
            Some(inventory::State::Complete) => true,
            Some(inventory::State::Absent(_)) => !kind.needed(),
            _ => false,
        };
        let own = [
            Own::Policy,
            Own::Prices,
            Own::Quota,
            Own::Workload,
            Own::Served,
            Own::Tiered,
            Own::Turns,
        ];
        self.surges.is_read()
            && super::watches::KINDS.into_iter().all(read)
            && own.iter().all(|which| self.own_read.contains(which))
    }

    /// Our own objects of a kind that can be read.
    pub(super) fn own<T: Resource>(&self, which: Own) -> Vec<Object<T>> {
        let all = self
            .own
            .get(&which)
            .into_iter()
            .flat_map(|kept| kept.all.values());
        all.filter_map(|object| serde_json::from_value(serde_json::to_value(object).ok()?).ok())
            .collect()
    }

    /// Objects of a kind as the API gives them.
    pub(super) fn objects(&self, which: Own) -> impl Iterator<Item = &kube::api::DynamicObject> {
        let kept = self.own.get(&which).into_iter();
        kept.flat_map(|kept| kept.all.values())
    }

    pub(super) const fn inventory(&self) -> &inventory::Inventory {
        self.fold.inventory()
    }

    /// What was measured last.
    pub(super) const fn measured(&self) -> Option<&Measured> {
        self.measured.as_ref()
    }

    /// Something was written of a pod, before a watch shows it.
    pub(super) fn mark(&mut self, pod: &Pod, mark: Mark) {
        self.marks.put(pod, mark);
        self.made.forget(pod);
    }

    fn made(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.made.pods()
    }

    /// Pods that wait, gated by us or not.
    pub(super) fn waiting(&self) -> usize {
        self.made()
            .filter(|pod| pod.waits() && (pod.ask.is_some() || pod.claims != Claims::None))
            .count()
    }

    /// Products that nodes have.
    pub(super) fn products(&self) -> Arc<BTreeSet<String>> {
        Arc::clone(&self.made.products)
    }

    pub(super) fn hostname(&self, node: &str) -> Option<String> {
        self.made.node(node)?.labels.get(HOSTNAME).cloned()
    }
}

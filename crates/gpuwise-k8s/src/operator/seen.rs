//! What the watches have brought, as far as a decision needs it.

mod decided;

use super::{
    Boards,
    claims::AllClaims,
    kept::{Kept, Key},
    marks::{Mark, Marks},
    meter::Measured,
    read::{read_node, read_pod},
    rules::Begun,
    surges::Surges,
    watches::{Change, Own},
};
use crate::{
    inventory::{self, Fold, Kind},
    resources::{Object, Resource},
    steer::{Claims, Constraint, GATE, Node, PRODUCT, Place, Pod},
};
use kube::runtime::watcher::Event;
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

/// Who waits because of whom, or where it is, as a decision needs it; made once for each state of an object.
type Made<T, U> = BTreeMap<Key, (Arc<T>, Option<Arc<U>>)>;

/// All that was seen.
#[derive(Default)]
pub(super) struct State {
    fold: Fold,
    own: BTreeMap<Own, Kept>,
    own_read: BTreeSet<Own>,
    constraints: BTreeSet<Arc<Constraint>>,
    nodes: Made<inventory::Node, Node>,
    pods: Made<inventory::Pod, Pod>,
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
    arrived: BTreeMap<String, Instant>,
    measured: Option<Measured>,
    claims: AllClaims,
    /// Pods, by uid, that are in groups of which each is for itself.
    lone: BTreeSet<Box<str>>,
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
                self.fold.apply(*change)
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
            self.arrived.entry(uid.clone()).or_insert_with(Instant::now);
        }
    }

    /// How long ago a watch first told of a pod.
    pub(super) fn since_arrival(&self, pod: &Pod) -> Option<Duration> {
        self.arrived.get(&pod.uid).map(Instant::elapsed)
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
        self.pods.remove(&(pod.namespace.clone(), pod.name.clone()));
    }

    /// Brings what decisions need up to what was seen last.
    pub(super) fn refresh(&mut self) {
        let inventory = self.fold.inventory();
        self.claims = AllClaims::read(inventory);
        let mut nodes = Made::new();
        for node in inventory.nodes.values() {
            let key = (String::new(), node.name.to_string());
            let known = self
                .nodes
                .remove(&key)
                .filter(|(of, _)| Arc::ptr_eq(of, node));
            let known =
                known.unwrap_or_else(|| (Arc::clone(node), Some(Arc::new(read_node(node)))));
            nodes.insert(key, known);
        }
        self.nodes = nodes;
        let mut pods = Made::new();
        let mut lone = BTreeSet::new();
        for pod in inventory.pods.values() {
            let key = (pod.namespace.to_string(), pod.name.to_string());
            let in_gang = inventory.gang(pod).is_some();
            let turned = pod.group.is_some() && {
                if !in_gang {
                    lone.insert(pod.uid.clone());
                }
                in_gang == self.lone.contains(&pod.uid)
            };
            // What claims ask and have got lies in other objects, and what a group is.
            let known = self
                .pods
                .remove(&key)
                .filter(|(of, _)| Arc::ptr_eq(of, pod) && pod.shape.claims.is_empty() && !turned);
            let known = known.unwrap_or_else(|| {
                let claimed = self.claims.of(pod);
                let made = read_pod(pod, claimed, in_gang, &mut self.constraints);
                let made = made.map(|made| self.marks.on(made));
                (Arc::clone(pod), made.map(Arc::new))
            });
            pods.insert(key, known);
        }
        self.pods = pods;
        self.lone = lone;
        // What a watch has shown, or is gone, need not be remembered.
        let versions: BTreeMap<&str, &str> = inventory
            .pods
            .values()
            .map(|pod| (&*pod.uid, &*pod.version))
            .collect();
        self.marks.retain(&versions);
        self.refused
            .retain(|uid, _| versions.contains_key(uid.as_str()));
        let gated: BTreeSet<&str> = self
            .pods
            .values()
            .filter_map(|(_, made)| made.as_ref())
            .filter(|pod| pod.place == Place::Gated)
            .map(|pod| pod.uid.as_str())
            .collect();
        self.arrived.retain(|uid, _| gated.contains(uid.as_str()));
        self.constraints.retain(|one| Arc::strong_count(one) > 1);
        let new: Vec<String> = self
            .products()
            .into_iter()
            .filter(|product| !self.boards.contains_key(product))
            .collect();
        for product in new {
            let profiles = self
                .known
                .as_ref()
                .map_or_else(BTreeMap::new, |of| of(&product));
            Arc::make_mut(&mut self.boards).insert(product, profiles);
        }
    }

    fn made(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values().filter_map(|(_, made)| made.as_ref())
    }

    /// Pods that wait, gated by us or not.
    pub(super) fn waiting(&self) -> usize {
        self.made()
            .filter(|pod| pod.waits() && (pod.ask.is_some() || pod.claims != Claims::None))
            .count()
    }

    /// Products that nodes have.
    pub(super) fn products(&self) -> BTreeSet<String> {
        let nodes = self.nodes.values().filter_map(|(_, made)| made.as_ref());
        nodes
            .filter_map(|node| node.labels.get(PRODUCT).cloned())
            .collect()
    }

    pub(super) fn hostname(&self, node: &str) -> Option<String> {
        let (_, node) = self.nodes.get(&(String::new(), node.to_owned()))?;
        node.as_ref()?.labels.get(HOSTNAME).cloned()
    }
}

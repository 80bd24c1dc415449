//! What the watches have brought, as far as a decision needs it.

use super::{
    meter::Measured,
    read::{read_node, read_pod},
    watches::{Change, Own},
};
use crate::{
    inventory::{self, Fold, Kind},
    manifests::Mode,
    resources::{GpuPolicySpec, GpuPriceBookSpec, GpuQuotaSpec, Object, Resource},
    steer::{Constraint, GATE, Node, PRODUCT, Place, Pod, Quota, Rules, Seen},
};
use gpuwise_units::Nanoseconds;
use kube::{api::DynamicObject, runtime::watcher::Event};
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
/// The label by which a node selector names one node.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

pub(super) type Key = (String, String);

/// Objects of one kind of ours, and which of a list that comes anew were in it.
#[derive(Default)]
struct Kept {
    all: BTreeMap<Key, DynamicObject>,
    fresh: Option<BTreeSet<Key>>,
}

impl Kept {
    /// Takes an event in; whether there is a reason to look again.
    fn take(&mut self, event: Event<DynamicObject>) -> bool {
        let key = |object: &DynamicObject| {
            let meta = &object.metadata;
            (
                meta.namespace.clone().unwrap_or_default(),
                meta.name.clone().unwrap_or_default(),
            )
        };
        match event {
            Event::Init => {
                self.fresh = Some(BTreeSet::new());
                false
            }
            Event::InitApply(object) => {
                if let Some(fresh) = &mut self.fresh {
                    fresh.insert(key(&object));
                }
                self.put(key(&object), object)
            }
            Event::InitDone => {
                let fresh = self.fresh.take().unwrap_or_default();
                self.all.retain(|key, _| fresh.contains(key));
                true
            }
            Event::Apply(object) => self.put(key(&object), object),
            Event::Delete(object) => self.all.remove(&key(&object)).is_some(),
        }
    }

    fn put(&mut self, key: Key, mut object: DynamicObject) -> bool {
        object.metadata.managed_fields = None;
        // Their status is what only we write: no reason to look again.
        let generation = object.metadata.generation;
        let old = self.all.insert(key, object);
        old.is_none_or(|old| old.metadata.generation != generation)
    }
}

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
    /// Pods that we sent somewhere, until a watch shows it: by uid.
    sent: BTreeMap<String, String>,
    /// When a watch first told of pods that wait behind our gate: by uid.
    arrived: BTreeMap<String, Instant>,
    measured: Option<Measured>,
}

impl State {
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
                // How far a Deployment is lies in its status.
                another || matches!(which, Own::Served | Own::Tiered)
            }
            Change::Absent(which) => self.own_read.insert(which),
            Change::Measured(mut new) => {
                let old = self.measured.take();
                new.audit = new.audit.take().or_else(|| old?.audit);
                self.measured = Some(*new);
                true
            }
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
        ];
        [Kind::Nodes, Kind::Pods, Kind::PodGroups]
            .into_iter()
            .all(read)
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
    pub(super) fn objects(&self, which: Own) -> impl Iterator<Item = &DynamicObject> {
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

    /// A pod was sent to a node, before a watch shows it.
    pub(super) fn sent(&mut self, pod: &Pod, node: &str) {
        self.sent.insert(pod.uid.clone(), node.to_owned());
        self.pods.remove(&(pod.namespace.clone(), pod.name.clone()));
    }

    /// Brings what decisions need up to what was seen last.
    pub(super) fn refresh(&mut self) {
        let inventory = self.fold.inventory();
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
        let mut uids = BTreeSet::new();
        for pod in inventory.pods.values() {
            let key = (pod.namespace.to_string(), pod.name.to_string());
            let known = self
                .pods
                .remove(&key)
                .filter(|(of, _)| Arc::ptr_eq(of, pod));
            let known = known.unwrap_or_else(|| {
                let sent = self.sent.get(&*pod.uid);
                let made = read_pod(pod, &mut self.constraints, sent.map(String::as_str));
                (Arc::clone(pod), made.map(Arc::new))
            });
            if self.sent.contains_key(&*pod.uid) && pod.gates.iter().any(|gate| &**gate == GATE) {
                uids.insert(pod.uid.to_string());
            }
            pods.insert(key, known);
        }
        self.pods = pods;
        // What a watch has shown, or is gone, need not be remembered.
        self.sent.retain(|uid, _| uids.contains(uid));
        let gated: BTreeSet<&str> = self
            .pods
            .values()
            .filter_map(|(_, made)| made.as_ref())
            .filter(|pod| pod.place == Place::Gated)
            .map(|pod| pod.uid.as_str())
            .collect();
        self.arrived.retain(|uid, _| gated.contains(uid.as_str()));
        self.constraints.retain(|one| Arc::strong_count(one) > 1);
    }

    fn made(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values().filter_map(|(_, made)| made.as_ref())
    }

    /// Pods that wait, gated by us or not.
    pub(super) fn waiting(&self) -> usize {
        self.made()
            .filter(|pod| pod.waits() && pod.ask.is_some())
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

    /// What a decision is made from; pods that `left_out` names are neither placed nor told anything.
    pub(super) fn seen(&self, mode: Mode, left_out: &dyn Fn(&Pod) -> bool) -> Seen {
        let policies = self.own::<GpuPolicySpec>(Own::Policy);
        let books = self.own::<GpuPriceBookSpec>(Own::Prices);
        let book = books.first().map(|book| &book.spec);
        // Who acts leaves those alone whom it did not gate: kube-scheduler has them.
        let counts = |pod: &&Arc<Pod>| match pod.place {
            Place::Free => mode != Mode::Act && !left_out(pod),
            Place::Gated => !left_out(pod),
            Place::Sent(_) | Place::Bound(_) => true,
        };
        let groups = self.fold.inventory().groups.iter();
        let prices = book.into_iter().flat_map(|book| &book.prices);
        Seen {
            nodes: self
                .nodes
                .values()
                .filter_map(|(_, made)| made.clone())
                .collect(),
            pods: self.made().filter(counts).cloned().collect(),
            groups: groups
                .filter_map(|(key, group)| {
                    let key = (key.namespace.to_string(), key.name.to_string());
                    Some((key, group.min_count?))
                })
                .collect(),
            quotas: self
                .own::<GpuQuotaSpec>(Own::Quota)
                .iter()
                .map(quota)
                .collect(),
            rules: policies.first().map_or_else(Rules::default, rules),
            prices: prices
                .filter_map(|price| Some((price.product.clone(), price.micros()?)))
                .collect(),
            currency: book.map(|book| book.currency.clone()),
        }
    }

    /// GPUs that pods of these namespaces hold.
    pub(super) fn held(&self, namespaces: &[String]) -> i64 {
        let pods = self
            .made()
            .filter(|pod| !pod.waits() && namespaces.contains(&pod.namespace));
        let asks = pods.filter_map(|pod| pod.ask.as_ref());
        asks.filter(|ask| !ask.resource.contains("mig-"))
            .map(|ask| i64::from(ask.count))
            .sum()
    }
}

fn quota(object: &Object<GpuQuotaSpec>) -> Quota {
    let spec = &object.spec;
    let count = |gpus: i64| u64::try_from(gpus).unwrap_or_default();
    Quota {
        name: object.metadata.name.clone(),
        namespaces: spec.namespaces.clone(),
        gpus: count(spec.gpus),
        borrowing: spec.borrowing.map(count),
        lending: spec.lending.map(count),
        weight: spec.weight.map_or(1, count),
    }
}

fn rules(object: &Object<GpuPolicySpec>) -> Rules {
    let spec = &object.spec;
    let seconds = |seconds: i64| u64::try_from(seconds).unwrap_or_default();
    Rules {
        order: spec.order.map(Into::into),
        backfill: spec.backfill.map(Into::into),
        placement: spec.placement.clone(),
        starvation: spec
            .starvation_seconds
            .map(|s| Nanoseconds(seconds(s).saturating_mul(1_000_000_000))),
    }
}

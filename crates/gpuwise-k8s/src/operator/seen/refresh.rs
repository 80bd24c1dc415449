//! Brings what decisions need up to what was seen last: only what has changed since is read again.

use super::{
    super::{
        claims::AllClaims,
        read::{read_node, read_pod},
    },
    State,
};
use crate::{
    inventory::{self, Inventory, Key, Text},
    steer::{Constraint, Node, PRODUCT, Place, Pod},
};
use kube::{Resource, core::ObjectMeta, runtime::watcher::Event};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What an event changes of what is read here.
pub(super) enum Touched {
    Nothing,
    Node(Text),
    Pod(Key),
    /// Which pods start together.
    Groups,
    /// A list that comes anew says what is there: which of it is other than before is seen at its end.
    All,
}

impl Touched {
    pub(super) fn by(change: &inventory::Change) -> Self {
        match change {
            inventory::Change::Node(event) => one(event, |node| Self::Node(key(node.meta()).name)),
            inventory::Change::Pod(event) => one(event, |pod| Self::Pod(key(pod.meta()))),
            inventory::Change::PodGroup(_) => Self::Groups,
            // What claims ask is read at each look where there are any.
            _ => Self::Nothing,
        }
    }
}

fn one<T>(event: &Event<T>, touches: impl Fn(&T) -> Touched) -> Touched {
    match event {
        Event::Apply(object) | Event::Delete(object) => touches(object),
        Event::Init | Event::InitApply(_) | Event::InitDone => Touched::All,
    }
}

pub(super) fn key(meta: &ObjectMeta) -> Key {
    let text = |text: Option<&String>| text.map(String::as_str).unwrap_or_default().into();
    Key {
        namespace: text(meta.namespace.as_ref()),
        name: text(meta.name.as_ref()),
    }
}

/// Nodes and pods as a decision needs them, each made once for each state of its object.
#[derive(Default)]
pub(super) struct Made {
    nodes: BTreeMap<Text, (Arc<inventory::Node>, Arc<Node>)>,
    /// `None`: no decision is about it.
    pods: BTreeMap<Key, (Arc<inventory::Pod>, Option<Arc<Pod>>)>,
    /// Products that nodes have.
    pub(super) products: Arc<BTreeSet<String>>,
    constraints: BTreeSet<Arc<Constraint>>,
    /// Pods that have claims: what those ask and have got lies in other objects.
    claiming: BTreeSet<Key>,
    /// Pods that say which group they are of: what that is lies elsewhere, too.
    grouped: BTreeSet<Key>,
    stale_nodes: BTreeSet<Text>,
    stale_pods: BTreeSet<Key>,
    stale_groups: bool,
    stale: bool,
}

impl Made {
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.values().map(|(_, made)| made)
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values().filter_map(|(_, made)| made.as_ref())
    }

    pub(super) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name).map(|(_, made)| &**made)
    }

    /// Something has changed.
    pub(super) fn touch(&mut self, touched: Touched) {
        match touched {
            Touched::Nothing => {}
            Touched::Node(name) => drop(self.stale_nodes.insert(name)),
            Touched::Pod(key) => drop(self.stale_pods.insert(key)),
            Touched::Groups => self.stale_groups = true,
            Touched::All => self.stale = true,
        }
    }

    /// A pod is other than its object says.
    pub(super) fn forget(&mut self, pod: &Pod) {
        let key = Key {
            namespace: pod.namespace.as_str().into(),
            name: pod.name.as_str().into(),
        };
        self.pods.remove(&key);
        self.stale_pods.insert(key);
    }

    fn refresh_nodes(&mut self, inventory: &Inventory) {
        let names = std::mem::take(&mut self.stale_nodes);
        if self.stale {
            let mut before = std::mem::take(&mut self.nodes);
            for node in inventory.nodes.values() {
                let known = before.remove(&node.name);
                let known = known.filter(|(of, _)| Arc::ptr_eq(of, node));
                let made = known.unwrap_or_else(|| made(node));
                self.nodes.insert(node.name.clone(), made);
            }
        } else if names.is_empty() {
            return;
        }
        for name in names.into_iter().filter(|_| !self.stale) {
            match inventory.node(&name) {
                Some(node) => drop(self.nodes.insert(name, made(node))),
                None => drop(self.nodes.remove(&name)),
            }
        }
        let nodes = self.nodes.values();
        let products: BTreeSet<&String> = nodes
            .filter_map(|(_, node)| node.labels.get(PRODUCT))
            .collect();
        if !products.iter().copied().eq(self.products.iter()) {
            self.products = Arc::new(products.into_iter().cloned().collect());
        }
    }

    /// Pods that are to be read again. Those of claims and groups are up to date after this.
    fn stale_pods(&mut self, inventory: &Inventory) -> BTreeSet<Key> {
        let mut stale = std::mem::take(&mut self.stale_pods);
        let groups = std::mem::take(&mut self.stale_groups);
        if std::mem::take(&mut self.stale) {
            self.pods.retain(|key, _| inventory.pods.at(key).is_some());
            let known = |key: &Key| self.pods.get(key).map(|(of, _)| of);
            let other = inventory
                .pods
                .iter()
                .filter(|(key, pod)| !known(key).is_some_and(|of| Arc::ptr_eq(of, pod)));
            stale.extend(other.map(|(key, _)| key));
            self.claiming.retain(|key| self.pods.contains_key(key));
            self.grouped.retain(|key| self.pods.contains_key(key));
        }
        for key in &stale {
            let pod = inventory.pods.at(key);
            let kept = |all: &mut BTreeSet<Key>, is: bool| {
                if is {
                    all.insert(key.clone());
                } else {
                    all.remove(key);
                }
            };
            kept(
                &mut self.claiming,
                pod.is_some_and(|pod| !pod.shape.claims.is_empty()),
            );
            kept(
                &mut self.grouped,
                pod.is_some_and(|pod| pod.group.is_some()),
            );
        }
        stale.extend(self.claiming.iter().cloned());
        if groups {
            stale.extend(self.grouped.iter().cloned());
        }
        stale
    }
}

fn made(node: &Arc<inventory::Node>) -> (Arc<inventory::Node>, Arc<Node>) {
    (Arc::clone(node), Arc::new(read_node(node)))
}

impl State {
    /// Brings what decisions need up to what was seen last.
    pub(in crate::operator) fn refresh(&mut self) {
        let inventory = self.fold.inventory();
        self.made.refresh_nodes(inventory);
        let stale = self.made.stale_pods(inventory);
        self.claims = AllClaims::read(inventory, &self.made.claiming);
        for key in stale {
            let Some(pod) = inventory.pods.at(&key) else {
                self.made.pods.remove(&key);
                continue;
            };
            let claimed = self.claims.of(pod);
            let in_gang = inventory.gang(pod).is_some();
            let made = read_pod(pod, claimed, in_gang, &mut self.made.constraints);
            let made = made.map(|made| Arc::new(self.marks.on(made)));
            self.made.pods.insert(key, (Arc::clone(pod), made));
        }
        self.forget();
        let products = self.made.products.iter();
        let new: Vec<&String> = products
            .filter(|product| !self.boards.contains_key(*product))
            .collect();
        for product in new {
            let profiles = self
                .known
                .as_ref()
                .map_or_else(BTreeMap::new, |of| of(product));
            Arc::make_mut(&mut self.boards).insert(product.clone(), profiles);
        }
    }

    /// What a watch has shown, or is gone, need not be remembered.
    fn forget(&mut self) {
        let pods = &self.fold.inventory().pods;
        self.marks.retain(pods);
        if !self.refused.is_empty() {
            let there: BTreeSet<&str> = pods.values().map(|pod| &*pod.uid).collect();
            self.refused.retain(|uid, _| there.contains(uid.as_str()));
        }
        let made = &self.made.pods;
        self.arrived.retain(|uid, (key, _)| {
            let pod = made.get(key).and_then(|(_, made)| made.as_ref());
            pod.is_some_and(|pod| pod.uid == *uid && pod.place == Place::Gated)
        });
        self.made
            .constraints
            .retain(|one| Arc::strong_count(one) > 1);
    }
}

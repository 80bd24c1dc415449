//! From events of watches to an inventory: pure, without a clock; whatever order kinds come in.

use super::{
    Inventory, Key, OwnerKind, State, Table,
    devices::{Claim, Class, Slice, Template},
    held,
    kinds::Kind,
    limits::{Budget, Group, Quota},
    node::Node,
    owners::{self, Controller},
    pod::{self, Shapes},
    table::Versions,
    text::Names,
};
use crate::objects;
use kube::{core::ObjectMeta, runtime::watcher::Event};
use std::{collections::BTreeMap, sync::Arc};

/// What a watch said.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "on its way to the fold, a thousand at most at once"
)]
pub enum Change {
    Node(Event<objects::Node>),
    Pod(Event<objects::Pod>),
    ReplicaSet(Event<objects::ReplicaSet>),
    StatefulSet(Event<objects::StatefulSet>),
    Job(Event<objects::Job>),
    Quota(Event<objects::Quota>),
    Budget(Event<objects::Budget>),
    PodGroup(Event<objects::PodGroup>),
    Slice(Event<objects::ResourceSlice>),
    Class(Event<objects::DeviceClass>),
    Claim(Event<objects::ResourceClaim>),
    Template(Event<objects::ClaimTemplate>),
    /// A kind cannot be seen: the cluster does not have it, or we may not read it; in words.
    Absent(Kind, String),
}

/// The one that owns the inventory and changes it.
#[derive(Debug, Default)]
pub struct Fold {
    inventory: Inventory,
    names: Names,
    shapes: Shapes,
    versions: BTreeMap<Kind, Versions>,
}

impl Fold {
    pub fn new() -> Self {
        Self::default()
    }

    pub const fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// Takes one event in. Whether anything is other than before.
    pub fn apply(&mut self, change: Change) -> bool {
        self.names.sweep();
        self.shapes.sweep();
        match change {
            Change::Node(event) => self.row(Kind::Nodes, event, Node::read, |all| &mut all.nodes),
            Change::Pod(event) => self.pod(event),
            Change::ReplicaSet(event) => {
                self.controller(Kind::ReplicaSets, OwnerKind::ReplicaSet, event, |one| {
                    &one.metadata
                })
            }
            Change::StatefulSet(event) => {
                self.controller(Kind::StatefulSets, OwnerKind::StatefulSet, event, |one| {
                    &one.metadata
                })
            }
            Change::Job(event) => {
                self.controller(Kind::Jobs, OwnerKind::Job, event, |one| &one.metadata)
            }
            Change::Quota(event) => {
                self.row(Kind::Quotas, event, Quota::read, |all| &mut all.quotas)
            }
            Change::Budget(event) => {
                let read = |one: &objects::Budget, _: &mut Names| Budget::read(one);
                self.row(Kind::Budgets, event, read, |all| &mut all.budgets)
            }
            Change::PodGroup(event) => {
                self.row(Kind::PodGroups, event, Group::read, |all| &mut all.groups)
            }
            Change::Slice(event) => {
                let read = |one: &objects::ResourceSlice, _: &mut Names| Slice {
                    spec: one.spec.clone(),
                };
                self.row(Kind::Slices, event, read, |all| &mut all.slices)
            }
            Change::Class(event) => {
                let read = |one: &objects::DeviceClass, _: &mut Names| Class {
                    spec: one.spec.clone(),
                };
                self.row(Kind::Classes, event, read, |all| &mut all.classes)
            }
            Change::Claim(event) => {
                self.row(Kind::Claims, event, Claim::read, |all| &mut all.claims)
            }
            Change::Template(event) => {
                let read = |one: &objects::ClaimTemplate, _: &mut Names| Template {
                    asks: one.spec.spec.clone(),
                };
                self.row(Kind::Templates, event, read, |all| &mut all.templates)
            }
            Change::Absent(kind, why) => self.absent(kind, why),
        }
    }

    /// A kind that cannot be seen: what was known of it stays, and may be old.
    fn absent(&mut self, kind: Kind, why: String) -> bool {
        let state = State::Absent(why);
        let old = self.inventory.states.insert(kind, state.clone());
        old != Some(state)
    }

    fn row<O: kube::Resource, V: PartialEq + Clone>(
        &mut self,
        kind: Kind,
        event: Event<O>,
        read: impl Fn(&O, &mut Names) -> V,
        table: impl Fn(&mut Inventory) -> &mut Table<V>,
    ) -> bool {
        let Self {
            inventory,
            names,
            versions,
            ..
        } = self;
        let versions = versions.entry(kind).or_default();
        match event {
            Event::Init => {
                versions.begin();
                inventory.begin(kind)
            }
            Event::InitApply(object) | Event::Apply(object) => {
                let key = key(object.meta(), names);
                if !versions.newer(&key, version(object.meta())) {
                    return false;
                }
                let value = read(&object, names);
                let table = table(inventory);
                if table.at(&key).is_some_and(|known| **known == value) {
                    return false;
                }
                table.insert(&key, Arc::new(value));
                true
            }
            Event::Delete(object) => {
                let key = key(object.meta(), names);
                versions.left(&key, version(object.meta()))
                    && table(inventory).remove(&key).is_some()
            }
            Event::InitDone => {
                let mut changed = inventory.done(kind);
                if let Some(named) = versions.end() {
                    let table = table(inventory);
                    let left: Vec<Key> = table
                        .iter()
                        .map(|(key, _)| key)
                        .filter(|key| !named.contains(key))
                        .collect();
                    for key in left {
                        changed |= table.remove(&key).is_some();
                    }
                }
                changed
            }
        }
    }

    fn controller<O: kube::Resource>(
        &mut self,
        kind: Kind,
        owner: OwnerKind,
        event: Event<O>,
        meta: impl Fn(&O) -> &ObjectMeta,
    ) -> bool {
        let read = |object: &O, names: &mut Names| Controller {
            owner: owners::controller(meta(object), names),
        };
        self.row(kind, event, read, move |all| {
            all.controllers.entry(owner).or_default()
        })
    }

    /// As other rows, and what pods hold of their nodes is kept.
    fn pod(&mut self, event: Event<objects::Pod>) -> bool {
        let Self {
            inventory,
            names,
            shapes,
            versions,
        } = self;
        let versions = versions.entry(Kind::Pods).or_default();
        match event {
            Event::Init => {
                versions.begin();
                inventory.begin(Kind::Pods)
            }
            Event::InitApply(object) | Event::Apply(object) => {
                let key = pod_key(&object.metadata, names);
                if !versions.newer(&key, version(&object.metadata)) {
                    return false;
                }
                let pod = pod::read(&object, &key, names, shapes);
                inventory.put_pod(&key, pod)
            }
            Event::Delete(object) => {
                let key = pod_key(&object.metadata, names);
                versions.left(&key, version(&object.metadata)) && inventory.drop_pod(&key)
            }
            Event::InitDone => {
                let mut changed = inventory.done(Kind::Pods);
                if let Some(named) = versions.end() {
                    let all = inventory.pods.iter().map(|(key, _)| key);
                    let left: Vec<Key> = all.filter(|key| !named.contains(key)).collect();
                    for key in left {
                        changed |= inventory.drop_pod(&key);
                    }
                }
                changed
            }
        }
    }
}

impl Inventory {
    /// A list begins; what was complete or absent stays so meanwhile.
    fn begin(&mut self, kind: Kind) -> bool {
        let new = !self.states.contains_key(&kind);
        self.states.entry(kind).or_insert(State::Listing);
        new
    }

    fn done(&mut self, kind: Kind) -> bool {
        self.states.insert(kind, State::Complete) != Some(State::Complete)
    }

    fn put_pod(&mut self, key: &Key, pod: pod::Pod) -> bool {
        if let Some(known) = self.pods.at(key) {
            if **known == pod {
                return false;
            }
            let known = known.clone();
            held::give_back(&mut self.held, &known, key);
        }
        held::take(&mut self.held, &pod, key);
        self.pods.insert(key, Arc::new(pod));
        true
    }

    fn drop_pod(&mut self, key: &Key) -> bool {
        let Some(known) = self.pods.remove(key) else {
            return false;
        };
        held::give_back(&mut self.held, &known, key);
        true
    }
}

fn key(meta: &ObjectMeta, names: &mut Names) -> Key {
    Key {
        namespace: names.text(meta.namespace.as_deref().unwrap_or_default()),
        name: names.text(meta.name.as_deref().unwrap_or_default()),
    }
}

/// Names of pods are their own, and not held among those that are shared.
fn pod_key(meta: &ObjectMeta, names: &mut Names) -> Key {
    Key {
        namespace: names.text(meta.namespace.as_deref().unwrap_or_default()),
        name: meta.name.as_deref().unwrap_or_default().into(),
    }
}

/// Versions are numbers that grow, as Kubernetes says of them since 1.35 and etcd always had it; of others
/// the order in which they come counts.
fn version(meta: &ObjectMeta) -> Option<u64> {
    meta.resource_version.as_ref()?.parse().ok()
}

//! What a cluster holds: nodes with their GPUs, who runs where, what is asked; a fold of objects, without a clock.
//!
//! [`Fold`] takes events of watches in and owns the [`Inventory`]; a copy of that costs some pointers and
//! stays as it is, so that a reader never waits. Kinds come in any order: what names another object is
//! resolved when it is asked for.

mod asks;
mod changes;
mod devices;
mod export;
mod findings;
mod fits;
mod fold;
mod gpus;
mod held;
mod kinds;
mod limits;
mod node;
mod owners;
mod pod;
mod pools;
mod selector;
mod table;
mod text;
mod usage;

pub use asks::Amounts;
pub use devices::{Claim, Class, DeviceId, Got, Slice, Template};
pub use findings::{Finding, FindingKind};
pub use fits::Unfit;
pub use fold::{Change, Fold};
pub(crate) use gpus::WHOLE as WHOLE_GPUS;
pub use gpus::{DevicesAsked, GpusAsked};
pub use held::Held;
pub use kinds::Kind;
pub use limits::{Budget, Group, Quota, Spent};
pub use node::Node;
pub use owners::{Controller, OwnerKind, Workload};
pub(crate) use pod::TRACEPARENT;
pub use pod::{Came, Owner, Phase, Pod, Shape, Waiting};
pub use pools::{DeviceGpu, is_gpu, is_part};
pub use selector::{Selector, Unread};
pub use table::{Key, Table};
pub use text::Text;
pub use usage::{NodeUsage, WorkloadUsage};

use std::{collections::BTreeMap, sync::Arc};

/// How far a kind is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Listing,
    Complete,
    /// It cannot be seen, and why.
    Absent(String),
}

/// What a cluster holds, as far as its API said.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Inventory {
    pub nodes: Table<Node>,
    pub pods: Table<Pod>,
    pub quotas: Table<Quota>,
    pub budgets: Table<Budget>,
    pub groups: Table<Group>,
    pub slices: Table<Slice>,
    pub classes: Table<Class>,
    pub claims: Table<Claim>,
    pub templates: Table<Template>,
    pub controllers: BTreeMap<OwnerKind, Table<Controller>>,
    states: BTreeMap<Kind, State>,
    held: Arc<held::HeldBy>,
}

impl Inventory {
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.get("", name)
    }

    /// What pods hold of a node; `None`: nothing.
    pub fn held(&self, node: &str) -> Option<&Held> {
        self.held.get(node).map(AsRef::as_ref)
    }

    /// What is left of an extended resource on a node; 0 where more is held than it offers.
    pub fn free(&self, node: &Node, resource: &str) -> u64 {
        let offered = node.extended.get(resource).copied().unwrap_or(0);
        let held = self.held(&node.name).map_or(0, |held| held.of(resource));
        u64::try_from(i128::from(offered) - held).unwrap_or(0)
    }

    /// Pods that are on a node, ended ones not.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        let held = self.held(node);
        let keys = held.into_iter().flat_map(|held| &held.pods);
        keys.filter_map(|key| self.pods.at(key))
    }

    /// Pods without a node that have not ended.
    pub fn waiting(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values().filter(|pod| pod.waiting().is_some())
    }

    pub fn state(&self, kind: Kind) -> Option<&State> {
        self.states.get(&kind)
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        let owners = |kind| self.controllers.get(&kind).map_or(0, Table::len);
        match kind {
            Kind::Nodes => self.nodes.len(),
            Kind::Pods => self.pods.len(),
            Kind::ReplicaSets => owners(OwnerKind::ReplicaSet),
            Kind::StatefulSets => owners(OwnerKind::StatefulSet),
            Kind::Jobs => owners(OwnerKind::Job),
            Kind::Quotas => self.quotas.len(),
            Kind::Budgets => self.budgets.len(),
            Kind::PodGroups => self.groups.len(),
            Kind::Slices => self.slices.len(),
            Kind::Classes => self.classes.len(),
            Kind::Claims => self.claims.len(),
            Kind::Templates => self.templates.len(),
        }
    }

    /// Whether every kind was listed once, or cannot be seen; those that are needed were.
    pub fn complete(&self) -> bool {
        Kind::ALL.iter().all(|kind| match self.states.get(kind) {
            Some(State::Complete) => true,
            Some(State::Absent(_)) => !kind.needed(),
            _ => false,
        })
    }
}

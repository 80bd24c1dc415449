//! Nodes of the cluster as their watch brings them, told where they change.

use super::{devices::Gives, seen};
use gpuwise_broker::{NodeSeen, Observation};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::Event;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    seen: NodeSeen,
    gives: Gives,
}

#[derive(Debug, Default)]
pub(super) struct Nodes {
    known: BTreeMap<String, Known>,
    /// Nodes of the fleet, and whether the log has them up.
    fleet: BTreeMap<String, bool>,
    /// While they are listed: those that were not named yet.
    left: Option<BTreeSet<String>>,
}

impl Nodes {
    pub(super) fn expect(&mut self, fleet: BTreeMap<String, bool>) {
        self.fleet = fleet;
    }

    /// What has changed.
    pub(super) fn happen(&mut self, event: Event<Node>) -> Vec<Observation> {
        match event {
            Event::Init => {
                let known = self.known.keys().chain(self.fleet.keys());
                self.left = Some(known.cloned().collect());
                Vec::new()
            }
            Event::InitApply(node) | Event::Apply(node) => {
                let name = node.metadata.name.clone().unwrap_or_default();
                if let Some(left) = &mut self.left {
                    left.remove(&name);
                }
                self.is(name, seen::node(&node), Gives::of(&node))
            }
            Event::InitDone => {
                let left = self.left.take().unwrap_or_default();
                let gone = left.into_iter();
                gone.flat_map(|name| self.is(name, NodeSeen::Down, Gives::default()))
                    .collect()
            }
            // Whatever ran there, nobody will say any more.
            Event::Delete(node) => {
                let name = node.metadata.name.unwrap_or_default();
                self.is(name, NodeSeen::Down, Gives::default())
            }
        }
    }

    fn is(&mut self, name: String, seen: NodeSeen, gives: Gives) -> Vec<Observation> {
        let before = self.known.insert(name.clone(), Known { seen, gives });
        let up = self.fleet.get(&name).copied();
        let new = match before {
            Some(before) => before.seen != seen,
            // What the log has already is not told, and nothing of other nodes.
            None => up.is_some_and(|up| !up || seen != NodeSeen::Up),
        };
        let told = new.then(|| Observation::Node {
            name,
            seen,
            by: "Kubernetes".into(),
        });
        told.into_iter().collect()
    }

    /// Whether nothing runs on a node any more.
    pub(super) fn is_down(&self, name: &str) -> bool {
        self.seen(name) == Some(NodeSeen::Down)
    }

    /// Whether what runs there can be known.
    pub(super) fn answers(&self, name: &str) -> bool {
        !matches!(self.seen(name), Some(NodeSeen::Silent | NodeSeen::Down))
    }

    fn seen(&self, name: &str) -> Option<NodeSeen> {
        self.known.get(name).map(|known| known.seen)
    }

    /// How a node gives its GPUs.
    pub(super) fn gives(&self, name: &str) -> Gives {
        self.known
            .get(name)
            .map_or_else(Gives::default, |known| known.gives)
    }
}

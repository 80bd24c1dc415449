//! What Slurm says of its nodes, told where it changes.

use super::{
    commands::{Refused, eprintln_line},
    jobs::SlurmNode,
    listings::Listings,
};
use gpuwise_broker::{NodeSeen, Observation};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How often is asked.
const EVERY: Duration = Duration::from_secs(10);

/// Nodes as they were last seen.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    known: BTreeMap<String, SlurmNode>,
    asked: Option<Instant>,
    /// Features by node, as the fleet has them; empty: it says of none.
    expected: BTreeMap<String, Vec<String>>,
    /// Those that have others at Slurm, as was said of them.
    other: BTreeMap<String, Vec<String>>,
}

impl Nodes {
    /// What features the fleet's nodes have: where Slurm says others, that is said.
    pub(super) fn expect(&mut self, features: BTreeMap<String, Vec<String>>) {
        self.expected = features;
        self.asked = None;
    }

    /// Says where a node has other features than the fleet has of it, once for each change.
    fn compare(&mut self, node: &SlurmNode) {
        let fleet = self.expected.get(&node.name);
        let Some(fleet) = fleet.filter(|fleet| **fleet != node.features) else {
            self.other.remove(&node.name);
            return;
        };
        let said = self.other.insert(node.name.clone(), node.features.clone());
        if said.as_ref() == Some(&node.features) {
            return;
        }
        let words = |all: &[String]| {
            if all.is_empty() {
                return "none".to_owned();
            }
            all.join(", ")
        };
        eprintln_line(&format!(
            "{}: its features at Slurm are {}, and in the fleet {}; import its nodes again, or leases are refused there",
            node.name,
            words(&node.features),
            words(fleet)
        ));
    }

    /// What has changed, where it is time to look.
    pub(super) fn look(
        &mut self,
        now: Instant,
        listings: &mut Listings,
    ) -> Result<Vec<Observation>, Refused> {
        if self.asked.is_some_and(|at| now < at + EVERY) {
            return Ok(Vec::new());
        }
        self.asked = Some(now);
        let found = listings.nodes()?;
        let mut changes = Vec::new();
        for node in found {
            self.compare(&node);
            let before = self.known.get(&node.name).map(|one| one.state);
            if before.unwrap_or(NodeSeen::Up) != node.state {
                changes.push(Observation::Node {
                    name: node.name.clone(),
                    seen: node.state,
                    by: "Slurm".into(),
                });
            }
            self.known.insert(node.name.clone(), node);
        }
        Ok(changes)
    }

    /// It is looked at once more, at once.
    pub(super) fn hurry(&mut self) {
        self.asked = None;
    }

    /// Whether nothing runs on one of these any more.
    pub(super) fn is_down(&self, names: &[String]) -> bool {
        let down = |name: &String| {
            let known = self.known.get(name);
            known.is_some_and(|node| node.state == NodeSeen::Down)
        };
        names.iter().any(down)
    }

    /// Where a node is reached.
    pub(super) fn address(&self, name: &str) -> String {
        let known = self.known.get(name);
        known.map_or_else(|| name.to_owned(), |one| one.address.clone())
    }

    /// How Slurm calls a kind of GPU on a node; `None`: it need not be said.
    pub(super) fn kind(&self, name: &str, kind: &str) -> Option<String> {
        let types = &self.known.get(name)?.types;
        if types.len() < 2 {
            return None;
        }
        let kind = kind.to_ascii_lowercase();
        let mut fit = types.iter().filter(|one| !one.is_empty());
        fit.find(|one| kind.contains(&one.to_ascii_lowercase()))
            .cloned()
    }
}

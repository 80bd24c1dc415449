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
    /// Nodes that do not answer, each with whether it was drained, or said to be fenced, when that was first seen.
    silent: BTreeMap<String, (bool, bool)>,
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
        for mut node in found {
            self.compare(&node);
            node.state = self.judged(&node);
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

    /// A node that does not answer may be frozen. Whoever drains it from then on, or says that it is fenced, says that it
    /// is off: nothing of it runs on, and its leases may move.
    fn judged(&mut self, node: &SlurmNode) -> NodeSeen {
        if node.state != NodeSeen::Silent {
            self.silent.remove(&node.name);
            return node.state;
        }
        let now = (node.drained, node.fenced);
        let before = *self.silent.entry(node.name.clone()).or_insert_with(|| {
            eprintln_line(&format!(
                "{0}: does not answer Slurm; its leases stay with it until it is off: where that is so, `scontrol update NodeName={0} State=DOWN Reason=fenced` says it",
                node.name
            ));
            now
        });
        if now.0 && !before.0 || now.1 && !before.1 {
            NodeSeen::Down
        } else {
            NodeSeen::Silent
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that does not answer is frozen until somebody drains it, who was to know.
    #[test]
    fn a_silent_node_is_down_by_a_drain_that_came_after() {
        use NodeSeen::{Down, Draining, Silent, Up};
        // What Slurm says, look by look, with whether it is drained: what it is taken for.
        let cases: [&[(NodeSeen, bool, NodeSeen)]; 4] = [
            &[
                (Up, false, Up),
                (Silent, false, Silent),
                (Silent, true, Down),
                (Silent, true, Down),
            ],
            // A drain for maintenance says nothing of a freeze that comes then.
            &[
                (Draining, true, Draining),
                (Silent, true, Silent),
                (Silent, true, Silent),
            ],
            &[
                (Silent, false, Silent),
                (Up, false, Up),
                (Draining, true, Draining),
                (Silent, true, Silent),
            ],
            &[(Silent, true, Silent), (Down, false, Down)],
        ];
        let fenced = |nodes: &mut Nodes, fenced: bool| {
            nodes.judged(&SlurmNode {
                name: "gpu1".into(),
                address: String::new(),
                types: Vec::new(),
                features: Vec::new(),
                state: Silent,
                drained: true,
                fenced,
            })
        };
        let mut drained_before = Nodes::default();
        assert_eq!(fenced(&mut drained_before, false), Silent);
        assert_eq!(fenced(&mut drained_before, true), Down);
        for looks in cases {
            let mut nodes = Nodes::default();
            for (state, drained, wanted) in looks {
                let node = SlurmNode {
                    name: "gpu1".into(),
                    address: String::new(),
                    types: Vec::new(),
                    features: Vec::new(),
                    state: *state,
                    drained: *drained,
                    fenced: false,
                };
                assert_eq!(nodes.judged(&node), *wanted, "{looks:?}");
            }
        }
    }
}

//! What Slurm says of its nodes, told where it changes.

use super::{
    commands::{Refused, run},
    jobs::{SlurmNode, nodes},
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
}

impl Nodes {
    /// What has changed, where it is time to look.
    pub(super) fn look(&mut self, now: Instant) -> Result<Vec<Observation>, Refused> {
        if self.asked.is_some_and(|at| now < at + EVERY) {
            return Ok(Vec::new());
        }
        self.asked = Some(now);
        let listed = nodes(&run("sinfo", &["--json".into()], "")?).map_err(Refused::No)?;
        let found = if let Some(found) = listed {
            found
        } else {
            // Grouped since 23.02: another command lists nodes there.
            let words = ["show", "nodes", "--json"].map(String::from);
            let listed = nodes(&run("scontrol", &words, "")?).map_err(Refused::No)?;
            listed.ok_or_else(|| Refused::No("scontrol show nodes --json lists none".into()))?
        };
        let mut changes = Vec::new();
        for node in found {
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

//! What a fleet file may say and probably does not mean.

use super::Build;
use gpuwise_domain::placement::{Home, Level, Node, QueueId};
use std::collections::{BTreeMap, BTreeSet};

const NAMED: usize = 3;

impl Build<'_> {
    /// Notes what may be a mistake.
    pub(super) fn doubts(&mut self) {
        let mut found = Vec::new();
        self.places_doubted(&mut found);
        self.nodes_doubted(&mut found);
        self.links_doubted(&mut found);
        self.queues_doubted(&mut found);
        self.out.doubts = found;
    }

    fn places_doubted(&self, found: &mut Vec<String>) {
        let fleet = &self.out.fleet;
        let nowhere = |node: &&Node| node.domain.is_none();
        let all: Vec<&Node> = fleet.nodes.iter().collect();
        let without: Vec<&str> = names(all.iter().copied().filter(nowhere));
        if !without.is_empty() && without.len() < all.len() {
            found.push(format!(
                "{} of {} nodes are in no rack, others are: {}",
                without.len(),
                all.len(),
                listed(&without)
            ));
        }
        let used: BTreeSet<u32> = fleet
            .nodes
            .iter()
            .filter_map(|node| node.domain)
            .map(|id| id.0)
            .collect();
        let empty: Vec<&str> = fleet
            .domains
            .iter()
            .enumerate()
            .filter(|(at, domain)| domain.level == Level::Rack && !used.contains(&(*at as u32)))
            .map(|(_, domain)| domain.name.as_str())
            .collect();
        if !empty.is_empty() {
            found.push(format!("no node is in rack {}", listed(&empty)));
        }
    }

    fn nodes_doubted(&self, found: &mut Vec<String>) {
        let fleet = &self.out.fleet;
        let unsaid = |known: fn(&Node) -> Option<u64>| -> Vec<&str> {
            names(fleet.nodes.iter().filter(|node| known(node).is_none()))
        };
        for (nodes, what) in [(unsaid(Node::cpu), "cpu"), (unsaid(Node::memory), "memory")] {
            if !nodes.is_empty() {
                let (count, does) = match nodes.len() {
                    1 => ("1 node".to_owned(), "does"),
                    many => (format!("{many} nodes"), "do"),
                };
                found.push(format!(
                    "{count} {does} not say the {what}, so that no job is held against it there: {}",
                    listed(&nodes)
                ));
            }
        }
        let (mut cores, mut memory, mut odd) = (Vec::new(), Vec::new(), Vec::new());
        for node in fleet.nodes.iter().filter(|node| !node.gpus.is_empty()) {
            let gpus = || node.gpus.iter().filter_map(|id| fleet.gpus.get(id.index()));
            if node.cpu_milli < 1000 * node.gpus.len() as u64 {
                cores.push(node.name.as_str());
            }
            let kinds = gpus().filter_map(|gpu| fleet.kinds.get(gpu.kind.index()));
            let held: u64 = kinds
                .filter_map(|kind| kind.memory_mib)
                .map(u64::from)
                .sum();
            if node.memory_mib < held {
                memory.push(node.name.as_str());
            }
            let mut sockets: BTreeMap<Option<u32>, u32> = BTreeMap::new();
            for gpu in gpus() {
                *sockets.entry(gpu.numa).or_default() += 1;
            }
            let counts: BTreeSet<u32> = sockets.values().copied().collect();
            if sockets.len() > 1 && counts.len() > 1 {
                odd.push(node.name.as_str());
            }
        }
        for (nodes, what) in [
            (cores, "have fewer cores than GPUs, which strands GPUs"),
            (
                memory,
                "have less memory than their GPUs have, which slows loading and checkpoints",
            ),
            (
                odd,
                "have GPUs unevenly over NUMA nodes, or of some it is not said on which",
            ),
        ] {
            if !nodes.is_empty() {
                found.push(format!("{} nodes {what}: {}", nodes.len(), listed(&nodes)));
            }
        }
    }

    fn links_doubted(&self, found: &mut Vec<String>) {
        let fleet = &self.out.fleet;
        let mut of: BTreeMap<u32, (BTreeSet<u32>, BTreeSet<u32>)> = BTreeMap::new();
        for gpu in &fleet.gpus {
            if let (Some(island), Home::Node(node)) = (gpu.island, gpu.home) {
                let (nodes, kinds) = of.entry(island.0).or_default();
                nodes.insert(node.0);
                kinds.insert(gpu.kind.0);
            }
        }
        for (island, (nodes, kinds)) in &of {
            let name = fleet.islands.get(*island as usize);
            let name = name.map_or("", String::as_str);
            if kinds.len() > 1 {
                found.push(format!("island {name:?} joins GPUs of several kinds"));
            }
            let known = kinds
                .first()
                .and_then(|kind| self.kinds.get(gpuwise_domain::placement::KindId(*kind)));
            if let Some(joined) = known.and_then(|known| known.joined)
                && joined > 8
                && nodes.len() == 1
            {
                let kind = known.map_or("", |known| known.kind.name.as_str());
                found.push(format!(
                    "the link of {kind} joins up to {joined} GPUs beyond a node, and island {name:?} has one node; [[island]] names those of a rack"
                ));
                // What holds of one holds of all that were not named.
                break;
            }
        }
    }

    fn queues_doubted(&self, found: &mut Vec<String>) {
        let fleet = &self.out.fleet;
        let own = |queue: &gpuwise_domain::placement::Queue| -> u64 {
            queue.quotas.iter().map(|quota| quota.nominal_milli).sum()
        };
        let nominal: u64 = fleet
            .queues
            .iter()
            .filter(|queue| queue.parent.is_none())
            .map(own)
            .sum();
        let there = fleet.gpus.len() as u64 * 1000;
        if nominal > there {
            found.push(format!(
                "queues have {} GPUs of their own, and the fleet has {}",
                nominal as f64 / 1000.0,
                fleet.gpus.len()
            ));
        }
        let unpriced: Vec<&str> = fleet
            .kinds
            .iter()
            .filter(|kind| kind.price.is_none())
            .map(|kind| kind.name.as_str())
            .collect();
        let budgeted = fleet.queues.iter().any(|queue| queue.budget.is_some());
        if budgeted && !unpriced.is_empty() {
            found.push(format!(
                "a budget cannot be kept where a price is not known: {}; [[gpu_kind]] says it",
                listed(&unpriced)
            ));
        }
        let parents: BTreeSet<QueueId> = fleet.queues.iter().filter_map(|one| one.parent).collect();
        for reservation in &fleet.reservations {
            if parents.contains(&reservation.queue) {
                let name = &reservation.name;
                found.push(format!(
                    "reservation {name:?} is for a queue that has queues"
                ));
            }
        }
    }
}

fn names<'a>(nodes: impl Iterator<Item = &'a Node>) -> Vec<&'a str> {
    nodes.map(|node| node.name.as_str()).collect()
}

/// The first few of these.
fn listed(names: &[&str]) -> String {
    let shown: Vec<&str> = names.iter().copied().take(NAMED).collect();
    match names.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

//! Which nodes are in an island or a domain, so that whoever looks into one looks at no others.

use super::World;
use gpuwise_domain::placement::{DomainId, IslandId, NodeId};
use std::sync::Arc;

/// Nodes of each island, and of each domain and those above it; each list sorted.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Members {
    islands: Arc<Vec<Vec<NodeId>>>,
    domains: Arc<Vec<Vec<NodeId>>>,
}

impl World {
    /// Nodes that have, or had, a GPU of an island.
    pub fn island_nodes(&self, island: IslandId) -> &[NodeId] {
        let found = self.members.islands.get(island.index());
        found.map_or(&[], Vec::as_slice)
    }

    /// Nodes of a rack, a block or a zone.
    pub fn domain_nodes(&self, domain: DomainId) -> &[NodeId] {
        let found = self.members.domains.get(domain.index());
        found.map_or(&[], Vec::as_slice)
    }

    /// Notes where a node is; to be called when it joins, and when a GPU is attached to it.
    pub(super) fn enlist(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(id.index()) else {
            return;
        };
        let gpus = node
            .gpus
            .iter()
            .filter_map(|gpu| self.gpus.get(gpu.index()));
        let mut islands: Vec<usize> = gpus
            .filter_map(|gpu| gpu.gpu.island)
            .map(IslandId::index)
            .collect();
        islands.dedup();
        let mut next = node.node.domain;
        let mut domains = Vec::new();
        while let Some(domain) = next {
            domains.push(domain.index());
            let parent = self.domains.get(domain.index()).and_then(|one| one.parent);
            // Parents come before their children, so this ends.
            next = parent.filter(|parent| *parent < domain);
        }
        for (lists, most, places) in [
            (&mut self.members.islands, self.islands.len(), islands),
            (&mut self.members.domains, self.domains.len(), domains),
        ] {
            for place in places.into_iter().filter(|place| *place < most) {
                let lists = Arc::make_mut(lists);
                if lists.len() <= place {
                    lists.resize(place + 1, Vec::new());
                }
                if let Some(list) = lists.get_mut(place)
                    && let Err(at) = list.binary_search(&id)
                {
                    list.insert(at, id);
                }
            }
        }
    }
}

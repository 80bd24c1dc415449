//! Which nodes are in an island or a domain, and how much of their GPUs is free, so that whoever looks for
//! one looks at no nodes, and whoever looks into one at no others.

use super::{NodeState, World, pages::Pages};
use gpuwise_domain::placement::{DomainId, IslandId, NodeId};
use std::{collections::BTreeSet, sync::Arc};

/// Nodes of each island, and of each domain and those above it; each list sorted.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Members {
    islands: Arc<Vec<Vec<NodeId>>>,
    domains: Arc<Vec<Vec<NodeId>>>,
    /// Thousandths of GPUs that are free in each domain, and in each island whose nodes are in no other.
    domain_free: Pages<Free>,
    island_free: Pages<Free>,
    /// Islands of nodes that are in several.
    mixed: Arc<BTreeSet<IslandId>>,
    /// GPUs that are cut, or on which MIG is on.
    cut: u64,
}

/// What is free of some GPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Free {
    /// Thousandths of GPUs.
    pub(crate) milli: u64,
    /// GPUs of which nobody holds anything.
    pub(crate) whole: u64,
}

impl Free {
    pub(crate) fn of(node: &NodeState) -> Self {
        Self {
            milli: u64::from(node.milli_free),
            whole: u64::from(node.whole_free),
        }
    }

    /// Whether so much is free of these as is of others.
    pub(crate) const fn covers(self, needed: Self) -> bool {
        self.milli >= needed.milli && self.whole >= needed.whole
    }

    pub(crate) fn add(&mut self, gpu: &super::GpuState) {
        self.milli += u64::from(gpu.milli_free());
        self.whole += u64::from(gpu.held == super::Tenancy::Free);
    }
}

/// What is counted follows from the nodes.
impl PartialEq for Members {
    fn eq(&self, other: &Self) -> bool {
        self.islands == other.islands && self.domains == other.domains
    }
}

/// Where a node is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Counted {
    pub(super) domain: Option<DomainId>,
    /// That of all its GPUs.
    pub(super) island: Option<IslandId>,
    /// GPUs that are cut, or on which MIG is on.
    pub(crate) cut: u32,
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

    /// What is free on the nodes of a domain.
    pub(crate) fn domain_free(&self, domain: DomainId) -> Free {
        let found = self.members.domain_free.get(domain.index());
        found.copied().unwrap_or_default()
    }

    /// What is free of the GPUs of an island that take work.
    pub(crate) fn island_free(&self, island: IslandId) -> Free {
        if !self.members.mixed.contains(&island) {
            let found = self.members.island_free.get(island.index());
            return found.copied().unwrap_or_default();
        }
        let nodes = self.island_nodes(island).iter();
        let gpus = nodes
            .filter_map(|id| self.node(*id))
            .flat_map(|node| &node.gpus);
        let own = gpus
            .filter_map(|gpu| self.gpu(*gpu))
            .filter(|gpu| gpu.gpu.island == Some(island) && gpu.takes_work());
        own.fold(Free::default(), |mut free, gpu| {
            free.add(gpu);
            free
        })
    }

    /// GPUs that are cut, or on which MIG is on.
    pub(crate) const fn cut(&self) -> u64 {
        self.members.cut
    }

    /// A node has GPUs of several islands, or of one and of none.
    pub(super) fn note_mixed(&mut self, id: NodeId) {
        let gpus = self.node(id).map_or(&[][..], |node| node.gpus.as_slice());
        let gpus = gpus.iter().filter_map(|gpu| self.gpu(*gpu));
        let all: BTreeSet<IslandId> = gpus.filter_map(|gpu| gpu.gpu.island).collect();
        if !all.is_subset(&self.members.mixed) {
            Arc::make_mut(&mut self.members.mixed).extend(all);
        }
    }

    /// What was free on a node is so no longer, and something else is.
    pub(super) fn count_free(&mut self, old: (Counted, Free), new: (Counted, Free)) {
        self.members.cut = self.members.cut + u64::from(new.0.cut) - u64::from(old.0.cut);
        if old == new {
            return;
        }
        for ((at, free), adds) in [(old, false), (new, true)] {
            let mut next = at.domain;
            while let Some(domain) = next {
                count(&mut self.members.domain_free, domain.index(), free, adds);
                let parent = self.domains.get(domain.index()).and_then(|one| one.parent);
                // Parents come before their children, so this ends.
                next = parent.filter(|parent| *parent < domain);
            }
            if let Some(island) = at.island {
                count(&mut self.members.island_free, island.index(), free, adds);
            }
        }
    }

    /// Puts a node back as it was, for worlds on which actions are only tried.
    pub(crate) fn put_back(&mut self, id: NodeId, state: NodeState) {
        let Some(node) = self.nodes.get_mut(id.index()) else {
            return;
        };
        let old = (node.counted, Free::of(node));
        let new = (state.counted, Free::of(&state));
        let revision = state.revision;
        *node = state;
        self.count_free(old, new);
        // Whoever followed the trial must see that it is over.
        self.changes.note(id, revision);
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

/// Counts in or out at a place of a list, which grows as it must.
fn count(list: &mut Pages<Free>, place: usize, free: Free, adds: bool) {
    if free == Free::default() {
        return;
    }
    while list.len() <= place {
        list.push(Free::default());
    }
    if let Some(sum) = list.get_mut(place) {
        *sum = if adds {
            Free {
                milli: sum.milli + free.milli,
                whole: sum.whole + free.whole,
            }
        } else {
            Free {
                milli: sum.milli.saturating_sub(free.milli),
                whole: sum.whole.saturating_sub(free.whole),
            }
        };
    }
}

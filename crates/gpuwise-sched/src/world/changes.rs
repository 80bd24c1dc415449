//! Which nodes changed last, so that what was computed from them is computed anew and nothing else.

use super::pages::Pages;
use gpuwise_domain::placement::NodeId;

/// Changes that are remembered at least, however small the fleet.
const LEAST: usize = 1024;

/// The last changes of nodes, numbered from 0.
///
/// Each carries a stamp over all changes until then and what the nodes were after them: worlds that
/// have the same stamp at the same number came about alike up to there. So a cache that followed a copy
/// finds where the copy and the world part.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Changes {
    ring: Pages<Change>,
    count: u64,
}

#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Change {
    node: NodeId,
    stamp: u64,
}

/// How a world came about is no part of what it is.
impl PartialEq for Changes {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Changes {
    /// For a fleet of so many nodes.
    pub(super) fn new(nodes: usize) -> Self {
        let size = nodes.max(LEAST).next_power_of_two();
        let nothing = Change {
            node: NodeId(0),
            stamp: 0,
        };
        Self {
            ring: (0..size).map(|_| nothing).collect(),
            count: 0,
        }
    }

    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The stamp after so many changes; `None`: that is not so yet, or too long ago.
    pub fn stamp_after(&self, count: u64) -> Option<u64> {
        if count == 0 && self.count <= self.ring.len() as u64 {
            return Some(0);
        }
        self.at(count.checked_sub(1)?).map(|change| change.stamp)
    }

    /// The node of a change; `None`: it is not there yet, or was too long ago.
    pub fn node(&self, number: u64) -> Option<NodeId> {
        self.at(number).map(|change| change.node)
    }

    fn at(&self, number: u64) -> Option<&Change> {
        let kept = number < self.count && self.count - number <= self.ring.len() as u64;
        let size = self.ring.len().max(1) as u64;
        kept.then(|| self.ring.get((number % size) as usize))?
    }

    /// Notes that a node is now as its revision says.
    pub(super) fn note(&mut self, node: NodeId, revision: u64) {
        let before = self.stamp_after(self.count).unwrap_or(0);
        let stamp = mixed(mixed(before, u64::from(node.0)), revision);
        let size = self.ring.len().max(1) as u64;
        if let Some(change) = self.ring.get_mut((self.count % size) as usize) {
            *change = Change { node, stamp };
        }
        self.count += 1;
    }
}

/// Mixes a word into a hash of 64 bits (the finalizer of SplitMix64 over their sum).
pub(super) const fn mixed(hash: u64, word: u64) -> u64 {
    gpuwise_units::math::mixed(hash.wrapping_add(word))
}

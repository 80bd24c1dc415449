//! Which nodes may differ from when they were last looked at, in a world or a copy of it.

use crate::world::World;
use gpuwise_domain::placement::NodeId;

/// Changes that can be taken back when a copy of the world is left again.
const REMEMBERED: usize = 4096;

/// Follows the changes of a world and of its copies.
#[derive(Debug, Clone, Default)]
pub(crate) struct Follower {
    /// Changes that were seen.
    count: u64,
    /// The last of them: the stamp after each, and its node.
    seen: Vec<(u64, NodeId)>,
    /// Whether anything was seen yet.
    began: bool,
}

impl Follower {
    /// Nodes that may have changed since the last call, in `nodes`, some perhaps twice; `false`: all may
    /// have.
    pub(crate) fn catch_up(&mut self, world: &World, nodes: &mut Vec<NodeId>) -> bool {
        nodes.clear();
        let changes = world.changes();
        let known = self.began && self.take_back(world, nodes);
        let complete = known
            && (self.count..changes.count()).all(|number| {
                let change = changes.node(number).zip(changes.stamp_after(number + 1));
                if let Some((node, stamp)) = change {
                    nodes.push(node);
                    self.seen.push((stamp, node));
                }
                change.is_some()
            });
        if !complete {
            self.seen.clear();
            nodes.clear();
            let last = changes
                .count()
                .checked_sub(1)
                .and_then(|last| changes.node(last));
            self.seen
                .extend(changes.stamp_after(changes.count()).zip(last));
        }
        self.began = true;
        self.count = changes.count();
        if self.seen.len() > 2 * REMEMBERED {
            self.seen.drain(..REMEMBERED);
        }
        complete
    }

    /// Goes back to where the world that was seen and this one part; `false`: that is too long ago.
    fn take_back(&mut self, world: &World, nodes: &mut Vec<NodeId>) -> bool {
        while let Some((stamp, node)) = self.seen.last() {
            if world.changes().stamp_after(self.count) == Some(*stamp) {
                return true;
            }
            nodes.push(*node);
            self.seen.pop();
            self.count = self.count.saturating_sub(1);
        }
        false
    }
}

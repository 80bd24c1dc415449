//! Which of the nodes that fit is taken: small modules on one interface.

mod best_fit;
mod clustering;
mod dot_product;
mod fgd;
mod named;
mod own;
mod packing;
mod random;
mod scored;
mod simple;

pub use best_fit::LeastLeft;
pub use clustering::Clustering;
pub use dot_product::{Alignment, DotProduct};
pub use fgd::{GradientDescent, UsualAsks};
pub use named::{NAMES, Setting, named};
pub use own::Own;
pub use packing::Packing;
pub use random::Random;
pub use scored::{Indexed, Score, Scored, View};
pub use simple::{BestFit, FirstFit, Fullest};

use crate::{
    fit::{Candidate, Scope},
    world::World,
};
use gpuwise_domain::placement::{NodeId, WorkerAsk};

/// What a policy chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Where, and what must be done first.
    pub candidate: Candidate,
    /// Nodes that had room.
    pub candidates: u32,
    /// What was weighed, by name.
    pub weighed: Vec<(&'static str, i64)>,
}

/// Where to look.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// In this part of the fleet.
    pub scope: Scope,
    /// Never on these nodes; sorted.
    pub without: &'a [NodeId],
    /// Steps that may be taken.
    pub steps: u64,
}

impl Search<'_> {
    /// Everywhere.
    pub const EVERYWHERE: Search<'static> = Search {
        scope: Scope::Fleet,
        without: &[],
        steps: u64::MAX,
    };

    /// Whether a node may be looked at.
    pub fn allows(&self, world: &World, node: NodeId) -> bool {
        self.without.binary_search(&node).is_err() && self.scope.has_node(world, node)
    }
}

/// Chooses a node for one worker.
///
/// What a policy remembers between calls is a cache: the same calls on a fresh one give the same
/// answers. What of it is stale it tells by
/// [`World::changes`] and [`NodeState::revision`](crate::world::NodeState::revision).
pub trait Choose {
    /// Its name, as users give it.
    fn name(&self) -> &'static str;

    /// The seat that it would take; `None` only if the worker fits no node that may be looked at.
    fn choose(&mut self, world: &World, ask: &WorkerAsk, search: Search<'_>) -> Option<Choice>;
}

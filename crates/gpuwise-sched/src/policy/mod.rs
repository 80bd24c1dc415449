//! Which of the nodes that fit is taken: small modules on one interface.

mod best_fit;
mod clustering;
mod dot_product;
mod fgd;
mod first_fit;
mod forecast;
mod most_allocated;
mod packing;
mod prefer;
mod random;
mod registry;
mod scored;
mod tetris;

pub use best_fit::BestFit;
pub use clustering::Clustering;
pub use dot_product::DotProduct;
pub use fgd::{GradientDescent, UsualAsks};
pub use first_fit::FirstFit;
pub use forecast::ForecastPacking;
pub use most_allocated::MostAllocated;
pub use packing::Packing;
pub use prefer::{Preferring, PriceOf};
pub use random::Random;
pub use registry::{PolicyContext, Registered, find, named, names, policies, same_name};
pub(crate) use scored::Follower;
pub use scored::{Indexed, Score, Scored, View};
pub use tetris::Alignment;

use crate::{
    fit::{Candidate, Scope},
    world::{StoredJob, World},
};
use gpuwise_domain::placement::{NodeId, Weighed};

/// All policies, in the order in which they are listed.
const POLICIES: &[Registered] = &[
    forecast::POLICY,
    fgd::POLICY,
    best_fit::POLICY,
    dot_product::POLICY,
    packing::POLICY,
    clustering::POLICY,
    tetris::POLICY,
    first_fit::POLICY,
    most_allocated::POLICY,
    random::POLICY,
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub candidate: Candidate,
    /// Nodes that had room.
    pub candidates: u32,
    /// What was weighed, by name.
    pub weighed: Vec<Weighed>,
}

#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// In this part of the fleet.
    pub scope: Scope,
    /// Never on these nodes; sorted.
    pub without: &'a [NodeId],
}

impl Search<'_> {
    pub const EVERYWHERE: Search<'static> = Search {
        scope: Scope::Fleet,
        without: &[],
    };

    /// Whether a node may be looked at.
    pub fn allows(&self, world: &World, node: NodeId) -> bool {
        self.without.binary_search(&node).is_err() && self.scope.has_node(world, node)
    }
}

/// Chooses a node for one worker of a job.
///
/// A function of the world, the request and the policy's own settings. What a policy learns is in the
/// world ([`World::arrivals`]), moved by events; what it remembers between calls is a cache of what it
/// computed, and a fresh one chooses the same. What of that is stale it tells by [`World::changes`] and
/// [`NodeState::revision`](crate::world::NodeState::revision).
pub trait NodeSelector: Send {
    /// The assignment that it would take for a worker; `None` only if that fits no node that may be looked at.
    fn select(&mut self, world: &World, job: &StoredJob, search: Search<'_>) -> Option<Choice>;
}

//! The first node that fits.

use super::registry::Registered;
use super::{Choice, NodeSelector, Search};
use crate::{
    fit,
    world::{StoredJob, World},
};
use gpuwise_domain::placement::NodeId;

pub(super) const POLICY: Registered = Registered {
    name: "firstfit",
    about: "the first that fits",
    make: |_| Box::new(FirstFit),
};

/// The node of lowest number.
#[derive(Debug, Clone, Copy, Default)]
pub struct FirstFit;

impl NodeSelector for FirstFit {
    fn select(&mut self, world: &World, job: &StoredJob, search: Search<'_>) -> Option<Choice> {
        let nodes = (0..world.nodes().len() as u32).map(NodeId);
        let mut allowed = nodes.filter(|id| search.allows(world, *id));
        let candidate =
            allowed.find_map(|id| fit::assignment(world, id, &job.worker, search.scope))?;
        // It looks no further, so that it does not know how many others have room.
        Some(Choice {
            candidate,
            candidates: 1,
            weighed: Vec::new(),
        })
    }
}

//! Any node that fits, drawn.

use super::registry::Registered;
use super::{Choice, NodeSelector, Search};
use crate::{
    fit,
    world::{StoredJob, World},
};
use gpuwise_domain::placement::{GpuAsk, NodeId};
use gpuwise_units::RandomStream;

pub(super) const POLICY: Registered = Registered {
    name: "random",
    about: "any that fits, drawn",
    make: |context| Box::new(Random { seed: context.seed }),
};

/// A node drawn from those that fit, and for a fraction one of its GPUs drawn from those with room. What
/// is drawn depends on the seed, the time and how often the world has changed, on nothing else.
#[derive(Debug, Clone, Copy, Default)]
pub struct Random {
    pub seed: u64,
}

impl NodeSelector for Random {
    fn select(&mut self, world: &World, job: &StoredJob, search: Search<'_>) -> Option<Choice> {
        let ask = &job.worker;
        let fits = |id: &NodeId| {
            search.allows(world, *id) && fit::assignment(world, *id, ask, search.scope).is_some()
        };
        let ids = (0..world.nodes().len() as u32).map(NodeId);
        let found: Vec<NodeId> = ids.filter(fits).collect();
        let entity = world.now().0 ^ (world.changes().count() << 32);
        let mut stream = RandomStream::new(self.seed, "place", entity);
        let id = one_of(&mut stream, &found)?;
        let mut candidate = fit::assignment(world, id, ask, search.scope)?;
        if let GpuAsk::Fraction {
            milli,
            memory_mib,
            isolation,
            kinds,
        } = ask.gpu
        {
            let node = world.node(id)?;
            let rooms = fit::fraction_rooms(
                world,
                node,
                milli,
                memory_mib,
                isolation,
                kinds,
                search.scope,
            );
            let rooms: Vec<_> = rooms.map(|(_, gpu)| gpu).collect();
            if let Some(gpu) = one_of(&mut stream, &rooms) {
                candidate.assignment.gpus =
                    vec![fit::fraction_share(gpu, milli, memory_mib, isolation)];
            }
        }
        Some(Choice {
            candidate,
            candidates: found.len() as u32,
            weighed: Vec::new(),
        })
    }
}

/// Any of them; `None` where there is none.
fn one_of<T: Copy>(stream: &mut RandomStream, all: &[T]) -> Option<T> {
    let drawn = (!all.is_empty()).then(|| stream.below(all.len() as u64))?;
    all.get(drawn as usize).copied()
}

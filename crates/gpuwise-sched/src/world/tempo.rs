//! How long actions take, as far as was seen.

use super::World;
use gpuwise_domain::placement::{Action, GpuId, Home, PoolId};
use gpuwise_units::Nanoseconds;
use std::{collections::BTreeMap, sync::Arc};

/// Of each kind of action what the last ones took: a mean in which each new one counts an eighth. Attaching and
/// detaching are a matter of each pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Tempo {
    kinds: [Option<Nanoseconds>; 11],
    pools: Arc<BTreeMap<PoolId, Links>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
struct Links {
    attach: Option<Nanoseconds>,
    detach: Option<Nanoseconds>,
}

const fn kind(action: &Action) -> usize {
    match action {
        Action::Place { .. } => 0,
        Action::Preempt { .. } => 1,
        Action::Move { .. } => 2,
        Action::Resize { .. } => 3,
        Action::SetMig { .. } => 4,
        Action::CreateInstance { .. } => 5,
        Action::DestroyInstance { .. } => 6,
        Action::Attach { .. } => 7,
        Action::Detach { .. } => 8,
        Action::Reclaim { .. } => 9,
        Action::Restore { .. } => 10,
    }
}

fn moved(mean: &mut Option<Nanoseconds>, took: Nanoseconds) {
    let new = mean.map_or(took.0, |mean| mean.0 - mean.0 / 8 + took.0 / 8);
    *mean = Some(Nanoseconds(new));
}

impl Tempo {
    /// An action took so long; `pool` is that of the GPU that it attaches or detaches.
    pub(super) fn note(&mut self, action: &Action, pool: Option<PoolId>, took: Nanoseconds) {
        if let Some(mean) = self.kinds.get_mut(kind(action)) {
            moved(mean, took);
        }
        let Some(pool) = pool else { return };
        let links = Arc::make_mut(&mut self.pools).entry(pool).or_default();
        match action {
            Action::Attach { .. } => moved(&mut links.attach, took),
            Action::Detach { .. } => moved(&mut links.detach, took),
            _ => {}
        }
    }
}

impl World {
    /// How long an action takes: as such actions took of late, those of its pool where a GPU is attached or
    /// detached; else as the pool says. `None`: none was seen.
    pub fn expected(&self, action: &Action) -> Option<Nanoseconds> {
        match action {
            Action::Attach { gpu, .. } => {
                self.pool_of(*gpu).and_then(|pool| self.attach_time(pool))
            }
            Action::Detach { gpu } => self.pool_of(*gpu).and_then(|pool| self.detach_time(pool)),
            _ => self.tempo.kinds.get(kind(action)).copied().flatten(),
        }
    }

    /// From asking for a GPU of a pool until its node can use it: as was seen of late, else as the pool says.
    pub fn attach_time(&self, pool: PoolId) -> Option<Nanoseconds> {
        let seen = self.tempo.pools.get(&pool).and_then(|links| links.attach);
        seen.or_else(|| self.pools.get(pool.index()).map(|pool| pool.attach))
    }

    /// From giving a GPU of a pool back until another node can ask for it.
    pub fn detach_time(&self, pool: PoolId) -> Option<Nanoseconds> {
        let seen = self.tempo.pools.get(&pool).and_then(|links| links.detach);
        seen.or_else(|| self.pools.get(pool.index()).map(|pool| pool.detach))
    }

    pub(super) fn pool_of(&self, gpu: GpuId) -> Option<PoolId> {
        match self.gpu(gpu)?.gpu.home {
            Home::Pool(pool) => Some(pool),
            Home::Node(_) => None,
        }
    }
}

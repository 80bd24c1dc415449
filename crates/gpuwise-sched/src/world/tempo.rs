//! How long actions take, as far as was seen.

use super::World;
use gpuwise_domain::placement::{Action, Home};
use gpuwise_units::Nanoseconds;

/// Of each kind of action what the last ones took: a mean in which each new one counts an eighth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Tempo([Option<Nanoseconds>; 11]);

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

impl Tempo {
    pub(super) fn note(&mut self, action: &Action, took: Nanoseconds) {
        if let Some(mean) = self.0.get_mut(kind(action)) {
            let new = mean.map_or(took.0, |mean| mean.0 - mean.0 / 8 + took.0 / 8);
            *mean = Some(Nanoseconds(new));
        }
    }
}

impl World {
    /// How long an action takes: as its pool says, or as such actions took of late. `None`: none was seen.
    pub fn expected(&self, action: &Action) -> Option<Nanoseconds> {
        let seen = self.tempo.0.get(kind(action)).copied().flatten();
        let pool = |gpu| match self.gpu(gpu)?.gpu.home {
            Home::Pool(pool) => self.pools.get(pool.index()),
            Home::Node(_) => None,
        };
        match action {
            Action::Attach { gpu, .. } => seen.or_else(|| pool(*gpu).map(|pool| pool.attach)),
            Action::Detach { gpu } => seen.or_else(|| pool(*gpu).map(|pool| pool.detach)),
            _ => seen,
        }
    }
}

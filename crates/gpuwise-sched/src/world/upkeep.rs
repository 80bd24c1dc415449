//! What upkeep goes by: since when pooled GPUs are idle, and what migrations for defragmentation lost.

use super::{Link, Tenancy, World};
use crate::disruption::migration_loss;
use gpuwise_domain::placement::{GpuId, Home, JobId};
use gpuwise_units::Nanoseconds;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Migrations older than this count for no budget: 31 days.
const REMEMBERED: Nanoseconds = Nanoseconds(31 * 24 * 3_600_000_000_000);

#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Upkeep {
    idle: BTreeMap<GpuId, Nanoseconds>,
    migrations: VecDeque<(Nanoseconds, u128)>,
}

impl Upkeep {
    /// Pooled GPUs that are attached and idle, and since when.
    pub fn idle(&self) -> impl Iterator<Item = (GpuId, Nanoseconds)> {
        self.idle.iter().map(|(gpu, since)| (*gpu, *since))
    }

    /// When migrations for defragmentation began.
    pub fn migrations(&self) -> impl Iterator<Item = Nanoseconds> {
        self.migrations.iter().map(|(at, _)| *at)
    }

    /// Migrations for defragmentation that began after a moment, at most 31 days ago, and what they lost in
    /// thousandths of a GPU times nanoseconds.
    pub fn migrations_after(&self, moment: Nanoseconds) -> (u32, u128) {
        let later = self.migrations.iter().rev();
        let later = later.take_while(|(at, _)| *at > moment);
        later.fold((0, 0), |(count, sum), (_, lost)| (count + 1, sum + lost))
    }
}

impl World {
    pub fn upkeep(&self) -> &Upkeep {
        &self.upkeep
    }

    /// Notes which pooled GPUs are idle after an event.
    pub(super) fn watch_idle(&mut self, at: Nanoseconds) {
        if self.pools.is_empty() {
            return;
        }
        let mut idle = BTreeMap::new();
        for (gpu, id) in self.gpus.iter().zip((0..).map(GpuId)) {
            let here =
                gpu.held == Tenancy::Free && gpu.link == Link::Here && gpu.leaving.is_empty();
            if here && matches!(gpu.gpu.home, Home::Pool(_)) {
                let since = self.upkeep.idle.get(&id).copied();
                idle.insert(id, since.unwrap_or(at));
            }
        }
        if idle != self.upkeep.idle {
            Arc::make_mut(&mut self.upkeep).idle = idle;
        }
    }

    /// Notes that a job is migrated for defragmentation; to be called while it is still where it was.
    pub(super) fn note_migration(&mut self, at: Nanoseconds, job: JobId) {
        let Some(lost) = migration_loss(self, job) else {
            return;
        };
        let upkeep = Arc::make_mut(&mut self.upkeep);
        let old = |(then, _): &(Nanoseconds, u128)| then.0 + REMEMBERED.0 < at.0;
        while upkeep.migrations.front().is_some_and(old) {
            upkeep.migrations.pop_front();
        }
        upkeep.migrations.push_back((at, lost));
    }
}

//! On which kind of GPU a job has run, and when: what turns are taken by.

use super::{JobState, Phase, World};
use gpuwise_domain::placement::{Assignment, GpuId, KindId, Kinds};
use gpuwise_units::Nanoseconds;

/// Stints that are remembered of a job; of more the oldest is forgotten.
const REMEMBERED: usize = 16;

/// A time for which a job ran on GPUs of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Stint {
    kind: KindId,
    from: Nanoseconds,
    until: Nanoseconds,
}

fn kind_of(world: &World, assignments: &[Assignment]) -> Option<KindId> {
    let first: GpuId = assignments.first()?.gpus.first()?.gpu;
    world.gpu(first).map(|gpu| gpu.gpu.kind)
}

impl JobState {
    /// The kind of its GPUs; `None`: it has none.
    pub(crate) fn kind(&self, world: &World) -> Option<KindId> {
        kind_of(world, &self.assignments)
    }

    /// For how long it ran on GPUs of these kinds within a time.
    pub(crate) fn ran_on(
        &self,
        world: &World,
        kinds: Kinds,
        from: Nanoseconds,
        until: Nanoseconds,
    ) -> Nanoseconds {
        let now = match (self.phase, self.kind(world)) {
            (Phase::Running { since }, Some(kind)) => Some(Stint {
                kind,
                from: since,
                until,
            }),
            _ => None,
        };
        let all = self.stints.iter().copied().chain(now);
        let within = all.filter(|one| kinds.has(one.kind)).map(|one| {
            let until = one.until.0.min(until.0);
            until.saturating_sub(one.from.0.max(from.0))
        });
        Nanoseconds(within.sum())
    }

    /// Whether it has left a place where it ran since a moment.
    pub(crate) fn left_since(&self, moment: Nanoseconds) -> bool {
        self.stints.last().is_some_and(|one| one.until >= moment)
    }

    /// Notes that it leaves where it ran, which is to be said while it is still there.
    pub(super) fn note_stint(&mut self, kind: Option<KindId>, at: Nanoseconds) {
        let (Phase::Running { since }, Some(kind)) = (self.phase, kind) else {
            return;
        };
        let goes_on = |last: &&mut Stint| last.kind == kind && last.until == since;
        if let Some(last) = self.stints.last_mut().filter(goes_on) {
            last.until = at;
            return;
        }
        if self.stints.len() >= REMEMBERED {
            self.stints.remove(0);
        }
        self.stints.push(Stint {
            kind,
            from: since,
            until: at,
        });
    }
}

impl World {
    /// The kind of GPUs of assignments.
    pub(super) fn kind_of(&self, assignments: &[Assignment]) -> Option<KindId> {
        kind_of(self, assignments)
    }
}

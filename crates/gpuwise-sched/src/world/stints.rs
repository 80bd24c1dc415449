//! On which kind of GPU a job has run, and when: what turns are taken by.

use super::{JobState, Phase, World};
use crate::rounds::pairs::is_paired;
use gpuwise_domain::placement::{Assignment, GpuId, KindId, Kinds, Part};
use gpuwise_units::Nanoseconds;

/// Stints that are remembered of a job; of more the oldest is forgotten.
const REMEMBERED: usize = 16;

/// A time for which a job ran on GPUs of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Stint {
    kind: KindId,
    from: Nanoseconds,
    until: Nanoseconds,
    /// Thousandths of the GPU's time that it was charged: less than 1000 beside another.
    part_milli: u32,
}

/// Thousandths of a GPU's time that a job is charged which may share its GPU with another.
pub(super) fn part_milli(assignments: &[Assignment]) -> u32 {
    let first = assignments.first().and_then(|one| one.gpus.first());
    match first.map(|share| share.part) {
        Some(part @ Part::Fraction { milli, .. }) if is_paired(part) => milli,
        _ => 1000,
    }
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

    /// For how long it ran on GPUs of these kinds within a time; beside another the part that it was charged.
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
                part_milli: part_milli(&self.assignments),
            }),
            _ => None,
        };
        let all = self.rare.stints.iter().copied().chain(now);
        let within = all.filter(|one| kinds.has(one.kind)).map(|one| {
            let until = one.until.0.min(until.0);
            let span = until.saturating_sub(one.from.0.max(from.0));
            (u128::from(span) * u128::from(one.part_milli) / 1000) as u64
        });
        Nanoseconds(within.sum())
    }

    /// Whether it has left a place where it ran since a moment.
    pub(crate) fn left_since(&self, moment: Nanoseconds) -> bool {
        self.rare
            .stints
            .last()
            .is_some_and(|one| one.until >= moment)
    }

    /// Notes that it leaves where it ran, which is to be said while it is still there.
    pub(super) fn note_stint(&mut self, kind: Option<KindId>, part_milli: u32, at: Nanoseconds) {
        let (Phase::Running { since }, Some(kind)) = (self.phase, kind) else {
            return;
        };
        let last = self.rare.stints.last().copied();
        let goes_on = |last: &Stint| {
            last.kind == kind && last.part_milli == part_milli && last.until == since
        };
        let from = last.filter(goes_on).map(|last| last.from);
        self.rare.change(|rare| {
            if from.is_some() {
                rare.stints.pop();
            }
            if rare.stints.len() >= REMEMBERED {
                rare.stints.take(0);
            }
            rare.stints.push(Stint {
                kind,
                from: from.unwrap_or(since),
                until: at,
                part_milli,
            });
        });
    }
}

impl World {
    /// The kind of GPUs of assignments.
    pub(super) fn kind_of(&self, assignments: &[Assignment]) -> Option<KindId> {
        kind_of(self, assignments)
    }
}

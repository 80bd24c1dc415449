//! Kinds of GPU on which a job ends by its deadline, and who ends too late.

use crate::{
    queues::end_on,
    world::{JobState, StoredJob, World},
};
use gpuwise_domain::placement::{GpuAsk, KindId, Kinds};
use gpuwise_units::Nanoseconds;
use std::borrow::Cow;

/// The job narrowed to the kinds on which it ends by its deadline if it starts now; `None`: it has no
/// deadline or an unknown length, accepts no other kinds, or is late on all.
pub(super) fn narrowed<'j>(world: &World, job: &'j StoredJob) -> Option<Cow<'j, StoredJob>> {
    let fast = fast(world, job)?;
    let mut job = job.clone();
    match &mut job.worker.gpu {
        GpuAsk::None => return None,
        GpuAsk::Whole { kinds, .. }
        | GpuAsk::Fraction { kinds, .. }
        | GpuAsk::Slice { kinds, .. } => *kinds = fast,
    }
    Some(Cow::Owned(job))
}

/// The kinds on which it ends by its deadline if it starts now, where those are not all that it accepts.
pub(super) fn fast(world: &World, job: &StoredJob) -> Option<Kinds> {
    let (deadline, belief) = (job.deadline?, job.duration?);
    let asked = job.worker.gpu.kinds();
    let ends = |kind: &KindId| {
        let speed = u128::from(job.speed(*kind).max(1));
        let left = u128::from(belief.expected.0) * 1000 / speed;
        u128::from(world.now().0) + left <= u128::from(deadline.0)
    };
    let there = (0..world.kinds().len() as u32).map(KindId);
    let asked: Vec<KindId> = there.filter(|kind| asked.has(*kind)).collect();
    let fast: Vec<KindId> = asked.iter().copied().filter(ends).collect();
    if fast.is_empty() || fast.len() == asked.len() {
        return None;
    }
    Some(fast.into_iter().fold(Kinds::NONE, Kinds::with))
}

/// When a job is expected to end, where that is after its deadline: from what it holds, from its expected
/// start on the fastest kind that it accepts, or from now where that is not known.
pub fn late(world: &World, state: &JobState, start: Option<Nanoseconds>) -> Option<Nanoseconds> {
    let deadline = state.job.deadline?;
    let now = world.now();
    let end = if state.assignments.is_empty() {
        let asked = state.job.worker.gpu.kinds();
        let there = (0..world.kinds().len() as u32).map(KindId);
        let fastest = there
            .filter(|kind| asked.has(*kind))
            .map(|kind| state.job.speed(kind))
            .max();
        let left = state.job.duration?.expected.0.saturating_sub(state.done.0);
        let left = u128::from(left) * 1000 / u128::from(fastest.unwrap_or(1000).max(1));
        let left = u64::try_from(left).unwrap_or(u64::MAX);
        Nanoseconds(start.unwrap_or(now).max(now).0.saturating_add(left))
    } else {
        end_on(world, state, &state.assignments, now, 0.0)?
    };
    (end > deadline).then_some(end)
}

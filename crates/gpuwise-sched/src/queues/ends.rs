//! When those who run are expected to end.

use crate::world::{JobState, Phase, StoredJob, World};
use gpuwise_domain::placement::{Assignment, DurationEstimate, JobId, KindId};
use gpuwise_units::Nanoseconds;

/// How long a job is taken to run at speed 1000 with its preferred number of workers: what is expected
/// times e^(z s), where s is the spread of its logarithm and z so many standard deviations.
pub fn length(belief: DurationEstimate, padding_sigmas: f64) -> Nanoseconds {
    if belief.spread == 0.0 || padding_sigmas == 0.0 {
        return belief.expected;
    }
    let factor = libm::exp(belief.spread * padding_sigmas);
    let long = belief.expected.0 as f64 * factor;
    // Beyond what can be told it is never; the comparison is false for what is no number.
    Nanoseconds(if long < u64::MAX as f64 {
        long as u64
    } else {
        u64::MAX
    })
}

/// How long what is left of a job takes on these assignments; `None`: how long it runs is not known.
///
/// One that has run longer than it was taken to is expected to run for as long again as it has run beyond
/// that.
pub fn left(
    world: &World,
    state: &JobState,
    assignments: &[Assignment],
    done: Nanoseconds,
    padding_sigmas: f64,
) -> Option<Nanoseconds> {
    let length = length(state.job.duration?, padding_sigmas);
    let work = if done < length {
        length.0 - done.0
    } else {
        done.0 - length.0
    };
    let pace = u128::from(world.pace_milli(state, assignments).max(1));
    let time = (u128::from(work) * 1000).div_ceil(pace);
    Some(Nanoseconds(u64::try_from(time).unwrap_or(u64::MAX)))
}

/// When a job that has these assignments from now on is expected to end; `None`: it is not known.
pub fn end_on(
    world: &World,
    state: &JobState,
    assignments: &[Assignment],
    now: Nanoseconds,
    padding_sigmas: f64,
) -> Option<Nanoseconds> {
    left(world, state, assignments, state.done, padding_sigmas).map(|left| now + left)
}

/// When those who hold something are expected to end, soonest first; `None`, at the end: it is not known.
pub fn ends(
    world: &World,
    now: Nanoseconds,
    padding_sigmas: f64,
) -> Vec<(Option<Nanoseconds>, JobId)> {
    let holders = world
        .jobs()
        .filter(|(_, state)| !state.assignments.is_empty());
    let mut found: Vec<(Option<Nanoseconds>, JobId)> = holders
        .map(|(id, state)| {
            let done = world.done_by(now, id);
            let left = left(world, state, &state.assignments, done, padding_sigmas);
            // Who is idle and keeps its memory ends when it has worked again, which nobody can tell.
            let known = left.filter(|_| !matches!(state.phase, Phase::Reclaimed { .. }));
            (known.map(|left| now + left), id)
        })
        .collect();
    found.sort_by_key(|(end, id)| (end.is_none(), *end, *id));
    found
}

/// How long a job takes from its beginning with so many workers on one kind; `None`: it is not known.
pub(super) fn length_on(
    job: &StoredJob,
    done: Nanoseconds,
    kind: KindId,
    workers: u32,
) -> Option<Nanoseconds> {
    let work = u128::from(job.duration?.expected.0.saturating_sub(done.0));
    let pace = u128::from(job.speed(kind).max(1)) * u128::from(workers.max(1));
    let time = (work * 1000 * u128::from(job.gang.preferred.max(1))).div_ceil(pace);
    Some(Nanoseconds(u64::try_from(time).unwrap_or(u64::MAX)))
}

//! How long to wait.

use super::{Costs, Trial, event};
use crate::{
    report::words::span,
    world::{JobState, World},
};
use gpuwise_domain::placement::{Assignment, Ended, Event, JobId, Remedy};
use gpuwise_units::Nanoseconds;

pub(super) fn ended(world: &mut World, jobs: &[JobId]) -> bool {
    jobs.iter().all(|job| {
        let how = Ended::Finished;
        event(world, Event::Ended { job: *job, how })
    })
}

/// When a job that has assignments is expected to end; `None`: nothing is known of its duration. A job that
/// should have ended by now is expected to end now.
pub(super) fn expected_end(world: &World, state: &JobState) -> Option<Nanoseconds> {
    if !state.phase.holds_gpus() {
        return None;
    }
    let belief = state.job.duration?;
    let speed = |assignment: &Assignment| {
        let kinds = assignment.gpus.iter();
        let kinds = kinds.filter_map(|share| Some(world.gpu(share.gpu)?.gpu.kind));
        kinds.map(|kind| state.job.speed(kind)).min()
    };
    let slowest = state
        .assignments
        .iter()
        .filter_map(speed)
        .min()
        .unwrap_or(1000)
        .max(1);
    let lasts = u128::from(belief.expected.0) * 1000 / u128::from(slowest);
    let lasts = u64::try_from(lasts).unwrap_or(u64::MAX);
    let end = state.phase.since().0.saturating_add(lasts);
    Some(Nanoseconds(end.max(world.now().0)))
}

impl Trial<'_> {
    /// Until the first moment at which enough jobs are expected to have ended, if nobody else takes
    /// what becomes free.
    pub(super) fn wait(&mut self) {
        let world = self.world;
        let mut ends: Vec<(Nanoseconds, JobId)> = world
            .jobs()
            .filter_map(|(id, state)| Some((expected_end(world, state)?, id)))
            .collect();
        ends.sort();
        let first =
            |count: usize| -> Vec<JobId> { ends.iter().take(count).map(|(_, id)| *id).collect() };
        // Mostly few are enough: twice as many are tried each time, then what lies between.
        let (mut low, mut high) = (1, 1);
        while !ends.is_empty() && !self.holds(&Remedy::Wait(first(high))) {
            if high >= ends.len() {
                return;
            }
            low = high + 1;
            high = (2 * high).min(ends.len());
        }
        if ends.is_empty() {
            return;
        }
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.holds(&Remedy::Wait(first(middle))) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let Some((end, last)) = low.checked_sub(1).and_then(|at| ends.get(at)) else {
            return;
        };
        let after = Nanoseconds(end.0.saturating_sub(world.now().0));
        let name = world.job(*last).map_or("", |state| state.job.name.as_str());
        let what = format!("wait {}, until {name} is expected to end", span(after));
        let costs = Costs {
            after,
            all: self.delay(after),
            ..Costs::default()
        };
        self.add(Remedy::Wait(first(low)), what, costs);
    }
}

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
        let most = self.running.ends.len();
        if most == 0 {
            return;
        }
        // Mostly few are enough: twice as many are tried each time, then what lies between.
        let (mut low, mut high) = (1, 1);
        loop {
            let after = self.running.after(world, high);
            if self.holds_in(after) {
                break;
            }
            if high >= most {
                return;
            }
            low = high + 1;
            high = (2 * high).min(most);
        }
        // Each is tried on what the last that was not enough came to.
        let mut ended = low - 1;
        let mut before = self.running.after(world, ended);
        while low < high {
            let middle = usize::midpoint(low, high);
            let mut after = before.clone();
            self.running.end(&mut after, ended, middle);
            if self.holds_in(after.clone()) {
                high = middle;
            } else {
                low = middle + 1;
                (ended, before) = (middle, after);
            }
        }
        let last = low.checked_sub(1).and_then(|at| self.running.ends.get(at));
        let Some((end, last)) = last.copied() else {
            return;
        };
        let first = self.running.ends.iter().take(low).map(|(_, id)| *id);
        let first: Vec<JobId> = first.collect();
        let after = Nanoseconds(end.0.saturating_sub(world.now().0));
        let name = world.job(last).map_or("", |state| &*state.job.name);
        let what = format!("wait {}, until {name} is expected to end", span(after));
        let costs = Costs {
            after,
            all: self.delay(after),
            ..Costs::default()
        };
        self.add(Remedy::Wait(first), what, costs);
    }
}

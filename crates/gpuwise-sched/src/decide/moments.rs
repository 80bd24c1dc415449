//! When time alone changes something for one job or another, kept from one look to the next: what a look
//! costs is what has changed since, however many jobs there are.

use super::Policy;
use crate::{
    disruption::{Idle, restart_of},
    queues::length,
    world::{JobState, JobTable, Phase, World},
};
use gpuwise_domain::placement::JobId;
use gpuwise_units::Nanoseconds;
use rustc_hash::FxHashMap;
use std::{collections::BTreeSet, ops::Bound};

/// What of a policy they depend on.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rules {
    starvation_timeout: Option<Nanoseconds>,
    reclaim: Option<Idle>,
    /// By how much ends are padded, where others are planned around them.
    padding_sigmas: Option<f64>,
}

/// Whom a moment concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// One who seeks a place has waited for long, or need not wait any more after a failure.
    Seeks,
    /// One who did not stop may be told to stop again.
    Stays,
    /// One has been idle for long enough.
    Idle,
    /// One was expected to have ended.
    Ends,
}

/// What is counted of a job, and its moments.
#[derive(Debug, Clone, Default)]
struct Known {
    seeks: bool,
    /// Whether it seeks a place and nobody knows for how long.
    endless: bool,
    takes_turns: bool,
    moments: Vec<(About, Nanoseconds)>,
}

/// Moments by what they are about, each with its job.
#[derive(Debug, Clone, Default)]
struct Sets([BTreeSet<(Nanoseconds, JobId)>; 4]);

/// When something changes for jobs; a cache.
#[derive(Debug, Clone, Default)]
pub struct Moments {
    rules: Option<Rules>,
    /// The jobs as they were when they were last looked at.
    jobs: JobTable,
    known: FxHashMap<JobId, Known>,
    sets: Sets,
    pub(super) seekers: u64,
    pub(super) endless: u64,
    pub(super) takes_turns: u64,
}

impl Rules {
    fn of(world: &World, policy: &Policy) -> Self {
        let limits = policy.limits;
        let ahead = limits.reservations > 0 || limits.starvation_timeout.is_some();
        let around = ahead || !world.reservations().is_empty();
        Self {
            starvation_timeout: limits.starvation_timeout,
            reclaim: policy.disruptions.reclaim,
            padding_sigmas: around.then_some(limits.padding_sigmas),
        }
    }
}

impl Sets {
    fn of(&mut self, about: About) -> &mut BTreeSet<(Nanoseconds, JobId)> {
        let [seeks, stays, idle, ends] = &mut self.0;
        match about {
            About::Seeks => seeks,
            About::Stays => stays,
            About::Idle => idle,
            About::Ends => ends,
        }
    }
}

impl Moments {
    /// Brings them up to a world under a policy.
    pub(super) fn follow(&mut self, world: &World, policy: &Policy) {
        let rules = Rules::of(world, policy);
        if self.rules != Some(rules) {
            *self = Self {
                rules: Some(rules),
                ..Self::default()
            };
        }
        let before = std::mem::replace(&mut self.jobs, world.jobs.clone());
        world.jobs.differing(&before, |id, state| {
            self.forget(id);
            if let Some(state) = state {
                self.learn(id, Known::of(world, state, &rules));
            }
        });
    }

    fn forget(&mut self, id: JobId) {
        let Some(known) = self.known.remove(&id) else {
            return;
        };
        for (about, at) in known.moments {
            self.sets.of(about).remove(&(at, id));
        }
        self.seekers -= u64::from(known.seeks);
        self.endless -= u64::from(known.endless);
        self.takes_turns -= u64::from(known.takes_turns);
    }

    fn learn(&mut self, id: JobId, known: Known) {
        if !known.seeks && !known.takes_turns && known.moments.is_empty() {
            return;
        }
        for (about, at) in &known.moments {
            self.sets.of(*about).insert((*at, id));
        }
        self.seekers += u64::from(known.seeks);
        self.endless += u64::from(known.endless);
        self.takes_turns += u64::from(known.takes_turns);
        self.known.insert(id, known);
    }

    /// The first moment after now at which one who seeks a place may get it, or is looked at sooner than others.
    pub(super) fn sought(&self, now: Nanoseconds) -> Option<Nanoseconds> {
        let [seeks, ..] = &self.sets.0;
        after(seeks, now)
    }

    /// The first after now at which one who did not stop may be told to again.
    pub(super) fn stays_over(&self, now: Nanoseconds) -> Option<Nanoseconds> {
        let [_, stays, ..] = &self.sets.0;
        after(stays, now)
    }

    /// The first after now at which one has been idle for long enough.
    pub(super) fn idle(&self, now: Nanoseconds) -> Option<Nanoseconds> {
        let [_, _, idle, _] = &self.sets.0;
        after(idle, now)
    }

    /// The first after now at which one is expected to end, and whether one was expected to have ended by now.
    pub(super) fn ends(&self, now: Nanoseconds) -> (Option<Nanoseconds>, bool) {
        let [.., ends] = &self.sets.0;
        let overdue = ends.first().is_some_and(|(end, _)| *end <= now);
        (after(ends, now), overdue)
    }
}

fn after(moments: &BTreeSet<(Nanoseconds, JobId)>, now: Nanoseconds) -> Option<Nanoseconds> {
    let later = (Bound::Excluded((now, JobId(u32::MAX))), Bound::Unbounded);
    moments.range(later).next().map(|(at, _)| *at)
}

impl Known {
    fn of(world: &World, state: &JobState, rules: &Rules) -> Self {
        let (seeks, running) = (state.seeks(), matches!(state.phase, Phase::Running { .. }));
        let mut moments = Vec::new();
        if let Some(timeout) = rules.starvation_timeout.filter(|_| seeks) {
            moments.push((About::Seeks, state.job.submitted + timeout));
        }
        if let Some(trouble) = state.trouble() {
            moments.push((About::Stays, trouble.stays_until));
            let avoids = trouble.avoids.iter().map(|(_, until)| *until);
            let waits = avoids.chain([trouble.until]).filter(|_| seeks);
            moments.extend(waits.map(|until| (About::Seeks, until)));
        }
        if let Some(idle) = rules.reclaim
            && let Some(since) = state.idle_since(idle.busy_milli)
        {
            moments.push((About::Idle, since + idle.after));
        }
        let end = rules.padding_sigmas.filter(|_| running);
        let end = end.and_then(|sigmas| planned_end(world, state, sigmas));
        moments.extend(end.map(|end| (About::Ends, end)));
        Self {
            seeks,
            endless: seeks && state.job.duration.is_none(),
            takes_turns: running && restart_of(&state.job).is_some(),
            moments,
        }
    }
}

/// The first moment at which a running job has done what it is taken to do; `None`: nobody knows.
fn planned_end(world: &World, state: &JobState, padding_sigmas: f64) -> Option<Nanoseconds> {
    let planned = length(state.job.duration?, padding_sigmas);
    let work = u128::from(planned.0.saturating_sub(state.done.0));
    let pace = u128::from(world.pace_milli(state, &state.assignments).max(1));
    let span = (work * 1000).div_ceil(pace).try_into();
    Some(state.phase.since() + Nanoseconds(span.unwrap_or(u64::MAX)))
}

//! A round begins: who has had its turn makes room for those to whom more is owed.

use super::decision::{self, Decision};
use crate::{
    rounds::{self, Round, Rounds, partners},
    world::{JobState, StoredJob, World},
};
use gpuwise_domain::placement::{
    Action, Assignment, Cause, Decision as Decided, Event, GpuAsk, GpuId, JobId, Kinds, NodeId,
    Outcome, TimestampedEvent,
};
use gpuwise_units::Nanoseconds;
use std::collections::{BTreeMap, BTreeSet};

impl Decision<'_> {
    /// Whether a job seeks a place after what was decided until now.
    pub(super) fn seeks(&self, id: JobId) -> bool {
        self.world.job(id).is_some_and(JobState::seeks)
    }

    /// Lets jobs that may be stopped take turns; those who wait and get no turn are looked at after it.
    pub(super) fn turn(&mut self, rounds: Rounds, seeks: &dyn Fn(JobId) -> bool) {
        let Some(round) = rounds::seats(self.now, &self.world, seeks, rounds) else {
            return;
        };
        let places = self.places(&round);
        let Round {
            running,
            seats,
            left,
        } = round;
        let runs: BTreeSet<JobId> = running.iter().copied().collect();
        let mut actions: Vec<Action> = Vec::new();
        for id in &running {
            let Some(state) = self.world.job(*id) else {
                continue;
            };
            let cause = Cause::RoundEnd;
            match places.get(id) {
                Some(place) if *place == state.assignments => {}
                Some(place) if is_there(&state.assignments, place) => {
                    actions.push(Action::Resize {
                        job: *id,
                        assignments: place.clone(),
                    });
                }
                Some(place) => actions.push(Action::Move {
                    job: *id,
                    assignments: place.clone(),
                    cause,
                }),
                None => self.begin(&Action::Preempt { job: *id, cause }),
            }
        }
        for job in seats.iter().map(|seat| seat.job).chain(left) {
            if let Some(place) = places.get(&job).filter(|_| !runs.contains(&job)) {
                actions.push(Action::Place {
                    job,
                    assignments: place.clone(),
                });
            }
        }
        self.begin_all(actions);
    }

    /// Begins what can begin, as others leave; of those who wait for one another in a circle one is stopped
    /// first, and starts again when the others have left.
    fn begin_all(&mut self, mut actions: Vec<Action>) {
        while !actions.is_empty() {
            let before = actions.len();
            let mut later = Vec::new();
            for action in actions {
                if !self.begins(&action) {
                    later.push(action);
                }
            }
            actions = later;
            if actions.len() < before {
                continue;
            }
            let moves = |action: &Action| matches!(action, Action::Move { .. });
            let Some(at) = actions.iter().position(moves) else {
                return;
            };
            if let Action::Move {
                job,
                assignments,
                cause,
            } = actions.remove(at)
            {
                self.begin(&Action::Preempt { job, cause });
                actions.push(Action::Place { job, assignments });
            }
        }
    }

    fn begins(&mut self, action: &Action) -> bool {
        let event = TimestampedEvent {
            at: self.now,
            event: Event::begun(action.clone()),
        };
        if self.world.to_mut().apply(&event).is_err() {
            return false;
        }
        if let Action::Place { job, .. } = action {
            self.report.decisions.push(Decided {
                job: *job,
                outcome: Outcome::Placed,
                candidates: 1,
                weighed: Vec::new(),
            });
        }
        self.plan.actions.push(action.clone());
        true
    }

    pub(super) fn begin(&mut self, action: &Action) {
        let _ = self.begins(action);
    }

    /// Where those who are to run find a place if all who take part and do not stay have left; and of the
    /// others those who would have theirs still.
    fn places(&mut self, round: &Round) -> BTreeMap<JobId, Vec<Assignment>> {
        let Round { running, seats, .. } = round;
        // Of two who are owed a GPU each and share one, the one keeps it to whom more is owed.
        let mut stays: BTreeSet<JobId> = BTreeSet::new();
        for seat in seats.iter().filter(|seat| seat.stays) {
            let state = self.world.job(seat.job);
            let mut beside = state
                .into_iter()
                .flat_map(|state| partners(&self.world, state));
            if !beside.any(|job| stays.contains(&job)) {
                stays.insert(seat.job);
            }
        }
        let mut world: World = self.world.clone().into_owned();
        let mut places = BTreeMap::new();
        let mut own: Vec<(JobId, Vec<Assignment>)> = Vec::new();
        for id in running {
            let held = world.job(*id).map(|state| state.assignments.clone());
            let held = held.unwrap_or_default();
            if stays.contains(id) {
                places.insert(*id, held);
                continue;
            }
            let stop = Event::done(Action::Preempt {
                job: *id,
                cause: Cause::RoundEnd,
            });
            if apply(&mut world, self.now, stop) {
                own.push((*id, held));
            }
        }
        for seat in seats.iter().filter(|seat| !stays.contains(&seat.job)) {
            let Some(job) = world.job(seat.job).map(|state| state.job.clone()) else {
                continue;
            };
            let narrowed = on_kinds(&job, seat.kinds);
            let mut gate = self.gate.clone();
            let mut look = |job: &StoredJob, world: &World| {
                let (now, left) = (self.now, &mut self.left);
                let found =
                    decision::place(world, job, self.policy, &mut gate, now, None, left).ok()?;
                found.prepare.is_empty().then_some(found.assignments)
            };
            // A gang stays on kinds that are the same to it.
            let alone = job.gang.least <= 1;
            let found = look(&narrowed, &world);
            let found = found.or_else(|| look(&job, &world).filter(|_| alone));
            if let Some(found) = found
                && apply(&mut world, self.now, starts(seat.job, &found))
            {
                places.insert(seat.job, found);
            }
        }
        for (id, held) in own {
            if !places.contains_key(&id) && apply(&mut world, self.now, starts(id, &held)) {
                places.insert(id, held);
            }
        }
        self.pair_up(world, round, &mut places);
        places
    }
}

/// Whether a job stays on its GPUs, and only has more or less of them.
fn is_there(held: &[Assignment], place: &[Assignment]) -> bool {
    let gpus = |all: &[Assignment]| -> Vec<(NodeId, GpuId)> {
        let one = |one: &Assignment| {
            let node = one.node;
            one.gpus
                .iter()
                .map(move |share| (node, share.gpu))
                .collect()
        };
        all.iter()
            .flat_map(|assignment| -> Vec<_> { one(assignment) })
            .collect()
    };
    gpus(held) == gpus(place)
}

pub(super) fn starts(job: JobId, assignments: &[Assignment]) -> Event {
    Event::begun(Action::Place {
        job,
        assignments: assignments.to_vec(),
    })
}

pub(super) fn apply(world: &mut World, at: Nanoseconds, event: Event) -> bool {
    world.apply(&TimestampedEvent { at, event }).is_ok()
}

/// The same job, on these kinds alone.
fn on_kinds(job: &StoredJob, allowed: Kinds) -> StoredJob {
    let mut job = job.clone();
    if let GpuAsk::Whole { kinds, .. } = &mut job.worker.gpu {
        *kinds = kinds.and(allowed);
    }
    job
}

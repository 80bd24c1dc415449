//! Who was to start, to move or to stop and did not: it goes on as before, and who counted on its place
//! makes way.

use super::{GpuState, Instance, Link, Phase, Refused, Tenancy, World, underway::Before};
use gpuwise_domain::placement::{Assignment, GpuId, GpuShare, JobId, NodeId, Part, WorkerAsk};
use gpuwise_units::Nanoseconds;

impl World {
    /// A job does not get the place that it was to start on, to move to or to be resized to: it waits again,
    /// or goes on where it was.
    pub(super) fn unseat(&mut self, at: Nanoseconds, job: JobId) {
        let Some(state) = self.jobs.get_mut(job) else {
            return;
        };
        let Some(start) = state.start.take() else {
            return;
        };
        let (ask, present) = (state.job.worker, std::mem::take(&mut state.assignments));
        self.rebook_job(at, job, &present, &[]);
        self.give(job, &ask, &present);
        match start.before {
            Some(before) => self.goes_back(at, job, &before),
            None => {
                if let Some(state) = self.jobs.get_mut(job) {
                    state.rest(Phase::Waiting { since: at });
                    state.fresh_ask();
                }
            }
        }
    }

    /// A job that was told to stop is still where it was.
    pub(super) fn stays(&mut self, at: Nanoseconds, job: JobId) {
        let Some(state) = self.jobs.get_mut(job) else {
            return;
        };
        let Some(stop) = state.rare.change(|rare| rare.stop.take()) else {
            return;
        };
        let (ask, present) = (state.job.worker, std::mem::take(&mut state.assignments));
        // It may have been given another place meanwhile, where it has not started.
        let placed = state.start.take().is_some();
        self.rebook_job(at, job, &present, &[]);
        self.give(job, &ask, &present);
        match stop.before {
            Some(before) => self.goes_back(at, job, &before),
            // It was where nobody wanted it to be, and still is.
            None => {
                if placed && let Some(state) = self.jobs.get_mut(job) {
                    state.rest(Phase::Waiting { since: at });
                }
            }
        }
    }

    /// A job goes on as before. Whoever counted on its place is unseated; where something runs there by now,
    /// as was seen, or a part of the place is gone, the job waits, and is told to stop where it may still be.
    fn goes_back(&mut self, at: Nanoseconds, job: JobId, before: &Before) {
        let Some(ask) = self.job(job).map(|state| state.job.worker) else {
            return;
        };
        let seated = self.retake(at, job, &ask, &before.assignments);
        self.forget_leaving(job);
        if !seated {
            let alive = before.assignments.iter().filter(|one| self.is_alive(one));
            let alive: Vec<Assignment> = alive.cloned().collect();
            if let Some(state) = self.jobs.get_mut(job) {
                state.rest(Phase::Waiting { since: at });
                state.rare.change(|rare| rare.stop = None);
            }
            self.leave(job, &alive);
            self.must_stop(at, job);
            return;
        }
        self.rebook_job(at, job, &[], &before.assignments);
        if let Some(state) = self.jobs.get_mut(job) {
            state.stopping = false;
            state.assignments.clone_from(&before.assignments);
            state.done = before.done;
            state.rare.change(|rare| {
                rare.stop = None;
                rare.wanted = before.wanted;
            });
            state.phase = match before.phase {
                Phase::Running { .. } => Phase::Running { since: at },
                other => other,
            };
        }
    }

    /// Takes assignments that a job had, and makes way for it there. `false`, and nothing is taken: somebody
    /// runs there.
    fn retake(
        &mut self,
        at: Nanoseconds,
        job: JobId,
        ask: &WorkerAsk,
        assignments: &[Assignment],
    ) -> bool {
        if !assignments.iter().all(|one| self.is_alive(one)) {
            return false;
        }
        for share in assignments.iter().flat_map(|one| &one.gpus) {
            self.clear_way(at, job, *share);
        }
        loop {
            let refused = match self.take(job, ask, assignments, true) {
                Ok(()) => return true,
                Err(refused) => refused,
            };
            let last = match refused {
                Refused::NodeFull(node) => self.last_to_start(node, job),
                _ => None,
            };
            let Some(other) = last else { return false };
            self.unseat(at, other);
        }
    }

    /// Undoes what was to be made of a GPU once it was left, and unseats who was to start there.
    fn clear_way(&mut self, at: Nanoseconds, job: JobId, share: GpuShare) {
        let gpu = share.gpu;
        let Some(state) = self.gpu(gpu) else { return };
        if state.link == Link::Detaching {
            self.linked(gpu);
        }
        let Some(state) = self.gpu(gpu) else { return };
        let cut = matches!(state.held, Tenancy::Sliced(_));
        match share.part {
            Part::Slice { start, .. } if state.going.iter().any(|one| one.start == start) => {
                self.destruction_failed(at, gpu, start);
            }
            Part::Slice { .. } => {}
            _ if cut && state.switching => {
                self.unseat_all_on(at, gpu);
                self.switch_back(gpu);
                self.recount_around(gpu);
            }
            _ => {}
        }
        let Some(state) = self.gpu(gpu) else { return };
        let mut others = in_the_way(state, share.part);
        others.retain(|other| *other != job);
        // Who came last makes way first.
        others.sort_by_key(|other| {
            self.job(*other)
                .map(|state| std::cmp::Reverse(state.attempt))
        });
        for other in others {
            if self
                .gpu(gpu)
                .is_some_and(|state| has_room(state, share.part))
            {
                return;
            }
            if self.job(other).is_some_and(|state| state.start.is_some()) {
                self.unseat(at, other);
            }
        }
    }

    /// Of those who are to start on a node the one that was planned last: who was planned before may have
    /// started by what was left then.
    fn last_to_start(&self, node: NodeId, job: JobId) -> Option<JobId> {
        let starting = self.jobs.iter().filter(|(id, state)| {
            **id != job
                && state.start.is_some()
                && state.assignments.iter().any(|one| one.node == node)
        });
        let last = starting.max_by_key(|(_, state)| state.attempt);
        last.map(|(id, _)| *id)
    }

    /// All that were to start on a GPU do not.
    pub(super) fn unseat_all_on(&mut self, at: Nanoseconds, gpu: GpuId) {
        for job in self.holders_of(gpu) {
            self.unseat(at, job);
        }
    }

    /// Who holds something of a GPU.
    pub(super) fn holders_of(&self, gpu: GpuId) -> Vec<JobId> {
        let mut holders = self
            .gpu(gpu)
            .map_or_else(Vec::new, |state| all_on(&state.held));
        holders.dedup();
        holders
    }
}

fn all_on(held: &Tenancy) -> Vec<JobId> {
    match held {
        Tenancy::Whole(job) => vec![*job],
        Tenancy::Shared { holders, .. } => holders.iter().map(|one| one.job).collect(),
        Tenancy::Sliced(instances) => instances.iter().filter_map(|one| one.holder).collect(),
        Tenancy::Free => Vec::new(),
    }
}

fn in_the_way(state: &GpuState, part: Part) -> Vec<JobId> {
    match (part, &state.held) {
        (Part::Slice { start, .. }, Tenancy::Sliced(instances)) => {
            let here = |one: &&Instance| one.start == start;
            let held = instances.iter().find(here).and_then(|one| one.holder);
            held.into_iter().collect()
        }
        (_, held) => all_on(held),
    }
}

fn has_room(state: &GpuState, part: Part) -> bool {
    match (part, &state.held) {
        (Part::Whole | Part::Fraction { .. }, Tenancy::Free) => true,
        (
            Part::Fraction {
                milli,
                memory_mib,
                isolation,
            },
            Tenancy::Shared {
                isolation: present,
                milli_free,
                memory_free,
                ..
            },
        ) => {
            isolation == *present
                && *milli_free >= milli
                && memory_free.is_none_or(|free| free >= memory_mib)
        }
        (Part::Slice { start, .. }, Tenancy::Sliced(instances)) => instances
            .iter()
            .any(|one| one.start == start && one.holder.is_none()),
        _ => false,
    }
}

//! Who sits where: taking assignments, leaving them, and whether they are ready.

use super::{GpuState, Link, Phase, Refused, Tenancy, World};
use gpuwise_domain::placement::{Action, Assignment, GpuId, GpuShare, Isolation, JobId, Part};
use gpuwise_units::Nanoseconds;

impl World {
    /// Gives a job these assignments instead of those that it has. Assignments that it keeps are not touched.
    pub(super) fn assignment(
        &mut self,
        at: Nanoseconds,
        job: JobId,
        assignments: &[Assignment],
    ) -> Result<(), Refused> {
        if assignments.is_empty() {
            return Err(Refused::NoSeats(job));
        }
        let state = self.jobs.get_mut(job).ok_or(Refused::NoSuchJob(job))?;
        let ask = state.job.worker;
        let old = state.assignments.clone();
        let (gone, fresh) = if state.assignments.is_empty() {
            (Vec::new(), assignments.to_vec())
        } else {
            (
                without(&state.assignments, assignments),
                without(assignments, &state.assignments),
            )
        };
        self.give(job, &ask, &gone);
        if let Err(refused) = self.take(job, &ask, &fresh, false) {
            // What was just given back is free.
            let _ = self.take(job, &ask, &gone, true);
            return Err(refused);
        }
        self.leave(job, &gone);
        self.rebook_job(at, job, &old, assignments);
        if let Some(state) = self.jobs.get_mut(job) {
            state.assignments = assignments.to_vec();
            state.phase = Phase::Starting { since: at };
            state.wanted = None;
            state.idle = super::IdleTracker::default();
        }
        Ok(())
    }

    /// A job has lost its place and waits.
    pub(super) fn stop(&mut self, at: Nanoseconds, job: JobId) {
        let Some(state) = self.jobs.get_mut(job) else {
            return;
        };
        if state.assignments.is_empty() {
            return;
        }
        let old = std::mem::take(&mut state.assignments);
        let ask = state.job.worker;
        let told = state.stopping;
        self.stopped(at, job, &old, false);
        let Some(state) = self.jobs.get_mut(job) else {
            return;
        };
        state.rest(Phase::Waiting { since: at });
        self.give(job, &ask, &old);
        if !told {
            self.left(job);
        }
    }

    /// A job is told to stop: what it has can be taken from now on, and is free when it has stopped.
    /// A reclaimed one keeps its processor time and memory.
    pub(super) fn tell_to_stop(&mut self, at: Nanoseconds, job: JobId, reclaimed: bool) {
        let Some(state) = self.jobs.get_mut(job) else {
            return;
        };
        let old = std::mem::take(&mut state.assignments);
        let ask = state.job.worker;
        self.stopped(at, job, &old, reclaimed);
        let Some(state) = self.jobs.get_mut(job) else {
            return;
        };
        state.stopping = true;
        if reclaimed {
            state.rest(Phase::Reclaimed { since: at });
            let bare = |assignment: &Assignment| Assignment {
                node: assignment.node,
                gpus: Vec::new(),
            };
            state.assignments = old.iter().map(bare).collect();
            for assignment in &old {
                for share in &assignment.gpus {
                    self.give_share(job, *share);
                }
                self.recount(assignment.node);
            }
        } else {
            state.rest(Phase::Waiting { since: at });
            self.give(job, &ask, &old);
        }
        self.leave(job, &old);
    }

    /// Notes that a job may still be where it was.
    fn leave(&mut self, job: JobId, assignments: &[Assignment]) {
        for share in assignments.iter().flat_map(|assignment| &assignment.gpus) {
            if let Some(gpu) = self.gpus.get_mut(share.gpu.index()) {
                gpu.leaving.push((job, share.part));
            }
            if let Some(state) = self.jobs.get_mut(job) {
                state.leaving.push(share.gpu);
            }
        }
    }

    /// A job is gone from where it was told to leave.
    pub(super) fn left(&mut self, job: JobId) {
        let Some(state) = self.jobs.get_mut(job) else {
            return;
        };
        state.stopping = false;
        for gpu in std::mem::take(&mut state.leaving) {
            if let Some(gpu) = self.gpus.get_mut(gpu.index()) {
                gpu.leaving.retain(|(who, _)| *who != job);
            }
        }
    }

    /// All that hold something of a GPU lose their places.
    pub(super) fn stop_all_on(&mut self, at: Nanoseconds, gpu: GpuId) {
        let holders: Vec<JobId> = match self.gpu(gpu).map(|state| &state.held) {
            Some(Tenancy::Whole(job)) => vec![*job],
            Some(Tenancy::Shared { holders, .. }) => holders.iter().map(|one| one.job).collect(),
            Some(Tenancy::Sliced(instances)) => {
                instances.iter().filter_map(|one| one.holder).collect()
            }
            Some(Tenancy::Free) | None => Vec::new(),
        };
        for job in holders {
            self.stop(at, job);
        }
    }

    /// Whether what an action needs is there and free by now.
    pub(super) fn ready_for(&self, action: &Action) -> Result<(), Refused> {
        let free = |gpu: GpuId, ready: fn(&GpuState) -> bool| {
            let state = self.gpu(gpu).ok_or(Refused::NoSuchGpu(gpu))?;
            let ready = ready(state).then_some(());
            ready.ok_or(Refused::GpuNotReady(gpu))
        };
        match action {
            Action::Place { job, assignments }
            | Action::Restore { job, assignments }
            | Action::Move {
                job, assignments, ..
            }
            | Action::Resize { job, assignments } => {
                let stopping = self.job(*job).is_some_and(|state| state.stopping);
                let ready = !stopping && self.is_ready(*job, assignments);
                ready.then_some(()).ok_or(Refused::NotReady(*job))
            }
            Action::Preempt { .. } | Action::Reclaim { .. } | Action::Attach { .. } => Ok(()),
            Action::DestroyInstance { gpu, start } => self.destroy_is_ready(*gpu, *start),
            Action::CreateInstance { gpu, shape, start } => {
                self.create_is_ready(*gpu, *shape, *start)
            }
            Action::SetMig { gpu, .. } => free(*gpu, |state| {
                state.going.is_empty() && state.leaving.is_empty() && state.link == Link::Here
            }),
            Action::Detach { gpu } => free(*gpu, |state| {
                state.going.is_empty() && state.leaving.is_empty() && !state.switching
            }),
        }
    }

    /// Whether somebody is leaving a GPU that an action wants.
    pub(super) fn is_being_left(&self, action: &Action) -> bool {
        let (Action::Place { assignments, .. }
        | Action::Restore { assignments, .. }
        | Action::Move { assignments, .. }
        | Action::Resize { assignments, .. }) = action
        else {
            return false;
        };
        let mut shares = assignments.iter().flat_map(|assignment| &assignment.gpus);
        shares.any(|share| {
            let state = self.gpu(share.gpu);
            state.is_some_and(|state| !state.leaving.is_empty())
        })
    }

    /// Whether every GPU and instance of these assignments can be used now.
    fn is_ready(&self, job: JobId, assignments: &[Assignment]) -> bool {
        let ready = |share: &GpuShare| {
            let Some(state) = self.gpu(share.gpu) else {
                return false;
            };
            let instance = match (share.part, &state.held) {
                (Part::Slice { start, .. }, Tenancy::Sliced(instances)) => {
                    instances.iter().any(|one| one.start == start && one.ready)
                }
                (Part::Slice { .. }, _) => false,
                _ => true,
            };
            let left = match share.part {
                Part::Fraction { isolation, .. } => fits_beside(state, job, isolation),
                wanted => {
                    let others = state.leaving.iter().filter(|(who, _)| *who != job);
                    !others
                        .into_iter()
                        .any(|(_, part)| in_the_way(*part, wanted))
                }
            };
            instance && left && !state.switching && state.link == Link::Here
        };
        assignments
            .iter()
            .flat_map(|assignment| &assignment.gpus)
            .all(ready)
    }
}

/// Whether those who share a GPU by time and those who are leaving it fit on it together.
fn fits_beside(state: &GpuState, job: JobId, wanted: Isolation) -> bool {
    let others = state.leaving.iter().filter(|(who, _)| *who != job);
    let (present, milli_free, memory_free) = match &state.held {
        Tenancy::Shared {
            isolation,
            milli_free,
            memory_free,
            ..
        } => (*isolation, *milli_free, *memory_free),
        _ => (wanted, 1000, None),
    };
    let (mut milli_left, mut memory_left) = (0, 0);
    for (_, part) in others {
        match part {
            Part::Fraction {
                milli,
                memory_mib,
                isolation,
            } if *isolation == present => {
                milli_left += milli;
                memory_left += memory_mib;
            }
            _ => return false,
        }
    }
    milli_left <= milli_free && memory_free.is_none_or(|free| memory_left <= free)
}

/// Whether one part of a GPU cannot be used while the other still is.
fn in_the_way(leaving: Part, wanted: Part) -> bool {
    match (leaving, wanted) {
        (Part::Slice { start: left, .. }, Part::Slice { start: wanted, .. }) => left == wanted,
        _ => true,
    }
}

/// Those of the first that are not among the second, each counted once.
fn without(these: &[Assignment], others: &[Assignment]) -> Vec<Assignment> {
    let mut left: Vec<&Assignment> = others.iter().collect();
    let mut kept = Vec::new();
    for assignment in these {
        match left.iter().position(|other| *other == assignment) {
            Some(at) => {
                left.swap_remove(at);
            }
            None => kept.push(assignment.clone()),
        }
    }
    kept
}

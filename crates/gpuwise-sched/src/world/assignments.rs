//! Who sits where: taking assignments, leaving them, and whether they are ready.

use super::{
    GpuState, Link, Phase, Refused, Tenancy, World,
    underway::{Before, Underway},
};
use gpuwise_domain::placement::{
    Action, Assignment, GpuId, GpuShare, Isolation, JobId, NodeId, Part, WorkerAsk,
};
use gpuwise_units::Nanoseconds;

impl World {
    /// Gives a job these assignments instead of those that it has. Assignments that it keeps are not touched.
    pub(super) fn assignment(
        &mut self,
        at: Nanoseconds,
        job: JobId,
        assignments: &[Assignment],
        underway: Option<Underway>,
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
            state.start = underway.map(|one| Box::new(state.begins(one, old)));
            state.assignments = assignments.to_vec();
            state.phase = Phase::Starting { since: at };
            state.rare.not_wanted();
            state.idle = super::IdleTracker::default();
        }
        if self.is_ready(job, assignments)
            && !self.job(job).is_some_and(|state| state.stopping)
            && let Some(start) = self
                .jobs
                .get_mut(job)
                .and_then(|state| state.start.as_mut())
        {
            start.ready = true;
        }
        Ok(())
    }

    /// A job is told to stop: what it has can be taken from now on, and is free when it has stopped.
    /// A reclaimed one keeps its processor time and memory.
    pub(super) fn tell_to_stop(
        &mut self,
        at: Nanoseconds,
        job: JobId,
        reclaimed: bool,
        told: Option<Underway>,
    ) {
        let done = self.done_by(at, job);
        let Some(state) = self.jobs.get_mut(job) else {
            return;
        };
        let old = std::mem::take(&mut state.assignments);
        let ask = state.job.worker;
        let start = state.start.take();
        // Of one that was on its way to somewhere nobody can tell where it is if it does not stop.
        let before = start.is_none().then(|| {
            let before = Before::new(old.clone(), state.phase, done, state.rare.wanted);
            Box::new(before)
        });
        let stop = told.map(|told| Box::new(Underway { before, ..told }));
        state.rare.change(|rare| rare.stop = stop);
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
            self.leave_gpus(job, &old);
        } else {
            state.rest(Phase::Waiting { since: at });
            self.give(job, &ask, &old);
            self.leave(job, &old);
        }
    }

    /// Notes that a job may still be where it was.
    pub(super) fn leave(&mut self, job: JobId, assignments: &[Assignment]) {
        self.leave_gpus(job, assignments);
        let Some(ask) = self.job(job).map(|state| state.job.worker) else {
            return;
        };
        for assignment in assignments {
            if let Some(node) = self.nodes.get_mut(assignment.node.index()) {
                node.leaving_cpu += ask.cpu_milli;
                node.leaving_memory += ask.memory_mib;
            }
            if let Some(state) = self.jobs.get_mut(job) {
                state
                    .rare
                    .change(|rare| rare.leaving_hosts.push(assignment.node));
            }
        }
    }

    fn leave_gpus(&mut self, job: JobId, assignments: &[Assignment]) {
        for share in assignments.iter().flat_map(|assignment| &assignment.gpus) {
            if let Some(gpu) = self.gpus.get_mut(share.gpu.index()) {
                gpu.leaving.push((job, share.part));
            }
            if let Some(state) = self.jobs.get_mut(job) {
                state.rare.change(|rare| rare.leaving.push(share.gpu));
            }
        }
    }

    /// A worker is gone from a node.
    pub(super) fn host_left(&mut self, host: NodeId, ask: &WorkerAsk) {
        if let Some(node) = self.nodes.get_mut(host.index()) {
            node.leaving_cpu = node.leaving_cpu.saturating_sub(ask.cpu_milli);
            node.leaving_memory = node.leaving_memory.saturating_sub(ask.memory_mib);
        }
    }

    /// A job is gone from where it was told to leave.
    pub(super) fn left(&mut self, job: JobId) {
        let Some(state) = self.jobs.get(job) else {
            return;
        };
        if !state.stopping && state.rare.stop.is_none() && !state.is_leaving() {
            return;
        }
        self.forget_leaving(job);
        if let Some(state) = self.jobs.get_mut(job) {
            state.stopping = false;
            state.rare.change(|rare| rare.stop = None);
            state.fresh_ask();
        }
    }

    /// Nothing of a job is leaving anywhere.
    pub(super) fn forget_leaving(&mut self, job: JobId) {
        let Some(state) = self.jobs.get_mut(job) else {
            return;
        };
        if !state.is_leaving() {
            return;
        }
        let ask = state.job.worker;
        let (gpus, hosts) = state.rare.change(|rare| {
            let gpus = std::mem::take(&mut rare.leaving);
            (gpus, std::mem::take(&mut rare.leaving_hosts))
        });
        for gpu in gpus {
            if let Some(gpu) = self.gpus.get_mut(gpu.index()) {
                gpu.leaving.retain(|(who, _)| *who != job);
            }
        }
        for host in hosts {
            self.host_left(host, &ask);
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
            .all(|one| self.host_is_ready(job, one.node))
            && assignments
                .iter()
                .flat_map(|assignment| &assignment.gpus)
                .all(ready)
    }
}

impl World {
    /// Whether what is left of a node is enough for those who leave it, once all who count on it and came
    /// before have theirs.
    fn host_is_ready(&self, job: JobId, id: NodeId) -> bool {
        let Some(node) = self.node(id) else {
            return false;
        };
        if node.fence.is_some() || self.is_recomposed(node) {
            return false;
        }
        let enough = |own: (u64, u64), later: (u64, u64)| {
            node.leaving_cpu.saturating_sub(own.0) <= node.cpu_free + later.0
                && node.leaving_memory.saturating_sub(own.1) <= node.memory_free + later.1
        };
        if enough((0, 0), (0, 0)) {
            return true;
        }
        let Some(state) = self.job(job) else {
            return false;
        };
        let ask = state.job.worker;
        let own = state.leaving_hosts().iter().filter(|host| **host == id);
        let own = own.count() as u64;
        let own = (own * ask.cpu_milli, own * ask.memory_mib);
        // Of two that wait for one another the one that was planned first goes first.
        let later = self.jobs.values().filter(|other| {
            let started = other.start.as_ref().map(|start| start.attempt);
            started > state.start.as_ref().map(|start| start.attempt)
        });
        let later = later.fold((0, 0), |(cpu, memory), other| {
            let here = other.assignments.iter().filter(|one| one.node == id);
            let (workers, ask) = (here.count() as u64, other.job.worker);
            (
                cpu + workers * ask.cpu_milli,
                memory + workers * ask.memory_mib,
            )
        });
        enough(own, later)
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

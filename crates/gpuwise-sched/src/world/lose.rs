//! Workers are lost: with their node, their GPU, or by themselves.

use super::{
    Link, Phase, World,
    underway::{Before, Doing, Underway},
};
use gpuwise_domain::placement::{Assignment, Attempt, Cause, GpuId, JobId, NodeId};
use gpuwise_units::Nanoseconds;

impl World {
    /// Whether a worker there can still be running: its node and GPUs are there and not down.
    pub(super) fn is_alive(&self, assignment: &Assignment) -> bool {
        self.node(assignment.node)
            .is_some_and(|node| node.node.health.keeps_work() && !node.left)
            && assignment.gpus.iter().all(|share| {
                self.gpu(share.gpu).is_some_and(|gpu| {
                    gpu.gpu.health.keeps_work()
                        && gpu.node == Some(assignment.node)
                        && gpu.link != Link::Gone
                })
            })
    }

    /// Jobs that have something on a node, leave it, or would go back to it.
    pub fn jobs_on(&self, node: NodeId) -> Vec<JobId> {
        let here = |seats: &[Assignment]| seats.iter().any(|one| one.node == node);
        let before = |one: Option<&Underway>| {
            let before = one.and_then(|one| one.before.as_ref());
            before.is_some_and(|before| here(&before.assignments))
        };
        self.jobs
            .iter()
            .filter(|(_, state)| {
                here(&state.assignments)
                    || state.leaving_hosts().contains(&node)
                    || before(state.start())
                    || before(state.stop())
            })
            .map(|(job, _)| *job)
            .collect()
    }

    /// Jobs lose what is not alive of their places.
    pub(super) fn lose_dead(&mut self, at: Nanoseconds, jobs: Vec<JobId>) {
        for job in jobs {
            self.forget_dead(job);
            let Some(state) = self.job(job) else { continue };
            let dead = |one: &Assignment| !self.is_alive(one);
            if state.assignments.iter().any(dead) {
                let kept = state.assignments.iter().filter(|one| self.is_alive(one));
                let kept = kept.cloned().collect();
                self.lose(at, job, kept);
            }
        }
    }

    /// Nobody is still leaving what is down or gone.
    fn forget_dead(&mut self, job: JobId) {
        let Some(state) = self.job(job) else { return };
        let ask = state.job.worker;
        let is_dead = |gpu: &GpuId| {
            self.gpu(*gpu).is_none_or(|gpu| {
                let node = gpu.node.and_then(|node| self.node(node));
                !gpu.gpu.health.keeps_work()
                    || node.is_none_or(|node| !node.node.health.keeps_work() || node.left)
            })
        };
        let is_down = |node: &NodeId| {
            self.node(*node)
                .is_none_or(|node| !node.node.health.keeps_work() || node.left)
        };
        let gpus: Vec<GpuId> = state.rare.leaving.iter().copied().filter(is_dead).collect();
        let hosts: Vec<NodeId> = state
            .leaving_hosts()
            .iter()
            .copied()
            .filter(is_down)
            .collect();
        if gpus.is_empty() && hosts.is_empty() {
            return;
        }
        for gpu in &gpus {
            if let Some(gpu) = self.gpus.get_mut(gpu.index()) {
                gpu.leaving.retain(|(who, _)| *who != job);
            }
        }
        for host in &hosts {
            self.host_left(*host, &ask);
        }
        let Some(state) = self.jobs.get_mut(job) else {
            return;
        };
        state.rare.change(|rare| {
            rare.leaving.retain(|gpu| !gpus.contains(gpu));
            rare.leaving_hosts.retain(|host| !hosts.contains(host));
        });
        self.left_if_nowhere(job);
    }

    /// Once it is nowhere any more, who was told to stop has stopped.
    pub(super) fn left_if_nowhere(&mut self, job: JobId) {
        let nowhere = self.job(job).is_some_and(|state| !state.is_leaving());
        if nowhere && self.job(job).is_some_and(|state| state.stopping) {
            self.left(job);
        }
    }

    /// Of a job only these workers are left. It goes on with them where they are enough; else it waits, and
    /// those that are left are told to stop.
    pub(super) fn lose(&mut self, at: Nanoseconds, job: JobId, kept: Vec<Assignment>) {
        let Some(state) = self.job(job) else { return };
        let ask = state.job.worker;
        let old = state.assignments.clone();
        let running = matches!(state.phase, Phase::Running { .. }) && !state.stopping;
        let least = state.job.gang.least.max(1) as usize;
        if running && kept.len() >= least {
            self.rebook_job(at, job, &old, &kept);
            self.give(job, &ask, &old);
            // What it keeps was its own a moment ago.
            let _ = self.take(job, &ask, &kept, true);
            if let Some(state) = self.jobs.get_mut(job) {
                state.assignments = kept;
                state.phase = Phase::Running { since: at };
            }
            return;
        }
        if matches!(state.phase, Phase::Reclaimed { .. }) && !kept.is_empty() {
            // What it keeps of its hosts is of no use without the rest.
            self.rebook_job(at, job, &old, &[]);
            self.give(job, &ask, &old);
            if let Some(state) = self.jobs.get_mut(job) {
                state.assignments.clear();
                state.rest(Phase::Waiting { since: at });
                state.done = state.kept(state.done, false);
            }
            return;
        }
        if let Some(state) = self.jobs.get_mut(job) {
            state.assignments.clear();
        }
        self.stopped(at, job, &old, false);
        if let Some(state) = self.jobs.get_mut(job) {
            state.start = None;
            state.rest(Phase::Waiting { since: at });
        }
        self.give(job, &ask, &old);
        self.leave(job, &kept);
        self.must_stop(at, job);
        if let Some(state) = self.jobs.get_mut(job) {
            state.fresh_ask();
        }
    }

    /// Who still is somewhere is told to stop, if it was not.
    pub(super) fn must_stop(&mut self, at: Nanoseconds, job: JobId) {
        let Some(state) = self.job(job) else { return };
        if !state.is_leaving() {
            self.left(job);
            return;
        }
        if state.stop().is_some() {
            return;
        }
        let attempt = Attempt(self.attempts + 1);
        self.attempts = attempt.0;
        if let Some(state) = self.jobs.get_mut(job) {
            state.stopping = true;
            state.attempt = attempt;
            let stop = Underway {
                doing: Doing::Preempt(Cause::Lost),
                attempt,
                begun: at,
                deadline: Some(at + state.job.grace),
                ready: true,
                before: None,
            };
            state.rare.change(|rare| rare.stop = Some(Box::new(stop)));
        }
    }

    /// One worker of a job is gone.
    pub(super) fn worker_lost(&mut self, at: Nanoseconds, job: JobId, lost: &Assignment) {
        let Some(state) = self.job(job) else {
            self.ignored.unknown += 1;
            return;
        };
        let Some(place) = state.assignments.iter().position(|one| one == lost) else {
            self.ignored.repeated += 1;
            return;
        };
        if !state.phase.holds_gpus() {
            self.ignored.unexpected += 1;
            return;
        }
        let mut kept = state.assignments.clone();
        kept.remove(place);
        self.lose(at, job, kept);
    }
}

impl Before {
    pub(super) const fn new(
        assignments: Vec<Assignment>,
        phase: Phase,
        done: Nanoseconds,
        wanted: Option<Nanoseconds>,
    ) -> Self {
        Self {
            assignments,
            phase,
            done,
            wanted,
        }
    }
}

//! What is under way: begun, and neither done nor failed.

use super::{GpuState, JobState, Link, Phase, World};
use gpuwise_domain::placement::{Action, Assignment, Attempt, Cause, GpuId, JobId};
use gpuwise_units::Nanoseconds;

/// An action that has begun on a job.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Underway {
    pub(crate) doing: Doing,
    pub attempt: Attempt,
    pub begun: Nanoseconds,
    /// Until when it should be done: for who is told to leave, when its grace is over.
    pub deadline: Option<Nanoseconds>,
    /// Whether it could be carried out at once, so that how long it takes tells how long such actions take.
    pub(super) ready: bool,
    /// How the job was before, where it goes on so if this does not succeed.
    pub(super) before: Option<Box<Before>>,
}

/// What is done with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Doing {
    Place,
    Restore,
    Move(Cause),
    Resize,
    Preempt(Cause),
    Reclaim,
}

/// What a job goes back to.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Before {
    pub(super) assignments: Vec<Assignment>,
    pub(super) phase: Phase,
    pub(super) done: Nanoseconds,
    pub(super) wanted: Option<Nanoseconds>,
}

/// An action that is to be carried out, for those who do.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub action: Action,
    pub attempt: Attempt,
    /// When it began; of a GPU's several the last.
    pub begun: Nanoseconds,
    /// How long such actions take, as far as was seen.
    pub expected: Option<Nanoseconds>,
    /// Until when it should be done.
    pub deadline: Option<Nanoseconds>,
}

/// How an attempt stands to what is known of its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is under way.
    Underway,
    /// It was not heard of yet.
    Ahead,
    /// It is the last one, and over.
    Over,
    /// A later one has begun.
    Late,
    /// There is no such job or GPU.
    Gone,
}

impl Doing {
    const fn of(action: &Action) -> Option<Self> {
        Some(match action {
            Action::Place { .. } => Self::Place,
            Action::Restore { .. } => Self::Restore,
            Action::Move { cause, .. } => Self::Move(*cause),
            Action::Resize { .. } => Self::Resize,
            Action::Preempt { cause, .. } => Self::Preempt(*cause),
            Action::Reclaim { .. } => Self::Reclaim,
            _ => return None,
        })
    }

    fn action(self, job: JobId, assignments: &[Assignment]) -> Action {
        let assignments = assignments.to_vec();
        match self {
            Self::Place => Action::Place { job, assignments },
            Self::Restore => Action::Restore { job, assignments },
            Self::Move(cause) => Action::Move {
                job,
                assignments,
                cause,
            },
            Self::Resize => Action::Resize { job, assignments },
            Self::Preempt(cause) => Action::Preempt { job, cause },
            Self::Reclaim => Action::Reclaim { job },
        }
    }
}

impl Underway {
    pub(super) fn new(action: &Action, attempt: Attempt, begun: Nanoseconds) -> Option<Self> {
        Some(Self {
            doing: Doing::of(action)?,
            attempt,
            begun,
            deadline: None,
            ready: false,
            before: None,
        })
    }
}

/// The job or the GPU that an action is about.
pub(super) const fn subject(action: &Action) -> Result<JobId, GpuId> {
    match action {
        Action::Place { job, .. }
        | Action::Restore { job, .. }
        | Action::Move { job, .. }
        | Action::Resize { job, .. }
        | Action::Preempt { job, .. }
        | Action::Reclaim { job } => Ok(*job),
        Action::SetMig { gpu, .. }
        | Action::CreateInstance { gpu, .. }
        | Action::DestroyInstance { gpu, .. }
        | Action::Attach { gpu, .. }
        | Action::Detach { gpu } => Err(*gpu),
    }
}

impl World {
    /// How many actions have ever begun.
    pub const fn attempts(&self) -> Attempt {
        Attempt(self.attempts)
    }

    /// The number of an action that is under way; `None`: it is not.
    pub fn attempt_of(&self, action: &Action) -> Option<Attempt> {
        match action {
            Action::Place { job, assignments }
            | Action::Restore { job, assignments }
            | Action::Move {
                job, assignments, ..
            }
            | Action::Resize { job, assignments } => {
                let state = self.job(*job)?;
                let start = state.start.as_ref()?;
                (state.assignments == *assignments).then_some(start.attempt)
            }
            Action::Preempt { job, .. } | Action::Reclaim { job } => {
                self.job(*job)?.stop().map(|stop| stop.attempt)
            }
            Action::SetMig { gpu, on } => {
                let state = self.gpu(*gpu)?;
                let switching = state.switching && state.gpu.mig_on == *on;
                switching.then_some(state.switch_attempt)
            }
            Action::CreateInstance { gpu, shape, start } => {
                let mut instances = self.instances(*gpu).iter();
                let found = instances
                    .find(|one| one.start == *start && one.shape == *shape && !one.ready)?;
                Some(found.attempt)
            }
            Action::DestroyInstance { gpu, start } => {
                let mut going = self.gpu(*gpu)?.going.iter();
                going.find(|one| one.start == *start).map(|one| one.attempt)
            }
            Action::Attach { gpu, node } => {
                let state = self.gpu(*gpu)?;
                let there = state.link == Link::Attaching && state.node == Some(*node);
                there.then_some(state.link_attempt)
            }
            Action::Detach { gpu } => {
                let state = self.gpu(*gpu)?;
                (state.link == Link::Detaching).then_some(state.link_attempt)
            }
        }
    }

    /// Whether an action has begun, and what it took is still held for it.
    pub fn is_under_way(&self, action: &Action) -> bool {
        self.attempt_of(action).is_some()
    }

    /// Whether an action that has begun can be carried out now: what it needs is there and free.
    pub fn can_start(&self, action: &Action) -> bool {
        self.is_under_way(action) && self.ready_for(action).is_ok()
    }

    /// All that is to be carried out, in the order in which it has begun: those that plans asked for, and
    /// the stops that follow where a job has lost workers.
    pub fn under_way(&self) -> Vec<Task> {
        let mut tasks = Vec::new();
        for (id, state) in self.jobs() {
            for one in state.rare.stop.iter().chain(&state.start) {
                let action = one.doing.action(id, &state.assignments);
                tasks.push(Task {
                    expected: self.expected(&action),
                    action,
                    attempt: one.attempt,
                    begun: one.begun,
                    deadline: one.deadline,
                });
            }
        }
        for (gpu, id) in self.gpus().iter().zip((0..).map(GpuId)) {
            device_tasks(id, gpu, |action, attempt| {
                tasks.push(Task {
                    expected: self.expected(&action),
                    action,
                    attempt,
                    begun: gpu.begun,
                    deadline: None,
                });
            });
        }
        tasks.sort_by_key(|task| task.attempt);
        tasks
    }

    pub(super) fn standing(&self, action: &Action, attempt: Attempt) -> Standing {
        let underway = self.attempt_of(action);
        if !attempt.is_numbered() {
            return match underway {
                Some(_) => Standing::Underway,
                None => Standing::Ahead,
            };
        }
        let last = match subject(action) {
            Ok(job) => self.job(job).map(|state| state.attempt),
            Err(gpu) => self.gpu(gpu).map(|state| state.attempt),
        };
        match last {
            None => Standing::Gone,
            _ if underway == Some(attempt) => Standing::Underway,
            Some(last) if attempt > last => Standing::Ahead,
            Some(last) if attempt == last => Standing::Over,
            Some(_) => Standing::Late,
        }
    }

    /// The number under which an action begins.
    pub(super) fn number(&mut self, action: &Action, attempt: Attempt) -> Attempt {
        let number = if attempt.is_numbered() {
            attempt
        } else {
            Attempt(self.attempts + 1)
        };
        self.attempts = self.attempts.max(number.0);
        match subject(action) {
            Ok(job) => {
                if let Some(state) = self.jobs.get_mut(job) {
                    state.attempt = number;
                }
            }
            Err(gpu) => {
                if let Some(state) = self.gpus.get_mut(gpu.index()) {
                    state.attempt = number;
                }
            }
        }
        number
    }
}

fn device_tasks(id: GpuId, gpu: &GpuState, mut task: impl FnMut(Action, Attempt)) {
    if gpu.switching {
        let on = gpu.gpu.mig_on;
        task(Action::SetMig { gpu: id, on }, gpu.switch_attempt);
    }
    match (gpu.link, gpu.node) {
        (Link::Attaching, Some(node)) => task(Action::Attach { gpu: id, node }, gpu.link_attempt),
        (Link::Detaching, _) => task(Action::Detach { gpu: id }, gpu.link_attempt),
        _ => {}
    }
    for one in &gpu.going {
        let start = one.start;
        task(Action::DestroyInstance { gpu: id, start }, one.attempt);
    }
    if let super::Tenancy::Sliced(instances) = &gpu.held {
        for one in instances.iter().filter(|one| !one.ready) {
            let (shape, start) = (one.shape, one.start);
            let gpu = id;
            task(Action::CreateInstance { gpu, shape, start }, one.attempt);
        }
    }
}

impl JobState {
    /// What is done to start, move or resize it.
    pub fn start(&self) -> Option<&Underway> {
        self.start.as_deref()
    }

    /// What is done to stop it.
    pub fn stop(&self) -> Option<&Underway> {
        self.rare.stop.as_deref()
    }
}

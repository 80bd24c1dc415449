//! Carries plans out in simulated time: each action takes its time, may fail, and tells the world by
//! events, as an executor on a real fleet would.
//!
//! An action starts once what it needs is there and free ([`World::can_start`]), and ends after its
//! delay, under the number that it began with. One that is no longer under way is dropped: the world has
//! told who counted on it. On a node that does not answer nothing ends. Stops that the world itself asks
//! for, where a job has lost workers, are carried out as those of plans.

use gpuwise_domain::placement::{
    Action, Attempt, Event, Failure, FailureCause, Home, NodeId, Plan, TimestampedEvent,
};
use gpuwise_sched::world::{NodeState, Refused, World};
use gpuwise_units::Nanoseconds;

/// What actions take. Attaching and detaching take what the pool says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// Starting a job, and starting it again elsewhere.
    pub start: Nanoseconds,
    pub stop: Nanoseconds,
    /// Creating or destroying a MIG instance.
    pub mig_instance: Nanoseconds,
    /// Switching MIG on or off.
    pub switch: Nanoseconds,
}

impl Delays {
    /// Everything is done at once.
    pub const NONE: Self = Self {
        start: Nanoseconds(0),
        stop: Nanoseconds(0),
        mig_instance: Nanoseconds(0),
        switch: Nanoseconds(0),
    };

    fn of(&self, world: &World, action: &Action) -> Nanoseconds {
        let pool = |gpu| match world.gpu(gpu).map(|state| state.gpu.home) {
            Some(Home::Pool(pool)) => world.pools().get(pool.index()),
            _ => None,
        };
        match action {
            Action::Place { .. }
            | Action::Restore { .. }
            | Action::Move { .. }
            | Action::Resize { .. } => self.start,
            Action::Preempt { .. } | Action::Reclaim { .. } => self.stop,
            Action::CreateInstance { .. } | Action::DestroyInstance { .. } => self.mig_instance,
            Action::SetMig { .. } => self.switch,
            Action::Attach { gpu, .. } => pool(*gpu).map_or(Nanoseconds(0), |pool| pool.attach),
            Action::Detach { gpu } => pool(*gpu).map_or(Nanoseconds(0), |pool| pool.detach),
        }
    }
}

/// What happened to an action.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Started(Nanoseconds, Action),
    /// It has ended, well or not; the world knows.
    Ended(Box<TimestampedEvent>),
    Dropped(Nanoseconds, Action),
}

/// Actions that were begun and are not done.
#[derive(Debug, Clone)]
pub struct Executor {
    delays: Delays,
    /// In the order in which they began.
    tasks: Vec<Task>,
    /// The last action that was heard of.
    last: Attempt,
}

#[derive(Debug, Clone)]
struct Task {
    action: Action,
    attempt: Attempt,
    /// When it ends; `None`: it has not started.
    due: Option<Nanoseconds>,
}

impl Executor {
    /// One with nothing to do.
    pub const fn new(delays: Delays) -> Self {
        Self {
            delays,
            tasks: Vec::new(),
            last: Attempt(0),
        }
    }

    /// Makes a plan the world's target and takes its actions on.
    ///
    /// # Errors
    /// When an action cannot begin in this world; then nothing has changed.
    pub fn accept(&mut self, world: &mut World, plan: &Plan) -> Result<(), Refused> {
        world.accept(plan)?;
        self.hear(world);
        Ok(())
    }

    /// Takes on what has begun since it last heard.
    fn hear(&mut self, world: &World) {
        if world.attempts() == self.last {
            return;
        }
        let last = std::mem::replace(&mut self.last, world.attempts());
        let new = world.under_way().into_iter();
        self.tasks
            .extend(new.filter(|task| task.attempt > last).map(|task| Task {
                action: task.action,
                attempt: task.attempt,
                due: None,
            }));
    }

    /// Actions that are not done.
    pub const fn left(&self) -> usize {
        self.tasks.len()
    }

    /// When the next action ends. To be asked after [`Executor::start`].
    pub fn next(&self, world: &World) -> Option<Nanoseconds> {
        let due = self
            .tasks
            .iter()
            .filter(|task| answers(world, &task.action));
        let next = due.filter_map(|task| task.due).min();
        next.map(|next| next.max(world.now()))
    }

    /// Starts what can start now, and drops what is no longer wanted.
    pub fn start(&mut self, now: Nanoseconds, world: &World, steps: &mut Vec<Step>) {
        self.hear(world);
        let delays = self.delays;
        self.tasks.retain_mut(|task| {
            if world.attempt_of(&task.action) != Some(task.attempt) {
                steps.push(Step::Dropped(now, task.action.clone()));
                return false;
            }
            let answers = answers(world, &task.action);
            if task.due.is_none() && answers && world.can_start(&task.action) {
                task.due = Some(now + delays.of(world, &task.action));
                steps.push(Step::Started(now, task.action.clone()));
            } else if let Some(due) = task.due
                && !answers
            {
                // It goes on, or is told, once the node answers again.
                task.due = Some(due.max(now));
            }
            true
        });
    }

    /// Ends what is due by now, one after the other, and starts what that makes possible. `fails` says
    /// of each whether it went wrong.
    pub fn advance(
        &mut self,
        now: Nanoseconds,
        world: &mut World,
        mut fails: impl FnMut(&Action) -> bool,
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        self.start(world.now(), world, &mut steps);
        loop {
            let due = self.tasks.iter().enumerate();
            let due = due.filter(|(_, task)| answers(world, &task.action));
            let due = due.filter_map(|(at, task)| Some((task.due?.max(world.now()), at)));
            let Some((at, index)) = due.min().filter(|(at, _)| *at <= now) else {
                return steps;
            };
            if index >= self.tasks.len() {
                return steps;
            }
            let Task {
                action, attempt, ..
            } = self.tasks.remove(index);
            let event = if fails(&action) {
                let failure = Failure {
                    cause: FailureCause::Unknown,
                    what: String::new(),
                };
                Event::Failed {
                    action,
                    attempt,
                    failure,
                }
            } else {
                Event::Done { action, attempt }
            };
            let stamped = TimestampedEvent { at, event };
            if world.apply(&stamped).is_ok() {
                steps.push(Step::Ended(Box::new(stamped)));
            }
            self.start(at, world, &mut steps);
        }
    }
}

/// Whether all nodes that an action is about answer.
fn answers(world: &World, action: &Action) -> bool {
    let answers = |node: NodeId| {
        world
            .node(node)
            .is_none_or(|node: &NodeState| !node.is_suspected())
    };
    match action {
        Action::Place { assignments, .. }
        | Action::Restore { assignments, .. }
        | Action::Move { assignments, .. }
        | Action::Resize { assignments, .. } => assignments.iter().all(|one| answers(one.node)),
        Action::Preempt { job, .. } | Action::Reclaim { job } => world
            .job(*job)
            .is_none_or(|state| state.leaving_hosts().iter().all(|node| answers(*node))),
        Action::Attach { node, .. } => answers(*node),
        Action::SetMig { gpu, .. }
        | Action::CreateInstance { gpu, .. }
        | Action::DestroyInstance { gpu, .. }
        | Action::Detach { gpu } => {
            let node = world.gpu(*gpu).and_then(|gpu| gpu.node);
            node.is_none_or(answers)
        }
    }
}

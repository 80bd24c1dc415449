//! Carries plans out in simulated time: each action takes its time, may fail, and tells the world by
//! events, as an executor on a real fleet would.
//!
//! An action starts once what it needs is there and free ([`World::can_start`]), and ends after its
//! delay. One whose subject was lost meanwhile is dropped: the world has told who counted on it.

use gpuwise_domain::placement::{Action, Event, Home, Plan, TimestampedEvent};
use gpuwise_sched::world::{Refused, World};
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
    /// In the order of the plans.
    tasks: Vec<Task>,
}

#[derive(Debug, Clone)]
struct Task {
    action: Action,
    /// When it ends; `None`: it has not started, or the world could not take its end yet.
    due: Option<Nanoseconds>,
    /// Whether its time is over, and the world waits for somebody else to be gone.
    late: bool,
}

impl Executor {
    /// One with nothing to do.
    pub const fn new(delays: Delays) -> Self {
        Self {
            delays,
            tasks: Vec::new(),
        }
    }

    /// Makes a plan the world's target and takes its actions on.
    ///
    /// # Errors
    /// When an action cannot begin in this world; then nothing has changed.
    pub fn accept(&mut self, world: &mut World, plan: &Plan) -> Result<(), Refused> {
        world.accept(plan)?;
        let tasks = plan.actions.iter().map(|action| Task {
            action: action.clone(),
            due: None,
            late: false,
        });
        self.tasks.extend(tasks);
        Ok(())
    }

    /// Actions that are not done.
    pub const fn left(&self) -> usize {
        self.tasks.len()
    }

    /// When the next action ends. To be asked after [`Executor::start`].
    pub fn next(&self) -> Option<Nanoseconds> {
        self.tasks.iter().filter_map(|task| task.due).min()
    }

    /// Starts what can start now, and drops what is no longer wanted.
    pub fn start(&mut self, now: Nanoseconds, world: &World, steps: &mut Vec<Step>) {
        let delays = self.delays;
        self.tasks.retain_mut(|task| {
            if !world.is_under_way(&task.action) {
                steps.push(Step::Dropped(now, task.action.clone()));
                return false;
            }
            if task.due.is_none() && world.can_start(&task.action) {
                if task.late {
                    task.due = Some(now);
                } else {
                    task.due = Some(now + delays.of(world, &task.action));
                    steps.push(Step::Started(now, task.action.clone()));
                }
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
            let due = due.filter_map(|(at, task)| Some((task.due?, at)));
            let Some((at, index)) = due.min().filter(|(at, _)| *at <= now) else {
                return steps;
            };
            let Some(task) = self.tasks.get_mut(index) else {
                return steps;
            };
            let action = task.action.clone();
            let event = if !task.late && fails(&action) {
                Event::Failed(action)
            } else {
                Event::Done(action)
            };
            let stamped = TimestampedEvent { at, event };
            if world.apply(&stamped).is_ok() {
                self.tasks.remove(index);
                steps.push(Step::Ended(Box::new(stamped)));
            } else {
                (task.due, task.late) = (None, true);
            }
            self.start(at, world, &mut steps);
        }
    }
}

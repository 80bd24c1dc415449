//! What a world makes of executors that are late, say things twice, fail or see something else: helpers, and laws.
//! Of nodes that do not answer, come, change and leave, and of jobs that change: [`nodes`], [`changes`].

mod attempts;
mod changes;
mod nodes;
mod pooled;

use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, Assignment, Attempt, Cause, DurationEstimate, Event, Failure, FailureCause, Fleet,
    GpuId, GpuShare, Job, JobId, NodeId, Outcome, Part, Preemption, Shortage, TimestampedEvent,
};
use gpuwise_sched::{
    decide::{Effort, Policy, QUANTUM, decide, wake_at},
    lint::{Limits, errors, lint, lint_world},
    policy::FirstFit,
    world::{Phase, Refused, World},
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

/// A world and what time it is there, in seconds.
struct Live {
    world: World,
    second: u64,
    policy: Policy,
}

impl Live {
    fn new(fleet: &Fleet) -> Self {
        Self {
            world: World::new(fleet),
            second: 0,
            policy: Policy::new(Box::new(FirstFit)),
        }
    }

    fn now(&self) -> Nanoseconds {
        Nanoseconds(self.second * SECOND)
    }

    fn try_apply(&mut self, event: Event) -> Result<(), Refused> {
        let at = self.now();
        let result = self.world.apply(&TimestampedEvent { at, event });
        assert_eq!(lint_world(&self.world), Vec::new());
        result
    }

    fn apply(&mut self, event: Event) {
        self.try_apply(event).unwrap();
    }

    fn asks(&mut self, job: Job) {
        self.apply(Event::Submitted(job));
    }

    /// Decides on all, and takes the plan on; its actions with their numbers.
    fn decides(&mut self) -> Vec<(Action, Attempt)> {
        let demand: Vec<JobId> = self.world.jobs().map(|(id, _)| id).collect();
        let now = self.now();
        let (plan, _) = decide(now, &self.world, &demand, &mut self.policy, Effort::BARE);
        let notes = lint(&self.world, &plan, Limits::NONE);
        assert_eq!(errors(&notes).count(), 0, "{notes:?}");
        let first = self.world.attempts().0;
        self.world.accept(&plan).unwrap();
        let numbers = (first + 1..).map(Attempt);
        plan.actions.into_iter().zip(numbers).collect()
    }

    fn why(&mut self, id: u32) -> Shortage {
        let now = self.now();
        let demand = [JobId(id)];
        let (_, report) = decide(now, &self.world, &demand, &mut self.policy, Effort::BARE);
        match &report.decisions[0].outcome {
            Outcome::Waits { shortage, .. } => *shortage,
            Outcome::Placed => panic!("it is placed"),
        }
    }

    fn begins(&mut self, action: Action) -> Attempt {
        self.apply(Event::begun(action));
        self.world.attempts()
    }

    fn done(&mut self, action: &Action, attempt: Attempt) {
        let action = action.clone();
        self.apply(Event::Done { action, attempt });
    }

    fn fails(&mut self, action: &Action, attempt: Attempt) {
        self.apply(failed(action, attempt));
    }

    /// Places all that wait, at once.
    fn runs(&mut self) {
        for (action, attempt) in self.decides() {
            self.done(&action, attempt);
        }
    }

    fn phase(&self, id: u32) -> Phase {
        self.world.job(JobId(id)).unwrap().phase
    }

    fn on(&self, id: u32) -> Vec<u32> {
        let seats = &self.world.job(JobId(id)).unwrap().assignments;
        seats.iter().map(|one| one.node.0).collect()
    }
}

fn failed(action: &Action, attempt: Attempt) -> Event {
    Event::Failed {
        action: action.clone(),
        attempt,
        failure: Failure {
            cause: FailureCause::Timeout,
            what: "no answer in 60 s".into(),
        },
    }
}

const fn preempt(job: u32) -> Action {
    Action::Preempt {
        job: JobId(job),
        cause: Cause::RoundEnd,
    }
}

fn place(job: u32, node: u32, gpus: &[u32]) -> Action {
    Action::Place {
        job: JobId(job),
        assignments: vec![seat(node, gpus)],
    }
}

fn seat(node: u32, gpus: &[u32]) -> Assignment {
    let whole = |gpu: &u32| GpuShare {
        gpu: GpuId(*gpu),
        part: Part::Whole,
    };
    Assignment {
        node: NodeId(node),
        gpus: gpus.iter().map(whole).collect(),
    }
}

fn stoppable(job: Job) -> Job {
    let minute = Nanoseconds(60 * SECOND);
    Job {
        preemption: Preemption::Allowed {
            checkpoint_every: minute,
            restart: minute,
        },
        ..job
    }
}

/// Outcomes of a plan that stops two and starts two in their places, in this order, and some of them again.
fn told(order: &[usize], again: &[usize]) -> World {
    let mut live = Live::new(&fleet(&[1, 1, 1]));
    for id in 0..3 {
        live.asks(stoppable(job(id, 1, 1, 1000)));
    }
    live.runs();
    for id in 3..5 {
        live.asks(stoppable(job(id, 1, 1, 1000)));
    }
    live.second = 7;
    let moves = Action::Move {
        job: JobId(2),
        assignments: vec![seat(0, &[0])],
        cause: Cause::Defragmentation,
    };
    let actions = [
        preempt(0),
        preempt(1),
        moves,
        place(3, 1, &[1]),
        place(4, 2, &[2]),
    ];
    let mut outcomes = Vec::new();
    for action in actions {
        let attempt = live.begins(action.clone());
        outcomes.push(Event::Done { action, attempt });
    }
    outcomes[1] = match outcomes[1].clone() {
        Event::Done { action, attempt } => failed(&action, attempt),
        other => other,
    };
    // Whoever was to start in the place of the one that did not stop is called off.
    for at in order.iter().chain(again) {
        if *at != 3 {
            live.apply(outcomes[*at].clone());
        }
    }
    live.world
}

proptest! {
    /// Outcomes in any order, and some of them twice, come to what they come to in order.
    #[test]
    fn in_whatever_order_outcomes_come_they_come_to_the_same(
        order in Just((0..5).collect::<Vec<usize>>()).prop_shuffle(),
        again in prop::collection::vec(0_usize..5, 0..8),
    ) {
        let clean = told(&[0, 1, 2, 3, 4], &[]);
        let world = told(&order, &again);
        prop_assert!(clean.jobs().eq(world.jobs()));
        prop_assert!(clean.gpus().iter().eq(world.gpus().iter()));
        prop_assert!(clean.nodes().iter().eq(world.nodes().iter()));
        let twice = again.iter().filter(|at| **at != 3).count() as u64;
        prop_assert_eq!(world.ignored().total(), twice);
    }

    /// Between a decision that was carried out and the moment at which time alone may change it, deciding
    /// again gives nothing.
    #[test]
    fn nothing_is_decided_before_its_time(
        asks in prop::collection::vec((1_u32..4, 1_u64..300, any::<bool>()), 1..12),
        (backfills, starves) in (any::<bool>(), any::<bool>()),
        parts in prop::collection::vec(0_u64..1000, 1..20),
    ) {
        let mut live = Live::new(&fleet(&[2, 3]));
        live.policy.limits.reservations = u32::from(backfills);
        live.policy.limits.starvation_timeout = starves.then_some(Nanoseconds(150 * SECOND));
        for ((gpus, seconds, fails), id) in asks.iter().zip(0..) {
            let duration = Some(DurationEstimate {
                expected: Nanoseconds(seconds * SECOND),
                spread: 0.0,
            });
            let submitted = live.now();
            live.asks(Job {
                duration,
                submitted,
                ..job(id, 1, *gpus, 1000)
            });
            for (action, attempt) in live.decides() {
                if *fails {
                    live.fails(&action, attempt);
                } else {
                    live.done(&action, attempt);
                }
            }
            live.second += 3;
        }
        for part in parts {
            for (action, attempt) in live.decides() {
                live.done(&action, attempt);
            }
            let now = live.now();
            let Some(wake) = wake_at(&live.world, &mut live.policy, now) else { break };
            prop_assert!(wake > now);
            live.second = wake.0.div_ceil(SECOND);
            if wake == now + QUANTUM {
                // Somebody is overdue, and what is planned around him moves with every moment.
                continue;
            }
            let between = Nanoseconds(now.0 + (wake.0 - 1 - now.0) * part / 1000);
            let demand: Vec<JobId> = live.world.jobs().map(|(id, _)| id).collect();
            let (plan, _) = decide(between, &live.world, &demand, &mut live.policy, Effort::BARE);
            prop_assert_eq!(plan.actions, Vec::new());
        }
    }
}

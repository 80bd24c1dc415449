//! Every search of a decision ends within its steps, whatever it spends them on, and the report says how many it took.
//! Of what disruptions spend there is a test beside their own.

use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, DurationEstimate, Event, Fleet, Gang, Health, Job, JobId, Kinds, NodeId, Outcome, Plan,
    Preemption, Queue, QueueId, Quota, Report, Shortage, TimestampedEvent,
};
use gpuwise_sched::{
    decide::{Effort, Policy, decide},
    disruption::{Budget, Tidy, tidy},
    fit::{self, Scope},
    policy::FirstFit,
    world::World,
};
use gpuwise_units::Nanoseconds;

const SECOND: u64 = 1_000_000_000;
const NODES: u32 = 64;

/// Jobs that may be stopped, of so many seconds; no two who wait are equal.
fn asked(id: u32, seconds: u64) -> Job {
    let mut job = Job {
        submitted: Nanoseconds(0),
        duration: Some(DurationEstimate {
            expected: Nanoseconds(seconds * SECOND),
            spread: 0.0,
        }),
        preemption: Preemption::Allowed {
            checkpoint_every: Nanoseconds(SECOND),
            restart: Nanoseconds(SECOND),
        },
        ..job(id, 1, 1, 1000)
    };
    job.worker.memory_mib += u64::from(id);
    job
}

/// A node with a GPU for each of the first jobs, which run; the others wait.
fn world(fleet: &Fleet, runs: u32, jobs: Vec<Job>) -> World {
    let mut world = World::new(fleet);
    let at = Nanoseconds(0);
    for asked in jobs {
        let (id, worker) = (asked.id, asked.worker);
        let event = Event::Submitted(asked);
        world.apply(&TimestampedEvent { at, event }).unwrap();
        if id.0 < runs {
            let found = fit::assignment(&world, NodeId(id.0), &worker, Scope::Fleet).unwrap();
            let event = Event::done(Action::Place {
                job: id,
                assignments: vec![found.assignment],
            });
            world.apply(&TimestampedEvent { at, event }).unwrap();
        }
    }
    world
}

fn decided(world: &World, mut policy: Policy, steps: u64, explains: bool) -> (Plan, Report) {
    let demand: Vec<JobId> = world.jobs().map(|(id, _)| id).collect();
    let effort = Effort { steps, explains };
    let (plan, report) = decide(world.now(), world, &demand, &mut policy, effort);
    assert!(report.steps <= effort.of_all());
    (plan, report)
}

fn policy(reservations: u32) -> Policy {
    let mut policy = Policy::new(Box::new(FirstFit));
    policy.limits.reservations = reservations;
    policy
}

fn count(report: &Report, of: impl Fn(&Outcome) -> bool) -> usize {
    let outcomes = report.decisions.iter().map(|one| &one.outcome);
    outcomes.filter(|outcome| of(outcome)).count()
}

/// With enough steps all of them, within them; with few only some, and the steps are used up.
fn holds(all: usize, few: u64, found: impl Fn(u64) -> (usize, u64)) {
    let (count, taken) = found(1_000_000);
    assert_eq!(count, all);
    assert!(taken < 16_000_000, "{taken} steps were taken");
    let (count, taken) = found(few);
    assert!(count < all, "{count} of {all} within {few}");
    // What is left is less than what the next would take.
    assert!(taken > 15 * few, "{taken} steps of {}", 16 * few);
}

#[test]
fn steps_bound_what_is_said_to_be_short() {
    let jobs = (0..NODES + 40).map(|id| asked(id, 100)).collect();
    let world = world(&fleet(&[1; NODES as usize]), NODES, jobs);
    holds(40, 2, |steps| {
        let (_, report) = decided(&world, policy(0), steps, true);
        let told = count(
            &report,
            |outcome| matches!(outcome, Outcome::Waits { shortage, .. } if *shortage != Shortage::Untold),
        );
        (told, report.steps)
    });
}

#[test]
fn steps_bound_whose_start_is_reserved() {
    let jobs = (0..NODES + 40).map(|id| asked(id, 100 + u64::from(id)));
    let world = world(&fleet(&[1; NODES as usize]), NODES, jobs.collect());
    holds(40, 4, |steps| {
        let (_, report) = decided(&world, policy(40), steps, false);
        let kept = count(&report, |outcome| {
            matches!(outcome, Outcome::Waits { start: Some(_), .. })
        });
        (kept, report.steps)
    });
}

/// One who would delay a gang whose start is reserved on every node has each of them closed, one after the other.
#[test]
fn steps_bound_the_places_that_are_tried_behind_a_reserved_gang() {
    let sizes = [2; NODES as usize];
    let mut jobs: Vec<Job> = (0..NODES).map(|id| asked(id, 100)).collect();
    let mut gang = Job {
        gang: Gang::exactly(2 * NODES),
        ..asked(NODES, 100)
    };
    gang.worker.memory_mib = 1024;
    jobs.extend([gang, asked(NODES + 1, 1000), asked(NODES + 2, 50)]);
    let world = world(&fleet(&sizes), NODES, jobs);
    let (plan, report) = decided(&world, policy(1), 1_000_000, false);
    assert!(matches!(
        plan.actions.as_slice(),
        [Action::Place { job, .. }] if *job == JobId(NODES + 2)
    ));
    let all = report.steps;
    // As many as the gang's own start takes, and a few of the closed nodes.
    let few = all / 16 - 40;
    let (_, report) = decided(&world, policy(1), few, false);
    assert_eq!(report.steps, 16 * few, "it was cut short");
    let behind = |one: &&gpuwise_domain::placement::Decision| one.job == JobId(NODES + 1);
    let found = report.decisions.iter().find(behind).unwrap();
    assert!(matches!(
        found.outcome,
        Outcome::Waits {
            shortage: Shortage::BehindHead { .. },
            ..
        }
    ));
}

#[test]
fn steps_bound_what_a_queue_takes_back() {
    let queue = |name: &str| Queue {
        name: name.into(),
        parent: None,
        quotas: vec![Quota {
            kinds: Kinds::ANY,
            nominal_milli: u64::from(NODES) * 500,
            borrowing_milli: None,
            lending_milli: None,
            cap_milli: None,
        }],
        weight_milli: 1000,
        priority: 0,
        reclaims: true,
        budget: None,
        used_milli: 0,
    };
    let fleet = Fleet {
        queues: vec![queue("a"), queue("b")],
        ..fleet(&[1; NODES as usize])
    };
    let jobs = (0..NODES + NODES / 2).map(|id| Job {
        queue: Some(QueueId(u32::from(id >= NODES))),
        ..asked(id, 100)
    });
    let world = world(&fleet, NODES, jobs.collect());
    holds(NODES as usize / 2, 5, |steps| {
        let (_, report) = decided(&world, policy(0), steps, false);
        let placed = count(&report, |outcome| *outcome == Outcome::Placed);
        (placed, report.steps)
    });
}

/// How many actions tidying up has with so many steps.
fn tidied(world: &World, what: &Tidy, steps: u64) -> usize {
    let effort = Effort {
        steps,
        explains: false,
    };
    tidy(world.now(), world, what, effort).0.actions.len()
}

#[test]
fn steps_bound_what_leaves_drained_nodes() {
    let jobs = (0..NODES).map(|id| asked(id, 10_000)).collect();
    let mut world = world(&fleet(&[2; NODES as usize]), NODES, jobs);
    let at = world.now();
    for node in (0..NODES / 2).map(NodeId) {
        let health = Health::Draining;
        let event = Event::NodeHealth { node, health };
        world.apply(&TimestampedEvent { at, event }).unwrap();
    }
    let what = Tidy {
        evacuate: true,
        ..Tidy::default()
    };
    assert_eq!(tidied(&world, &what, 1_000_000), NODES as usize / 2);
    let few = tidied(&world, &what, 5 * u64::from(NODES));
    assert!((1..NODES as usize / 2).contains(&few), "{few} were moved");
}

/// Each worker more is looked for on every node: as many grow as there are steps for.
#[test]
fn steps_bound_who_grows() {
    let elastic = |id| Job {
        gang: Gang {
            least: 1,
            preferred: 2,
            most: 2,
        },
        ..asked(id, 10_000)
    };
    let jobs = (0..NODES).map(elastic).collect();
    let world = world(&fleet(&[2; NODES as usize]), NODES, jobs);
    let what = Tidy {
        grow: true,
        ..Tidy::default()
    };
    assert_eq!(tidied(&world, &what, 1_000_000), NODES as usize);
    assert_eq!(tidied(&world, &what, 5 * u64::from(NODES)), 5);
}

/// Halves of GPUs, one on a node of its own: two of them together free one for those who ask for a whole one. Each
/// move is looked for among all who may move, on every node.
#[test]
fn steps_bound_who_moves_so_that_there_are_fewer_pieces() {
    let half = |id| {
        let mut half = asked(id, 10_000);
        half.worker = job(id, 1, 1, 500).worker;
        half
    };
    let wide = |id| asked(id, 10_000);
    let mut jobs: Vec<Job> = (0..NODES / 2).map(half).collect();
    // Who asks for whole ones is as usual as they are.
    jobs.extend((NODES / 2..NODES).map(wide));
    let world = world(&fleet(&[1; NODES as usize]), NODES, jobs);
    let what = Tidy {
        defragment: Some(Budget {
            disruptions: NODES,
            lost: Nanoseconds(1_000_000 * SECOND),
            per: Nanoseconds(1000 * SECOND),
            horizon: Nanoseconds(1000 * SECOND),
        }),
        ..Tidy::default()
    };
    let all = tidied(&world, &what, 10_000_000);
    assert_eq!(all, NODES as usize / 4);
    // As many as three rounds over all who may move and all nodes.
    let few = tidied(&world, &what, 3 * u64::from(NODES) * u64::from(NODES));
    assert!((1..=5).contains(&few), "{few} of {all} were moved");
}

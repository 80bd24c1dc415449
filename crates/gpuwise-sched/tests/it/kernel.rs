//! Deciding and applying: what is promised comes true, and nothing else.

use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Ended, Event, Health, JobId, NodeId, Outcome, Shortage, TimestampedEvent,
};
use gpuwise_sched::{
    decide::{Effort, Order, Policy, decide},
    policy::{Indexed, MostAllocated},
    world::{Refused, World},
};
use gpuwise_units::Nanoseconds;

fn policy() -> Policy {
    Policy {
        order: Order::Priority,
        ..Policy::new(Box::new(Indexed::<MostAllocated>::default()))
    }
}

fn at(second: u64, event: Event) -> TimestampedEvent {
    TimestampedEvent {
        at: Nanoseconds(second * 1_000_000_000),
        event,
    }
}

#[test]
fn a_gang_is_placed_whole_or_not_at_all() {
    let mut world = World::new(&fleet(&[4, 2]));
    for job in [job(0, 3, 2, 1000), job(1, 1, 1, 1000)] {
        world.apply(&at(0, Event::Submitted(job))).unwrap();
    }
    let (plan, report) = decide(
        Nanoseconds(0),
        &world,
        &[JobId(0), JobId(1)],
        &mut policy(),
        Effort::ORDINARY,
    );
    assert_eq!(
        plan.actions.len(),
        1,
        "three workers take all; nothing is left for one more"
    );
    assert_eq!(report.decisions[0].outcome, Outcome::Placed);
    assert!(matches!(
        report.decisions[1].outcome,
        Outcome::Waits {
            shortage: Shortage::Gpus {
                needed: 1,
                best: 0,
                ..
            },
            ..
        }
    ));
    world.accept(&plan).unwrap();
    assert_eq!(world.figures().allocated_milli, 6000);
    assert_eq!(
        world.accept(&plan),
        Err(Refused::Past),
        "a plan is the target's child or nothing"
    );
    world
        .apply(&at(1, Event::done(plan.actions[0].clone())))
        .unwrap();
    let end = Event::Ended {
        job: JobId(0),
        how: Ended::Finished,
    };
    world.apply(&at(2, end)).unwrap();
    assert_eq!(world.figures().allocated_milli, 0);
}

#[test]
fn what_a_lost_node_ran_waits_again() {
    let mut world = World::new(&fleet(&[2, 2]));
    world
        .apply(&at(0, Event::Submitted(job(0, 2, 2, 1000))))
        .unwrap();
    let (plan, _) = decide(
        Nanoseconds(0),
        &world,
        &[JobId(0)],
        &mut policy(),
        Effort::BARE,
    );
    world.accept(&plan).unwrap();
    let lost = Event::NodeHealth {
        node: NodeId(1),
        health: Health::Lost { xid: 79 },
    };
    world.apply(&at(1, lost)).unwrap();
    // What ran there may still run.
    let state = world.job(JobId(0)).unwrap();
    assert!(state.phase.holds_gpus() && world.node(NodeId(1)).unwrap().is_suspected());
    let (node, by) = (NodeId(1), "power switch".to_owned());
    world.apply(&at(2, Event::NodeFenced { node, by })).unwrap();
    let state = world.job(JobId(0)).unwrap();
    assert!(state.phase.waits() && state.assignments.is_empty() && state.stops == 1);
    assert_eq!(world.figures().allocated_milli, 0);
    assert_eq!(world.figures().capacity_milli, 2000);
}

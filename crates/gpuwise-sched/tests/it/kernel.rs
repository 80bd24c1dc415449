//! Deciding and applying: what is promised comes true, and nothing else.

use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, Ended, Event, GpuKind, Health, JobId, KindId, NodeId, Outcome, Preference, Shortage,
    TimestampedEvent,
};
use gpuwise_sched::{
    decide::{Effort, Order, Policy, decide},
    policy::{Indexed, MostAllocated, Preferring},
    world::{Refused, World},
};
use gpuwise_units::{HourlyPrice, Nanoseconds};

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

/// A decision may be made on another thread than the one before it.
#[test]
fn policies_can_be_sent_to_another_thread() {
    const fn sends<T: Send>() {}
    const { sends::<Policy>() };
    const { sends::<Box<dyn gpuwise_sched::policy::NodeSelector>>() };
}

/// Two kinds; the second costs twice as much, and is three times as fast for who says so.
#[test]
fn a_job_goes_to_the_kind_that_is_best_for_it() {
    let mut fleet = fleet(&[2, 2]);
    let dear = GpuKind {
        name: "B".into(),
        price: HourlyPrice::usd("4").ok(),
        tflops: Some(300),
        ..fleet.kinds[0].clone()
    };
    fleet.kinds[0].price = HourlyPrice::usd("2").ok();
    fleet.kinds.push(dear);
    for gpu in &mut fleet.gpus[2..] {
        gpu.kind = KindId(1);
    }
    let quick = vec![(KindId(0), 1000), (KindId(1), 3000)];
    for (by, speeds, expected) in [
        (Preference::Cheapest, Vec::new(), [0, 0, 1]),
        (Preference::Cheapest, quick.clone(), [1, 1, 0]),
        // Nothing is said of speeds: the first kind has the higher peak.
        (Preference::Fastest, Vec::new(), [0, 0, 1]),
        (Preference::Fastest, quick, [1, 1, 0]),
    ] {
        let mut world = World::new(&fleet);
        let demand: Vec<JobId> = (0..3).map(JobId).collect();
        for id in 0..3 {
            let mut one = job(id, 1, 1, 1000);
            one.speeds.clone_from(&speeds);
            world.apply(&at(0, Event::Submitted(one))).unwrap();
        }
        let inner = Box::new(Indexed::<MostAllocated>::default());
        let mut policy = Policy::new(Box::new(Preferring::new(by, inner)));
        let (plan, _) = decide(Nanoseconds(0), &world, &demand, &mut policy, Effort::BARE);
        let nodes: Vec<u32> = (plan.actions.iter())
            .filter_map(|action| match action {
                Action::Place { assignments, .. } => Some(assignments[0].node.0),
                _ => None,
            })
            .collect();
        assert_eq!(nodes, expected, "{by:?}");
    }
}

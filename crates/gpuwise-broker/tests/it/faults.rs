//! Late, repeated, reordered and lost answers, and random lives: nothing is lost, doubled or made.

use crate::support::{Desk, asked, preemptible};
use gpuwise_broker::{Broker, LeaseState, Observation, OrderId};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Step {
    Ask {
        tenant: bool,
        gpus: u32,
        hours: Option<u64>,
        spot: bool,
        priority: i32,
    },
    Release(prop::sample::Index),
    /// An order of those under way, or of long ago, is answered: well or not.
    Answer {
        order: prop::sample::Index,
        well: bool,
    },
    Exit {
        lease: prop::sample::Index,
        order: prop::sample::Index,
        code: Option<i32>,
    },
    Pass(u64),
    Decide,
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        3 => (any::<bool>(), 1..9_u32, prop::option::of(1..5_u64), any::<bool>(), 0..3)
            .prop_map(|(tenant, gpus, hours, spot, priority)| Step::Ask { tenant, gpus, hours, spot, priority }),
        1 => index().prop_map(Step::Release),
        6 => (index(), prop::bool::weighted(0.8)).prop_map(|(order, well)| Step::Answer { order, well }),
        1 => (index(), index(), prop::option::of(0..3)).prop_map(|(lease, order, code)| Step::Exit { lease, order, code }),
        2 => (1..4000_u64).prop_map(Step::Pass),
        4 => Just(Step::Decide),
    ]
}

fn play(desk: &mut Desk, step: &Step, orders: &mut Vec<OrderId>) {
    match step {
        Step::Ask {
            tenant,
            gpus,
            hours,
            spot,
            priority,
        } => {
            let tenant = if *tenant { "a" } else { "b" };
            let mut asked = asked(tenant, *gpus, *hours);
            asked.job.priority = *priority;
            if *spot {
                asked = preemptible(asked);
            }
            // Some are beyond the budget.
            let _ = desk.request(asked);
        }
        Step::Release(index) => {
            let count = desk.broker.leases().count();
            if count > 0 {
                let number = 1 + index.index(count) as u32;
                if let Ok(events) = desk.broker.release(number, "released") {
                    desk.happen(events);
                }
            }
        }
        Step::Answer { order, well } if !orders.is_empty() => {
            let id = orders[order.index(orders.len())];
            let seen = if *well {
                Observation::Done(id)
            } else {
                Observation::failed(id, "failed".into())
            };
            desk.observe(&seen);
        }
        Step::Exit { lease, order, code } if !orders.is_empty() => {
            let count = desk.broker.leases().count();
            if count > 0 {
                desk.observe(&Observation::Exited {
                    job: gpuwise_domain::placement::JobId(1 + lease.index(count) as u32),
                    order: orders[order.index(orders.len())],
                    code: *code,
                    reason: "ended".into(),
                    ago: None,
                });
            }
        }
        Step::Answer { .. } | Step::Exit { .. } => {}
        Step::Pass(seconds) => desk.pass(*seconds),
        Step::Decide => desk.decide(),
    }
    orders.extend(desk.broker.orders().map(|order| order.id));
    orders.sort_unstable();
    orders.dedup();
}

/// No GPU is had by two leases at a time.
fn held_once(broker: &Broker) {
    let mut holders: BTreeMap<_, u32> = BTreeMap::new();
    for grant in broker.grants().so_far(gpuwise_units::Nanoseconds(u64::MAX)) {
        let before = holders.insert(grant.gpu, grant.lease);
        assert!(
            before.is_none(),
            "{:?} is had by {before:?} and {}",
            grant.gpu,
            grant.lease
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_comes_the_log_makes_the_same_state(steps in prop::collection::vec(step(), 1..120)) {
        let mut desk = Desk::new(2);
        desk.tenant("a", Some("500"));
        desk.tenant("b", None);
        let mut orders = Vec::new();
        for step in &steps {
            play(&mut desk, step, &mut orders);
            held_once(&desk.broker);
        }
        let mut again = Broker::begin(&desk.log[0]).expect("begins");
        for event in &desk.log[1..] {
            again.apply(event).expect("applies");
        }
        prop_assert_eq!(&again, &desk.broker);
        // Who is left alone comes to an end: everything that can be done is done.
        for number in 1..=desk.broker.leases().count() as u32 {
            if let Ok(events) = desk.broker.release(number, "released") {
                desk.happen(events);
            }
        }
        desk.settle();
        for lease in desk.broker.leases() {
            let state = desk.broker.state(lease).0;
            prop_assert!(matches!(state, LeaseState::Ended | LeaseState::Failed), "{:?} {:?}", lease, state);
        }
        prop_assert_eq!(desk.broker.grants().so_far(gpuwise_units::Nanoseconds(u64::MAX)).count(), 0);
    }
}

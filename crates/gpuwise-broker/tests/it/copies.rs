//! What is kept beside the state, or tried out in a copy, against the whole.

use crate::support::{Desk, asked, preemptible};
use gpuwise_broker::{Broker, LeaseState, Observation};
use gpuwise_sched::{
    decide::Policy,
    disruption::{Budget, Disruptions, Tidy},
    policy::{FirstFit, PolicyContext, named, names},
    rounds::Rounds,
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

fn policy() -> Policy {
    Policy {
        order: gpuwise_sched::decide::Order::Priority,
        disruptions: Disruptions::USUAL,
        ..Policy::new(Box::new(FirstFit))
    }
}

/// One thing that happens: which, and two numbers that say to whom.
fn step(desk: &mut Desk, (what, a, b): (u8, u32, u32)) {
    let tenant = ["vision", "batch"][a as usize % 2];
    match what {
        0 | 1 => {
            let mut ask = asked(
                tenant,
                b % 9 + 1,
                (a % 3 > 0).then_some(u64::from(a % 5 + 1)),
            );
            ask.job.priority = i32::try_from(b % 3).expect("small");
            if b.is_multiple_of(2) {
                ask = preemptible(ask);
            }
            let _ = desk.request(ask);
        }
        2 => {
            let open: Vec<u32> = desk.broker.open().map(|lease| lease.number).collect();
            if let Some(number) = open.get(a as usize % open.len().max(1)) {
                desk.release(*number);
            }
        }
        3 => desk.pass(u64::from(a % 7200)),
        4 => {
            let orders: Vec<_> = desk.broker.orders().collect();
            for order in orders.into_iter().take(b as usize % 4) {
                desk.observe(&if a.is_multiple_of(5) {
                    let reason = "it failed".into();
                    Observation::failed(order.id, reason)
                } else {
                    Observation::Done(order.id)
                });
            }
        }
        _ => desk.decide(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn who_waits_is_who_is_found_to_wait(
        steps in prop::collection::vec((0_u8..6, 0_u32..1000, 0_u32..1000), 1..60)
    ) {
        let mut desk = Desk::new(2);
        desk.tenant("vision", Some("400"));
        desk.tenant("batch", None);
        for one in steps {
            step(&mut desk, one);
            let (kept, found) = desk.broker.waiting_by_search();
            prop_assert_eq!(kept, found);
        }
    }

    #[test]
    fn a_dry_run_says_what_then_happens(
        steps in prop::collection::vec((0_u8..6, 0_u32..1000, 0_u32..1000), 1..40),
        gpus in 1_u32..9,
        urgent in any::<bool>(),
    ) {
        let mut desk = Desk::new(2);
        desk.tenant("vision", Some("400"));
        desk.tenant("batch", None);
        for one in steps {
            step(&mut desk, one);
        }
        let ask = || {
            let mut ask = asked("vision", gpus, Some(2));
            ask.job.priority = i32::from(urgent) * 9;
            ask
        };
        let before = desk.broker.clone();
        let told = desk.broker.dry_run(desk.now, ask(), &mut policy());
        prop_assert_eq!(&desk.broker, &before, "nothing is changed");
        match (told, desk.request(ask())) {
            (Ok(told), Ok(number)) => {
                desk.decide();
                prop_assert_eq!(told.state, desk.state(number));
                let lease = desk.broker.lease(number).expect("is there");
                prop_assert_eq!(&told.lease.place, &lease.place);
                if told.state == LeaseState::Requested {
                    prop_assert!(!told.waits.reason.is_empty());
                }
            }
            (Err(told), Err(refused)) => prop_assert_eq!(told.to_string(), refused.to_string()),
            (told, asked) => prop_assert!(false, "{told:?} {asked:?}"),
        }
    }
}

/// Everything that policies learn from, and all that is tidied up.
fn learning(name: &str) -> Policy {
    let budget = Budget {
        disruptions: 3,
        lost: Nanoseconds(3600 * 1_000_000_000),
        per: Nanoseconds(3600 * 1_000_000_000),
        horizon: Nanoseconds(86_400 * 1_000_000_000),
    };
    let length = Nanoseconds(3600 * 1_000_000_000);
    Policy {
        disruptions: Disruptions::USUAL,
        rounds: Some(Rounds { length }),
        upkeep: Some(Tidy {
            evacuate: true,
            detach_after: None,
            grow: true,
            defragment: Some(budget),
        }),
        ..Policy::new(named(name, &PolicyContext::default()).expect("is a policy"))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    /// A daemon that is stopped and started from its snapshot logs what one that ran on logs.
    #[test]
    fn a_start_from_a_snapshot_decides_as_one_that_ran_on(
        steps in prop::collection::vec((0_u8..6, 0_u32..1000, 0_u32..1000), 40..80),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(steps.len());
        for name in names() {
            let run = |restarts: bool| {
                let mut desk = Desk::deciding(4, learning(name));
                desk.tenant("vision", None);
                desk.tenant("batch", None);
                for (one, at) in steps.iter().zip(0..) {
                    step(&mut desk, *one);
                    if restarts && at == cut {
                        let image = desk.broker.image().expect("an image");
                        desk.broker = Broker::of_image(&image).expect("a state");
                        desk.policy = learning(name);
                    }
                    desk.decide();
                }
                desk.log
            };
            prop_assert_eq!(run(false), run(true), "{}", name);
        }
    }
}

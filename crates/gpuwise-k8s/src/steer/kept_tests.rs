//! What begins where the last look's world began alike is what is made from nothing.

use super::{
    holders::truly,
    tests::{node, pod, seen},
    world::Cluster,
    *,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    /// A pod runs since a moment.
    Runs {
        node: u8,
        gpus: u32,
        since: u64,
    },
    /// A pod is on its way.
    Sent {
        node: u8,
    },
    Waits {
        gpus: u32,
    },
    Gone {
        at: usize,
    },
    Changed {
        at: usize,
        cpu: u64,
        priority: i32,
    },
    Closed {
        node: u8,
    },
    Quota {
        gpus: u64,
    },
}

const NODES: u8 = 5;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        8 => (0..NODES, 0..4_u32, 1..40_u64)
            .prop_map(|(node, gpus, since)| Step::Runs { node, gpus, since }),
        2 => (0..NODES).prop_map(|node| Step::Sent { node }),
        2 => (1..9_u32).prop_map(|gpus| Step::Waits { gpus }),
        3 => any::<usize>().prop_map(|at| Step::Gone { at }),
        2 => (any::<usize>(), 0..9_u64, 0..3)
            .prop_map(|(at, cpu, priority)| Step::Changed { at, cpu: cpu * 1000, priority }),
        1 => (0..NODES).prop_map(|node| Step::Closed { node }),
        1 => (1..9_u64).prop_map(|gpus| Step::Quota { gpus }),
    ];
    prop::collection::vec(one, 1..40)
}

fn taken(seen: &mut Seen, number: usize, step: &Step) {
    let name = format!("p{number:02}");
    let at = |at: &usize, seen: &Seen| (!seen.pods.is_empty()).then(|| at % seen.pods.len());
    match step {
        Step::Runs { node, gpus, since } => {
            let mut one = pod(&name, *gpus);
            one.place = Place::Bound(format!("n{node}"));
            one.standing.started = Some(Nanoseconds(since * 1_000_000_000));
            // Nobody holds no GPU.
            one.ask = one.ask.filter(|_| *gpus > 0);
            seen.pods.push(Arc::new(one));
        }
        Step::Sent { node } => {
            let mut one = pod(&name, 1);
            one.place = Place::Sent(format!("n{node}"));
            seen.pods.push(Arc::new(one));
        }
        Step::Waits { gpus } => seen.pods.push(Arc::new(pod(&name, *gpus))),
        Step::Gone { at: which } => {
            if let Some(at) = at(which, seen) {
                seen.pods.remove(at);
            }
        }
        Step::Changed {
            at: which,
            cpu,
            priority,
        } => {
            if let Some(at) = at(which, seen) {
                let one = Arc::make_mut(&mut seen.pods[at]);
                (one.cpu_milli, one.priority) = (*cpu, *priority);
                one.version = number.to_string();
            }
        }
        Step::Closed { node } => {
            let one = Arc::make_mut(&mut seen.nodes[usize::from(*node)]);
            one.open = !one.open;
        }
        Step::Quota { gpus } => {
            seen.quotas = vec![Quota {
                name: "q".into(),
                namespaces: vec!["team".into()],
                gpus: *gpus,
                borrowing: None,
                lending: None,
                weight: 1,
            }];
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_world_that_was_kept_is_the_world_that_is_made(steps in steps()) {
        let nodes = (0..NODES).map(|at| node(&format!("n{at}"), 4, &[])).collect();
        let mut seen = seen(nodes, Vec::new());
        let (mut kept, mut worlds) = (Kept::default(), Kept::default());
        for (number, step) in steps.iter().enumerate() {
            taken(&mut seen, number, step);
            let now = Nanoseconds(30_000_000_000 + number as u64);
            let after = Cluster::after(&mut worlds, &seen, truly(&seen), now);
            let made = Cluster::new(&seen, truly(&seen), now);
            prop_assert_eq!(&after.world, &made.world);
            prop_assert_eq!(&after.held, &made.held);
            prop_assert_eq!(&after.troubles, &made.troubles);
            let decided = decide_after(&mut kept, &seen, now).expect("it is decided");
            let anew = decide(&seen, now).expect("it is decided");
            prop_assert_eq!(format!("{decided:?}"), format!("{anew:?}"));
        }
    }
}

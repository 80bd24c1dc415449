//! Our own policy: what its value is made of, and that nothing which fits is left waiting.

use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, Assignment, Event, Fleet, GpuAsk, GpuKind, Isolation, Job, JobId, KindId, Kinds, Need,
    NodeId, Part, TimestampedEvent, WorkerAsk,
};
use gpuwise_sched::{
    fit::{self, Scope},
    policy::{ForecastPacking, NodeSelector, Search},
    world::World,
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

fn ask(cpu: u64, gpu: GpuAsk) -> WorkerAsk {
    WorkerAsk {
        cpu_milli: cpu,
        memory_mib: 1024,
        gpu,
    }
}

fn whole(count: u32, kinds: Kinds) -> GpuAsk {
    GpuAsk::Whole {
        count,
        kinds,
        need: Need::default(),
    }
}

fn part(milli: u32) -> GpuAsk {
    GpuAsk::Fraction {
        milli,
        memory_mib: None,
        isolation: Isolation::TimeSlice,
        kinds: Kinds::ANY,
    }
}

/// Puts a worker where it is told.
fn put(world: &mut World, id: u32, worker: WorkerAsk, assignment: Assignment) {
    let job = Job {
        worker,
        ..job(id, 1, 1, 1000)
    };
    let at = Nanoseconds(u64::from(id));
    let event = |event| TimestampedEvent { at, event };
    world.apply(&event(Event::Submitted(job))).unwrap();
    let action = Action::Place {
        job: JobId(id),
        assignments: vec![assignment],
    };
    world.apply(&event(Event::begun(action.clone()))).unwrap();
    world.apply(&event(Event::done(action))).unwrap();
}

fn chosen(policy: &mut ForecastPacking, world: &World, ask: &WorkerAsk) -> Option<Assignment> {
    let choice = policy.select(world, ask, Search::EVERYWHERE)?;
    Some(choice.candidate.assignment)
}

/// Two nodes with four GPUs each; processor time and kind of the second.
fn two_nodes(second_cpu: u64, second_kind: u32) -> Fleet {
    let mut fleet = fleet(&[4, 4]);
    fleet.nodes[0].cpu_milli = 32_000;
    fleet.nodes[1].cpu_milli = second_cpu;
    let other = GpuKind {
        name: "B".into(),
        ..fleet.kinds[0].clone()
    };
    fleet.kinds.push(other);
    for gpu in &mut fleet.gpus[4..] {
        gpu.kind = KindId(second_kind);
    }
    fleet
}

#[test]
fn processor_time_is_taken_where_gpus_do_not_need_it() {
    // At eight cores a GPU the first node has just enough, the second eight that none of its GPUs needs.
    let mut fleet = two_nodes(40_000, 0);
    fleet.nodes[0].cpu_milli = 32_000;
    let world = World::new(&fleet);
    let usual = vec![(ask(8000, whole(1, Kinds::ANY)), 10)];
    let mut policy = ForecastPacking::new(usual, vec![0, 1]);
    let assignment = chosen(&mut policy, &world, &ask(8000, GpuAsk::None)).unwrap();
    assert_eq!(assignment.node, NodeId(1));
}

#[test]
fn fractions_go_to_their_complement() {
    let mut world = World::new(&fleet(&[1, 1, 1]));
    for (id, milli) in [(0, 300), (1, 450)] {
        let assignment = fit::assignment(&world, NodeId(id), &ask(100, part(milli)), Scope::Fleet);
        put(
            &mut world,
            id,
            ask(100, part(milli)),
            assignment.unwrap().assignment,
        );
    }
    let usual = vec![(ask(100, part(700)), 10), (ask(100, part(550)), 10)];
    for (milli, node) in [(700, 0), (550, 1)] {
        let mut policy = ForecastPacking::new(usual.clone(), vec![2, 1, 0]);
        let assignment = chosen(&mut policy, &world, &ask(100, part(milli))).unwrap();
        assert_eq!(assignment.node, NodeId(node), "{milli}");
    }
}

#[test]
fn idle_nodes_are_kept_for_those_who_need_all_of_one() {
    let mut world = World::new(&fleet(&[4, 4]));
    let one = ask(1000, whole(1, Kinds::ANY));
    let assignment = fit::assignment(&world, NodeId(1), &one, Scope::Fleet).unwrap();
    put(&mut world, 0, one, assignment.assignment);
    let usual = vec![(one, 10), (ask(4000, whole(4, Kinds::ANY)), 5)];
    let mut policy = ForecastPacking::new(usual, vec![0, 1]);
    assert_eq!(
        chosen(&mut policy, &world, &one).unwrap().node,
        NodeId(1),
        "the other is idle, and half of the GPUs that are asked for must come by four"
    );
}

#[test]
fn a_kind_that_some_are_bound_to_is_left_to_them() {
    let world = World::new(&two_nodes(32_000, 1));
    let bound = ask(1000, whole(1, Kinds::one(KindId(0))));
    let free = ask(1000, whole(1, Kinds::ANY));
    // Half of all are bound to the first kind, which is half of the fleet: a place there is missed as
    // likely as not.
    let usual = vec![(bound, 10), (free, 10)];
    let mut policy = ForecastPacking::new(usual, vec![0, 1]);
    assert_eq!(chosen(&mut policy, &world, &free).unwrap().node, NodeId(1));
    assert_eq!(chosen(&mut policy, &world, &bound).unwrap().node, NodeId(0));
}

#[test]
fn without_being_told_it_goes_by_what_was_asked_for() {
    let mut world = World::new(&fleet(&[1, 1, 1]));
    for (id, milli) in [(0, 300), (1, 450)] {
        let assignment = fit::assignment(&world, NodeId(id), &ask(100, part(milli)), Scope::Fleet);
        put(
            &mut world,
            id,
            ask(100, part(milli)),
            assignment.unwrap().assignment,
        );
    }
    for id in 2..82 {
        let worker = ask(100, part(if id % 2 == 0 { 700 } else { 550 }));
        let job = Job {
            worker,
            ..job(id, 1, 1, 1000)
        };
        let at = world.now();
        let event = Event::Submitted(job);
        world.apply(&TimestampedEvent { at, event }).unwrap();
    }
    let mut policy = ForecastPacking::new(Vec::new(), vec![2, 1, 0]);
    for (milli, node) in [(700, 0), (550, 1)] {
        let assignment = chosen(&mut policy, &world, &ask(100, part(milli))).unwrap();
        assert_eq!(assignment.node, NodeId(node), "{milli}");
    }
}

#[test]
fn which_gpu_of_a_node_has_how_much_does_not_matter() {
    let worlds = [[300, 600], [600, 300]].map(|milli| {
        let mut world = World::new(&fleet(&[2, 2]));
        for (id, milli) in (0..).zip(milli) {
            let worker = ask(100, part(milli));
            let mut assignment = fit::assignment(&world, NodeId(0), &worker, Scope::Fleet).unwrap();
            assignment.assignment.gpus[0].gpu = world.node(NodeId(0)).unwrap().gpus[id as usize];
            put(&mut world, id, worker, assignment.assignment);
        }
        world
    });
    let usual: Vec<_> = [400, 700, 300, 1000]
        .map(|milli| {
            (
                ask(
                    100,
                    if milli < 1000 {
                        part(milli)
                    } else {
                        whole(1, Kinds::ANY)
                    },
                ),
                3,
            )
        })
        .to_vec();
    for (worker, _) in &usual {
        let [a, b] = [&worlds[0], &worlds[1]].map(|world| {
            let mut policy = ForecastPacking::new(usual.clone(), Vec::new());
            let assignment = chosen(&mut policy, world, worker).unwrap();
            (
                assignment.node,
                world.gpu(assignment.gpus[0].gpu).unwrap().milli_free(),
            )
        });
        assert_eq!(a, b);
    }
}

prop_compose! {
    fn asks()(
        cpu in 0_u64..20_000,
        count in 1_u32..5,
        milli in prop::sample::select(vec![0_u32, 110, 190, 320, 470, 530, 650, 810, 1000]),
    ) -> WorkerAsk {
        let gpu = match milli {
            0 => GpuAsk::None,
            1000 => whole(count, Kinds::ANY),
            milli => part(milli),
        };
        ask(cpu, gpu)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What fits is placed where it fits; one that has followed everything and one that has just begun
    /// choose alike; nothing on a node that may not be looked at is chosen.
    #[test]
    fn what_fits_is_placed(
        sizes in prop::collection::vec(1_u32..9, 1..7),
        workers in prop::collection::vec(asks(), 1..60),
        closed in 0_u32..7,
    ) {
        let mut world = World::new(&fleet(&sizes));
        let usual: Vec<_> = workers.iter().map(|worker| (*worker, 1)).collect();
        let mut follows = ForecastPacking::new(usual.clone(), Vec::new());
        let without = [NodeId(closed)];
        for (worker, id) in workers.iter().zip(0..) {
            let open = closed as usize >= sizes.len();
            let search = if open { Search::EVERYWHERE } else { Search { without: &without, ..Search::EVERYWHERE } };
            let mut fresh = ForecastPacking::new(usual.clone(), Vec::new());
            let choice = follows.select(&world, worker, search);
            prop_assert_eq!(&choice, &fresh.select(&world, worker, search));
            let room = (0..sizes.len() as u32).map(NodeId).filter(|node| *node != NodeId(closed));
            let room = room.filter(|node| fit::assignment(&world, *node, worker, Scope::Fleet).is_some());
            prop_assert_eq!(choice.as_ref().map_or(0, |choice| choice.candidates as usize), room.count());
            if let Some(choice) = choice {
                let assignment = choice.candidate.assignment;
                prop_assert_ne!(assignment.node, NodeId(closed));
                let milli: u32 = assignment.gpus.iter().map(|share| match share.part {
                    Part::Whole => 1000,
                    Part::Fraction { milli, .. } => milli,
                    Part::Slice { .. } => 0,
                }).sum();
                prop_assert_eq!(u64::from(milli), worker.gpu.milli());
                // The world refuses what does not fit.
                put(&mut world, id, *worker, assignment);
            }
        }
    }
}

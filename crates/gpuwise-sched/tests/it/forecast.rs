//! Our own policy: what its value is made of, and that nothing which fits is left waiting.

use crate::support::{asking, fleet, job};
use gpuwise_domain::placement::{
    Action, Assignment, Event, Fleet, GpuAsk, GpuKind, Isolation, Job, JobId, KindId, Kinds, Need,
    NodeId, Part, TimestampedEvent, WorkerAsk,
};
use gpuwise_sched::{
    fit::{self, Scope},
    policy::{ForecastPacking, NodeSelector, Search},
    world::World,
};
use gpuwise_units::{Nanoseconds, RandomStream};
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
    let choice = policy.select(world, &asking(ask), Search::EVERYWHERE)?;
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

/// A room, and what of an hour of arrivals it takes, one by one.
struct Naive {
    cpu: u64,
    memory: u64,
    free: Vec<u32>,
}

impl Naive {
    fn takes(&mut self, ask: &WorkerAsk) -> bool {
        let (count, milli) = match ask.gpu {
            GpuAsk::Whole { count, .. } => (count as usize, 1000),
            GpuAsk::Fraction { milli, .. } => (1, milli),
            _ => return false,
        };
        let mut fits: Vec<usize> = (0..self.free.len()).collect();
        fits.retain(|at| self.free[*at] >= milli);
        fits.sort_by_key(|at| self.free[*at]);
        if fits.len() < count || ask.cpu_milli > self.cpu || ask.memory_mib > self.memory {
            return false;
        }
        fits[..count].iter().for_each(|at| self.free[*at] -= milli);
        self.cpu -= ask.cpu_milli;
        self.memory -= ask.memory_mib;
        true
    }

    fn copy(&self) -> Self {
        Self {
            free: self.free.clone(),
            ..*self
        }
    }

    /// Worth in millionths of a GPU under arrivals that are drawn as the policy draws them, of those that
    /// an idle node holds.
    fn worth(&self, usual: &[(WorkerAsk, u64)], idle: &Self) -> i64 {
        let held = |(ask, _): &&(WorkerAsk, u64)| idle.copy().takes(ask);
        let steps: Vec<_> = usual.iter().filter(held).collect();
        if steps.is_empty() {
            return 0;
        }
        let total: u64 = steps.iter().map(|(_, count)| count).sum();
        let mut sum = 0;
        for row in 0..16 {
            let mut stream = RandomStream::new(0, "imagined arrivals", row);
            let mut strata: Vec<u64> = (0..120).collect();
            for last in (1..120).rev() {
                strata.swap(last, stream.below(last as u64 + 1) as usize);
            }
            let (mut room, mut weight) = (self.copy(), 65_536_u64);
            for stratum in strata {
                let at = (stratum as f64 + stream.uniform()) / 120.0 * total as f64;
                let mut until = 0;
                let found = steps.iter().find(|(_, count)| {
                    until += count;
                    at < until as f64
                });
                let (ask, _) = found.or(steps.last()).unwrap();
                if room.takes(ask) {
                    sum += weight * ask.gpu.milli();
                } else {
                    weight = weight * 64_553 / 65_536;
                }
            }
        }
        (sum * 1000 / (16 * 65_536)).cast_signed()
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

    /// A worker costs what imagined arrivals would have taken of the room that it takes.
    #[test]
    fn the_worth_of_room_is_what_arrivals_take_of_it(
        gpus in 1_u32..9,
        cpu in 1000_u64..90_000,
        parts in prop::collection::vec((0_usize..8, 100_u32..1001), 0..6),
        usual in prop::collection::vec((asks(), 1_u64..9), 1..12),
        asked in 1_u32..4,
    ) {
        let mut fleet = fleet(&[gpus]);
        fleet.nodes[0].cpu_milli = cpu;
        let mut world = World::new(&fleet);
        let mut room = Naive { cpu, memory: fleet.nodes[0].memory_mib, free: vec![1000; gpus as usize] };
        let idle = room.copy();
        for ((gpu, milli), id) in parts.into_iter().zip(0..) {
            let worker = ask(100, part(milli.min(999)));
            let gpu = world.node(NodeId(0)).unwrap().gpus[gpu % gpus as usize];
            let Some(mut found) = fit::assignment(&world, NodeId(0), &worker, Scope::Fleet) else {
                continue;
            };
            if world.gpu(gpu).unwrap().milli_free() < milli.min(999) {
                continue;
            }
            found.assignment.gpus[0].gpu = gpu;
            put(&mut world, id, worker, found.assignment);
            room.free[gpu.index()] -= milli.min(999);
            (room.cpu, room.memory) = (room.cpu - 100, room.memory - 1024);
        }
        let worker = ask(700, whole(asked, Kinds::ANY));
        let mut policy = ForecastPacking::new(usual.clone(), Vec::new());
        let choice = policy.select(&world, &asking(&worker), Search::EVERYWHERE);
        let before = room.worth(&usual, &idle);
        prop_assert_eq!(choice.is_some(), room.takes(&worker));
        if let Some(choice) = choice {
            prop_assert_eq!(choice.weighed[0].1, before - room.worth(&usual, &idle));
        }
    }

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
            let choice = follows.select(&world, &asking(worker), search);
            prop_assert_eq!(&choice, &fresh.select(&world, &asking(worker), search));
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

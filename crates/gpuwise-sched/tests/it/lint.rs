//! The linter: each rule has a plan that breaks it; and it agrees with the world on what can be done.

use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, Assignment, Cause, Domain, DomainId, Event, Fleet, FleetGpu, Gang, GpuAsk, GpuId,
    GpuShare, Health, Home, IslandId, Isolation, JobId, Kinds, Level, MigGeometry, MigShape,
    NodeId, Part, Plan, PoolId, Preemption, Queue, QueueId, Quota, Reservation, SliceAsk, Spread,
    TimestampedEvent, TopologyWish,
};
use gpuwise_sched::{
    lint::{Limits, Note, Rule, Severity, lint, lint_world},
    world::World,
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

/// Seven compute and eight memory slices: 1g, 3g, 4g, and a 1g with media engines.
fn geometry() -> MigGeometry {
    let shape = |profile: &str, compute, size, starts, most, media| MigShape {
        profile: profile.into(),
        memory_mib: Some(u32::from(size) * 10_000),
        units: Some(u32::from(compute) * 16),
        compute,
        size,
        starts,
        most,
        media,
    };
    MigGeometry {
        compute_slices: 7,
        memory_slices: 8,
        shapes: vec![
            shape("1g", 1, 1, 0x7f, 7, false),
            shape("3g", 3, 4, 0x11, 2, false),
            shape("4g", 4, 4, 0x01, 1, false),
            shape("1g+me", 1, 1, 0x7f, 1, true),
        ],
    }
}

/// Nodes of 4, 4 and 2 GPUs in racks 0, 0 and 1; GPU 9 is cut; a pool with GPU 10, which node 0 can
/// have. Islands of two GPUs each. A queue in a queue.
fn estate() -> Fleet {
    let mut fleet = fleet(&[4, 4, 2]);
    fleet.kinds[0].mig = Some(geometry());
    for (at, gpu) in fleet.gpus.iter_mut().enumerate() {
        gpu.island = Some(IslandId(at as u32 / 2));
    }
    fleet.islands = (0..5).map(|n| format!("i{n}")).collect();
    fleet.gpus[9].mig_on = true;
    fleet.gpus.push(FleetGpu {
        home: Home::Pool(PoolId(0)),
        index: 0,
        ..fleet.gpus[0].clone()
    });
    fleet.pools.push(gpuwise_domain::placement::FabricPool {
        name: "p".into(),
        attach: Nanoseconds(1),
        detach: Nanoseconds(1),
        hot_plug: true,
    });
    fleet.nodes[0].pools.push(PoolId(0));
    fleet.nodes[0].slots = 1;
    for name in ["r0", "r1"] {
        fleet.domains.push(Domain {
            name: name.into(),
            level: Level::Rack,
            parent: None,
        });
    }
    for (node, rack) in [(0, 0), (1, 0), (2, 1)] {
        fleet.nodes[node].domain = Some(DomainId(rack));
    }
    let quota = |nominal_milli, borrowing_milli, cap_milli| Quota {
        kinds: Kinds::ANY,
        nominal_milli,
        borrowing_milli,
        lending_milli: None,
        cap_milli,
    };
    let queue = |name: &str, parent, quota| Queue {
        name: name.into(),
        parent,
        quotas: vec![quota],
        weight_milli: 1000,
        priority: 0,
        reclaims: false,
        budget: None,
        used_milli: 0,
    };
    fleet.queues = vec![
        queue("all", None, quota(8000, None, Some(5000))),
        queue("team", Some(QueueId(0)), quota(2000, Some(2000), None)),
    ];
    fleet
}

/// Job 0 runs on both GPUs 0 and 1 and may not be stopped; job 1 has half of GPU 2 and may; the
/// others wait.
fn world() -> World {
    world_of(&estate())
}

fn world_of(fleet: &Fleet) -> World {
    let mut world = World::new(fleet);
    let mut jobs: Vec<_> = (0..8).map(|id| job(id, 1, 1, 1000)).collect();
    jobs[0] = job(0, 1, 2, 1000);
    jobs[1] = job(1, 1, 1, 500);
    jobs[1].preemption = Preemption::Allowed {
        checkpoint_every: seconds(600),
        restart: seconds(60),
    };
    jobs[3] = job(3, 1, 1, 500);
    jobs[4].worker.gpu = GpuAsk::Slice {
        slice: SliceAsk {
            compute: 1,
            ..SliceAsk::default()
        },
        kinds: Kinds::ANY,
    };
    jobs[5].gang = Gang::exactly(2);
    jobs[5].topology = Some(TopologyWish {
        within: Level::Island,
        required: true,
        penalty_milli: 0,
    });
    jobs[6].gang = Gang::exactly(2);
    jobs[6].spread = Some(Spread {
        over: Level::Rack,
        most: 1,
    });
    jobs[7].queue = Some(QueueId(1));
    jobs[7].gang = Gang::exactly(5);
    jobs[2].priority = -1;
    for job in jobs {
        apply(&mut world, Event::Submitted(job));
    }
    apply(
        &mut world,
        Event::done(place(0, &[(0, &[whole(0), whole(1)])])),
    );
    apply(&mut world, Event::done(place(1, &[(0, &[half(2)])])));
    world
}

fn apply(world: &mut World, event: Event) {
    let at = world.now();
    world.apply(&TimestampedEvent { at, event }).unwrap();
}

const fn seconds(count: u64) -> Nanoseconds {
    Nanoseconds(count * 1_000_000_000)
}

fn whole(gpu: u32) -> GpuShare {
    GpuShare {
        gpu: GpuId(gpu),
        part: Part::Whole,
    }
}

fn half(gpu: u32) -> GpuShare {
    fraction(gpu, 500, Isolation::TimeSlice)
}

fn fraction(gpu: u32, milli: u32, isolation: Isolation) -> GpuShare {
    GpuShare {
        gpu: GpuId(gpu),
        part: Part::Fraction {
            milli,
            memory_mib: 0,
            isolation,
        },
    }
}

fn slice(gpu: u32, shape: u8, start: u8) -> GpuShare {
    GpuShare {
        gpu: GpuId(gpu),
        part: Part::Slice { shape, start },
    }
}

fn assignments(on: &[(u32, &[GpuShare])]) -> Vec<Assignment> {
    let assignment = |(node, gpus): &(u32, &[GpuShare])| Assignment {
        node: NodeId(*node),
        gpus: gpus.to_vec(),
    };
    on.iter().map(assignment).collect()
}

fn place(job: u32, on: &[(u32, &[GpuShare])]) -> Action {
    Action::Place {
        job: JobId(job),
        assignments: assignments(on),
    }
}

fn cut(gpu: u32, shape: u8, start: u8) -> Action {
    Action::CreateInstance {
        gpu: GpuId(gpu),
        shape,
        start,
    }
}

fn preempt(job: u32, other: u32) -> Action {
    Action::Preempt {
        job: JobId(job),
        cause: Cause::For(JobId(other)),
    }
}

fn notes(world: &World, actions: Vec<Action>) -> Vec<Note> {
    let plan = Plan {
        number: world.target() + 1,
        parent: world.target(),
        made: world.now(),
        actions,
    };
    lint(world, &plan, Limits::NONE)
}

/// Which rules these actions break, each with its action, in the order in which it is found.
fn check(actions: Vec<Action>, expect: &[(u32, Rule)]) {
    let found = notes(&world(), actions);
    let broken: Vec<(u32, Rule)> = found
        .iter()
        .map(|note| (note.action.unwrap_or(99), note.rule))
        .collect();
    assert_eq!(broken, expect, "{found:#?}");
}

#[test]
fn a_worker_needs_room_of_its_own() {
    check(vec![place(2, &[(1, &[whole(4)])])], &[]);
    check(vec![place(2, &[(0, &[whole(0)])])], &[(0, Rule::Exclusive)]);
    check(vec![place(2, &[(0, &[whole(2)])])], &[(0, Rule::Exclusive)]);
    check(vec![place(2, &[(1, &[whole(3)])])], &[(0, Rule::Health)]);
    check(vec![place(2, &[(7, &[whole(4)])])], &[(0, Rule::Unknown)]);
    check(vec![place(2, &[(1, &[whole(77)])])], &[(0, Rule::Unknown)]);
    check(vec![place(9, &[(1, &[whole(4)])])], &[(0, Rule::Unknown)]);
    check(vec![place(0, &[(1, &[whole(4)])])], &[(0, Rule::Phase)]);
    check(vec![place(2, &[(2, &[whole(9)])])], &[(0, Rule::Exclusive)]);
    let twice = place(2, &[(1, &[whole(4)])]);
    check(vec![twice.clone(), twice], &[(1, Rule::Phase)]);
    let two = [place(2, &[(1, &[whole(4)])]), place(3, &[(1, &[half(4)])])];
    check(two.to_vec(), &[(1, Rule::Exclusive)]);
}

#[test]
fn a_seat_has_what_is_asked() {
    check(vec![place(2, &[(1, &[])])], &[(0, Rule::Ask)]);
    check(vec![place(2, &[(1, &[half(4)])])], &[(0, Rule::Ask)]);
    check(vec![place(3, &[(0, &[half(2)])])], &[]);
    let mps = fraction(2, 500, Isolation::Mps);
    let broken = [(0, Rule::Ask), (0, Rule::Exclusive)];
    check(vec![place(3, &[(0, &[mps])])], &broken);
    let much = fraction(2, 501, Isolation::TimeSlice);
    check(vec![place(3, &[(0, &[much])])], &[(0, Rule::Exclusive)]);
    let little = fraction(2, 499, Isolation::TimeSlice);
    check(vec![place(3, &[(0, &[little])])], &[(0, Rule::Ask)]);
    let one = place(5, &[(1, &[whole(4)])]);
    check(vec![one], &[(0, Rule::Gang)]);
}

#[test]
fn workers_are_as_near_and_as_far_as_they_must_be() {
    let gang = |job, a, b| vec![place(job, &[(1, &[whole(a)]), (1, &[whole(b)])])];
    check(gang(5, 4, 5), &[]);
    check(gang(5, 5, 6), &[(0, Rule::Topology)]);
    check(gang(6, 4, 5), &[(0, Rule::Spread)]);
    let apart = place(6, &[(1, &[whole(4)]), (2, &[whole(8)])]);
    check(vec![apart], &[]);
    // Nodes 0 and 1 are in one rack.
    let rack = place(6, &[(0, &[whole(3)]), (1, &[whole(4)])]);
    check(vec![rack], &[(0, Rule::Spread)]);
}

#[test]
fn a_board_is_cut_only_as_it_can_be() {
    let placed = place(4, &[(2, &[slice(9, 0, 4)])]);
    check(vec![cut(9, 1, 0), cut(9, 0, 4), placed.clone()], &[]);
    check(vec![cut(9, 1, 0), placed.clone()], &[(1, Rule::Exclusive)]);
    check(vec![cut(9, 0, 0), cut(9, 1, 0)], &[(1, Rule::Geometry)]);
    check(vec![cut(9, 1, 1)], &[(0, Rule::Geometry)]);
    check(vec![cut(9, 0, 7)], &[(0, Rule::Geometry)]);
    check(vec![cut(9, 2, 0), cut(9, 1, 4)], &[]);
    let media = vec![cut(9, 3, 0), cut(9, 3, 1)];
    check(media, &[(1, Rule::Geometry)]);
    check(vec![cut(4, 0, 0)], &[(0, Rule::Geometry)]);
    let merge = Action::DestroyInstance {
        gpu: GpuId(9),
        start: 4,
    };
    let held = vec![cut(9, 0, 4), placed, merge.clone()];
    check(held, &[(2, Rule::Geometry)]);
    check(
        vec![cut(9, 0, 4), merge.clone(), merge],
        &[(2, Rule::Geometry)],
    );
    let mig = |gpu, on| Action::SetMig {
        gpu: GpuId(gpu),
        on,
    };
    check(vec![mig(4, true), cut(4, 1, 4), mig(9, false)], &[]);
    check(vec![mig(0, true)], &[(0, Rule::Geometry)]);
    check(vec![mig(9, true)], &[(0, Rule::Phase)]);
}

#[test]
fn pooled_gpus_have_hosts_and_slots() {
    let attach = |gpu, node| Action::Attach {
        gpu: GpuId(gpu),
        node: NodeId(node),
    };
    let detach = Action::Detach { gpu: GpuId(10) };
    let on_it = place(2, &[(0, &[whole(10)])]);
    check(vec![attach(10, 0), on_it.clone()], &[]);
    check(vec![on_it.clone()], &[(0, Rule::Health)]);
    check(vec![attach(10, 1)], &[(0, Rule::Fabric), (0, Rule::Fabric)]);
    check(vec![attach(4, 0)], &[(0, Rule::Fabric), (0, Rule::Fabric)]);
    check(vec![detach], &[(0, Rule::Fabric)]);
    let twice = [(1, Rule::Fabric), (1, Rule::Fabric)];
    check(vec![attach(10, 0), attach(10, 0)], &twice);
}

#[test]
fn only_who_may_be_stopped_is_and_for_a_reason() {
    let after = place(2, &[(1, &[whole(4)])]);
    let broken = [(0, Rule::Disruption)];
    check(vec![preempt(0, 3), place(3, &[(1, &[half(4)])])], &broken);
    check(vec![preempt(1, 3), place(3, &[(0, &[half(2)])])], &[]);
    check(vec![preempt(1, 3)], &broken);
    // Job 2 has a lower priority than job 1.
    check(vec![preempt(1, 2), after], &broken);
    check(
        vec![preempt(3, 2)],
        &[(0, Rule::Phase), (0, Rule::Disruption)],
    );
    let world = world();
    let plan = Plan {
        number: 7,
        parent: 5,
        made: world.now(),
        actions: vec![preempt(1, 3), place(3, &[(0, &[half(2)])])],
    };
    let limits = Limits {
        disrupted: Some(0),
        lost: Some(seconds(359)),
    };
    let rules: Vec<Rule> = lint(&world, &plan, limits).iter().map(|n| n.rule).collect();
    // Half of ten minutes and a minute are lost.
    assert_eq!(
        rules,
        [
            Rule::Parent,
            Rule::Parent,
            Rule::Disruption,
            Rule::Disruption
        ]
    );
}

#[test]
fn queues_and_reservations_are_kept() {
    let five: Vec<Vec<GpuShare>> = (3..8).map(|gpu| vec![whole(gpu)]).collect();
    let on: Vec<(u32, &[GpuShare])> = five
        .iter()
        .zip([0, 1, 1, 1, 1])
        .map(|(gpus, node)| (node, gpus.as_slice()))
        .collect();
    // The team may have 2 and borrow 2.
    check(vec![place(7, &on)], &[(0, Rule::Quota)]);
    let mut fleet = estate();
    fleet.queues[1].quotas[0].borrowing_milli = None;
    assert_eq!(notes(&world_of(&fleet), vec![place(7, &on)]), []);
    fleet.reservations.push(Reservation {
        name: "r".into(),
        queue: QueueId(1),
        node: NodeId(1),
        gpus: 4,
        from: Nanoseconds(0),
        until: seconds(10),
    });
    let world = world_of(&fleet);
    assert_eq!(notes(&world, vec![place(7, &on)]), []);
    let found = notes(&world, vec![place(2, &[(1, &[whole(4)])])]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].rule, Rule::Reservation);
}

#[test]
fn what_is_closed_takes_nothing() {
    let mut world = world();
    let health = Health::Draining;
    apply(
        &mut world,
        Event::NodeHealth {
            node: NodeId(1),
            health,
        },
    );
    let found = notes(&world, vec![place(2, &[(1, &[whole(4)])])]);
    assert_eq!(
        found.iter().map(|n| n.rule).collect::<Vec<_>>(),
        [Rule::Health]
    );
    assert_eq!(lint_world(&world), []);
}

fn any_share() -> impl Strategy<Value = GpuShare> {
    prop_oneof![
        (0_u32..12).prop_map(whole),
        (0_u32..12, 1_u32..3).prop_map(|(gpu, n)| fraction(gpu, 500 * n, Isolation::TimeSlice)),
        (0_u32..12, 0_u8..5, 0_u8..9).prop_map(|(gpu, shape, start)| slice(gpu, shape, start)),
        (0_u8..5, 0_u8..9).prop_map(|(shape, start)| slice(9, shape, start)),
    ]
}

fn any_action() -> impl Strategy<Value = Action> {
    let assignment =
        (0_u32..4, prop::collection::vec(any_share(), 0..3)).prop_map(|(node, gpus)| Assignment {
            node: NodeId(node),
            gpus,
        });
    let assignments = prop::collection::vec(assignment, 1..3).boxed();
    let gpu = || (0_u32..12).prop_map(GpuId);
    let job = || (0_u32..9).prop_map(JobId);
    let cause = Cause::Defragmentation;
    prop_oneof![
        4 => (job(), assignments.clone()).prop_map(|(job, assignments)| Action::Place { job, assignments }),
        1 => job().prop_map(move |job| Action::Preempt { job, cause }),
        1 => (job(), assignments.clone()).prop_map(move |(job, assignments)| Action::Move { job, assignments, cause }),
        1 => (job(), assignments.clone()).prop_map(|(job, assignments)| Action::Resize { job, assignments }),
        1 => (job(), assignments).prop_map(|(job, assignments)| Action::Restore { job, assignments }),
        1 => job().prop_map(|job| Action::Reclaim { job }),
        1 => (gpu(), any::<bool>()).prop_map(|(gpu, on)| Action::SetMig { gpu, on }),
        3 => (0_u8..5, 0_u8..9).prop_map(|(shape, start)| cut(9, shape, start)),
        1 => (gpu(), 0_u8..5, 0_u8..9).prop_map(|(gpu, shape, start)| Action::CreateInstance { gpu, shape, start }),
        1 => (0_u8..9).prop_map(|start| Action::DestroyInstance { gpu: GpuId(9), start }),
        1 => (0_u32..4).prop_map(|node| Action::Attach { gpu: GpuId(10), node: NodeId(node) }),
        1 => gpu().prop_map(|gpu| Action::Detach { gpu }),
    ]
}

/// Whether a note is about what a world refuses, too.
fn refused(note: &Note) -> bool {
    note.severity == Severity::Error
        && matches!(
            note.rule,
            Rule::Unknown
                | Rule::Phase
                | Rule::Capacity
                | Rule::Exclusive
                | Rule::Health
                | Rule::Geometry
                | Rule::Fabric
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// The first action that the linter says cannot be done is the first that the world refuses; and
    /// after each that it did not refuse the world holds together, but for gangs of the wrong size.
    #[test]
    fn linter_and_world_agree(actions in prop::collection::vec(any_action(), 1..12)) {
        let mut world = world();
        let found = notes(&world, actions.clone());
        let said = found.iter().find(|note| refused(note)).and_then(|note| note.action);
        let mut first = None;
        for (at, action) in actions.iter().enumerate() {
            let begun = TimestampedEvent { at: world.now(), event: Event::begun(action.clone()) };
            if world.apply(&begun).is_err() {
                first = Some(at as u32);
                break;
            }
            apply(&mut world, Event::done(action.clone()));
            let wrong: Vec<Note> = lint_world(&world).into_iter().filter(|n| n.rule != Rule::Gang).collect();
            prop_assert!(wrong.is_empty(), "{action:?}: {wrong:#?}");
        }
        prop_assert_eq!(said, first, "{:#?}", found);
    }
}

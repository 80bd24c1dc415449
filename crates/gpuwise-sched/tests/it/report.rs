//! What is short, and fixes that are true.

use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, Cause, Domain, DomainId, DurationEstimate, Ended, Event, Fix, Fleet, Gang, GpuAsk,
    IslandId, Job, JobId, Kinds, Level, Outcome, Plan, Preemption, Remedy, Shortage,
    TimestampedEvent, TopologyWish,
};
use gpuwise_sched::{
    decide::{Effort, Order, Policy, decide, shortage},
    policy::{Indexed, MostAllocated},
    report::{
        additions, deepen, fixes, fleet_figures, most_placed, node_like, returnable,
        shortage_words, span, typical,
    },
    world::World,
};
use gpuwise_units::{HourlyPrice, Nanoseconds};
use proptest::prelude::*;

fn policy() -> Policy {
    Policy {
        order: Order::Priority,
        ..Policy::new(Box::new(Indexed::<MostAllocated>::default()))
    }
}

const fn minutes(count: u64) -> Nanoseconds {
    Nanoseconds(count * 60_000_000_000)
}

fn apply(world: &mut World, event: Event) {
    let at = world.now();
    world.apply(&TimestampedEvent { at, event }).unwrap();
}

/// Puts jobs into a fleet one after another, each where the policy wants it.
fn run(fleet: &Fleet, jobs: &[Job]) -> World {
    let mut world = World::new(fleet);
    for job in jobs {
        apply(&mut world, Event::Submitted(job.clone()));
        let (plan, _) = decide(world.now(), &world, &[job.id], &mut policy(), Effort::BARE);
        finish(&mut world, &plan);
    }
    world
}

fn finish(world: &mut World, plan: &Plan) {
    for action in &plan.actions {
        apply(world, Event::done(action.clone()));
    }
}

fn stoppable(mut job: Job, checkpoint: u64, restart: u64) -> Job {
    job.preemption = Preemption::Allowed {
        checkpoint_every: minutes(checkpoint),
        restart: minutes(restart),
    };
    job
}

fn lasting(mut job: Job, expected: u64) -> Job {
    job.duration = Some(DurationEstimate {
        expected: minutes(expected),
        spread: 0.0,
    });
    job
}

fn found(world: &World, job: u32) -> Vec<Fix> {
    fixes(world, JobId(job), &mut policy(), Effort::ORDINARY)
}

fn words(world: &World, job: u32) -> String {
    let job = &world.job(JobId(job)).unwrap().job;
    shortage_words(world, job, &shortage(world, job))
}

/// What is said of a job that is asked for last in a fleet of nodes with so many GPUs.
fn check(gpus: &[u32], jobs: &[Job], said: &str) {
    let world = run(&fleet(gpus), jobs);
    let last = jobs.last().unwrap().id.0;
    assert!(world.job(JobId(last)).unwrap().phase.waits());
    assert_eq!(words(&world, last), said);
}

#[test]
fn shortages_have_numbers() {
    let whole = |id, gpus| job(id, 1, gpus, 1000);
    check(
        &[4, 2],
        &[whole(0, 2), whole(1, 3), whole(2, 2)],
        "needs 2 GPUs on one node; the best, n0, has 1 free",
    );
    check(
        &[2],
        &[job(0, 1, 1, 700), job(1, 1, 1, 810), job(2, 1, 1, 400)],
        "needs 40 % of a GPU; the best has 30 % free",
    );
    check(
        &[4, 4],
        &[job(0, 3, 4, 1000)],
        "larger than the fleet: 3 workers are needed and 2 have room, were it empty",
    );
    check(
        &[2],
        &[whole(0, 3)],
        "larger than the fleet: one worker fits no node, were it empty; a worker wants 3 GPUs and the \
         largest node has 2: more workers, each with fewer, may fit",
    );
    let mut hungry = job(0, 1, 1, 1000);
    hungry.worker.cpu_milli = 15_500;
    check(
        &[2],
        &[hungry.clone(), whole(1, 1), {
            hungry.id = JobId(2);
            hungry
        }],
        "needs 1 GPU on one node; the best has 0 free",
    );
    let mut other = whole(0, 1);
    other.worker.gpu = GpuAsk::Whole {
        count: 1,
        kinds: Kinds::NONE,
        need: gpuwise_domain::placement::Need::default(),
    };
    check(
        &[2],
        &[other],
        "the fleet has no GPU of a kind that it accepts",
    );
}

#[test]
fn processor_time_that_is_short_beside_free_gpus_is_said() {
    let mut hungry = job(0, 1, 1, 1000);
    hungry.worker.cpu_milli = 15_500;
    let world = run(
        &fleet(&[2]),
        &[hungry, job(1, 2, 1, 1000), {
            let mut job = job(2, 1, 1, 1000);
            job.worker.cpu_milli = 2000;
            job
        }],
    );
    // The first left one and a half cores; of the gang of two none has a place.
    assert_eq!(
        words(&world, 2),
        "needs 2 cores beside its GPUs; the best, n0, has 1.5 free"
    );
}

#[test]
fn the_best_domain_is_named() {
    let mut fleet = fleet(&[4, 4]);
    for (at, gpu) in fleet.gpus.iter_mut().enumerate() {
        gpu.island = Some(IslandId(at as u32 / 4));
    }
    fleet.islands = vec!["left".into(), "right".into()];
    let mut wish = job(2, 4, 1, 1000);
    wish.topology = Some(TopologyWish {
        within: Level::Island,
        required: true,
        penalty_milli: 250,
    });
    let wish = lasting(wish, 60);
    let first = stoppable(lasting(job(0, 1, 1, 1000), 30), 24, 3);
    let second = lasting(job(1, 1, 2, 1000), 10);
    let world = run(
        &fleet,
        &[
            first,
            {
                // On the other node: the first leaves too little room for it beside.
                let mut second = second;
                second.worker.gpu = GpuAsk::Whole {
                    count: 4,
                    kinds: Kinds::ANY,
                    need: gpuwise_domain::placement::Need::default(),
                };
                second
            },
            wish,
        ],
    );
    assert_eq!(
        words(&world, 2),
        "needs 4 GPUs in one NVLink domain; the best, left, has room for 3"
    );
    let found = found(&world, 2);
    let said: Vec<(&str, u64, u64)> = found
        .iter()
        .map(|fix| {
            (
                fix.what.as_str(),
                fix.lost.0 / 60_000_000_000,
                fix.cost.0 / 60_000_000_000,
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            // Half of 24 minutes and 3 of a restart on one GPU.
            ("preempt job 0; 15 min of GPU time lost", 15, 15),
            // Four GPUs wait ten minutes.
            ("wait 10 min, until job 1 is expected to end", 0, 40),
            // A third more time for four GPUs that run an hour.
            ("run with 3 workers instead of 4", 0, 80),
            ("add 1 node like n0 (4xA)", 0, 240),
        ]
    );
}

#[test]
fn what_is_bought_has_its_price() {
    let mut fleet = fleet(&[2]);
    fleet.kinds[0].price = Some(HourlyPrice::usd("2.50").unwrap());
    let world = run(&fleet, &[job(0, 1, 2, 1000), job(1, 3, 1, 1000)]);
    let found = found(&world, 1);
    let buy = found
        .iter()
        .find(|fix| matches!(fix.remedy, Remedy::Buy { .. }))
        .unwrap();
    assert_eq!(buy.what, "add 2 nodes like n0 (2xA)");
    assert_eq!(buy.price, Some(HourlyPrice::usd("10").unwrap().0));
}

#[test]
fn a_move_that_makes_room_is_cheaper_than_a_stop_where_it_is_enough() {
    // Half a GPU each on two nodes; a whole GPU is wanted.
    let fleet = fleet(&[1, 1]);
    let mut jobs = vec![job(0, 1, 1, 500), job(1, 1, 1, 600), job(2, 1, 1, 1000)];
    jobs[0] = stoppable(jobs[0].clone(), 10, 1);
    jobs[1].worker.gpu = match jobs[1].worker.gpu {
        GpuAsk::Fraction {
            isolation, kinds, ..
        } => GpuAsk::Fraction {
            milli: 500,
            memory_mib: None,
            isolation,
            kinds,
        },
        other => other,
    };
    let mut world = World::new(&fleet);
    for job in &jobs {
        apply(&mut world, Event::Submitted(job.clone()));
    }
    for (job, node) in [(0, 0), (1, 1)] {
        let ask = world.job(JobId(job)).unwrap().job.worker;
        let node = gpuwise_domain::placement::NodeId(node);
        let found =
            gpuwise_sched::fit::assignment(&world, node, &ask, gpuwise_sched::fit::Scope::Fleet);
        let place = Action::Place {
            job: JobId(job),
            assignments: vec![found.unwrap().assignment],
        };
        apply(&mut world, Event::done(place));
    }
    let first = &found(&world, 2)[0];
    assert_eq!(first.remedy, Remedy::Move(vec![JobId(0)]));
    assert_eq!(
        first.lost,
        minutes(3),
        "half a GPU loses half of six minutes"
    );
}

#[test]
fn those_who_ask_for_the_same_are_told_the_same() {
    let jobs: Vec<Job> = (0..6).map(|id| job(id, 1, 2, 1000)).collect();
    let mut world = World::new(&fleet(&[4]));
    for job in &jobs {
        apply(&mut world, Event::Submitted(job.clone()));
    }
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    let (plan, mut report) = decide(world.now(), &world, &ids, &mut policy(), Effort::BARE);
    finish(&mut world, &plan);
    deepen(&world, &mut report, &mut policy(), Effort::ORDINARY, 1);
    let waits: Vec<(Shortage, usize)> = report
        .decisions
        .iter()
        .filter_map(|decision| match &decision.outcome {
            Outcome::Waits {
                shortage, fixes, ..
            } => Some((*shortage, fixes.len())),
            Outcome::Placed => None,
        })
        .collect();
    assert_eq!(waits.len(), 4);
    assert!(waits.iter().all(|(short, _)| *short == waits[0].0));
    assert!(
        waits[0].1 > 0 && waits[1].1 == 0,
        "one gets fixes, as was asked"
    );
}

#[test]
fn what_is_stranded_has_its_cause() {
    // Two GPUs: one job of a third of a GPU has all the processor time of its node.
    let mut hungry = job(0, 1, 1, 300);
    hungry.worker.cpu_milli = 9000;
    let world = run(
        &fleet(&[1, 1]),
        &[hungry, job(1, 1, 1, 900), job(2, 1, 1, 500)],
    );
    let figures = fleet_figures(&world, &typical(&world, 1000));
    assert_eq!(figures.free_milli, 700 + 100);
    // Each of three asks, a third of the weight: 700 have no processor time for any that fits them,
    // the ask of 900 finds too little on both.
    assert_eq!(figures.stranded.cpu, 2 * 700 / 3);
    assert_eq!(figures.stranded.remnant, (100 + 800 + 100) / 3);
    assert_eq!(figures.basic.allocated_milli, 1200);
}

#[test]
fn spans_are_said_in_two_units() {
    let said = |seconds: u64| span(Nanoseconds(seconds * 1_000_000_000));
    let table = [
        (0, "0 s"),
        (59, "59 s"),
        (90, "1 min 30 s"),
        (720, "12 min"),
        (3600, "1 h"),
    ];
    for (seconds, expect) in table {
        assert_eq!(said(seconds), expect);
    }
    assert_eq!(said(12_000), "3 h 20 min");
    assert_eq!(said(187_200), "2 d 4 h");
}

/// Takes a fix as an operator would, by events alone.
fn operate(world: &mut World, id: JobId, remedy: &Remedy) {
    match remedy {
        Remedy::Preempt(jobs) | Remedy::Move(jobs) => {
            for job in jobs {
                let (job, cause) = (*job, Cause::For(id));
                apply(world, Event::done(Action::Preempt { job, cause }));
            }
        }
        Remedy::Wait(jobs) => {
            for job in jobs {
                let (job, how) = (*job, Ended::Finished);
                apply(world, Event::Ended { job, how });
            }
        }
        Remedy::Buy { like, nodes } => {
            for _ in 0..*nodes {
                let name = format!("bought {}", world.nodes().len());
                let (node, gpus) = node_like(world, *like, &name).unwrap();
                apply(world, Event::NodeJoined { node, gpus });
            }
        }
        Remedy::Repair(node) => {
            let (node, health) = (*node, gpuwise_domain::placement::Health::Up);
            apply(world, Event::NodeHealth { node, health });
        }
        Remedy::Shrink { .. } | Remedy::Relax { .. } => {
            let mut job = world.job(id).unwrap().job.to_job();
            match remedy {
                Remedy::Shrink { workers } => job.gang = Gang::exactly(*workers),
                Remedy::Relax { within } => {
                    job.topology = job
                        .topology
                        .and_then(|wish| within.map(|within| TopologyWish { within, ..wish }));
                }
                _ => {}
            }
            let how = Ended::Cancelled;
            apply(world, Event::Ended { job: id, how });
            apply(world, Event::Submitted(job));
        }
        Remedy::Accept(_) | Remedy::Repartition(_) | Remedy::Raise { .. } => {
            panic!("not in these fleets: {remedy:?}")
        }
    }
}

fn any_job() -> impl Strategy<Value = Job> {
    let shape = (
        1_u32..4,
        1_u32..3,
        prop_oneof![Just(1000_u32), 100_u32..1000],
    );
    let times = (0_u64..40, 1_u64..90, -1_i32..2, any::<bool>(), 0_u8..4);
    (shape, times).prop_map(
        |((workers, gpus, milli), (every, lasts, priority, may, near))| {
            let (workers, gpus) = if milli < 1000 {
                (1, 1)
            } else {
                (workers, gpus)
            };
            let mut job = lasting(job(0, workers, gpus, milli), lasts);
            if may {
                job = stoppable(job, every, 1);
            }
            job.priority = priority;
            let within = [Level::Node, Level::Rack].get(usize::from(near)).copied();
            job.topology = within.map(|within| TopologyWish {
                within,
                required: true,
                penalty_milli: 100,
            });
            job
        },
    )
}

fn any_world() -> impl Strategy<Value = (World, Vec<JobId>)> {
    let nodes = prop::collection::vec(1_u32..5, 1..4);
    (nodes, prop::collection::vec(any_job(), 3..9)).prop_map(|(nodes, mut jobs)| {
        let mut fleet = fleet(&nodes);
        for (at, node) in fleet.nodes.iter_mut().enumerate() {
            node.domain = Some(DomainId(at as u32 / 2));
        }
        fleet.domains = ["r0", "r1"]
            .map(|name| Domain {
                name: name.into(),
                level: Level::Rack,
                parent: None,
            })
            .to_vec();
        for (job, id) in jobs.iter_mut().zip(0..) {
            (job.id, job.name) = (JobId(id), format!("j{id}"));
        }
        let world = run(&fleet, &jobs);
        let waits = world.jobs().filter(|(_, state)| state.phase.waits());
        let waits = waits.map(|(id, _)| id).collect();
        (world, waits)
    })
}

fn placed(world: &mut World, id: JobId) -> bool {
    let (plan, _) = decide(world.now(), world, &[id], &mut policy(), Effort::BARE);
    finish(world, &plan);
    !plan.actions.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whoever takes a fix sees the job placed, and those that it moves placed again.
    #[test]
    fn cures_are_true((world, waits) in any_world()) {
        for id in waits {
            for fix in fixes(&world, id, &mut policy(), Effort::ORDINARY) {
                let mut after = world.clone();
                operate(&mut after, id, &fix.remedy);
                prop_assert!(placed(&mut after, id), "{fix:#?}");
                if let Remedy::Move(moved) = &fix.remedy {
                    for moved in moved {
                        prop_assert!(placed(&mut after, *moved), "{fix:#?}");
                    }
                }
            }
        }
    }

    /// No set of jobs that may be preempted loses less than the one that is named, or there is none.
    #[test]
    fn no_victims_lose_less((world, waits) in any_world()) {
        for id in waits {
            let priority = world.job(id).unwrap().job.priority;
            let victims: Vec<(JobId, u64)> = world
                .jobs()
                .filter(|(_, state)| state.phase.holds_gpus() && state.job.priority <= priority)
                .filter_map(|(id, state)| match state.job.preemption {
                    Preemption::Never => None,
                    Preemption::Allowed { checkpoint_every, restart } => {
                        let each = u128::from(checkpoint_every.0 / 2 + restart.0);
                        let milli = state.job.worker.gpu.milli() * state.assignments.len() as u64;
                        Some((id, (each * u128::from(milli) / 1000) as u64))
                    }
                })
                .collect();
            let mut least: Option<u64> = None;
            for set in 1_u32..1 << victims.len() {
                let gone: Vec<(JobId, u64)> = (0..victims.len())
                    .filter(|at| set >> at & 1 == 1)
                    .map(|at| victims[at])
                    .collect();
                let lost: u64 = gone.iter().map(|(_, lost)| lost).sum();
                if least.is_some_and(|least| least <= lost) {
                    continue;
                }
                let mut after = world.clone();
                operate(&mut after, id, &Remedy::Preempt(gone.iter().map(|(id, _)| *id).collect()));
                if placed(&mut after, id) {
                    least = Some(lost);
                }
            }
            let found = fixes(&world, id, &mut policy(), Effort::ORDINARY);
            let named = found.iter().find(|fix| matches!(fix.remedy, Remedy::Preempt(_)));
            prop_assert_eq!(named.map(|fix| fix.lost.0), least, "{:#?}", found);
        }
    }
}

/// Most thousandths of GPUs that single workers can be given in any way: each on each node, or not at
/// all. Whole GPUs of one kind, and CPU; no fractions.
fn most_by_force(free: &mut [(u64, u32)], jobs: &[Job]) -> u64 {
    let Some((job, rest)) = jobs.split_first() else {
        return 0;
    };
    let mut best = most_by_force(free, rest);
    let gpus = (job.worker.gpu.milli() / 1000) as u32;
    for at in 0..free.len() {
        let (cpu, there) = free[at];
        if cpu >= job.worker.cpu_milli && there >= gpus {
            free[at] = (cpu - job.worker.cpu_milli, there - gpus);
            best = best.max(u64::from(gpus) * 1000 + most_by_force(free, rest));
            free[at] = (cpu, there);
        }
    }
    best
}

/// The least GPUs that nodes of the fleet's shapes must bring so that everybody is placed one after
/// another, by trying every number of each.
fn fewest_by_force(world: &World, waiting: &[JobId], shapes: &[(u32, u32)]) -> Option<u64> {
    let mut best = None;
    for first in 0..5_u32 {
        for second in 0..5_u32 {
            let mut after = world.clone();
            let mut gpus = 0;
            for ((like, size), count) in shapes.iter().zip([first, second]) {
                let like = gpuwise_domain::placement::NodeId(*like);
                let remedy = Remedy::Buy { like, nodes: count };
                operate(&mut after, JobId(0), &remedy);
                gpus += u64::from(size * count);
            }
            let (plan, _) = decide(after.now(), &after, waiting, &mut policy(), Effort::BARE);
            if plan.actions.len() == waiting.len() && best.is_none_or(|best| gpus < best) {
                best = Some(gpus);
            }
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// No way of placing passes the bound, and the bound is not above what is there or asked for.
    #[test]
    fn no_way_of_placing_passes_the_bound(
        nodes in prop::collection::vec(1_u32..5, 1..4),
        asks in prop::collection::vec((1_u32..5, 1_u64..20), 1..6),
    ) {
        let fleet = fleet(&nodes);
        let mut world = World::new(&fleet);
        let mut jobs = Vec::new();
        for ((gpus, cores), id) in asks.iter().zip(0..) {
            let mut job = job(id, 1, *gpus, 1000);
            job.worker.cpu_milli = cores * 1000;
            apply(&mut world, Event::Submitted(job.clone()));
            jobs.push(job);
        }
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let bound = most_placed(&world, &ids);
        let mut free: Vec<(u64, u32)> = fleet.nodes.iter().map(|n| (n.cpu_milli, n.gpus.len() as u32)).collect();
        let most = most_by_force(&mut free, &jobs);
        prop_assert!(most <= bound, "{most} > {bound}");
        let asked: u64 = jobs.iter().map(|job| job.worker.gpu.milli()).sum();
        let there: u64 = nodes.iter().map(|gpus| u64::from(*gpus) * 1000).sum();
        prop_assert!(bound <= asked.min(there));
        let (plan, _) = decide(world.now(), &world, &ids, &mut policy(), Effort::BARE);
        finish(&mut world, &plan);
        prop_assert!(world.figures().allocated_milli <= most, "the kernel is within what can be");
    }

    /// Of all sets of nodes that place everybody none has fewer GPUs than the one that is named.
    #[test]
    fn no_fewer_gpus_place_everybody(asks in prop::collection::vec(1_u32..4, 2..6)) {
        let mut world = World::new(&fleet(&[1, 3]));
        for (gpus, id) in asks.iter().zip(0..) {
            apply(&mut world, Event::Submitted(job(id, 1, *gpus, 1000)));
        }
        let waiting: Vec<JobId> = world.jobs().map(|(id, _)| id).collect();
        let found = additions(&world, &waiting, &mut policy(), 8);
        let least = fewest_by_force(&world, &waiting, &[(0, 1), (1, 3)]);
        match found.last() {
            None => prop_assert_eq!(least, Some(0)),
            Some(last) => {
                prop_assert_eq!(last.placed, waiting.len());
                prop_assert!(last.cheapest);
                prop_assert_eq!(Some(last.gpus), least);
            }
        }
    }
}

#[test]
fn nodes_that_nobody_would_miss_are_named() {
    let world = {
        let mut world = World::new(&fleet(&[4, 2, 1]));
        apply(&mut world, Event::Submitted(job(0, 1, 2, 1000)));
        world
    };
    let names: Vec<u32> = returnable(&world, &[JobId(0)], &mut policy(), &[])
        .into_iter()
        .map(|id| id.0)
        .collect();
    // The node of four first, then that of one: that of two is needed.
    assert_eq!(names, [0, 2]);
}

#[test]
fn a_numa_node_is_a_place_of_its_own() {
    let mut fleet = fleet(&[4]);
    for (at, gpu) in fleet.gpus.iter_mut().enumerate() {
        gpu.numa = Some(at as u32 % 2);
    }
    let mut near = job(1, 2, 1, 1000);
    near.topology = Some(TopologyWish {
        within: Level::Numa,
        required: true,
        penalty_milli: 0,
    });
    // GPUs 0 and 2, 1 and 3 are near each other; of the first pair one is held.
    let world = run(&fleet, &[job(0, 1, 1, 1000), near.clone()]);
    let assignments = &world.job(JobId(1)).unwrap().assignments;
    let gpus: Vec<u32> = assignments
        .iter()
        .flat_map(|assignment| &assignment.gpus)
        .map(|share| share.gpu.0)
        .collect();
    assert_eq!(gpus, [1, 3]);
    near.gang = Gang::exactly(3);
    let world = run(&fleet, &[near]);
    assert!(world.job(JobId(1)).unwrap().phase.waits());
}

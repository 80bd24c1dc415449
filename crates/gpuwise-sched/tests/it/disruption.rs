//! Who is disrupted for whom: the least that is enough, and never without need.

use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, Assignment, Event, FabricPool, Gang, GpuShare, Home, Job, JobId, NodeId, Part, Plan,
    PoolId, Preemption, QueueId, TimestampedEvent,
};
use gpuwise_sched::{
    decide::{Effort, Order, Policy, decide},
    disruption::{Budget, DisruptionKind, Disruptions, Idle, Tidy, Victims, select_victims, tidy},
    lint::{Limits, Severity, lint, lint_world},
    policy::{Indexed, MostAllocated},
    world::{Phase, World},
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const NOW: Nanoseconds = Nanoseconds(10_000 * SECOND);

fn apply(world: &mut World, second: u64, event: Event) {
    let at = Nanoseconds(second * SECOND);
    world.apply(&TimestampedEvent { at, event }).unwrap();
}

fn stoppable(every: u64, restart: u64) -> Preemption {
    Preemption::Allowed {
        checkpoint_every: Nanoseconds(every * SECOND),
        restart: Nanoseconds(restart * SECOND),
    }
}

/// Whole GPUs of a node, from an index on.
fn assignment(world: &World, node: u32, count: usize) -> Option<Assignment> {
    let state = world.node(NodeId(node)).unwrap();
    let free = state.gpus.iter().filter(|id| {
        let gpu = world.gpu(**id).unwrap();
        gpu.milli_free() == 1000
    });
    let gpus: Vec<GpuShare> = free
        .take(count)
        .map(|gpu| GpuShare {
            gpu: *gpu,
            part: Part::Whole,
        })
        .collect();
    let node = NodeId(node);
    (gpus.len() == count).then_some(Assignment { node, gpus })
}

/// Starts a job at a second on nodes, a worker on each.
fn start(world: &mut World, second: u64, job: Job, nodes: &[u32]) -> bool {
    let (id, count) = (job.id, (job.worker.gpu.milli() / 1000) as usize);
    let mut assignments = Vec::new();
    let mut trial = world.clone();
    apply(&mut trial, second, Event::Submitted(job));
    for node in nodes {
        let Some(assignment) = assignment(&trial, *node, count) else {
            return false;
        };
        assignments.push(assignment);
        let assignments = assignments.clone();
        let action = if assignments.len() == 1 {
            Action::Place {
                job: id,
                assignments,
            }
        } else {
            Action::Resize {
                job: id,
                assignments,
            }
        };
        apply(&mut trial, second, Event::done(action));
    }
    *world = trial;
    true
}

fn disruptions() -> Disruptions {
    Disruptions {
        priority_milli: 0,
        ..Disruptions::USUAL
    }
}

fn room(world: &World, id: u32, disruptions: &Disruptions) -> Option<Victims> {
    let mut scratch = world.clone();
    let found = select_victims(&mut scratch, JobId(id), disruptions, Effort::ORDINARY, NOW);
    assert_eq!(scratch, *world, "looking for room changes nothing");
    if let Some(room) = &found {
        let plan = Plan {
            number: world.target() + 1,
            parent: world.target(),
            made: NOW,
            actions: room.actions.clone(),
        };
        let notes = lint(world, &plan, Limits::NONE);
        assert_eq!(notes, Vec::new());
        let mut after = world.clone();
        after.accept(&plan).unwrap();
        for action in &plan.actions {
            let event = Event::done(action.clone());
            after.apply(&TimestampedEvent { at: NOW, event }).unwrap();
        }
        assert_eq!(lint_world(&after), Vec::new());
        assert!(matches!(
            after.job(JobId(id)).unwrap().phase,
            Phase::Running { .. }
        ));
    }
    found
}

/// Two nodes of four GPUs; job 0 has three of the first, jobs 1 and 2 two each of the second.
fn crowded(preemption: Preemption) -> World {
    let mut world = World::new(&fleet(&[4, 4]));
    for (id, gpus, node, second) in [(0, 3, 0, 0), (1, 2, 1, 0), (2, 2, 1, 9_900)] {
        let holder = Job {
            preemption,
            ..job(id, 1, gpus, 1000)
        };
        assert!(start(&mut world, second, holder, &[node]));
    }
    world
}

fn asks(world: &mut World, job: Job) {
    apply(world, 9_950, Event::Submitted(job));
}

#[test]
fn the_cheapest_victims_stop_and_no_others() {
    let mut world = crowded(stoppable(3600, 60));
    let high = Job {
        priority: 1,
        ..job(9, 1, 2, 1000)
    };
    asks(&mut world, high);
    let only = Disruptions {
        preempt: true,
        ..Disruptions::NONE
    };
    // Job 0 and job 1 would each lose half an hour; job 2 began 100 s ago.
    let found = room(
        &world,
        9,
        &Disruptions {
            priority_milli: 0,
            ..only
        },
    )
    .unwrap();
    let stopped: Vec<(JobId, DisruptionKind)> =
        found.disrupted.iter().map(|d| (d.job, d.kind)).collect();
    assert_eq!(stopped, [(JobId(2), DisruptionKind::Preempt)]);
    assert_eq!(found.cost, 2000 * 160 * u128::from(SECOND));
    assert_eq!(room(&world, 9, &Disruptions::NONE), None);
    // Who has no lower priority is no victim, and who cannot be stopped is none.
    let mut equal = crowded(stoppable(3600, 60));
    asks(&mut equal, job(9, 1, 2, 1000));
    assert_eq!(room(&equal, 9, &only), None);
    let mut never = crowded(Preemption::Never);
    asks(
        &mut never,
        Job {
            priority: 1,
            ..job(9, 1, 2, 1000)
        },
    );
    assert_eq!(room(&never, 9, &only), None);
}

#[test]
fn moving_is_cheaper_than_stopping_where_there_is_a_place() {
    // Three GPUs are taken on the first of two nodes; one of its four is free, and one elsewhere.
    let mut world = World::new(&fleet(&[4, 4]));
    for (id, gpus, node) in [(0, 1, 0), (1, 1, 0), (2, 3, 1)] {
        let holder = Job {
            preemption: stoppable(3600, 60),
            ..job(id, 1, gpus, 1000)
        };
        assert!(start(&mut world, 0, holder, &[node]));
    }
    asks(
        &mut world,
        Job {
            priority: 0,
            ..job(9, 1, 3, 1000)
        },
    );
    let found = room(&world, 9, &disruptions()).unwrap();
    assert_eq!(found.disrupted.len(), 1);
    assert_eq!(found.disrupted[0].kind, DisruptionKind::Migrate);
    assert!(matches!(
        found.actions.as_slice(),
        [Action::Move { assignments, .. }, Action::Place { .. }] if assignments[0].node == NodeId(1)
    ));
}

#[test]
fn elastic_jobs_shrink_and_never_below_their_least() {
    let mut world = World::new(&fleet(&[4]));
    let elastic = Job {
        preemption: stoppable(3600, 60),
        gang: Gang {
            least: 2,
            preferred: 4,
            most: 4,
        },
        ..job(0, 4, 1, 1000)
    };
    assert!(start(&mut world, 0, elastic, &[0, 0, 0, 0]));
    let shrink = Disruptions {
        elastic: true,
        ..Disruptions::NONE
    };
    asks(&mut world, job(9, 1, 2, 1000));
    let found = room(&world, 9, &shrink).unwrap();
    assert!(matches!(
        found.actions.as_slice(),
        [Action::Resize { assignments, .. }, Action::Place { .. }] if assignments.len() == 2
    ));
    asks(&mut world, job(10, 1, 3, 1000));
    assert_eq!(room(&world, 10, &shrink), None);
}

#[test]
fn an_idle_holder_lends_and_takes_back() {
    let mut world = World::new(&fleet(&[2]));
    assert!(start(&mut world, 0, job(0, 1, 2, 1000), &[0]));
    let idle = Disruptions {
        reclaim: Some(Idle {
            busy_milli: 10,
            after: Nanoseconds(600 * SECOND),
            reload: Nanoseconds(20 * SECOND),
        }),
        ..Disruptions::NONE
    };
    let borrower = Job {
        preemption: stoppable(600, 10),
        ..job(1, 1, 2, 1000)
    };
    let measured = |busy_milli| Event::Measured {
        job: JobId(0),
        busy_milli,
    };
    apply(&mut world, 9_000, measured(500));
    apply(&mut world, 9_500, measured(5));
    asks(&mut world, borrower);
    let mut early = world.clone();
    let at = Nanoseconds(9_599 * SECOND);
    assert_eq!(
        select_victims(&mut early, JobId(1), &idle, Effort::BARE, at),
        None
    );
    let found = room(&world, 1, &idle).unwrap();
    assert!(matches!(
        found.actions[0],
        Action::Reclaim { job: JobId(0) }
    ));
    // A job that could not be stopped again does not borrow.
    asks(&mut world, job(2, 1, 1, 1000));
    assert_eq!(room(&world, 2, &idle), None);
    for action in found.actions {
        apply(&mut world, 10_000, Event::done(action));
    }
    apply(&mut world, 10_500, Event::Wanted { job: JobId(0) });
    let mut policy = Policy {
        order: Order::Priority,
        disruptions: Disruptions {
            preempt: true,
            ..idle
        },
        ..Policy::new(Box::new(Indexed::<MostAllocated>::default()))
    };
    let now = Nanoseconds(10_500 * SECOND);
    let demand = [JobId(2), JobId(0)];
    let (plan, _) = decide(now, &world, &demand, &mut policy, Effort::ORDINARY);
    assert!(matches!(
        plan.actions.as_slice(),
        [
            Action::Preempt { job: JobId(1), .. },
            Action::Restore { job: JobId(0), .. }
        ]
    ));
}

/// What a brute-force search sees of a world of whole GPUs: free ones by node, and holders.
struct Plain {
    free: Vec<u32>,
    holders: Vec<(u32, u32, u128, u128)>,
}

impl Plain {
    /// The least cost of all ways to stop and move, in any order, by trying them all.
    fn least(&self, count: u32, workers: u32, may_move: bool) -> Option<u128> {
        let ways = if may_move { 3_u32 } else { 2 };
        let sets = ways.pow(self.holders.len() as u32);
        let costs = (0..sets).filter_map(|set| {
            let mut free = self.free.clone();
            let (mut cost, mut movers, mut rest) = (0, Vec::new(), set);
            for (at, (node, gpus, stop, shift)) in self.holders.iter().enumerate() {
                match rest % ways {
                    1 => {
                        free[*node as usize] += gpus;
                        cost += stop;
                    }
                    2 => {
                        movers.push(at);
                        cost += shift;
                    }
                    _ => {}
                }
                rest /= ways;
            }
            self.can(&mut free, &movers, count, workers).then_some(cost)
        });
        costs.min()
    }

    fn can(&self, free: &mut [u32], movers: &[usize], count: u32, workers: u32) -> bool {
        if movers.is_empty() {
            return free.iter().map(|free| free / count).sum::<u32>() >= workers;
        }
        movers.iter().enumerate().any(|(at, mover)| {
            let (node, gpus, ..) = self.holders[*mover];
            let mut others = movers.to_vec();
            others.remove(at);
            (0..free.len()).any(|to| {
                if to == node as usize || free[to] < gpus {
                    return false;
                }
                free[to] -= gpus;
                free[node as usize] += gpus;
                let found = self.can(free, &others, count, workers);
                free[to] += gpus;
                free[node as usize] -= gpus;
                found
            })
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// On tiny fleets the room that is found costs what the cheapest of all costs.
    #[test]
    fn no_cheaper_room_exists(
        sizes in prop::collection::vec(1_u32..5, 1..4),
        holders in prop::collection::vec((0_u32..3, 1_u32..4, 1_u64..4, 0_u64..9_000), 0..6),
        count in 1_u32..5,
        workers in 1_u32..3,
        may_move in any::<bool>(),
    ) {
        let mut world = World::new(&fleet(&sizes));
        let mut plain = Plain { free: sizes.clone(), holders: Vec::new() };
        let mut holders = holders;
        holders.sort_by_key(|one| one.3);
        for ((node, gpus, every, second), id) in holders.into_iter().zip(0..) {
            let node = node % sizes.len() as u32;
            let (every, restart) = (every * 1000, 30 + every);
            let holder = Job { preemption: stoppable(every, restart), ..job(id, 1, gpus, 1000) };
            if !start(&mut world, second, holder, &[node]) {
                continue;
            }
            plain.free[node as usize] -= gpus;
            let milli = u128::from(gpus) * 1000 * u128::from(SECOND);
            let lost = u128::from((10_000 - second).min(every / 2) + restart);
            plain.holders.push((node, gpus, milli * lost, milli * u128::from(restart)));
        }
        let workers = if may_move { 1 } else { workers };
        asks(&mut world, Job { priority: 1, ..job(99, workers, count, 1000) });
        let allowed = Disruptions { migrate: may_move, ..disruptions() };
        let found = room(&world, 99, &allowed);
        prop_assert_eq!(found.map(|room| room.cost), plain.least(count, workers, may_move));
    }

    /// Nobody in a set of victims is superfluous, for gangs among many too.
    #[test]
    fn no_victim_is_superfluous(
        holders in prop::collection::vec((0_u32..6, 1_u32..5, 1_u64..4, 0_u64..9_000), 8..24),
        workers in 2_u32..5,
    ) {
        let mut world = World::new(&fleet(&[8; 6]));
        let mut holders = holders;
        holders.sort_by_key(|one| one.3);
        for ((node, gpus, every, second), id) in holders.into_iter().zip(0..) {
            let holder = Job { preemption: stoppable(every * 1000, 30), ..job(id, 1, gpus, 1000) };
            start(&mut world, second, holder, &[node]);
        }
        asks(&mut world, Job { priority: 1, ..job(99, workers, 8, 1000) });
        let allowed = Disruptions { migrate: false, ..disruptions() };
        let found = room(&world, 99, &allowed).unwrap();
        for spared in &found.disrupted {
            let others = found.disrupted.iter().filter(|one| one.job != spared.job);
            let mut trial = world.clone();
            for one in others {
                let job = one.job;
                let cause = gpuwise_domain::placement::Cause::For(JobId(99));
                let event = Event::done(Action::Preempt { job, cause });
                trial.apply(&TimestampedEvent { at: NOW, event }).unwrap();
            }
            let mut policy = Policy::new(Box::new(Indexed::<MostAllocated>::default()));
            let (plan, _) = decide(NOW, &trial, &[JobId(99)], &mut policy, Effort::BARE);
            prop_assert!(plan.actions.is_empty());
        }
    }
}

/// Runs `tidy` and holds its plan against the linter and the world.
fn tidied(world: &World, what: &Tidy, now: Nanoseconds) -> Vec<Action> {
    let (plan, _) = tidy(now, world, what, Effort::ORDINARY);
    assert_eq!(lint(world, &plan, Limits::NONE), Vec::new());
    let mut after = world.clone();
    after.accept(&plan).unwrap();
    plan.actions
}

#[test]
fn jobs_move_only_where_that_pays_and_within_the_budget() {
    // Four nodes of four GPUs, each with two taken; most jobs ask for four.
    let mut world = World::new(&fleet(&[4; 4]));
    for (id, node) in [(0, 0), (1, 1), (2, 2), (3, 3)] {
        let holder = Job {
            preemption: stoppable(3600, 60),
            ..job(id, 1, 2, 1000)
        };
        assert!(start(&mut world, 0, holder, &[node]));
    }
    for id in 10..18 {
        asks(&mut world, job(id, 1, 4, 1000));
    }
    let budget = |horizon| Tidy {
        defragment: Some(Budget {
            disruptions: 1,
            lost: Nanoseconds(1000 * SECOND),
            per: Nanoseconds(3600 * SECOND),
            horizon: Nanoseconds(horizon * SECOND),
        }),
        ..Tidy::default()
    };
    // A move frees 4 GPUs for eight of twelve jobs, 2.67 of them on average, and loses 2 GPUs for 60 s.
    assert_eq!(tidied(&world, &budget(45), NOW), []);
    let found = tidied(&world, &budget(46), NOW);
    assert!(matches!(
        found.as_slice(),
        [Action::Move { assignments, .. }] if assignments.len() == 1
    ));
    // Once it has begun, the budget of this hour is spent.
    for action in found {
        let event = Event::done(action);
        world.apply(&TimestampedEvent { at: NOW, event }).unwrap();
    }
    assert_eq!(tidied(&world, &budget(46), NOW), []);
    let later = Nanoseconds(NOW.0 + 3600 * SECOND);
    assert_eq!(tidied(&world, &budget(46), later).len(), 1);
}

#[test]
fn elastic_jobs_grow_while_nobody_waits() {
    let mut world = World::new(&fleet(&[4, 4]));
    for id in 0..2 {
        let elastic = Job {
            preemption: stoppable(3600, 60),
            gang: Gang {
                least: 1,
                preferred: 1 + id,
                most: 4,
            },
            ..job(id, 1 + id, 1, 1000)
        };
        let nodes = vec![id; 1 + id as usize];
        assert!(start(&mut world, 0, elastic, &nodes));
    }
    let grow = Tidy {
        grow: true,
        ..Tidy::default()
    };
    let found = tidied(&world, &grow, NOW);
    // Five GPUs are free; the one with fewer workers gains more by each.
    let sizes: Vec<(JobId, usize)> = found
        .iter()
        .map(|action| match action {
            Action::Resize { job, assignments } => (*job, assignments.len()),
            _ => (JobId(99), 0),
        })
        .collect();
    assert_eq!(sizes, [(JobId(0), 4), (JobId(1), 4)]);
    asks(&mut world, job(9, 1, 8, 1000));
    assert_eq!(tidied(&world, &grow, NOW), []);
}

#[test]
fn pooled_gpus_come_when_needed_and_go_when_long_idle() {
    let mut fleet = fleet(&[1, 1]);
    for index in 0..2 {
        let mut pooled = fleet.gpus[0].clone();
        (pooled.home, pooled.index) = (Home::Pool(PoolId(0)), index);
        fleet.gpus.push(pooled);
    }
    fleet.pools.push(FabricPool {
        name: "p".into(),
        attach: Nanoseconds(5 * SECOND),
        detach: Nanoseconds(5 * SECOND),
        hot_plug: true,
    });
    (fleet.nodes[1].pools, fleet.nodes[1].slots) = (vec![PoolId(0)], 2);
    let mut world = World::new(&fleet);
    asks(&mut world, job(0, 1, 2, 1000));
    let attach = Disruptions {
        attach: true,
        ..Disruptions::NONE
    };
    let found = room(&world, 0, &attach).unwrap();
    assert!(matches!(
        found.actions.as_slice(),
        [
            Action::Attach {
                node: NodeId(1),
                ..
            },
            Action::Place { .. }
        ]
    ));
    for action in found.actions {
        apply(&mut world, 10_000, Event::done(action));
    }
    let how = gpuwise_domain::placement::Ended::Finished;
    apply(&mut world, 10_100, Event::Ended { job: JobId(0), how });
    let detach = Tidy {
        detach_after: Some(Nanoseconds(60 * SECOND)),
        ..Tidy::default()
    };
    for (second, gone) in [(10_100, 0), (10_159, 0), (10_160, 1)] {
        let at = Nanoseconds(second * SECOND);
        assert_eq!(tidied(&world, &detach, at).len(), gone);
    }
}

#[test]
fn a_drained_node_is_left() {
    let mut world = World::new(&fleet(&[2, 2]));
    let holder = Job {
        preemption: stoppable(3600, 60),
        ..job(0, 1, 2, 1000)
    };
    assert!(start(&mut world, 0, holder, &[0]));
    let (node, health) = (NodeId(0), gpuwise_domain::placement::Health::Draining);
    apply(&mut world, 9_000, Event::NodeHealth { node, health });
    let evacuate = Tidy {
        evacuate: true,
        ..Tidy::default()
    };
    let found = tidied(&world, &evacuate, NOW);
    assert!(matches!(
        found.as_slice(),
        [Action::Move { assignments, .. }] if assignments[0].node == NodeId(1)
    ));
}

#[test]
fn what_is_kept_is_lent_and_taken_back_at_once() {
    let queue = |name: &str| gpuwise_domain::placement::Queue {
        name: name.into(),
        parent: None,
        quotas: Vec::new(),
        weight_milli: 1000,
        priority: 0,
        reclaims: false,
        budget: None,
        used_milli: 0,
    };
    let mut fleet = fleet(&[2]);
    fleet.queues = vec![queue("theirs"), queue("mine")];
    fleet
        .reservations
        .push(gpuwise_domain::placement::Reservation {
            name: "kept".into(),
            queue: QueueId(1),
            node: NodeId(0),
            gpus: 2,
            from: Nanoseconds(0),
            until: Nanoseconds(100_000 * SECOND),
        });
    let mut world = World::new(&fleet);
    let from = |id: u32, queue: u32, priority: i32| Job {
        queue: Some(QueueId(queue)),
        priority,
        preemption: stoppable(3600, 60),
        ..job(id, 1, 2, 1000)
    };
    let decided = |world: &mut World, lend: bool| {
        let mut policy = Policy {
            order: Order::Priority,
            disruptions: Disruptions {
                lend,
                preempt: true,
                ..Disruptions::NONE
            },
            ..Policy::new(Box::new(Indexed::<MostAllocated>::default()))
        };
        let demand: Vec<JobId> = world.jobs().map(|(id, _)| id).collect();
        let (plan, _) = decide(NOW, world, &demand, &mut policy, Effort::ORDINARY);
        let notes = lint(world, &plan, Limits::NONE);
        let wrong = notes.iter().filter(|one| one.severity == Severity::Error);
        assert_eq!(wrong.count(), 0, "{notes:?}");
        world.accept(&plan).unwrap();
        for action in &plan.actions {
            let event = Event::done(action.clone());
            world.apply(&TimestampedEvent { at: NOW, event }).unwrap();
        }
        plan.actions
    };
    asks(&mut world, from(0, 0, 5));
    assert_eq!(decided(&mut world, false), []);
    assert!(matches!(
        decided(&mut world, true).as_slice(),
        [Action::Place { job: JobId(0), .. }]
    ));
    // Its queue takes it back from a job of higher priority, which does not get it again.
    apply(&mut world, 10_000, Event::Submitted(from(1, 1, 0)));
    assert!(matches!(
        decided(&mut world, true).as_slice(),
        [
            Action::Preempt { job: JobId(0), .. },
            Action::Place { job: JobId(1), .. }
        ]
    ));
    assert_eq!(decided(&mut world, true), []);
}

/// A decision is bounded in steps whatever it spends them on: of many who would each have somebody stopped,
/// those get their place for whom the steps are enough, and the decision ends.
#[test]
fn steps_bound_all_disruptions_of_a_decision() {
    let decided = |steps| {
        let mut world = World::new(&fleet(&[1; 64]));
        let at = Nanoseconds(0);
        let apply = |world: &mut World, event| {
            world.apply(&TimestampedEvent { at, event }).unwrap();
        };
        for id in 0..128_u32 {
            let mut asked = job(id, 1, 1, 1000);
            (asked.submitted, asked.priority) = (at, i32::from(id >= 64));
            // No two who ask are equal.
            asked.worker.memory_mib += u64::from(id);
            asked.preemption = Preemption::Allowed {
                checkpoint_every: Nanoseconds(1000),
                restart: Nanoseconds(10),
            };
            apply(&mut world, Event::Submitted(asked));
            if id < 64 {
                let action = Action::Place {
                    job: JobId(id),
                    assignments: vec![assignment(&world, id, 1).unwrap()],
                };
                apply(&mut world, Event::done(action));
            }
        }
        let mut policy = Policy {
            disruptions: Disruptions::USUAL,
            ..Policy::new(Box::new(Indexed::<MostAllocated>::default()))
        };
        let demand: Vec<JobId> = (64..128).map(JobId).collect();
        let effort = Effort {
            steps,
            explains: false,
        };
        let (plan, _) = decide(at, &world, &demand, &mut policy, effort);
        plan.actions
            .iter()
            .filter(|one| matches!(one, Action::Place { .. }))
            .count()
    };
    assert_eq!(decided(1_000_000), 64);
    let few = decided(100);
    assert!((1..64).contains(&few), "{few} were placed");
}

//! Quotas, shares, budgets, reservations and guaranteed starts, by hand; over random queues: [`laws`].

mod laws;

use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, Cause, DurationEstimate, Ended, Event, Fleet, GpuKind, Job, JobId, KindId, Kinds,
    NodeId, Outcome, Plan, Preemption, Queue, QueueId, QueueProblem, Quota, QuotaLimit, Report,
    Reservation, Sharing, Shortage, TimestampedEvent, Weigh,
};
use gpuwise_sched::{
    decide::{Effort, Order, Policy, decide},
    policy::FirstFit,
    queues::{self, Limits, validate},
    report::shortage_words,
    world::World,
};
use gpuwise_units::{HourlyPrice, Money, Nanoseconds};

const SECOND: u64 = 1_000_000_000;

fn queue(name: &str, parent: Option<u32>, quotas: &[Quota]) -> Queue {
    Queue {
        name: name.into(),
        parent: parent.map(QueueId),
        quotas: quotas.to_vec(),
        weight_milli: 1000,
        priority: 0,
        reclaims: true,
        budget: None,
        used_milli: 0,
    }
}

/// Of all kinds, in whole GPUs.
fn quota(nominal: u64, borrowing: Option<u64>, lending: Option<u64>, cap: Option<u64>) -> Quota {
    let milli = |gpus: Option<u64>| gpus.map(|gpus| gpus * 1000);
    Quota {
        kinds: Kinds::ANY,
        nominal_milli: nominal * 1000,
        borrowing_milli: milli(borrowing),
        lending_milli: milli(lending),
        cap_milli: milli(cap),
    }
}

fn in_queue(id: u32, queue: u32, gpus: u32, seconds: u64) -> Job {
    Job {
        queue: Some(QueueId(queue)),
        duration: Some(DurationEstimate {
            expected: Nanoseconds(seconds * SECOND),
            spread: 0.0,
        }),
        preemption: Preemption::Allowed {
            checkpoint_every: Nanoseconds(1),
            restart: Nanoseconds(0),
        },
        ..job(id, 1, gpus, 1000)
    }
}

fn policy(order: Order, reservations: u32, starvation_timeout: Option<u64>) -> Policy {
    Policy {
        order,
        limits: Limits {
            reservations,
            starvation_timeout: starvation_timeout.map(|seconds| Nanoseconds(seconds * SECOND)),
            padding_sigmas: 0.0,
        },
        ..Policy::new(Box::new(FirstFit))
    }
}

/// A world whose plans are carried out at once.
struct Run {
    world: World,
    policy: Policy,
}

impl Run {
    fn new(gpus: &[u32], queues: &[Queue], policy: Policy) -> Self {
        let fleet = Fleet {
            queues: queues.to_vec(),
            ..fleet(gpus)
        };
        Self {
            world: World::new(&fleet),
            policy,
        }
    }

    fn apply(&mut self, second: u64, event: Event) {
        let at = Nanoseconds(second * SECOND);
        self.world.apply(&TimestampedEvent { at, event }).unwrap();
    }

    fn submit(&mut self, second: u64, job: Job) {
        let submitted = Nanoseconds(second * SECOND);
        self.apply(second, Event::Submitted(Job { submitted, ..job }));
    }

    fn end(&mut self, second: u64, id: u32) {
        let how = Ended::Finished;
        self.apply(
            second,
            Event::Ended {
                job: JobId(id),
                how,
            },
        );
    }

    fn decide(&mut self, second: u64) -> (Plan, Report) {
        let now = Nanoseconds(second * SECOND);
        let waiting: Vec<JobId> = self.world.jobs().map(|(id, _)| id).collect();
        let effort = Effort::ORDINARY;
        let (plan, report) = decide(now, &self.world, &waiting, &mut self.policy, effort);
        self.world.accept(&plan).unwrap();
        for action in &plan.actions {
            self.apply(second, Event::done(action.clone()));
        }
        (plan, report)
    }

    fn runs(&self, id: u32) -> bool {
        let state = self.world.job(JobId(id));
        state.is_some_and(|state| !state.assignments.is_empty())
    }
}

fn why(report: &Report, id: u32) -> Shortage {
    let told = report.decisions.iter().find(|told| told.job == JobId(id));
    match &told.unwrap().outcome {
        Outcome::Waits { shortage, .. } => *shortage,
        Outcome::Placed => panic!("job {id} has a place"),
    }
}

#[test]
fn what_is_wrong_with_queues_is_told() {
    let check = |queues: &[Queue], expect: &[QueueProblem]| {
        assert_eq!(validate(queues), expect, "{queues:?}");
    };
    let own = |nominal| quota(nominal, None, None, None);
    check(
        &[queue("a", None, &[own(4)]), queue("b", Some(0), &[own(4)])],
        &[],
    );
    check(
        &[
            queue("a", Some(2), &[]),
            queue("b", Some(0), &[]),
            queue("c", Some(1), &[]),
        ],
        &[QueueProblem::Cycle { queue: QueueId(0) }],
    );
    check(
        &[queue("a", Some(0), &[])],
        &[QueueProblem::Cycle { queue: QueueId(0) }],
    );
    check(
        &[queue("a", Some(1), &[]), queue("b", None, &[])],
        &[QueueProblem::ParentLater { queue: QueueId(0) }],
    );
    check(
        &[queue("a", Some(7), &[])],
        &[QueueProblem::NoSuchParent { queue: QueueId(0) }],
    );
    check(
        &[
            queue("a", None, &[own(4)]),
            queue("b", Some(0), &[own(3)]),
            queue("c", Some(0), &[own(2)]),
        ],
        &[QueueProblem::ChildrenAboveParent {
            queue: QueueId(0),
            kinds: Kinds::ANY,
            children_milli: 5000,
            own_milli: 4000,
        }],
    );
    check(
        &[queue("a", None, &[quota(4, None, None, Some(3))])],
        &[QueueProblem::NominalAboveCap {
            queue: QueueId(0),
            nominal_milli: 4000,
            cap_milli: 3000,
        }],
    );
    check(
        &[queue("a", None, &[]), queue("a", None, &[own(1), own(1)])],
        &[
            QueueProblem::SecondName {
                queue: QueueId(1),
                first: QueueId(0),
            },
            QueueProblem::SecondQuota {
                queue: QueueId(1),
                kinds: Kinds::ANY,
            },
        ],
    );
    // A long chain is looked at once.
    let chain: Vec<Queue> = (0..20_000_u32)
        .map(|id| queue(&format!("q{id}"), id.checked_sub(1), &[]))
        .collect();
    check(&chain, &[]);
}

/// What a queue may take beside what others have.
#[test]
fn rooms_by_hand() {
    // Of 10 GPUs a owns 4 and lends 1 at most, b owns 4 and may borrow 2; nobody owns 2.
    let queues = [
        queue("a", None, &[quota(4, None, Some(1), None)]),
        queue("b", None, &[quota(4, Some(2), None, None)]),
        queue("c", None, &[]),
        queue("d", Some(1), &[quota(1, None, None, Some(3))]),
    ];
    let check = |held: &[(u32, u32)], rooms: [u64; 4]| {
        let mut run = Run::new(&[10], &queues, policy(Order::Arrival, 0, None));
        for (id, (queue, gpus)) in (0..).zip(held) {
            run.submit(0, in_queue(id, *queue, *gpus, 100));
        }
        let _ = run.decide(0);
        let room = |queue| {
            queues::room(&run.world, QueueId(queue), KindId(0))
                .unwrap()
                .room_milli
        };
        let found = [0, 1, 2, 3].map(|queue| room(queue) / 1000);
        assert_eq!(found, rooms, "{held:?}");
    };
    // a: its 3 + 1 lent + 4 of b + 2 of nobody; b: its 4 + 2; c: 1 + 4 + 2; d: at most 3.
    check(&[], [10, 6, 7, 3]);
    // c has all that is lent: a has what it keeps, b what it can get back only by reclaim.
    check(&[(2, 7)], [3, 0, 0, 0]);
    check(&[(1, 6)], [4, 0, 1, 0]);
    check(&[(3, 3)], [7, 3, 4, 0]);
    check(&[(0, 10)], [0, 0, 0, 0]);
}

#[test]
fn a_queue_takes_back_what_it_lent_and_no_more() {
    let own = |nominal| [quota(nominal, None, None, None)];
    let queues = [queue("a", None, &own(4)), queue("b", None, &own(4))];
    let mut run = Run::new(&[4, 4], &queues, policy(Order::Arrival, 0, None));
    for id in 0..4 {
        run.submit(id, in_queue(id as u32, 0, 2, 1000));
        let _ = run.decide(id);
    }
    run.submit(10, in_queue(10, 1, 2, 1000));
    let (plan, _) = run.decide(10);
    let stopped: Vec<JobId> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Preempt {
                job,
                cause: Cause::Reclaim,
            } => Some(*job),
            _ => None,
        })
        .collect();
    assert_eq!(
        stopped,
        [JobId(3)],
        "of equals the latest is stopped, and one is enough"
    );
    assert!(run.runs(10) && !run.runs(3));
    // a has what is its own and waits; b may have the other half, and not more.
    run.submit(11, in_queue(11, 1, 2, 1000));
    let _ = run.decide(11);
    assert!(run.runs(11) && run.runs(0) && run.runs(1));
    run.submit(12, in_queue(12, 1, 2, 1000));
    let (plan, report) = run.decide(12);
    assert!(
        plan.actions.is_empty(),
        "neither takes from the other what is its own"
    );
    assert!(matches!(why(&report, 12), Shortage::Quota(_)));
    let Shortage::Quota(short) = why(&report, 3) else {
        panic!("job 3 waits for quota");
    };
    // Each queue has its own 4, and all 8 that they share are taken: none of it by a beyond its own.
    assert_eq!((short.queue, short.by), (0, QuotaLimit::Cohort));
    assert_eq!((short.nominal_milli, short.held_milli), (4000, 4000));
    assert_eq!((short.limit_milli, short.used_milli), (8000, 8000));
    assert_eq!(short.users, [(0, 4000), (1, 4000), (0, 0)]);
    let state = run.world.job(JobId(3)).unwrap();
    assert_eq!(
        shortage_words(&run.world, &state.job, &Shortage::Quota(short)),
        "needs 2 GPUs, and queue a may take no more: it uses 4 of its nominal quota of 4, and of the 8 \
         that all queues share 8 are used (a 4, b 4)"
    );
}

#[test]
fn what_would_pass_a_budget_waits() {
    let price = |dollars: &str| HourlyPrice::usd(dollars).unwrap();
    let budget = Some(Money::from_decimal("10", price("1").0.currency).unwrap());
    let queues = [Queue {
        budget,
        ..queue("a", None, &[])
    }];
    let fleet = Fleet {
        queues: queues.to_vec(),
        kinds: vec![GpuKind {
            price: Some(price("2")),
            ..fleet(&[8]).kinds.remove(0)
        }],
        ..fleet(&[8])
    };
    let mut run = Run {
        world: World::new(&fleet),
        policy: policy(Order::Arrival, 0, None),
    };
    // Two GPUs for two hours at 2 $: 8 $; then one for an hour: 2 $; then one for a second.
    run.submit(0, in_queue(0, 0, 2, 7200));
    run.submit(0, in_queue(1, 0, 1, 3600));
    run.submit(0, in_queue(2, 0, 1, 1));
    let (_, report) = run.decide(0);
    assert!(run.runs(0) && run.runs(1));
    assert_eq!(why(&report, 2), Shortage::Budget { queue: 0 });
    // The first ends after half of its time: 4 $ come free, and 6 $ are spent or to be spent.
    run.end(3600, 0);
    run.end(3600, 1);
    let spent = queues::spending(&run.world, QueueId(0), Nanoseconds(3600 * SECOND)).unwrap();
    assert_eq!((spent.spent.micros, spent.committed.micros), (6_000_000, 0));
    let _ = run.decide(3600);
    assert!(run.runs(2));
}

#[test]
fn kept_gpus_are_left_by_when_they_are_due() {
    let queues = [queue("a", None, &[]), queue("b", None, &[])];
    let check = |seconds: u64, spread: f64, stoppable: bool, placed: bool| {
        let mut run = Run::new(&[4], &queues, policy(Order::Arrival, 0, None));
        run.apply(
            0,
            Event::Reserved(Reservation {
                name: "r".into(),
                queue: QueueId(1),
                node: NodeId(0),
                gpus: 3,
                from: Nanoseconds(100 * SECOND),
                until: Nanoseconds(200 * SECOND),
            }),
        );
        run.policy.limits.padding_sigmas = 1.0;
        let mut wide = in_queue(0, 0, 2, seconds);
        wide.duration = Some(DurationEstimate {
            expected: Nanoseconds(seconds * SECOND),
            spread,
        });
        if !stoppable {
            wide.preemption = Preemption::Never;
        }
        run.submit(0, wide);
        let (_, report) = run.decide(0);
        assert_eq!(
            run.runs(0),
            placed,
            "{seconds} s, spread {spread}, stoppable {stoppable}"
        );
        if !placed {
            assert_eq!(why(&report, 0), Shortage::Reserved { node: NodeId(0) });
        }
        run.submit(0, in_queue(1, 1, 2, 150));
        let _ = run.decide(0);
        assert!(
            run.runs(1),
            "the queue that they are reserved for may have them at any time"
        );
    };
    check(100, 0.0, false, true);
    check(101, 0.0, false, false);
    check(90, 0.2, false, false);
    check(101, 0.0, true, true);
}

#[test]
fn others_go_ahead_only_where_they_delay_nobody() {
    // Four GPUs, three held until 100; the head needs all four.
    let check = |gpus: u32, seconds: u64, placed: bool| {
        let mut run = Run::new(&[4], &[], policy(Order::Arrival, 1, None));
        let plain = |id, gpus, seconds| Job {
            queue: None,
            ..in_queue(id, 0, gpus, seconds)
        };
        run.submit(0, plain(0, 3, 100));
        let _ = run.decide(0);
        run.submit(1, plain(1, 4, 50));
        run.submit(2, plain(2, gpus, seconds));
        let (_, report) = run.decide(2);
        assert_eq!(run.runs(2), placed, "{gpus} GPUs for {seconds} s");
        let head = report
            .decisions
            .iter()
            .find(|told| told.job == JobId(1))
            .unwrap();
        let Outcome::Waits { start, .. } = &head.outcome else {
            panic!("the head has a place");
        };
        assert_eq!(*start, Some(Nanoseconds(100 * SECOND)));
        if !placed {
            assert_eq!(why(&report, 2), Shortage::BehindHead { head: JobId(1) });
        }
    };
    check(1, 98, true);
    check(1, 99, false);
}

/// Shares by hand: 8 of kind A, 8 of kind B, which costs and does three times as much.
#[test]
fn the_poorest_queue_goes_first() {
    let check = |sharing: Sharing, held: [(u32, u32, u64); 2], first: u32| {
        let mut fleet = Fleet {
            queues: vec![queue("a", None, &[]), queue("b", None, &[])],
            sharing,
            ..fleet(&[8, 8])
        };
        let price = |dollars| HourlyPrice::usd(dollars).ok();
        fleet.kinds.push(GpuKind {
            name: "B".into(),
            price: price("3"),
            tflops: Some(3 * 989),
            ..fleet.kinds[0].clone()
        });
        fleet.kinds[0].price = price("1");
        for gpu in &mut fleet.gpus[8..] {
            gpu.kind = KindId(1);
        }
        let mut run = Run {
            world: World::new(&fleet),
            policy: policy(Order::Share, 0, None),
        };
        for ((kind, gpus, until), id) in held.into_iter().zip(0..) {
            let mut job = in_queue(id, id, gpus, 1000);
            job.worker.gpu = gpuwise_domain::placement::GpuAsk::Whole {
                count: gpus,
                kinds: Kinds::one(KindId(kind)),
                need: gpuwise_domain::placement::Need::default(),
            };
            let begun = run.world.now().0 / SECOND;
            run.submit(begun, job);
            let _ = run.decide(begun);
            if until > 0 {
                run.end(until, id);
            }
        }
        let now = Nanoseconds(run.world.now().0);
        let next = queues::poorest(
            now,
            &run.world,
            queues::ShareOf::Held,
            &[Some(QueueId(0)), Some(QueueId(1))],
        );
        assert_eq!(next, Some(Some(QueueId(first))), "{sharing:?} {held:?}");
    };
    let by = |weigh| Sharing {
        weigh,
        ..Sharing::default()
    };
    // Four of A, or two of B: fewer GPUs, and more money.
    check(by(Weigh::Alike), [(0, 4, 0), (1, 2, 0)], 1);
    check(by(Weigh::Price), [(0, 4, 0), (1, 2, 0)], 0);
    check(by(Weigh::Speed), [(0, 4, 0), (1, 2, 0)], 0);
    // Half of all A beside a quarter of all B.
    check(by(Weigh::Dominant), [(0, 4, 0), (1, 2, 0)], 1);
    // Nobody holds anything; a had more for as long.
    let past = Sharing {
        half_life: Some(Nanoseconds(3600 * SECOND)),
        past_milli: 1000,
        ..by(Weigh::Alike)
    };
    check(past, [(0, 4, 100), (0, 2, 200)], 1);
    // What is long ago counts less: 4 GPUs a hundred half-lives ago, then one.
    check(past, [(0, 4, 100), (0, 1, 360_000)], 0);
}

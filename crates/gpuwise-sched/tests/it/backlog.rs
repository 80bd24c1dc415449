//! What is kept of those who wait decides what a look at everybody from scratch decides, whatever happens in
//! between, in a world and in copies of it.

use super::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, Attempt, Domain, DomainId, DurationEstimate, Ended, Event, Failure, FailureCause,
    Fleet, Gang, GpuAsk, GpuId, Health, Job, JobId, KindId, Kinds, Level, MigGeometry, NodeId,
    Preemption, ProfileSet, Queue, QueueId, Quota, Reservation, Sharing, SliceAsk, Spread,
    TimestampedEvent, TopologyWish,
};
use gpuwise_read::catalogue::read_mig_boards;
use gpuwise_sched::{
    decide::{Effort, Order, Policy, Tells, decide, decide_pending},
    disruption::{Disruptions, Idle},
    policy::FirstFit,
    queues::Limits,
    world::World,
};
use gpuwise_units::{Currency, HourlyPrice, Money, Nanoseconds};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

#[derive(Debug, Clone)]
enum Step {
    /// A job of this shape comes: queue, priority, minutes.
    Ask(usize, u32, i32, u64),
    End(prop::sample::Index),
    Hold(prop::sample::Index, bool),
    Change(prop::sample::Index, i32),
    /// An action that began is done, fails or is withdrawn; it may have been said before.
    Done(prop::sample::Index),
    Fails(prop::sample::Index),
    Withdrawn(prop::sample::Index),
    Node(u32, u8),
    Gpu(u32, bool),
    Quota(u32, u64),
    Busy(prop::sample::Index, u32),
    Reserve(u32, bool),
    Passes(u64),
    /// A decision; whether its plan is taken on.
    Decide(bool),
    /// What follows happens in a copy, until it is left.
    Copy,
    Leave,
}

fn steps() -> impl Strategy<Value = Step> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        10 => (0..SHAPES, 0..4_u32, 0..3_i32, 1..40_u64)
            .prop_map(|(shape, queue, priority, minutes)| Step::Ask(shape, queue, priority, minutes)),
        5 => which().prop_map(Step::End),
        1 => (which(), any::<bool>()).prop_map(|(job, held)| Step::Hold(job, held)),
        1 => (which(), 0..3_i32).prop_map(|(job, priority)| Step::Change(job, priority)),
        8 => which().prop_map(Step::Done),
        1 => which().prop_map(Step::Fails),
        1 => which().prop_map(Step::Withdrawn),
        1 => (0..6_u32, 0..3_u8).prop_map(|(node, health)| Step::Node(node, health)),
        1 => (0..20_u32, any::<bool>()).prop_map(|(gpu, up)| Step::Gpu(gpu, up)),
        1 => (0..3_u32, 0..9_u64).prop_map(|(queue, gpus)| Step::Quota(queue, gpus)),
        1 => (which(), 0..1000_u32).prop_map(|(job, busy)| Step::Busy(job, busy)),
        1 => (0..6_u32, any::<bool>()).prop_map(|(node, ends)| Step::Reserve(node, ends)),
        4 => (1..900_u64).prop_map(Step::Passes),
        10 => (0..8_u8).prop_map(|taken| Step::Decide(taken > 0)),
        1 => Just(Step::Copy),
        1 => Just(Step::Leave),
    ]
}

const SHAPES: usize = 11;

/// A job that asks for one of few shapes, so that many are equal.
fn shaped(id: u32, shape: usize) -> Job {
    let near = |within, required| TopologyWish {
        within,
        required,
        penalty_milli: 0,
    };
    let of_kind = |mut job: Job, kind: u32| {
        if let GpuAsk::Whole { kinds, .. } = &mut job.worker.gpu {
            *kinds = Kinds::one(KindId(kind));
        }
        job
    };
    match shape {
        0 => job(id, 1, 1, 1000),
        1 => job(id, 1, 2, 1000),
        2 => job(id, 1, 4, 1000),
        3 => job(id, 1, 1, 500),
        4 => of_kind(job(id, 1, 1, 1000), 1),
        5 => of_kind(job(id, 1, 2, 1000), 0),
        6 => job(id, 3, 2, 1000),
        7 => Job {
            topology: Some(near(Level::Rack, true)),
            ..job(id, 2, 2, 1000)
        },
        8 => Job {
            spread: Some(Spread {
                over: Level::Node,
                most: 1,
            }),
            ..job(id, 2, 1, 1000)
        },
        9 => Job {
            gang: Gang {
                least: 1,
                preferred: 3,
                most: 4,
            },
            ..job(id, 1, 1, 1000)
        },
        _ => {
            let mut job = job(id, 1, 1, 1000);
            let slice = SliceAsk {
                memory_mib: 8 * 1024,
                ..SliceAsk::default()
            };
            job.worker.gpu = GpuAsk::Slice {
                slice,
                kinds: Kinds::ANY,
            };
            job
        }
    }
}

fn mig() -> MigGeometry {
    let rows = include_str!("../../../../catalogue/mig_profiles.csv");
    let boards = read_mig_boards("mig_profiles.csv", rows).unwrap();
    let of = |gpus: &[String]| gpus.iter().any(|gpu| gpu == "A100 SXM4 40GB");
    let board = boards.iter().find(|board| of(&board.gpus)).unwrap();
    board.geometry.only(ProfileSet::Five)
}

/// Six nodes of two kinds in three racks; three queues, one below another, if there are queues.
fn estate(setting: &Setting) -> Fleet {
    let mut fleet = fleet(&[4, 4, 4, 4, 2, 2]);
    let mut other = fleet.kinds[0].clone();
    other.name = "B".into();
    if setting.instances {
        other.mig = Some(mig());
    }
    let price = Money {
        micros: 2_000_000,
        currency: Currency::USD,
    };
    for kind in [&mut fleet.kinds[0], &mut other] {
        kind.price = Some(HourlyPrice(price));
    }
    fleet.kinds.push(other);
    for gpu in fleet.gpus.iter_mut().skip(12) {
        gpu.kind = KindId(1);
    }
    for rack in 0..3 {
        let name = format!("r{rack}");
        fleet.domains.push(Domain {
            name,
            level: Level::Rack,
            parent: None,
        });
    }
    for (node, at) in fleet.nodes.iter_mut().zip(0..) {
        node.domain = Some(DomainId(at / 2));
    }
    if setting.queues {
        for (at, parent) in [(0, None), (1, Some(QueueId(0))), (2, None)] {
            fleet
                .queues
                .push(queue(at, parent, 4 + 2 * u64::from(at), setting));
        }
        fleet.sharing = Sharing {
            half_life: setting.fades.then_some(Nanoseconds(3600 * SECOND)),
            past_milli: 1000,
            ..Sharing::default()
        };
    }
    fleet
}

fn queue(at: u32, parent: Option<QueueId>, gpus: u64, setting: &Setting) -> Queue {
    Queue {
        name: format!("q{at}"),
        parent,
        quotas: vec![Quota {
            kinds: Kinds::ANY,
            nominal_milli: 1000 * gpus,
            borrowing_milli: (at == 2).then_some(3000),
            lending_milli: None,
            cap_milli: None,
        }],
        weight_milli: 1000 + 500 * at,
        priority: 0,
        reclaims: setting.reclaims,
        budget: (setting.budgets && at == 2).then_some(Money {
            micros: 30_000_000,
            currency: Currency::USD,
        }),
        used_milli: 0,
    }
}

#[derive(Debug, Clone)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each can be without the others"
)]
struct Setting {
    queues: bool,
    fades: bool,
    reclaims: bool,
    budgets: bool,
    instances: bool,
    order: Order,
    skips: bool,
    reservations: u32,
    starvation: bool,
    /// 0: nobody is disrupted; 1: what can be made ready; 2: all.
    disrupts: u8,
}

fn settings() -> impl Strategy<Value = Setting> {
    let order = prop::sample::select(vec![
        Order::Arrival,
        Order::Priority,
        Order::Shortest,
        Order::LeastServed,
        Order::Deadline,
        Order::Share,
        Order::FairTree,
    ]);
    let often = || prop::bool::weighted(0.6);
    let seldom = || prop::bool::weighted(0.25);
    let queues = (often(), any::<bool>(), seldom(), seldom(), seldom());
    let turns = (
        order,
        prop::bool::weighted(0.85),
        prop_oneof![3 => Just(0_u32), 1 => 1..3_u32],
        seldom(),
    );
    (
        queues,
        turns,
        prop_oneof![3 => Just(0_u8), 1 => Just(1), 2 => Just(2)],
    )
        .prop_map(
            |(
                (queues, fades, reclaims, budgets, instances),
                (order, skips, reservations, starvation),
                disrupts,
            )| {
                Setting {
                    queues,
                    fades,
                    reclaims,
                    budgets,
                    instances,
                    order,
                    skips,
                    reservations,
                    starvation,
                    disrupts,
                }
            },
        )
}

fn policy(setting: &Setting) -> Policy {
    let idle = Idle {
        busy_milli: 100,
        after: Nanoseconds(300 * SECOND),
        reload: Nanoseconds(10 * SECOND),
    };
    let disruptions = match setting.disrupts {
        0 => Disruptions::NONE,
        1 => Disruptions {
            attach: true,
            repartition: true,
            ..Disruptions::NONE
        },
        _ => Disruptions {
            reclaim: Some(idle),
            ..Disruptions::USUAL
        },
    };
    Policy {
        order: setting.order,
        skips: setting.skips,
        disruptions,
        limits: Limits {
            starvation_timeout: setting.starvation.then_some(Nanoseconds(600 * SECOND)),
            reservations: setting.reservations,
            padding_sigmas: 1.0,
        },
        ..Policy::new(Box::new(FirstFit))
    }
}

/// A world, what began in it, and what time it is.
#[derive(Clone)]
struct Run {
    world: World,
    begun: Vec<(Action, Attempt)>,
    second: u64,
    next: u32,
}

impl Run {
    fn apply(&mut self, event: Event) {
        let at = Nanoseconds(self.second * SECOND);
        // What cannot have happened changes nothing.
        let _ = self.world.apply(&TimestampedEvent { at, event });
    }

    fn some_job(&self, which: prop::sample::Index) -> Option<JobId> {
        let jobs: Vec<JobId> = self.world.jobs().map(|(id, _)| id).collect();
        (!jobs.is_empty()).then(|| jobs[which.index(jobs.len())])
    }

    fn some_action(&self, which: prop::sample::Index) -> Option<(Action, Attempt)> {
        let all = &self.begun;
        (!all.is_empty()).then(|| all[which.index(all.len())].clone())
    }

    fn asks(&mut self, (shape, queue, priority, minutes): (usize, u32, i32, u64)) {
        let submitted = Nanoseconds(self.second * SECOND);
        let length = Nanoseconds(60 * minutes * SECOND);
        let mut asked = shaped(self.next, shape);
        self.next += 1;
        asked.submitted = submitted;
        asked.priority = priority;
        let queues = self.world.queues().len() as u32;
        asked.queue = (queue < queues).then_some(QueueId(queue));
        asked.duration = (minutes % 7 > 0).then_some(DurationEstimate {
            expected: length,
            spread: 0.2,
        });
        asked.deadline = (minutes % 5 == 0).then(|| submitted + length + length);
        if minutes % 3 > 0 {
            asked.preemption = Preemption::Allowed {
                checkpoint_every: Nanoseconds(300 * SECOND),
                restart: Nanoseconds(10 * SECOND),
            };
        }
        self.apply(Event::Submitted(asked));
    }

    fn happens(&mut self, step: &Step, setting: &Setting) {
        let event = match step {
            Step::Ask(shape, queue, priority, minutes) => {
                return self.asks((*shape, *queue, *priority, *minutes));
            }
            Step::End(job) => self.some_job(*job).map(|job| Event::Ended {
                job,
                how: Ended::Finished,
            }),
            Step::Hold(job, held) => self
                .some_job(*job)
                .map(|job| Event::Held { job, held: *held }),
            Step::Change(job, priority) => self.some_job(*job).and_then(|id| {
                let job = self.world.job(id)?.job.to_job();
                Some(Event::JobSet(Job {
                    priority: *priority,
                    ..job
                }))
            }),
            Step::Done(which) => {
                let found = self.some_action(*which);
                found.map(|(action, attempt)| Event::Done { action, attempt })
            }
            Step::Fails(which) => self
                .some_action(*which)
                .map(|(action, attempt)| Event::Failed {
                    action,
                    attempt,
                    failure: Failure {
                        cause: FailureCause::Timeout,
                        what: "no answer".into(),
                    },
                }),
            Step::Withdrawn(which) => {
                let found = self.some_action(*which);
                found.map(|(action, attempt)| Event::Withdrawn { action, attempt })
            }
            Step::Node(node, health) => Some(Event::NodeHealth {
                node: NodeId(*node),
                health: [Health::Up, Health::Draining, Health::Lost { xid: 79 }]
                    [usize::from(*health)],
            }),
            Step::Gpu(gpu, up) => Some(Event::GpuHealth {
                gpu: GpuId(*gpu),
                health: if *up {
                    Health::Up
                } else {
                    Health::Lost { xid: 79 }
                },
            }),
            Step::Quota(at, gpus) => {
                let parent = (*at == 1).then_some(QueueId(0));
                setting
                    .queues
                    .then(|| Event::QueueSet(queue(*at, parent, *gpus, setting)))
            }
            Step::Busy(job, busy_milli) => self.some_job(*job).map(|job| Event::Measured {
                job,
                busy_milli: *busy_milli,
            }),
            Step::Reserve(_, true) => Some(Event::ReservationEnded {
                name: "held".into(),
            }),
            Step::Reserve(node, false) => setting.queues.then(|| {
                let from = Nanoseconds(self.second * SECOND);
                Event::Reserved(Reservation {
                    name: "held".into(),
                    queue: QueueId(2),
                    node: NodeId(*node),
                    gpus: 1,
                    from,
                    until: from + Nanoseconds(600 * SECOND),
                })
            }),
            Step::Passes(seconds) => {
                self.second += seconds;
                return;
            }
            Step::Decide(_) | Step::Copy | Step::Leave => return,
        };
        if let Some(event) = event {
            self.apply(event);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn what_is_kept_decides_as_a_look_at_everybody(
        setting in settings(),
        steps in prop::collection::vec(steps(), 1..120),
    ) {
        let world = World::new(&estate(&setting));
        let mut run = Run { world, begun: Vec::new(), second: 1, next: 0 };
        let mut left: Vec<Run> = Vec::new();
        let (mut scans, mut keeps, mut tells) = (policy(&setting), policy(&setting), policy(&setting));
        for step in &steps {
            match step {
                Step::Copy => left.push(run.clone()),
                Step::Leave => run = left.pop().unwrap_or(run),
                _ => run.happens(step, &setting),
            }
            let Step::Decide(taken) = step else { continue };
            let now = Nanoseconds(run.second * SECOND);
            let all = run.world.jobs().filter(|(_, state)| state.seeks());
            let all: Vec<JobId> = all.map(|(id, _)| id).collect();
            let (plan, report) = decide(now, &run.world, &all, &mut scans, Effort::BARE);
            let changes = Tells::Changes;
            let (kept, _) = decide_pending(now, &run.world, &|_| false, &mut keeps, Effort::BARE, changes);
            prop_assert_eq!(&kept, &plan);
            let everybody = Tells::Everybody;
            let (kept, told) = decide_pending(now, &run.world, &|_| false, &mut tells, Effort::BARE, everybody);
            prop_assert_eq!(&kept, &plan);
            prop_assert_eq!(told, report);
            let first = run.world.attempts().0;
            if *taken && run.world.accept(&plan).is_ok() {
                let numbers = (first + 1..).map(Attempt);
                run.begun.extend(plan.actions.into_iter().zip(numbers));
            }
        }
    }
}

/// What a decision costs is what has happened, not how many wait: of 10,000 jobs of ten shapes on a full fleet
/// nobody is looked at when nothing has happened, and few when one GPU was freed.
#[test]
fn few_are_looked_at() {
    let mut world = World::new(&fleet(&[4; 8]));
    let mut policy = Policy {
        order: Order::Priority,
        ..Policy::new(Box::new(FirstFit))
    };
    let at = Nanoseconds(0);
    let apply = |world: &mut World, event| world.apply(&TimestampedEvent { at, event }).unwrap();
    let decided = |world: &World, policy: &mut Policy| {
        decide_pending(at, world, &|_| false, policy, Effort::BARE, Tells::Changes)
    };
    for id in 0..10_000 {
        let mut asked = job(id, 1, 1 + id % 4, 1000);
        asked.worker.cpu_milli += u64::from(id % 10);
        asked.submitted = at;
        apply(&mut world, Event::Submitted(asked));
    }
    let (plan, report) = decided(&world, &mut policy);
    world.accept(&plan).unwrap();
    at_most(report.decisions.len(), 80);
    let (_, lines) = policy.backlog.size();
    assert!(lines <= 20 && policy.backlog.blocked() == lines);
    assert_eq!(decided(&world, &mut policy).1.decisions, []);
    let job = plan.actions.iter().find_map(|action| match action {
        Action::Place { job, .. } => Some(*job),
        _ => None,
    });
    let job = job.unwrap();
    apply(
        &mut world,
        Event::Ended {
            job,
            how: Ended::Finished,
        },
    );
    let (plan, report) = decided(&world, &mut policy);
    assert_eq!(plan.actions.len(), 1);
    at_most(report.decisions.len(), 12);
}

fn at_most(found: usize, most: usize) {
    assert!(found <= most, "{found} were looked at");
}

/// Who was passed over gets what is freed for another in the same decision, if it comes after.
#[test]
fn what_is_freed_in_a_decision_is_for_those_who_come_after() {
    let mut world = World::new(&fleet(&[4]));
    let at = Nanoseconds(SECOND);
    let apply = |world: &mut World, event| world.apply(&TimestampedEvent { at, event }).unwrap();
    let mut policy = Policy {
        disruptions: Disruptions::USUAL,
        ..Policy::new(Box::new(FirstFit))
    };
    for (id, gpus, priority) in [(0, 4, 0), (1, 1, 0), (2, 1, 0), (3, 1, 2), (4, 1, 0)] {
        let mut asked = job(id, 1, gpus, 1000);
        asked.priority = priority;
        asked.preemption = Preemption::Allowed {
            checkpoint_every: Nanoseconds(300 * SECOND),
            restart: Nanoseconds(SECOND),
        };
        apply(&mut world, Event::Submitted(asked));
        if id == 0 {
            let (effort, tells) = (Effort::BARE, Tells::Changes);
            let (plan, _) = decide_pending(at, &world, &|_| false, &mut policy, effort, tells);
            let place = plan.actions.into_iter().next().unwrap();
            apply(&mut world, Event::done(place));
        }
    }
    let (effort, tells) = (Effort::BARE, Tells::Changes);
    let (plan, _) = decide_pending(at, &world, &|_| false, &mut policy, effort, tells);
    let placed = plan.actions.iter().filter_map(|action| match action {
        Action::Place { job, .. } => Some(job.0),
        _ => None,
    });
    assert_eq!(placed.collect::<Vec<_>>(), [3, 4]);
}

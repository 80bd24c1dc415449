//! Fleets, jobs, events, plans by numbers and reports: what is read back is what was written, and it is
//! as the schemas say.

use crate::schemas::fits;
use gpuwise_domain::placement::{
    Action, Assignment, Attempt, Backfill, Cause, Decision, Domain, DomainId, DurationEstimate,
    Ended, Event, FabricPool, Failure, FailureCause, Fix, Fleet, FleetGpu, Gang, GpuAsk, GpuId,
    GpuKind, GpuShare, Health, Home, IslandId, Isolation, Job, JobId, KindId, Kinds, Level,
    MigGeometry, MigShape, Need, Node, NodeId, Order, Outcome, Part, Plan, PoolId, Preemption,
    Queue, QueueId, Quota, QuotaLimit, QuotaShort, Remedy, Report, Reservation, Scheduling, Seen,
    Sharing, Shortage, SliceAsk, Spread, TimestampedEvent, TopologyWish, Weigh, WorkerAsk,
};
use gpuwise_units::{HourlyPrice, Money, Nanoseconds};
use gpuwise_wire::{
    decisions_schema, event_schema, inventory_schema, job_schema,
    live::{
        event_from_json, event_to_json, fleet_from_json, fleet_to_json, job_from_json, job_to_json,
        numbered_plan_from_json, numbered_plan_to_json, report_from_json, report_to_json,
    },
    numbered_plan_schema,
};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::Value;

fn text() -> impl Strategy<Value = String> {
    "[ -~é–\n\"\\\\]{0,6}"
}

fn time() -> impl Strategy<Value = Nanoseconds> {
    any::<u64>().prop_map(Nanoseconds)
}

fn money() -> impl Strategy<Value = Money> {
    (-i64::MAX..i64::MAX, select(vec!["USD", "JPY"])).prop_map(|(micros, currency)| Money {
        micros,
        currency: currency.parse().unwrap(),
    })
}

fn kinds() -> impl Strategy<Value = Kinds> {
    prop_oneof![
        Just(Kinds::ANY),
        Just(Kinds::NONE),
        any::<u64>().prop_map(Kinds),
    ]
}

fn level() -> impl Strategy<Value = Level> {
    select(Level::ALL.to_vec())
}

fn health() -> impl Strategy<Value = Health> {
    prop_oneof![
        Just(Health::Up),
        Just(Health::Draining),
        Just(Health::Maintenance),
        any::<u32>().prop_map(|xid| Health::Lost { xid }),
    ]
}

fn shape() -> impl Strategy<Value = MigShape> {
    (
        (text(), any::<[Option<u32>; 2]>()),
        (any::<[u8; 3]>(), any::<u16>(), any::<bool>()),
    )
        .prop_map(
            |((profile, [memory_mib, units]), ([compute, size, most], starts, media))| MigShape {
                profile,
                memory_mib,
                units,
                compute,
                size,
                starts,
                most,
                media,
            },
        )
}

fn kind() -> impl Strategy<Value = GpuKind> {
    let mig = (any::<[u8; 2]>(), vec(shape(), 0..3)).prop_map(
        |([compute_slices, memory_slices], shapes)| MigGeometry {
            compute_slices,
            memory_slices,
            shapes,
        },
    );
    (
        (text(), vec(text(), 0..2)),
        any::<[Option<u32>; 4]>(),
        option::of(money()),
        option::of(mig),
    )
        .prop_map(
            |((name, features), [memory_mib, units, bandwidth_gbs, tflops], price, mig)| GpuKind {
                features,
                name,
                memory_mib,
                units,
                bandwidth_gbs,
                tflops,
                price: price.map(HourlyPrice),
                mig,
            },
        )
}

fn numbers() -> impl Strategy<Value = Vec<u32>> {
    vec(any::<u32>(), 0..3)
}

fn node() -> impl Strategy<Value = Node> {
    (
        (text(), text(), any::<[u64; 2]>(), numbers()),
        (option::of(any::<u32>()), numbers(), any::<u32>(), health()),
    )
        .prop_map(
            |((name, uid, [cpu_milli, memory_mib], gpus), (domain, pools, slots, health))| Node {
                name,
                uid: uid.into(),
                cpu_milli,
                memory_mib,
                gpus: gpus.into_iter().map(GpuId).collect(),
                domain: domain.map(DomainId),
                pools: pools.into_iter().map(PoolId).collect(),
                slots,
                health,
            },
        )
}

fn gpu() -> impl Strategy<Value = FleetGpu> {
    (
        (text(), any::<[u32; 3]>(), any::<[Option<u32>; 4]>()),
        (health(), any::<[bool; 2]>()),
    )
        .prop_map(
            |(
                (uid, [kind, home, index], [numa, switch, island, rail]),
                (health, [pooled, mig_on]),
            )| FleetGpu {
                kind: KindId(kind),
                uid: uid.into(),
                home: if pooled {
                    Home::Pool(PoolId(home))
                } else {
                    Home::Node(NodeId(home))
                },
                index,
                numa,
                switch,
                island: island.map(IslandId),
                rail,
                health,
                mig_on,
            },
        )
}

fn queue() -> impl Strategy<Value = Queue> {
    let quota = (kinds(), any::<u64>(), any::<[Option<u64>; 3]>()).prop_map(
        |(kinds, nominal_milli, [borrowing_milli, lending_milli, cap_milli])| Quota {
            kinds,
            nominal_milli,
            borrowing_milli,
            lending_milli,
            cap_milli,
        },
    );
    (
        (text(), option::of(any::<u32>()), vec(quota, 0..3)),
        (any::<u32>(), any::<i32>(), any::<bool>()),
        (option::of(money()), any::<u64>()),
    )
        .prop_map(
            |((name, parent, quotas), (weight_milli, priority, reclaims), (budget, used_milli))| {
                Queue {
                    name,
                    parent: parent.map(QueueId),
                    quotas,
                    weight_milli,
                    priority,
                    reclaims,
                    budget,
                    used_milli,
                }
            },
        )
}

fn reservation() -> impl Strategy<Value = Reservation> {
    (text(), any::<[u32; 3]>(), time(), time()).prop_map(
        |(name, [queue, node, gpus], from, until)| Reservation {
            name,
            queue: QueueId(queue),
            node: NodeId(node),
            gpus,
            from,
            until,
        },
    )
}

fn sharing() -> impl Strategy<Value = Sharing> {
    let weigh = select(vec![
        Weigh::Alike,
        Weigh::Price,
        Weigh::Speed,
        Weigh::Dominant,
    ]);
    (weigh, option::of(time()), any::<u32>(), option::of(time())).prop_map(
        |(weigh, half_life, past_milli, budget_period)| Sharing {
            weigh,
            half_life,
            past_milli,
            budget_period,
        },
    )
}

fn domain() -> impl Strategy<Value = Domain> {
    (text(), level(), option::of(any::<u32>())).prop_map(|(name, level, parent)| Domain {
        name,
        level,
        parent: parent.map(DomainId),
    })
}

fn pool() -> impl Strategy<Value = FabricPool> {
    (text(), time(), time(), any::<bool>()).prop_map(|(name, attach, detach, hot_plug)| {
        FabricPool {
            name,
            attach,
            detach,
            hot_plug,
        }
    })
}

fn fleet() -> impl Strategy<Value = Fleet> {
    let scheduling = (
        option::of(select(Order::ALL.to_vec())),
        option::of(select(Backfill::ALL.to_vec())),
        option::of(time()),
        any::<bool>(),
    )
        .prop_map(|(order, backfill, starvation, weighs)| Scheduling {
            order,
            backfill,
            starvation,
            weighs,
        });
    (
        (
            text(),
            vec(kind(), 0..2),
            vec(node(), 0..3),
            vec(gpu(), 0..3),
        ),
        (vec(domain(), 0..3), vec(text(), 0..3), vec(pool(), 0..2)),
        (vec(queue(), 0..3), vec(reservation(), 0..2)),
        (sharing(), scheduling),
    )
        .prop_map(
            |(
                (name, kinds, nodes, gpus),
                (domains, islands, pools),
                (queues, reservations),
                (sharing, scheduling),
            )| Fleet {
                name,
                kinds,
                nodes,
                gpus,
                domains,
                islands,
                pools,
                queues,
                reservations,
                sharing,
                scheduling,
            },
        )
}

fn isolation() -> impl Strategy<Value = Isolation> {
    prop_oneof![
        Just(Isolation::TimeSlice),
        Just(Isolation::Mps),
        any::<u32>().prop_map(|mib| Isolation::Vgpu { mib }),
    ]
}

fn ask() -> impl Strategy<Value = GpuAsk> {
    prop_oneof![
        Just(GpuAsk::None),
        (any::<u32>(), kinds(), any::<[u32; 3]>()).prop_map(
            |(count, kinds, [memory_mib, tflops, bandwidth_gbs])| GpuAsk::Whole {
                count,
                kinds,
                need: Need {
                    memory_mib,
                    tflops,
                    bandwidth_gbs,
                },
            }
        ),
        (any::<u32>(), option::of(any::<u32>()), isolation(), kinds()).prop_map(
            |(milli, memory_mib, isolation, kinds)| GpuAsk::Fraction {
                milli,
                memory_mib,
                isolation,
                kinds,
            }
        ),
        (any::<[u32; 2]>(), any::<[u8; 2]>(), any::<bool>(), kinds()).prop_map(
            |([memory_mib, units], [compute, memory_slices], media, kinds)| GpuAsk::Slice {
                slice: SliceAsk {
                    memory_mib,
                    units,
                    compute,
                    memory_slices,
                    media,
                },
                kinds,
            }
        ),
    ]
}

fn job() -> impl Strategy<Value = Job> {
    let wishes = (
        option::of((level(), any::<bool>(), any::<u32>())),
        option::of((level(), any::<u32>())),
        option::of(time()),
        option::of((time(), time())),
        option::of((
            time(),
            any::<f64>().prop_filter("a number", |x| !x.is_nan()),
        )),
    );
    (
        (any::<u32>(), text(), text(), option::of(any::<u32>())),
        (any::<i32>(), [time(), time()], any::<[u64; 2]>(), ask()),
        (any::<[u32; 3]>(), wishes),
        (vec(any::<(u32, u32)>(), 0..3), numbers()),
    )
        .prop_map(
            |(
                (id, name, tenant, queue),
                (priority, [submitted, grace], [cpu_milli, memory_mib], gpu),
                ([least, preferred, most], (topology, spread, deadline, stops, duration)),
                (speeds, near),
            )| Job {
                id: JobId(id),
                name,
                tenant,
                queue: queue.map(QueueId),
                priority,
                submitted,
                worker: WorkerAsk {
                    cpu_milli,
                    memory_mib,
                    gpu,
                },
                gang: Gang {
                    least,
                    preferred,
                    most,
                },
                topology: topology.map(|(within, required, penalty_milli)| TopologyWish {
                    within,
                    required,
                    penalty_milli,
                }),
                spread: spread.map(|(over, most)| Spread { over, most }),
                deadline,
                preemption: stops.map_or(Preemption::Never, |(checkpoint_every, restart)| {
                    Preemption::Allowed {
                        checkpoint_every,
                        restart,
                    }
                }),
                grace,
                duration: duration.map(|(expected, spread)| DurationEstimate { expected, spread }),
                speeds: speeds
                    .into_iter()
                    .map(|(kind, speed)| (KindId(kind), speed))
                    .collect(),
                near: near.into_iter().map(NodeId).collect(),
            },
        )
}

fn assignments() -> impl Strategy<Value = Vec<Assignment>> {
    let part = prop_oneof![
        Just(Part::Whole),
        (any::<[u32; 2]>(), isolation()).prop_map(|([milli, memory_mib], isolation)| {
            Part::Fraction {
                milli,
                memory_mib,
                isolation,
            }
        }),
        any::<[u8; 2]>().prop_map(|[shape, start]| Part::Slice { shape, start }),
    ];
    let share = (any::<u32>(), part).prop_map(|(gpu, part)| GpuShare {
        gpu: GpuId(gpu),
        part,
    });
    let assignment = (any::<u32>(), vec(share, 0..3)).prop_map(|(node, gpus)| Assignment {
        node: NodeId(node),
        gpus,
    });
    vec(assignment, 0..3)
}

fn action() -> impl Strategy<Value = Action> {
    let cause = prop_oneof![
        any::<u32>().prop_map(|job| Cause::For(JobId(job))),
        select(vec![
            Cause::Defragmentation,
            Cause::Drain,
            Cause::Reclaim,
            Cause::RoundEnd,
            Cause::Lost,
            Cause::Drift,
        ]),
    ];
    (
        0..11,
        any::<[u32; 2]>(),
        assignments(),
        cause,
        any::<[u8; 2]>(),
        any::<bool>(),
    )
        .prop_map(
            |(which, [first, second], assignments, cause, [shape, start], on)| {
                let (job, gpu, node) = (JobId(first), GpuId(first), NodeId(second));
                match which {
                    0 => Action::Place { job, assignments },
                    1 => Action::Preempt { job, cause },
                    2 => Action::Move {
                        job,
                        assignments,
                        cause,
                    },
                    3 => Action::Resize { job, assignments },
                    4 => Action::SetMig { gpu, on },
                    5 => Action::CreateInstance { gpu, shape, start },
                    6 => Action::DestroyInstance { gpu, start },
                    7 => Action::Attach { gpu, node },
                    8 => Action::Detach { gpu },
                    9 => Action::Reclaim { job },
                    _ => Action::Restore { job, assignments },
                }
            },
        )
}

fn event() -> impl Strategy<Value = Event> {
    let number = any::<u32>;
    prop_oneof![
        (action(), any::<u64>(), 0..4, failure()).prop_map(|(action, attempt, which, failure)| {
            let attempt = Attempt(attempt);
            match which {
                0 => Event::Begun { action, attempt },
                1 => Event::Done { action, attempt },
                2 => Event::Withdrawn { action, attempt },
                _ => Event::Failed {
                    action,
                    attempt,
                    failure,
                },
            }
        }),
        job().prop_map(Event::Submitted),
        job().prop_map(Event::JobSet),
        change(),
        estate(),
        (
            number(),
            select(vec![Ended::Finished, Ended::Failed, Ended::Cancelled])
        )
            .prop_map(|(job, how)| Event::Ended {
                job: JobId(job),
                how
            }),
        (node(), vec(gpu(), 0..3)).prop_map(|(node, gpus)| Event::NodeJoined { node, gpus }),
        (number(), health()).prop_map(|(node, health)| Event::NodeHealth {
            node: NodeId(node),
            health
        }),
        (number(), health()).prop_map(|(gpu, health)| Event::GpuHealth {
            gpu: GpuId(gpu),
            health
        }),
        queue().prop_map(Event::QueueSet),
        sharing().prop_map(Event::SharingSet),
        reservation().prop_map(Event::Reserved),
        text().prop_map(|name| Event::ReservationEnded { name }),
        (number(), money()).prop_map(|(kind, price)| Event::PriceSet {
            kind: KindId(kind),
            price: HourlyPrice(price)
        }),
        (number(), number()).prop_map(|(job, busy_milli)| Event::Measured {
            job: JobId(job),
            busy_milli
        }),
        number().prop_map(|job| Event::Wanted { job: JobId(job) }),
    ]
}

fn failure() -> impl Strategy<Value = Failure> {
    (select(FailureCause::ALL.to_vec()), text()).prop_map(|(cause, what)| Failure { cause, what })
}

/// What happens to a job.
fn change() -> impl Strategy<Value = Event> {
    (any::<u32>(), assignments(), any::<bool>(), 0..3).prop_map(
        |(job, mut assignments, held, which)| {
            let job = JobId(job);
            match (which, assignments.pop()) {
                (0, Some(assignment)) => Event::WorkerLost { job, assignment },
                (1, _) => Event::Held { job, held },
                _ => Event::Checkpointed { job },
            }
        },
    )
}

/// What happens to what there is.
fn estate() -> impl Strategy<Value = Event> {
    let seen = (any::<u32>(), assignments()).prop_map(|(job, assignments)| Seen {
        job: JobId(job),
        gpus: assignments.into_iter().flat_map(|one| one.gpus).collect(),
    });
    prop_oneof![
        gpu().prop_map(Event::GpuJoined),
        kind().prop_map(Event::KindAdded),
        domain().prop_map(Event::DomainAdded),
        pool().prop_map(Event::PoolAdded),
        (any::<u32>(), text(), 0..5).prop_map(|(number, text, which)| {
            let node = NodeId(number);
            match which {
                0 => Event::NodeLeft { node },
                1 => Event::GpuLeft { gpu: GpuId(number) },
                2 => Event::IslandAdded { name: text },
                3 => Event::NodeSuspected { node, by: text },
                _ => Event::NodeFenced { node, by: text },
            }
        }),
        (any::<u32>(), time(), vec(seen, 0..3)).prop_map(|(node, seen_at, seen)| {
            Event::Observed {
                node: NodeId(node),
                seen_at,
                seen,
            }
        }),
    ]
}

fn shortage() -> impl Strategy<Value = Shortage> {
    let quota = (
        (any::<[u32; 2]>(), kinds(), 0..3_usize),
        any::<[u64; 8]>(),
        any::<[(u32, u32); 3]>(),
    )
        .prop_map(|(([queue, above], kinds, by), n, users)| QuotaShort {
            queue,
            nominal_milli: n[0],
            held_milli: n[1],
            kinds,
            needed_milli: n[2],
            room_milli: n[3],
            by: [
                QuotaLimit::Cap { queue: above },
                QuotaLimit::Borrowing { queue: above },
                QuotaLimit::Cohort,
            ][by],
            limit_milli: n[4],
            used_milli: n[5],
            guaranteed_milli: n[6],
            guaranteed_here_milli: n[7],
            users,
        });
    let other = (
        0..19,
        any::<[u32; 3]>(),
        any::<[u64; 2]>(),
        option::of(any::<u32>()),
        kinds(),
        level(),
    );
    let other = other.prop_map(|(which, [a, b, c], [wide, best], place, kinds, within)| {
        let node = place.map(NodeId);
        match which {
            0 => Shortage::Untold,
            1 => Shortage::NoSuchGpu { kinds },
            2 => Shortage::LargerThanFleet { fit: a, needed: b },
            3 => Shortage::Gpus {
                needed: a,
                best: b,
                node,
            },
            4 => Shortage::Cpu {
                needed: wide,
                best,
                node,
            },
            5 => Shortage::Memory {
                needed: wide,
                best,
                node,
            },
            6 => Shortage::Fraction { needed: a, best: b },
            7 => Shortage::Slice,
            8 => Shortage::Workers { needed: a, fit: b },
            9 => Shortage::Topology {
                within,
                needed: a,
                best: b,
                place,
            },
            10 => Shortage::Spread { needed: a, fit: b },
            11 => Shortage::Budget { queue: c },
            12 => Shortage::Reserved { node: NodeId(c) },
            13 => Shortage::Held,
            14 => Shortage::BackOff {
                until: Nanoseconds(wide),
            },
            15 => Shortage::Avoided {
                node: NodeId(c),
                until: Nanoseconds(wide),
            },
            16 => Shortage::Unfenced { node: NodeId(c) },
            17 => Shortage::Leaving,
            _ => Shortage::BehindHead { head: JobId(c) },
        }
    });
    prop_oneof![quota.prop_map(Shortage::Quota), other]
}

fn remedy() -> impl Strategy<Value = Remedy> {
    let jobs = || numbers().prop_map(|jobs| jobs.into_iter().map(JobId).collect::<Vec<_>>());
    let number = any::<u32>;
    prop_oneof![
        jobs().prop_map(Remedy::Preempt),
        jobs().prop_map(Remedy::Move),
        jobs().prop_map(Remedy::Wait),
        (number(), number()).prop_map(|(like, nodes)| Remedy::Buy {
            like: NodeId(like),
            nodes
        }),
        number().prop_map(|workers| Remedy::Shrink { workers }),
        option::of(level()).prop_map(|within| Remedy::Relax { within }),
        number().prop_map(|kind| Remedy::Accept(KindId(kind))),
        vec(action(), 0..3).prop_map(Remedy::Repartition),
        number().prop_map(|node| Remedy::Repair(NodeId(node))),
        (number(), any::<u64>()).prop_map(|(queue, by_milli)| Remedy::Raise {
            queue: QueueId(queue),
            by_milli
        }),
    ]
}

fn report() -> impl Strategy<Value = Report> {
    let fix = (
        (remedy(), text()),
        (time(), time(), option::of(money()), time()),
    )
        .prop_map(|((remedy, what), (after, lost, price, cost))| Fix {
            remedy,
            what,
            after,
            lost,
            price,
            cost,
        });
    let waits =
        (shortage(), option::of(time()), vec(fix, 0..3)).prop_map(|(shortage, start, fixes)| {
            Outcome::Waits {
                shortage,
                start,
                fixes,
            }
        });
    let decision = (
        any::<[u32; 2]>(),
        prop_oneof![Just(Outcome::Placed), waits],
        vec((text(), any::<i64>()), 0..3),
    )
        .prop_map(|([job, candidates], outcome, weighed)| Decision {
            job: JobId(job),
            outcome,
            candidates,
            weighed: weighed
                .into_iter()
                .map(|(name, points)| (name.into(), points))
                .collect(),
        });
    (vec(decision, 0..4), any::<u64>()).prop_map(|(decisions, steps)| Report { decisions, steps })
}

/// A schema, and whether a text is as it says.
struct Form(Value);

impl Form {
    fn of(schema: &str) -> Self {
        Self(serde_json::from_str(schema).unwrap())
    }

    fn holds(&self, text: &str) {
        let value: Value = serde_json::from_str(text).unwrap();
        fits(&value, &self.0, &self.0, "").unwrap();
    }
}

/// Values of a kind come back as they were, on one line, as their schema says.
macro_rules! comes_back {
    ($name:ident, $values:expr, $schema:ident, $out:ident, $back:ident) => {
        #[test]
        fn $name() {
            let form = Form::of(&$schema());
            proptest!(|(value in $values)| {
                let text = $out(&value);
                prop_assert!(!text.contains('\n'));
                form.holds(&text);
                prop_assert_eq!($back(&text).unwrap(), value);
            });
        }
    };
}

comes_back!(
    fleets_come_back,
    fleet(),
    inventory_schema,
    fleet_to_json,
    fleet_from_json
);
comes_back!(
    jobs_come_back,
    job(),
    job_schema,
    job_to_json,
    job_from_json
);
comes_back!(
    events_come_back,
    (time(), event()).prop_map(|(at, event)| TimestampedEvent { at, event }),
    event_schema,
    event_to_json,
    event_from_json
);
comes_back!(
    plans_come_back,
    (any::<[u64; 2]>(), time(), vec(action(), 0..4)).prop_map(
        |([number, parent], made, actions)| Plan {
            number,
            parent,
            made,
            actions
        }
    ),
    numbered_plan_schema,
    numbered_plan_to_json,
    numbered_plan_from_json
);
comes_back!(
    reports_come_back,
    report(),
    decisions_schema,
    report_to_json,
    report_from_json
);

#[test]
fn what_cannot_be_is_told_with_its_place() {
    let event = Event::Wanted { job: JobId(3) };
    let at = Nanoseconds(5);
    let text = event_to_json(&TimestampedEvent { at, event });
    assert_eq!(
        text,
        r#"{"schema":"gpuwise.event/v1","event":{"at_ns":5,"event":{"wanted":{"job":3}}}}"#
    );
    let check = |from: &str, to: &str, said: &str| {
        assert!(text.contains(from), "{from}");
        let error = event_from_json(&text.replace(from, to)).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    };
    check("\"wanted\"", "\"wished\"", "event.event");
    check("\"job\":3", "\"job\":-3", "event.event");
    check("\"at_ns\":5,", "", "missing field `at_ns`");
    check("event/v1", "event/v2", "gpuwise.event/v2");
    let job = Job::new(
        JobId(0),
        "j".into(),
        WorkerAsk {
            cpu_milli: 0,
            memory_mib: 0,
            gpu: GpuAsk::Whole {
                count: 1,
                kinds: Kinds::one(KindId(4)),
                need: Need::default(),
            },
        },
    );
    let text = job_to_json(&job).replace("\"kinds\":[4]", "\"kinds\":[64]");
    let error = job_from_json(&text).unwrap_err().to_string();
    assert!(
        error.contains("numbers of kinds of GPU, 0 to 63"),
        "{error}"
    );
}

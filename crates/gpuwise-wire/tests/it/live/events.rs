//! Actions and events as they may be.

use super::{
    draws::{health, money, text, time},
    fleets::{domain, gpu, kind, node, pool, queue, reservation, sharing},
    jobs::{isolation, job},
};
use gpuwise_domain::placement::{
    Action, Assignment, Attempt, Cause, Ended, Event, Failure, FailureCause, GpuId, GpuShare,
    JobId, KindId, NodeId, Part, Seen,
};
use gpuwise_units::HourlyPrice;
use proptest::{collection::vec, prelude::*, sample::select};

pub(super) fn assignments() -> impl Strategy<Value = Vec<Assignment>> {
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

pub(super) fn action() -> impl Strategy<Value = Action> {
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

pub(super) fn event() -> impl Strategy<Value = Event> {
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

pub(super) fn failure() -> impl Strategy<Value = Failure> {
    (select(FailureCause::ALL.to_vec()), text()).prop_map(|(cause, what)| Failure { cause, what })
}

/// What happens to a job.
pub(super) fn change() -> impl Strategy<Value = Event> {
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
pub(super) fn estate() -> impl Strategy<Value = Event> {
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

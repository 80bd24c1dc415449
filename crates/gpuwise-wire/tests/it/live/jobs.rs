//! Jobs as they may be, and what they ask.

use super::{
    draws::{kinds, level, text, time},
    fleets::numbers,
};
use gpuwise_domain::placement::{
    DurationEstimate, Gang, GpuAsk, Isolation, Job, JobId, KindId, Need, NodeId, Preemption,
    QueueId, SliceAsk, Spread, TopologyWish, WorkerAsk,
};
use proptest::{collection::vec, option, prelude::*};

pub(super) fn isolation() -> impl Strategy<Value = Isolation> {
    prop_oneof![
        Just(Isolation::TimeSlice),
        Just(Isolation::Mps),
        any::<u32>().prop_map(|mib| Isolation::Vgpu { mib }),
    ]
}

pub(super) fn ask() -> impl Strategy<Value = GpuAsk> {
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

pub(super) fn job() -> impl Strategy<Value = Job> {
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

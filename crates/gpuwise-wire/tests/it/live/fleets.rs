//! Fleets as they may be: nodes, GPUs and their cuts, queues, reservations, pools.

use super::draws::{health, kinds, level, money, text, time};
use gpuwise_domain::placement::{
    Backfill, Domain, DomainId, FabricPool, Fleet, FleetGpu, GpuId, GpuKind, Home, IslandId,
    KindId, MigGeometry, MigShape, Node, NodeId, Order, PoolId, Queue, QueueId, Quota, Reservation,
    Scheduling, Sharing, Weigh,
};
use gpuwise_units::HourlyPrice;
use proptest::{collection::vec, option, prelude::*, sample::select};

pub(super) fn shape() -> impl Strategy<Value = MigShape> {
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

pub(super) fn kind() -> impl Strategy<Value = GpuKind> {
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

pub(super) fn numbers() -> impl Strategy<Value = Vec<u32>> {
    vec(any::<u32>(), 0..3)
}

pub(super) fn node() -> impl Strategy<Value = Node> {
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

pub(super) fn gpu() -> impl Strategy<Value = FleetGpu> {
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

pub(super) fn queue() -> impl Strategy<Value = Queue> {
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

pub(super) fn reservation() -> impl Strategy<Value = Reservation> {
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

pub(super) fn sharing() -> impl Strategy<Value = Sharing> {
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

pub(super) fn domain() -> impl Strategy<Value = Domain> {
    (text(), level(), option::of(any::<u32>())).prop_map(|(name, level, parent)| Domain {
        name,
        level,
        parent: parent.map(DomainId),
    })
}

pub(super) fn pool() -> impl Strategy<Value = FabricPool> {
    (text(), time(), time(), any::<bool>()).prop_map(|(name, attach, detach, hot_plug)| {
        FabricPool {
            name,
            attach,
            detach,
            hot_plug,
        }
    })
}

pub(super) fn fleet() -> impl Strategy<Value = Fleet> {
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

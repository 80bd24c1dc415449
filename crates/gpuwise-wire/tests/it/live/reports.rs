//! Reports as they may be: why somebody waits, and what would help.

use super::{
    draws::{kinds, level, money, text, time},
    events::action,
    fleets::numbers,
};
use gpuwise_domain::placement::{
    Decision, Fix, JobId, KindId, NodeId, Outcome, QueueId, QuotaLimit, QuotaShort, Remedy, Report,
    Shortage,
};
use gpuwise_units::Nanoseconds;
use proptest::{collection::vec, option, prelude::*};

pub(super) fn shortage() -> impl Strategy<Value = Shortage> {
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

pub(super) fn remedy() -> impl Strategy<Value = Remedy> {
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

pub(super) fn report() -> impl Strategy<Value = Report> {
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

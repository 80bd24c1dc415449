//! What services may share out, beside leases with parts of GPUs and nodes that drain: held against a count by hand of
//! what lies where, and against what the scheduler can place of what was granted.

use crate::{
    boards::boards,
    scaling::follow,
    support::{Desk, asked},
};
use gpuwise_broker::{Look, NodeSeen, Observation, ReplicaRole};
use gpuwise_domain::placement::{
    Fleet, GpuAsk, GpuKind, Isolation, KindId, Kinds, Need, Queue, Quota,
};
use gpuwise_sched::{decide::Policy, disruption::Disruptions, policy::FirstFit};
use gpuwise_wire::broker::{GrantDocument, ScalePolicy, ServiceAsk};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Nodes of eight GPUs: the first of one kind, the others of another where there are two.
fn site(nodes: u32, kinds: u32) -> Desk {
    let mut fleet: Fleet = boards("test", "L40S", nodes);
    if kinds > 1 {
        fleet.kinds.push(GpuKind::named("H100"));
        for gpu in fleet.gpus.iter_mut().skip(8) {
            gpu.kind = KindId(1);
        }
    }
    let policy = Policy {
        order: gpuwise_sched::decide::Order::Priority,
        disruptions: Disruptions::USUAL,
        ..Policy::new(Box::new(FirstFit))
    };
    let mut site = Desk::on(&fleet, policy);
    site.tenant("others", None);
    site
}

/// A lease of so many thousandths of one GPU, or of whole ones.
fn firm(site: &mut Desk, milli: u32) {
    let mut one = asked("others", milli / 1000, None);
    if milli < 1000 {
        one.job.worker.gpu = GpuAsk::Fraction {
            milli,
            memory_mib: None,
            isolation: Isolation::TimeSlice,
            kinds: Kinds::ANY,
        };
    }
    site.request(one).expect("is admitted");
    site.settle();
}

fn service(site: &mut Desk, tenant: &str, min: u32, kinds: Kinds, milli: u32) -> u32 {
    let mut one = asked(tenant, 1, None);
    one.job.worker.gpu = if milli < 1000 {
        GpuAsk::Fraction {
            milli,
            memory_mib: None,
            isolation: Isolation::TimeSlice,
            kinds,
        }
    } else {
        GpuAsk::Whole {
            count: milli / 1000,
            kinds,
            need: Need::default(),
        }
    };
    one.ask.service = Some(ServiceAsk {
        model: tenant.into(),
        scale: Some(ScalePolicy {
            min: Some(min),
            max: Some(40),
            rate: Some(10.0),
            start: Some("60s".into()),
            ..ScalePolicy::default()
        }),
        ..ServiceAsk::default()
    });
    let first = site.request(one).expect("is admitted");
    site.settle();
    first
}

fn come(site: &mut Desk, rates: &[(u32, f64)], periods: u32) {
    for _ in 0..periods {
        site.pass(15);
        for (service, rate) in rates {
            let look = Look {
                service: *service,
                arrived: Some(rate * 15.0),
                requests: 10_000.0,
                ..Look::default()
            };
            let events = site.broker.scale(site.now, &look);
            site.happen(events);
            follow(site);
            site.settle();
            follow(site);
        }
    }
}

fn serving(site: &Desk, service: u32) -> Vec<u32> {
    let mut all = site.broker.scaled();
    let (_, scaling) = all.find(|(one, _)| *one == service).expect("is there");
    let own = scaling.replicas();
    own.filter(|(_, role)| *role == ReplicaRole::Serving)
        .map(|(lease, _)| lease)
        .collect()
}

fn grant(site: &Desk, service: u32) -> Option<GrantDocument> {
    let mut all = site.broker.scaled();
    let (_, scaling) = all.find(|(one, _)| *one == service).expect("is there");
    scaling.last().expect("was looked at").grant.clone()
}

/// Replicas that run.
fn running(site: &Desk, service: u32) -> usize {
    let own = serving(site, service).into_iter();
    own.filter(|lease| site.state(*lease).name() == "active")
        .count()
}

fn drain(site: &mut Desk, node: u32) {
    site.observe(&Observation::Node {
        name: format!("n{node}"),
        seen: NodeSeen::Draining,
        by: "test".into(),
    });
    site.settle();
}

/// GPUs by node and number on which the leases of a tenant are.
fn lies(site: &Desk, tenant: &str) -> BTreeSet<(u32, u32)> {
    let own = site.broker.open_of(tenant);
    let parts = own.flat_map(|lease| &lease.place).flat_map(|one| {
        let gpus = one.gpus.iter();
        gpus.map(|share| (one.node.0, share.gpu.0))
    });
    parts.collect()
}

#[test]
fn eight_eighths_of_one_gpu_leave_seven_to_a_service() {
    let mut site = site(1, 1);
    site.tenant("vision", None);
    for _ in 0..8 {
        firm(&mut site, 125);
    }
    assert_eq!(lies(&site, "others").len(), 1);
    let first = service(&mut site, "vision", 4, Kinds::ANY, 1000);
    come(&mut site, &[(first, 0.0)], 20);
    assert_eq!((serving(&site, first).len(), running(&site, first)), (4, 4));
    come(&mut site, &[(first, 200.0)], 20);
    assert_eq!(
        grant(&site, first).map(|one| (one.gpus, one.gets)),
        Some((7, 7))
    );
    assert_eq!(running(&site, first), 7);
}

#[test]
fn what_lies_on_a_node_that_drains_takes_nothing_of_the_others() {
    let mut site = site(2, 1);
    site.tenant("vision", None);
    for _ in 0..4 {
        firm(&mut site, 2000);
    }
    drain(&mut site, 0);
    let first = service(&mut site, "vision", 4, Kinds::ANY, 1000);
    come(&mut site, &[(first, 200.0)], 20);
    assert_eq!(
        grant(&site, first).map(|one| (one.gpus, one.gets)),
        Some((8, 8))
    );
    assert_eq!(running(&site, first), 8);
}

#[test]
fn a_service_of_parts_holds_the_devices_on_which_it_is() {
    let mut site = site(1, 1);
    site.tenant("vision", None);
    site.tenant("speech", None);
    let parts = service(&mut site, "speech", 2, Kinds::ANY, 500);
    come(&mut site, &[(parts, 0.0)], 4);
    assert_eq!(lies(&site, "speech").len(), 1);
    let first = service(&mut site, "vision", 4, Kinds::ANY, 1000);
    come(&mut site, &[(first, 200.0)], 20);
    assert_eq!(grant(&site, first).map(|one| one.gpus), Some(7));
    assert_eq!(running(&site, first), 7);
}

#[test]
fn a_guarantee_is_less_what_its_leases_hold_in_thousandths() {
    let mut site = site(1, 1);
    let queue = Queue {
        name: "vision".into(),
        parent: None,
        quotas: vec![Quota {
            kinds: Kinds::ANY,
            nominal_milli: 4000,
            borrowing_milli: None,
            lending_milli: None,
            cap_milli: None,
        }],
        weight_milli: 1000,
        priority: 0,
        reclaims: true,
        budget: None,
        used_milli: 0,
    };
    let made = site.broker.create_tenant(queue, None).expect("is created");
    site.happen(made);
    for _ in 0..8 {
        let mut one = asked("vision", 1, None);
        one.job.worker.gpu = GpuAsk::Fraction {
            milli: 125,
            memory_mib: None,
            isolation: Isolation::TimeSlice,
            kinds: Kinds::ANY,
        };
        site.request(one).expect("is admitted");
        site.settle();
    }
    let first = service(&mut site, "vision", 1, Kinds::ANY, 1000);
    come(&mut site, &[(first, 200.0)], 20);
    // One of the four is held in eighths.
    assert_eq!(grant(&site, first).map(|one| one.guaranteed), Some(3));
}

#[test]
fn each_gets_no_more_than_there_is_of_the_kinds_that_it_may_get() {
    let mut site = site(2, 2);
    site.tenant("vision", None);
    site.tenant("speech", None);
    let (l40s, any) = (Kinds::one(KindId(0)), Kinds::ANY);
    for _ in 0..5 {
        let mut one = asked("others", 1, None);
        if let GpuAsk::Whole { kinds, .. } = &mut one.job.worker.gpu {
            *kinds = l40s;
        }
        site.request(one).expect("is admitted");
    }
    site.settle();
    let only = service(&mut site, "vision", 1, l40s, 1000);
    let wide = service(&mut site, "speech", 1, any, 1000);
    come(&mut site, &[(only, 200.0), (wide, 200.0)], 20);
    let gets = [only, wide].map(|one| grant(&site, one).expect("is short").gets);
    assert!(gets[0] <= 3, "{gets:?}");
    assert_eq!(gets[0] + gets[1], 11);
    // The first replica of who may have either kind lies where it was placed.
    assert!(running(&site, only) >= 2 && running(&site, wide) >= 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_service_gets_every_device_that_is_free_and_no_other(
        nodes in 1..5_u32,
        parts in prop::collection::vec(
            prop_oneof![Just(125_u32), Just(250), Just(300), Just(500), Just(1000), Just(2000)],
            0..24,
        ),
        drains in prop::collection::btree_set(0..5_u32, 0..3),
    ) {
        let mut site = site(nodes, 1);
        site.tenant("vision", None);
        for milli in parts {
            firm(&mut site, milli);
        }
        for node in drains.iter().filter(|node| **node < nodes) {
            drain(&mut site, *node);
        }
        let first = service(&mut site, "vision", 1, Kinds::ANY, 1000);
        come(&mut site, &[(first, 390.0)], 8);
        let taken = lies(&site, "others");
        let whole = (0..nodes).filter(|node| !drains.contains(node)).flat_map(|node| {
            (node * 8..node * 8 + 8).map(move |gpu| (node, gpu))
        });
        let free = whole.filter(|one| !taken.contains(one)).count();
        if let Some(grant) = grant(&site, first) {
            prop_assert_eq!(grant.gpus as usize, free);
        }
        // All 40 that it may have are wanted: what runs is what there is.
        prop_assert_eq!(running(&site, first), free.min(40));
    }
}

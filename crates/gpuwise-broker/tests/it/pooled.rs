//! What whoever composes hosts says of pooled GPUs.

use crate::support::{Desk, SECOND, fleet};
use gpuwise_broker::{Broker, GpuSeen, LeaseState, Observation};
use gpuwise_domain::placement::{
    FabricPool, Fleet, FleetGpu, GpuId, Health, Home, KindId, NodeId, PoolId,
};
use gpuwise_sched::{decide::Policy, disruption::Disruptions, policy::FirstFit, world::Link};
use gpuwise_units::Nanoseconds;

/// Two hosts without GPUs of their own, and two GPUs for them.
fn desk() -> Desk {
    let mut composed: Fleet = fleet(2);
    composed.gpus.clear();
    composed.pools = vec![FabricPool {
        name: "shelf".into(),
        attach: Nanoseconds(10 * SECOND),
        detach: Nanoseconds(10 * SECOND),
        hot_plug: false,
    }];
    for node in &mut composed.nodes {
        node.gpus.clear();
        (node.pools, node.slots) = (vec![PoolId(0)], 2);
    }
    for index in 0..2 {
        let mut gpu = FleetGpu::new(KindId(0), Home::Pool(PoolId(0)), index);
        gpu.uid = format!("ResourceBlocks/G{index}").into();
        composed.gpus.push(gpu);
    }
    let policy = Policy {
        disruptions: Disruptions {
            attach: true,
            ..Disruptions::NONE
        },
        ..Policy::new(Box::new(FirstFit))
    };
    let mut desk = Desk::on(&composed, policy);
    desk.tenant("vision", None);
    desk
}

fn seen(gpu: u32, seen: GpuSeen) -> Observation {
    let uid = format!("ResourceBlocks/G{gpu}");
    Observation::Gpu { uid, seen }
}

fn state(desk: &Desk, gpu: u32) -> (Link, Option<NodeId>, Health) {
    let gpu = desk.broker.world().gpu(GpuId(gpu)).expect("is there");
    (gpu.link, gpu.node, gpu.gpu.health)
}

/// The log makes the same state again.
fn again(desk: &Desk) {
    let mut events = desk.log.iter();
    let mut broker = Broker::begin(events.next().expect("begins")).expect("begins");
    events.for_each(|event| broker.apply(event).expect("applies"));
    assert_eq!(broker, desk.broker);
}

#[test]
fn what_somebody_else_has_is_not_offered_until_it_is_free() {
    let mut desk = desk();
    desk.observe(&seen(0, GpuSeen::Taken));
    desk.observe(&seen(1, GpuSeen::Failed));
    let events = desk.log.len();
    desk.observe(&seen(0, GpuSeen::Taken));
    desk.observe(&seen(7, GpuSeen::Free));
    assert_eq!(desk.log.len(), events);
    let lease = desk.ask("vision", 1, None).expect("is admitted");
    desk.settle();
    assert_eq!(desk.state(lease), LeaseState::Requested);
    desk.observe(&seen(0, GpuSeen::Free));
    desk.settle();
    assert_eq!(desk.state(lease), LeaseState::Active);
    assert_eq!(state(&desk, 1).2, Health::Lost { xid: 0 });
    again(&desk);
}

#[test]
fn what_is_at_a_host_though_nobody_attached_it_is_taken_to_be_there() {
    let mut desk = desk();
    let there = || seen(1, GpuSeen::At("n1".into()));
    desk.observe(&there());
    assert_eq!(state(&desk, 1), (Link::Here, Some(NodeId(1)), Health::Up));
    let events = desk.log.len();
    desk.observe(&there());
    assert_eq!(desk.log.len(), events);
    // At a host on which somebody runs it waits until that has ended.
    let mut desk = self::desk();
    let lease = desk.ask("vision", 1, None).expect("is admitted");
    desk.settle();
    let holder = state(&desk, 0).1.expect("at a node");
    let name = format!("n{}", holder.0);
    desk.observe(&seen(1, GpuSeen::At(name.clone())));
    assert_eq!(state(&desk, 1), (Link::InPool, None, Health::Maintenance));
    desk.release(lease);
    desk.settle();
    desk.observe(&seen(1, GpuSeen::At(name)));
    assert_eq!(state(&desk, 1), (Link::Here, Some(holder), Health::Up));
    again(&desk);
}

#[test]
fn who_was_on_what_is_gone_is_placed_anew() {
    let mut desk = desk();
    let lease = desk.ask("vision", 1, None).expect("is admitted");
    desk.settle();
    assert_eq!(state(&desk, 0).0, Link::Here);
    desk.observe(&seen(0, GpuSeen::Taken));
    assert_eq!(state(&desk, 0), (Link::InPool, None, Health::Maintenance));
    assert_ne!(desk.state(lease), LeaseState::Active);
    desk.settle();
    assert_eq!(desk.state(lease), LeaseState::Active);
    assert_eq!(state(&desk, 1).0, Link::Here);
    again(&desk);
}

#[test]
fn what_is_on_its_way_is_not_judged() {
    let mut desk = desk();
    desk.ask("vision", 1, None).expect("is admitted");
    desk.decide();
    let events = desk.log.len();
    for was in [
        GpuSeen::Free,
        GpuSeen::Taken,
        GpuSeen::Missing,
        GpuSeen::Failed,
    ] {
        desk.observe(&seen(0, was));
    }
    assert_eq!(desk.log.len(), events);
}

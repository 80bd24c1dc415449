//! Pooled GPUs that do not come to their node.

use super::{Live, SECOND, failed, stoppable};
use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, Assignment, Attempt, Event, FabricPool, Fleet, FleetGpu, GpuId, GpuShare, Home,
    Isolation, JobId, KindId, NodeId, Part, PoolId,
};
use gpuwise_sched::world::{Link, Phase};
use gpuwise_units::Nanoseconds;

const POOLED: GpuId = GpuId(1);

/// A node with a GPU of its own, and one to which a pooled GPU can be attached.
fn with_pool() -> Fleet {
    let mut fleet = fleet(&[1, 0]);
    fleet.pools = vec![FabricPool {
        name: "p".into(),
        attach: Nanoseconds(SECOND),
        detach: Nanoseconds(SECOND),
        hot_plug: true,
    }];
    fleet
        .gpus
        .push(FleetGpu::new(KindId(0), Home::Pool(PoolId(0)), 0));
    let node = &mut fleet.nodes[1];
    (node.cpu_milli, node.memory_mib) = (16_000, 65_536);
    (node.pools, node.slots) = (vec![PoolId(0)], 1);
    fleet
}

const ATTACH: Action = Action::Attach {
    gpu: POOLED,
    node: NodeId(1),
};

/// Two workers, each with a part of a GPU of these nodes.
fn halves(on: [(u32, GpuId); 2]) -> Action {
    let part = Part::Fraction {
        milli: 300,
        memory_mib: 0,
        isolation: Isolation::TimeSlice,
    };
    let seat = |(node, gpu)| Assignment {
        node: NodeId(node),
        gpus: vec![GpuShare { gpu, part }],
    };
    Action::Place {
        job: JobId(0),
        assignments: on.map(seat).to_vec(),
    }
}

fn asked() -> (Live, Attempt) {
    let mut live = Live::new(&with_pool());
    live.asks(stoppable(job(0, 2, 1, 300)));
    let attempt = live.begins(ATTACH);
    (live, attempt)
}

#[test]
fn nobody_is_leaving_a_gpu_that_has_not_come() {
    let (mut live, attempt) = asked();
    live.begins(halves([(0, GpuId(0)), (1, POOLED)]));
    // What is left of it is told to leave, and it is placed anew on the GPU that is on its way.
    let (node, by) = (NodeId(0), "power".to_owned());
    live.apply(Event::NodeFenced { node, by });
    live.begins(halves([(1, POOLED), (1, POOLED)]));
    live.apply(failed(&ATTACH, attempt));
    let state = live.world.job(JobId(0)).unwrap();
    assert!(state.phase.waits() && state.rare.leaving.is_empty());
    let gpu = live.world.gpu(POOLED).unwrap();
    assert!(gpu.leaving.is_empty() && gpu.link == Link::InPool);
    // Its other half may still be on the node, and is stopped.
    let task = live.world.under_way().remove(0);
    live.done(&task.action, task.attempt);
    assert!(!live.world.job(JobId(0)).unwrap().stopping);
}

#[test]
fn who_lost_its_place_as_a_gpu_did_not_come_is_not_sent_there_at_once() {
    let (mut live, attempt) = asked();
    live.begins(halves([(1, POOLED), (1, POOLED)]));
    live.apply(failed(&ATTACH, attempt));
    let now = live.now();
    let avoided = |live: &Live| live.world.job(JobId(0)).unwrap().avoids(now).count();
    assert_eq!(avoided(&live), 1);
    // What was called off is nobody's fault.
    let (mut live, attempt) = asked();
    live.begins(halves([(1, POOLED), (1, POOLED)]));
    live.apply(Event::Withdrawn {
        action: ATTACH,
        attempt,
    });
    assert!(live.phase(0).waits());
    assert_eq!(avoided(&live), 0);
}

#[test]
fn who_is_said_to_run_on_a_gpu_that_has_not_come_does_not() {
    let (mut live, attempt) = asked();
    let place = halves([(1, POOLED), (1, POOLED)]);
    let started = live.begins(place.clone());
    live.done(&place, started);
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    live.apply(failed(&ATTACH, attempt));
    assert!(live.phase(0).waits());
    assert_eq!(live.world.ignored().early, 1);
}

/// Two hosts that are composed anew when their GPUs change, and three GPUs for them.
fn cold() -> Live {
    let mut fleet = fleet(&[0, 0]);
    fleet.pools = vec![FabricPool {
        name: "p".into(),
        attach: Nanoseconds(10 * SECOND),
        detach: Nanoseconds(10 * SECOND),
        hot_plug: false,
    }];
    for index in 0..3 {
        let gpu = FleetGpu::new(KindId(0), Home::Pool(PoolId(0)), index);
        fleet.gpus.push(gpu);
    }
    for node in &mut fleet.nodes {
        (node.cpu_milli, node.memory_mib) = (16_000, 65_536);
        (node.pools, node.slots) = (vec![PoolId(0)], 3);
    }
    let mut live = Live::new(&fleet);
    live.policy.disruptions.attach = true;
    live
}

const fn attach(gpu: u32, node: u32) -> Action {
    Action::Attach {
        gpu: GpuId(gpu),
        node: NodeId(node),
    }
}

#[test]
fn a_host_on_which_somebody_is_is_not_composed_anew() {
    let mut live = cold();
    live.asks(job(0, 1, 1, 1000));
    live.runs();
    assert_eq!(live.on(0), [0]);
    for action in [attach(1, 0), Action::Detach { gpu: GpuId(0) }] {
        assert!(live.try_apply(Event::begun(action)).is_err());
    }
    // Who comes next has a host of its own, with two GPUs at once.
    live.asks(job(1, 1, 2, 1000));
    live.runs();
    assert_eq!(live.on(1), [1]);
    // Who was told to leave may still be there.
    let stop = live.begins(super::preempt(0));
    assert!(
        live.try_apply(Event::begun(Action::Detach { gpu: GpuId(0) }))
            .is_err()
    );
    live.done(&super::preempt(0), stop);
    live.begins(Action::Detach { gpu: GpuId(0) });
}

#[test]
fn nothing_starts_on_a_host_that_is_being_composed() {
    let mut live = cold();
    let first = live.begins(attach(0, 0));
    live.done(&attach(0, 0), first);
    let second = live.begins(attach(1, 0));
    live.asks(job(0, 1, 1, 1000));
    let place = super::place(0, 0, &[0]);
    live.begins(place.clone());
    assert!(!live.world.can_start(&place));
    live.done(&attach(1, 0), second);
    assert!(live.world.can_start(&place));
}

#[test]
fn what_attaching_took_is_learned_of_each_pool() {
    let mut live = cold();
    let other = FabricPool {
        name: "q".into(),
        attach: Nanoseconds(SECOND),
        detach: Nanoseconds(SECOND),
        hot_plug: true,
    };
    live.apply(Event::PoolAdded(other));
    let (own, other) = (PoolId(0), PoolId(1));
    assert_eq!(live.world.attach_time(own), Some(Nanoseconds(10 * SECOND)));
    let begun = live.begins(attach(0, 0));
    live.second += 2;
    live.done(&attach(0, 0), begun);
    assert_eq!(live.world.attach_time(own), Some(Nanoseconds(2 * SECOND)));
    assert_eq!(live.world.attach_time(other), Some(Nanoseconds(SECOND)));
    assert_eq!(live.world.detach_time(own), Some(Nanoseconds(10 * SECOND)));
}

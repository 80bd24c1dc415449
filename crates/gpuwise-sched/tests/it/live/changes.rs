//! Nodes and jobs that change, leave and come back.

use super::{Live, SECOND, place, preempt, stoppable};
use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Event, FleetGpu, GpuId, GpuKind, Home, Job, JobId, KindId, Kinds, Node, NodeId, Queue, QueueId,
    Quota, Shortage,
};
use gpuwise_sched::{
    decide::{Effort, decide},
    lint::{Limits, Rule, errors, lint},
    world::{Phase, Refused},
};
use gpuwise_units::Nanoseconds;

#[test]
fn nodes_change_leave_and_come_back_and_quotas_follow() {
    let mut there = fleet(&[2, 2]);
    there.queues = vec![Queue {
        name: "q".into(),
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
        reclaims: false,
        budget: None,
        used_milli: 0,
    }];
    let mut live = Live::new(&there);
    let queued = |id| Job {
        queue: Some(QueueId(0)),
        ..job(id, 1, 2, 1000)
    };
    live.asks(queued(0));
    live.asks(queued(1));
    live.runs();
    let capacity = |live: &Live| live.world.shares().capacity(0);
    assert_eq!(capacity(&live), 4000);
    live.apply(Event::NodeLeft { node: NodeId(1) });
    live.apply(Event::NodeLeft { node: NodeId(1) });
    assert_eq!((capacity(&live), live.phase(1).waits()), (2000, true));
    assert_eq!(live.world.figures().capacity_milli, 2000);
    // It is back with one GPU replaced by another, of a new kind.
    live.apply(Event::KindAdded(GpuKind::named("new")));
    let gpu = |uid: &str, kind| FleetGpu {
        uid: uid.into(),
        ..FleetGpu::new(KindId(kind), Home::Node(NodeId(1)), 0)
    };
    let node = Node {
        gpus: Vec::new(),
        ..there.nodes[1].clone()
    };
    let old = live.world.gpu(GpuId(2)).unwrap().gpu.uid.clone();
    let gpus = vec![gpu(&old, 0), gpu("GPU-new", 1)];
    live.apply(Event::NodeJoined {
        node: node.clone(),
        gpus: gpus.clone(),
    });
    let own = live.world.node(NodeId(1)).unwrap().gpus.clone();
    assert_eq!(own, vec![GpuId(2), GpuId(4)]);
    assert_eq!(
        (capacity(&live), live.world.shares().capacity(1)),
        (3000, 1000)
    );
    let before = live.world.ignored().repeated;
    live.apply(Event::NodeJoined { node, gpus });
    assert_eq!(live.world.ignored().repeated, before + 1);
    // Two of one id, a kind that is not there, another kind of one name.
    let twice = vec![gpu("GPU-a", 0), gpu("GPU-a", 0)];
    let named = |name: &str| Node {
        name: name.into(),
        ..Node::default()
    };
    for (gpus, refused) in [
        (twice, Refused::Second("GPU")),
        (vec![gpu("GPU-b", 9)], Refused::Dangling("kind of GPU")),
    ] {
        let event = Event::NodeJoined {
            node: named("c"),
            gpus,
        };
        assert_eq!(live.try_apply(event), Err(refused));
    }
    let other = GpuKind {
        memory_mib: Some(1),
        ..GpuKind::named("new")
    };
    let refused = live.try_apply(Event::KindAdded(other));
    assert_eq!(refused, Err(Refused::Second("kind of GPU")));
    // A GPU that moves to another node leaves the first; who ran on it waits.
    let moved = vec![gpu(&live.world.gpu(GpuId(0)).unwrap().gpu.uid.clone(), 0)];
    live.apply(Event::NodeJoined {
        node: named("c"),
        gpus: moved,
    });
    assert_eq!(live.world.node(NodeId(0)).unwrap().gpus, vec![GpuId(1)]);
    assert!(live.phase(0).waits());
    assert_eq!(live.world.gpu(GpuId(0)).unwrap().node, Some(NodeId(2)));
}

#[test]
fn a_smaller_node_keeps_who_came_first() {
    let there = fleet(&[2]);
    let mut live = Live::new(&there);
    for id in 0..2 {
        let mut asked = job(id, 1, 1, 1000);
        asked.worker.cpu_milli = 8000;
        live.asks(asked);
        live.runs();
    }
    let node = Node {
        cpu_milli: 9000,
        ..there.nodes[0].clone()
    };
    live.apply(Event::NodeJoined {
        node,
        gpus: there.gpus.clone(),
    });
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    assert!(live.phase(1).waits());
}

#[test]
fn jobs_change_while_they_wait_and_while_they_run() {
    let mut live = Live::new(&fleet(&[1, 2]));
    live.asks(stoppable(job(0, 1, 1, 1000)));
    live.apply(Event::Held {
        job: JobId(0),
        held: true,
    });
    assert_eq!(live.why(0), Shortage::Held);
    assert!(live.decides().is_empty());
    let mut plan = decide(live.now(), &live.world, &[], &mut live.policy, Effort::BARE).0;
    plan.actions.push(place(0, 0, &[0]));
    let notes = lint(&live.world, &plan, Limits::NONE);
    assert!(
        errors(&notes).any(|note| note.rule == Rule::BackOff),
        "{notes:?}"
    );
    live.apply(Event::Held {
        job: JobId(0),
        held: false,
    });
    live.runs();
    assert_eq!(live.on(0), vec![0]);
    // It asks for two GPUs from its next start on.
    let mut larger = stoppable(job(0, 1, 2, 1000));
    larger.priority = 7;
    live.apply(Event::JobSet(larger));
    assert_eq!(live.world.job(JobId(0)).unwrap().job.priority, 7);
    live.second = 90;
    live.apply(Event::Checkpointed { job: JobId(0) });
    live.second = 100;
    let attempt = live.begins(preempt(0));
    live.done(&preempt(0), attempt);
    // What it saved itself counts, not the last whole minute.
    assert_eq!(
        live.world.job(JobId(0)).unwrap().done,
        Nanoseconds(90 * SECOND)
    );
    live.runs();
    assert_eq!(live.on(0), vec![1]);
}

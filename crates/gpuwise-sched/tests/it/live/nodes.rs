//! Nodes that do not answer, workers that are lost, and what is seen beside what was wanted.

use super::{Live, place, preempt, seat, stoppable};
use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, Cause, Event, Gang, GpuId, GpuShare, Health, Job, JobId, NodeId, Part, Seen, Shortage,
};
use gpuwise_sched::{
    decide::repair,
    lint::{Limits, errors, lint},
    world::{Drift, Phase},
};

#[test]
fn nothing_of_a_suspected_node_starts_elsewhere_until_it_is_fenced() {
    let mut live = Live::new(&fleet(&[1, 1]));
    live.asks(stoppable(job(0, 1, 1, 1000)));
    live.runs();
    let (node, by) = (NodeId(0), "heartbeat".to_owned());
    live.apply(Event::NodeSuspected { node, by });
    assert!(live.decides().is_empty());
    assert_eq!(live.on(0), vec![0]);
    // Told to stop it cannot say that it has.
    live.begins(preempt(0));
    assert_eq!(live.why(0), Shortage::Unfenced { node });
    assert!(live.decides().is_empty());
    live.second = 5;
    let by = "power switch".to_owned();
    live.apply(Event::NodeFenced {
        node,
        by: by.clone(),
    });
    let fence = live.world.node(node).unwrap().fence().unwrap().clone();
    assert_eq!(
        (fence.suspected_by.as_str(), fence.fenced),
        ("heartbeat", Some((live.now(), by)))
    );
    live.runs();
    assert_eq!(live.on(0), vec![1]);
    // Good news alone does not bring it back.
    live.apply(Event::NodeHealth {
        node,
        health: Health::Up,
    });
    assert_eq!(live.world.ignored().fenced, 1);
    assert!(!live.world.node(node).unwrap().takes_work());
    let fleet = fleet(&[1, 1]);
    let gpus = vec![fleet.gpus[0].clone()];
    live.apply(Event::NodeJoined {
        node: fleet.nodes[0].clone(),
        gpus,
    });
    assert!(live.world.node(node).unwrap().takes_work());
    assert_eq!((live.world.nodes().len(), live.world.gpus().len()), (2, 2));
}

#[test]
fn a_suspicion_that_was_wrong_disturbs_nobody() {
    let mut live = Live::new(&fleet(&[1]));
    live.asks(job(0, 1, 1, 1000));
    live.runs();
    let node = NodeId(0);
    live.apply(Event::NodeHealth {
        node,
        health: Health::Lost { xid: 0 },
    });
    assert!(live.world.node(node).unwrap().is_suspected());
    live.apply(Event::NodeHealth {
        node,
        health: Health::Up,
    });
    assert!(live.world.node(node).unwrap().takes_work());
    assert!(matches!(live.phase(0), Phase::Running { .. }));
}

#[test]
fn what_a_gang_has_left_is_stopped_before_it_starts_again() {
    let mut live = Live::new(&fleet(&[1, 1, 1]));
    live.asks(job(0, 2, 1, 1000));
    live.runs();
    assert_eq!(live.on(0), vec![0, 1]);
    let (node, by) = (NodeId(0), "x".to_owned());
    live.apply(Event::NodeFenced { node, by });
    let task = live.world.under_way().remove(0);
    assert_eq!(
        task.action,
        Action::Preempt {
            job: JobId(0),
            cause: Cause::Lost
        }
    );
    let start = live.decides().remove(0);
    assert!(!live.world.can_start(&start.0));
    live.done(&task.action, task.attempt);
    assert!(live.world.can_start(&start.0));
}

#[test]
fn an_elastic_job_goes_on_without_the_worker_that_it_lost() {
    let mut live = Live::new(&fleet(&[1, 1, 1]));
    let elastic = Gang {
        least: 2,
        preferred: 3,
        most: 3,
    };
    live.asks(Job {
        gang: elastic,
        ..job(0, 3, 1, 1000)
    });
    live.runs();
    let lost = seat(1, &[1]);
    live.apply(Event::WorkerLost {
        job: JobId(0),
        assignment: lost.clone(),
    });
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    assert_eq!(live.on(0), vec![0, 2]);
    live.apply(Event::WorkerLost {
        job: JobId(0),
        assignment: lost,
    });
    assert_eq!(live.world.ignored().repeated, 1);
    live.apply(Event::GpuHealth {
        gpu: GpuId(2),
        health: Health::Lost { xid: 79 },
    });
    assert!(live.phase(0).waits());
    assert!(live.world.job(JobId(0)).unwrap().stopping);
}

#[test]
fn what_is_seen_is_held_against_what_was_wanted() {
    let mut live = Live::new(&fleet(&[2]));
    live.asks(stoppable(job(0, 1, 1, 1000)));
    live.runs();
    live.asks(stoppable(job(1, 1, 1, 1000)));
    live.second = 10;
    let whole = |gpu| {
        vec![GpuShare {
            gpu: GpuId(gpu),
            part: Part::Whole,
        }]
    };
    let node = NodeId(0);
    let sees = |live: &mut Live, seen: Vec<Seen>| {
        let seen_at = live.now();
        live.second += 1;
        live.apply(Event::Observed {
            node,
            seen_at,
            seen,
        });
    };
    let first = Seen {
        job: JobId(0),
        gpus: whole(0),
    };
    // Job 1 is seen though it was never placed, and somebody whom nobody knows.
    let stray = Seen {
        job: JobId(1),
        gpus: whole(1),
    };
    sees(&mut live, vec![first.clone(), stray]);
    let drift: Vec<_> = live.world.drift().map(|(_, all)| all.to_vec()).collect();
    assert_eq!(drift, vec![vec![Drift::Stray(JobId(1))]]);
    assert_eq!(live.why(1), Shortage::Leaving);
    // Nothing is done by surprise: a plan stops it.
    assert!(live.world.under_way().is_empty());
    let plan = repair(live.now(), &live.world);
    assert_eq!(
        plan.actions,
        vec![Action::Preempt {
            job: JobId(1),
            cause: Cause::Drift
        }]
    );
    assert_eq!(errors(&lint(&live.world, &plan, Limits::NONE)).count(), 0);
    live.world.accept(&plan).unwrap();
    live.second += 1;
    sees(&mut live, vec![first.clone()]);
    assert!(!live.world.job(JobId(1)).unwrap().stopping);
    assert_eq!(live.world.drift().count(), 0);
    let unknown = Seen {
        job: JobId(99),
        gpus: whole(1),
    };
    sees(&mut live, vec![first, unknown]);
    assert!(live.decides().is_empty(), "somebody is on the other GPU");
    // A worker that is not there is lost.
    sees(&mut live, Vec::new());
    assert!(live.phase(0).waits());
    live.runs();
    assert_eq!((live.on(0), live.on(1)), (vec![0], vec![0]));
}

#[test]
fn a_lost_word_of_a_stop_is_made_up_for_by_what_is_seen() {
    let mut live = Live::new(&fleet(&[1]));
    live.asks(stoppable(job(0, 1, 1, 1000)));
    live.runs();
    live.asks(job(1, 1, 1, 1000));
    live.begins(preempt(0));
    live.begins(place(1, 0, &[0]));
    live.second = 5;
    live.apply(Event::Observed {
        node: NodeId(0),
        seen_at: live.now(),
        seen: Vec::new(),
    });
    assert!(live.world.can_start(&place(1, 0, &[0])));
}

//! Outcomes that come late, twice or out of order, and failures: they are counted, and keep what runs.

use super::{Live, SECOND, place, preempt, seat, stoppable};
use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, Attempt, Cause, Event, Gang, Job, JobId, NodeId, Shortage,
};
use gpuwise_sched::{
    decide::wake_at,
    world::{FIRST, NODE_FAILURES, Phase},
};
use gpuwise_units::Nanoseconds;

#[test]
fn what_comes_late_or_twice_is_counted_and_seats_nobody() {
    let mut live = Live::new(&fleet(&[1]));
    live.asks(job(0, 1, 1, 1000));
    let (start, first) = live.decides().remove(0);
    live.fails(&start, first);
    assert!(live.phase(0).waits());
    // The start that failed is told to be done after all, and failed again.
    live.done(&start, first);
    live.fails(&start, first);
    assert!(live.phase(0).waits());
    assert_eq!(live.world.ignored().repeated, 2);
    live.second = 60;
    let (start, second) = live.decides().remove(0);
    assert!(second > first);
    live.done(&start, first);
    assert_eq!(live.world.ignored().late, 1);
    assert!(matches!(live.phase(0), Phase::Starting { .. }));
    live.done(&start, second);
    live.apply(Event::Begun {
        action: start.clone(),
        attempt: second,
    });
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    live.apply(Event::Ended {
        job: JobId(0),
        how: gpuwise_domain::placement::Ended::Finished,
    });
    // Another job under the old number knows nothing of it.
    live.asks(job(0, 1, 1, 1000));
    live.done(&start, second);
    assert!(live.phase(0).waits());
    live.apply(Event::Measured {
        job: JobId(7),
        busy_milli: 1,
    });
    assert_eq!(live.world.ignored().unknown, 1);
}

#[test]
fn what_is_done_before_its_beginning_is_heard_of_has_begun() {
    let mut live = Live::new(&fleet(&[1]));
    live.asks(job(0, 1, 1, 1000));
    live.done(&place(0, 0, &[0]), Attempt(1));
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    let action = place(0, 0, &[0]);
    live.apply(Event::Begun {
        action,
        attempt: Attempt(1),
    });
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    // What cannot have been done as far as is known is counted.
    live.asks(job(1, 1, 1, 1000));
    live.done(&place(1, 0, &[0]), Attempt(2));
    assert_eq!(live.world.ignored().unexpected, 1);
    assert!(live.phase(1).waits());
}

#[test]
fn a_failed_start_is_tried_elsewhere_and_later_there() {
    let mut live = Live::new(&fleet(&[1, 1]));
    live.asks(job(0, 1, 1, 1000));
    let (start, attempt) = live.decides().remove(0);
    live.fails(&start, attempt);
    // At once on the other node.
    let (start, attempt) = live.decides().remove(0);
    assert_eq!(live.on(0), vec![1]);
    live.fails(&start, attempt);
    // Then nowhere for twice the first wait.
    assert!(live.decides().is_empty());
    let until = Nanoseconds(2 * FIRST.0);
    assert_eq!(live.why(0), Shortage::BackOff { until });
    let now = live.now();
    assert_eq!(wake_at(&live.world, &mut live.policy, now), Some(until));
    live.second = until.0 / SECOND;
    // The first node is avoided for as long; the second for twice that.
    let (start, attempt) = live.decides().remove(0);
    assert_eq!(live.on(0), vec![0]);
    live.done(&start, attempt);
    assert!(live.world.job(JobId(0)).unwrap().trouble().is_none());
}

#[test]
fn a_node_where_one_after_the_other_fails_is_closed_for_a_while() {
    let mut live = Live::new(&fleet(&[1, 1]));
    for id in 0..NODE_FAILURES {
        live.asks(job(id, 1, 1, 1000));
        let attempt = live.begins(place(id, 0, &[0]));
        live.fails(&place(id, 0, &[0]), attempt);
        let (job, held) = (JobId(id), true);
        live.apply(Event::Held { job, held });
    }
    assert!(!live.world.node(NodeId(0)).unwrap().takes_work());
    live.asks(job(9, 1, 1, 1000));
    live.runs();
    assert_eq!(live.on(9), vec![1]);
    live.second = FIRST.0 / SECOND;
    live.asks(job(10, 1, 1, 1000));
    live.runs();
    assert!(live.world.node(NodeId(0)).unwrap().takes_work());
}

#[test]
fn who_does_not_stop_keeps_its_gpu_and_who_counted_on_it_waits() {
    let mut live = Live::new(&fleet(&[1]));
    live.asks(stoppable(job(0, 1, 1, 1000)));
    live.runs();
    live.asks(job(1, 1, 1, 1000));
    let stop = live.begins(preempt(0));
    let start = live.begins(place(1, 0, &[0]));
    assert!(!live.world.can_start(&place(1, 0, &[0])));
    live.fails(&preempt(0), stop);
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    assert_eq!(live.on(0), vec![0]);
    assert!(live.phase(1).waits());
    // Its start is over; its failure is not its own.
    live.done(&place(1, 0, &[0]), start);
    assert!(live.phase(1).waits() && live.world.job(JobId(1)).unwrap().trouble().is_none());
    // It is not told again at once.
    let state = live.world.job(JobId(0)).unwrap();
    assert!(!live.world.may_disrupt(state, live.now()));
    assert!(live.world.may_disrupt(state, FIRST));
    // It has stopped after all: that counts.
    live.done(&preempt(0), stop);
    assert!(live.phase(0).waits());
    assert!(!live.world.job(JobId(0)).unwrap().stopping);
    assert_eq!(live.world.figures().allocated_milli, 0);
}

#[test]
fn a_failed_move_or_resize_goes_on_where_it_was() {
    let mut live = Live::new(&fleet(&[2, 2]));
    let elastic = Gang {
        least: 1,
        preferred: 1,
        most: 2,
    };
    live.asks(stoppable(Job {
        gang: elastic,
        ..job(0, 1, 2, 1000)
    }));
    live.runs();
    live.second = 100;
    let moves = Action::Move {
        job: JobId(0),
        assignments: vec![seat(1, &[2, 3])],
        cause: Cause::Defragmentation,
    };
    let attempt = live.begins(moves.clone());
    // Somebody counts on its old place.
    live.asks(job(1, 1, 2, 1000));
    let waits = live.begins(place(1, 0, &[0, 1]));
    live.fails(&moves, attempt);
    assert_eq!(live.on(0), vec![0]);
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    assert!(live.phase(1).waits());
    live.done(&place(1, 0, &[0, 1]), waits);
    assert!(live.phase(1).waits());
    assert_eq!(live.world.done_by(live.now(), JobId(0)), live.now());
    live.second = 200;
    let grows = Action::Resize {
        job: JobId(0),
        assignments: vec![seat(0, &[0, 1]), seat(1, &[2, 3])],
    };
    let attempt = live.begins(grows.clone());
    live.fails(&grows, attempt);
    assert_eq!(live.on(0), vec![0]);
}

#[test]
fn what_was_called_off_is_nobodys_fault() {
    let mut live = Live::new(&fleet(&[1]));
    let patient = Job {
        grace: Nanoseconds(30 * SECOND),
        ..job(0, 1, 1, 1000)
    };
    live.asks(stoppable(patient));
    live.runs();
    live.second = 10;
    let attempt = live.begins(preempt(0));
    let task = live.world.under_way().remove(0);
    assert_eq!(task.deadline, Some(Nanoseconds(40 * SECOND)));
    live.apply(Event::Withdrawn {
        action: preempt(0),
        attempt,
    });
    assert!(matches!(live.phase(0), Phase::Running { .. }));
    assert!(live.world.job(JobId(0)).unwrap().trouble().is_none());
    // What such actions took is what they are expected to take.
    let attempt = live.begins(preempt(0));
    live.second = 18;
    live.done(&preempt(0), attempt);
    assert_eq!(
        live.world.expected(&preempt(0)),
        Some(Nanoseconds(8 * SECOND))
    );
}

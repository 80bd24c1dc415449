//! Jobs as a world keeps them: as they were asked for, each for itself though those that ask alike share that.

use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    DurationEstimate, Event, Gang, Job, JobId, KindId, Level, NodeId, Preemption, QueueId, Spread,
    TimestampedEvent, TopologyWish,
};
use gpuwise_sched::world::{JobState, StoredJob, World};
use gpuwise_units::Nanoseconds;

/// A job that says something of everything.
fn full() -> Job {
    Job {
        queue: Some(QueueId(3)),
        priority: -2,
        gang: Gang {
            least: 1,
            preferred: 2,
            most: 4,
        },
        topology: Some(TopologyWish {
            within: Level::Rack,
            required: true,
            penalty_milli: 7,
        }),
        spread: Some(Spread {
            over: Level::Node,
            most: 2,
        }),
        deadline: Some(Nanoseconds(9)),
        preemption: Preemption::Allowed {
            checkpoint_every: Nanoseconds(5),
            restart: Nanoseconds(6),
        },
        grace: Nanoseconds(8),
        duration: Some(DurationEstimate {
            expected: Nanoseconds(11),
            spread: 0.5,
        }),
        speeds: vec![(KindId(0), 700)],
        near: vec![NodeId(1)],
        ..job(12, 1, 2, 1000)
    }
}

#[test]
fn a_job_is_kept_as_it_was_asked_for() {
    let asked = full();
    let stored = StoredJob::from(&asked);
    assert_eq!(stored.to_job(), asked);
    assert_eq!(stored, asked);
    let others: [fn(&mut Job); 6] = [
        |job| job.name.push('x'),
        |job| job.duration = None,
        |job| job.near.clear(),
        |job| job.deadline = None,
        |job| job.submitted = Nanoseconds(1),
        |job| job.tenant.clear(),
    ];
    for change in others {
        let mut other = asked.clone();
        change(&mut other);
        assert_ne!(stored, other);
    }
}

#[test]
fn what_is_changed_of_one_is_changed_of_no_other_that_asks_alike() {
    let mut world = World::new(&fleet(&[1]));
    let mut apply = |event| {
        let at = Nanoseconds(0);
        world.apply(&TimestampedEvent { at, event }).unwrap();
    };
    for id in 0..3 {
        apply(Event::Submitted(job(id, 1, 1, 1000)));
    }
    let mut other = job(1, 1, 1, 1000);
    other.worker.cpu_milli = 77;
    other.priority = 5;
    apply(Event::JobSet(other.clone()));
    let kept = |id| world.job(JobId(id)).unwrap().job.to_job();
    assert_eq!(kept(0), job(0, 1, 1, 1000));
    assert_eq!(kept(1), other);
    assert_eq!(kept(2), job(2, 1, 1, 1000));
}

/// There are millions of them: what few have belongs beside.
#[test]
fn a_job_takes_little_room() {
    assert!(size_of::<JobState>() <= 184);
    assert!(size_of::<StoredJob>() <= 64);
}

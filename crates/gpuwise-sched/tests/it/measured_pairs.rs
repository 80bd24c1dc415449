//! Pairs of jobs that were measured on one GPU: who is one, and how they share.

use gpuwise_domain::placement::{GpuAsk, Job, JobId, Kinds, Need, Preemption, WorkerAsk};
use gpuwise_sched::{
    rounds::{MeasuredPair, Pairs},
    world::StoredJob,
};
use gpuwise_units::Nanoseconds;

fn job(name: &str) -> StoredJob {
    let worker = WorkerAsk {
        cpu_milli: 0,
        memory_mib: 0,
        gpu: GpuAsk::Whole {
            count: 1,
            kinds: Kinds::ANY,
            need: Need::default(),
        },
    };
    StoredJob::from(&Job {
        preemption: Preemption::Allowed {
            checkpoint_every: Nanoseconds(1),
            restart: Nanoseconds(0),
        },
        ..Job::new(JobId(0), name.into(), worker)
    })
}

#[test]
fn a_split_is_by_speed_and_only_where_both_gain() {
    let pair = |speeds_milli| {
        Pairs(vec![MeasuredPair {
            jobs: ["resnet-*".into(), "lstm".into()],
            gpu: "V100".into(),
            speeds_milli,
        }])
    };
    let of =
        |speeds, one: &str, other: &str, gpu: &str| pair(speeds).split(&job(one), &job(other), gpu);
    // 0.9 and 0.6: 1.5 together, of which the first is 3/5.
    let found = of([900, 600], "resnet-7", "lstm", "V100").unwrap();
    assert_eq!((found.first_milli, found.gain_milli), (600, 1500));
    let turned = of([900, 600], "lstm", "resnet-7", "V100").unwrap();
    assert_eq!(turned.first_milli, 400);
    for (speeds, one, other, gpu) in [
        ([500, 500], "resnet-7", "lstm", "V100"),
        ([1400, 0], "resnet-7", "lstm", "V100"),
        ([900, 600], "resnet-7", "lstm", "K80"),
        ([900, 600], "resnet-7", "resnet-8", "V100"),
        ([900, 600], "vgg", "lstm", "V100"),
    ] {
        assert_eq!(
            of(speeds, one, other, gpu),
            None,
            "{speeds:?} {one} {other} {gpu}"
        );
    }
}

#[test]
fn stars_stand_for_any_letters() {
    for (pattern, name, is) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a*", "ab", true),
        ("*b", "ab", true),
        ("*b", "abc", false),
        ("a*c*", "abcd", true),
        ("a*b", "ä", false),
    ] {
        let pairs = Pairs(vec![MeasuredPair {
            jobs: [pattern.into(), "lstm".into()],
            gpu: "V100".into(),
            speeds_milli: [900, 600],
        }]);
        let found = pairs.split(&job(name), &job("lstm"), "V100");
        assert_eq!(found.is_some(), is, "{pattern} {name}");
    }
}

//! Two jobs on one GPU in rounds.

use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, Ended, Event, Isolation, Job, JobId, NodeId, Part, Plan, Preemption, TimestampedEvent,
};
use gpuwise_sched::{
    decide::{Effort, Policy, decide},
    lint::{Limits, Severity, lint, lint_world},
    policy::FirstFit,
    rounds::{MeasuredPair, Pairs, Rounds},
    world::{Tenancy, World},
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

const MINUTE: u64 = 60_000_000_000;

fn pair(one: &str, other: &str, speeds_milli: [u32; 2]) -> MeasuredPair {
    MeasuredPair {
        jobs: [one.into(), other.into()],
        gpu: "A".into(),
        speeds_milli,
    }
}

fn policy(pairs: &[MeasuredPair]) -> Policy {
    Policy {
        rounds: Some(Rounds {
            length: Nanoseconds(6 * MINUTE),
        }),
        pairs: Pairs(pairs.to_vec()),
        ..Policy::new(Box::new(FirstFit))
    }
}

fn taker(id: u32, name: &str) -> Job {
    Job {
        name: name.into(),
        submitted: Nanoseconds(0),
        preemption: Preemption::Allowed {
            checkpoint_every: Nanoseconds(1),
            restart: Nanoseconds(0),
        },
        ..job(id, 1, 1, 1000)
    }
}

struct Run {
    world: World,
    policy: Policy,
}

impl Run {
    fn new(gpus: &[u32], pairs: &[MeasuredPair], jobs: &[Job]) -> Self {
        let mut run = Self {
            world: World::new(&fleet(gpus)),
            policy: policy(pairs),
        };
        for job in jobs {
            run.apply(0, Event::Submitted(job.clone()));
        }
        run
    }

    fn apply(&mut self, minute: u64, event: Event) {
        let at = Nanoseconds(minute * MINUTE);
        self.world.apply(&TimestampedEvent { at, event }).unwrap();
    }

    /// What is decided at a minute, carried out at once.
    fn at(&mut self, minute: u64) -> Vec<Action> {
        let now = Nanoseconds(minute * MINUTE);
        let demand: Vec<JobId> = (self.world.jobs())
            .filter(|(_, state)| state.seeks())
            .map(|(id, _)| id)
            .collect();
        let (plan, _): (Plan, _) =
            decide(now, &self.world, &demand, &mut self.policy, Effort::BARE);
        let notes = lint(&self.world, &plan, Limits::NONE);
        let errors: Vec<_> = (notes.iter())
            .filter(|note| note.severity == Severity::Error)
            .collect();
        assert!(errors.is_empty(), "{errors:?} {:?}", plan.actions);
        self.world.accept(&plan).unwrap();
        for action in &plan.actions {
            self.apply(minute, Event::done(action.clone()));
        }
        assert_eq!(lint_world(&self.world), []);
        plan.actions
    }

    fn part(&self, id: u32) -> Option<Part> {
        let state = self.world.job(JobId(id))?;
        Some(state.assignments.first()?.gpus.first()?.part)
    }

    fn done_minutes(&self, minute: u64, id: u32) -> f64 {
        let now = Nanoseconds(minute * MINUTE);
        self.world.done_by(now, JobId(id)).0 as f64 / MINUTE as f64
    }
}

fn half(milli: u32, gain_milli: u32) -> Part {
    Part::Fraction {
        milli,
        memory_mib: 0,
        isolation: Isolation::Pair { gain_milli },
    }
}

/// By hand: beside each other `a` does 0.9 and `b` 0.6 of what each does alone, 1.5 together. So `a` is charged
/// 0.9/1.5 = 3/5 of the GPU, `b` 2/5. The first has it alone for a round; then both run, and nobody is stopped.
#[test]
fn two_jobs_share_a_gpu_and_stay() {
    let jobs = [taker(0, "a"), taker(1, "b")];
    let mut run = Run::new(&[1], &[pair("a", "b", [900, 600])], &jobs);
    assert!(matches!(
        run.at(0)[..],
        [Action::Place { job: JobId(0), .. }]
    ));
    assert_eq!(run.part(0), Some(Part::Whole));
    let begun = run.at(6);
    assert!(
        matches!(
            begun[..],
            [
                Action::Resize { job: JobId(0), .. },
                Action::Place { job: JobId(1), .. }
            ]
        ),
        "{begun:?}"
    );
    assert_eq!(
        (run.part(0), run.part(1)),
        (Some(half(600, 1500)), Some(half(400, 1500)))
    );
    for minute in (12..60).step_by(6) {
        assert_eq!(run.at(minute), [], "at {minute} min");
    }
    assert!((run.done_minutes(56, 0) - (6.0 + 0.9 * 50.0)).abs() < 1e-6);
    assert!((run.done_minutes(56, 1) - 0.6 * 50.0).abs() < 1e-6);
    // Who is left has all of the GPU at once, and is not restarted.
    let how = Ended::Finished;
    run.apply(56, Event::Ended { job: JobId(1), how });
    assert!(matches!(
        run.at(56)[..],
        [Action::Resize { job: JobId(0), .. }]
    ));
    assert_eq!(run.part(0), Some(Part::Whole));
    assert!((run.done_minutes(66, 0) - (6.0 + 45.0 + 10.0)).abs() < 1e-6);
}

/// As soon as each can have a GPU of its own they part.
#[test]
fn they_part_when_there_is_room() {
    let jobs = [taker(0, "a"), taker(1, "b")];
    let mut run = Run::new(&[2], &[pair("a", "b", [900, 600])], &jobs);
    run.apply(
        0,
        Event::Submitted(Job {
            preemption: Preemption::Never,
            priority: 1,
            ..taker(2, "c")
        }),
    );
    run.policy.order = gpuwise_sched::decide::Order::Priority;
    run.at(0);
    run.at(6);
    assert_eq!(
        (run.part(2), run.part(0)),
        (Some(Part::Whole), Some(half(600, 1500)))
    );
    let how = Ended::Finished;
    run.apply(8, Event::Ended { job: JobId(2), how });
    run.at(12);
    assert_eq!(
        (run.part(0), run.part(1)),
        (Some(Part::Whole), Some(Part::Whole))
    );
    assert_eq!(run.world.node(NodeId(0)).unwrap().whole_free, 0);
}

/// Pairs that were not measured, or do no more together than one alone, take turns.
#[test]
fn who_was_not_measured_does_not_share() {
    for (pairs, why) in [
        (vec![], "none was measured"),
        (vec![pair("a", "c", [900, 900])], "another was"),
        (vec![pair("a", "b", [500, 500])], "no gain"),
    ] {
        let jobs = [taker(0, "a"), taker(1, "b")];
        let mut run = Run::new(&[1], &pairs, &jobs);
        run.at(0);
        run.at(6);
        assert_eq!(
            (run.part(0), run.part(1)),
            (None, Some(Part::Whole)),
            "{why}"
        );
    }
    let mut fixed = taker(0, "a");
    fixed.preemption = Preemption::Never;
    let mut run = Run::new(&[1], &[pair("a", "b", [900, 600])], &[fixed, taker(1, "b")]);
    run.at(0);
    run.at(6);
    assert_eq!((run.part(0), run.part(1)), (Some(Part::Whole), None));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Whoever comes, ends and is measured beside whom: no GPU is given out twice, nobody shares who does not
    /// gain, and what both do is what was measured, to a thousandth.
    #[test]
    fn nobody_shares_who_does_not_gain(
        gpus in prop::collection::vec(1_u32..4, 1..4),
        speeds in prop::collection::vec(0_u32..1000, 9),
        jobs in prop::collection::vec((0_usize..3, 0_u64..12, 5_u64..60, any::<bool>()), 1..14),
    ) {
        let names = ["a", "b", "c"];
        let mut pairs = Vec::new();
        for one in 0..3 {
            for other in one..3 {
                let beside = [speeds[one * 3 + other], speeds[other * 3 + one]];
                pairs.push(pair(names[one], names[other], beside));
            }
        }
        let mut run = Run::new(&gpus, &pairs, &[]);
        for round in 0..20_u64 {
            for (minute, last) in [(round * 6, false), (round * 6 + 3, true)] {
                for ((name, came, lasts, stops), id) in jobs.iter().zip(0..) {
                    if *came == round && !last {
                        let mut job = taker(id, names[*name]);
                        if !stops {
                            job.preemption = Preemption::Never;
                        }
                        run.apply(minute, Event::Submitted(job));
                    }
                    let job = JobId(id);
                    if run.done_minutes(minute, id) >= *lasts as f64 {
                        let how = Ended::Finished;
                        run.apply(minute, Event::Ended { job, how });
                    }
                }
                run.at(minute);
                for gpu in run.world.gpus() {
                    let Tenancy::Shared { isolation, holders, .. } = &gpu.held else { continue };
                    let of = |at: usize| run.world.job(holders[at].job).unwrap();
                    prop_assert_eq!(holders.len(), 2);
                    let (one, other) = (of(0), of(1));
                    let at = |name: &str| names.iter().position(|known| *known == name).unwrap();
                    let (first, second) = (at(&one.job.name), at(&other.job.name));
                    let milli = holders[0].milli + holders[1].milli;
                    prop_assert_eq!(milli, 1000);
                    let Isolation::Pair { gain_milli } = isolation else { panic!("{isolation:?}") };
                    let gain = speeds[first * 3 + second] + speeds[second * 3 + first];
                    let gain = if first == second { 2 * speeds[first * 4] } else { gain };
                    prop_assert_eq!(*gain_milli, gain);
                    prop_assert!(gain > 1000);
                    let pace = run.world.pace_milli(one, &one.assignments);
                    prop_assert!(pace.abs_diff(u64::from(speeds[first * 3 + second])) <= 1);
                    prop_assert!(one.job.preemption != Preemption::Never);
                }
            }
        }
    }
}

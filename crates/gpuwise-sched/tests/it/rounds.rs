//! Turns: shares against a simplex, rounds against the published example, and jobs that take turns.

use crate::support::{fleet, job};
use gpuwise_domain::placement::{
    Action, Event, Fleet, Job, JobId, KindId, NodeId, Preemption, TimestampedEvent,
};
use gpuwise_sched::{
    decide::{Effort, Policy, decide, wake_at},
    linear::{self, Steps},
    policy::FirstFit,
    rounds::{Claim, Rounds, fair, max_min, next},
    world::World,
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

/// Narayanan et al., OSDI 2020, section 5: shares of three jobs on a V100, a P100 and a K80, and the rounds
/// that each has got. The next round follows from shares over rounds: the second and the third job run where
/// they have not run yet, and the first, whose 0.4/1 is above its 0.6/3, on the P100.
#[test]
fn the_next_round_is_that_of_the_published_example() {
    let shares = [0.6, 0.4, 0.0, 0.2, 0.6, 0.2, 0.2, 0.0, 0.8];
    let got = [3.0, 1.0, 0.0, 1.0, 3.0, 0.0, 0.0, 0.0, 4.0];
    let mut found = next(&shares, &got, &[1.0; 3], &[1.0; 3], &[None; 3]);
    found.sort_by_key(|one| one.job);
    let kinds: Vec<usize> = found.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [1, 2, 0]);
}

/// Round after round, what jobs get comes to what they are owed.
#[test]
fn rounds_follow_shares() {
    let shares = [0.6, 0.4, 0.0, 0.2, 0.6, 0.2, 0.2, 0.0, 0.8];
    let mut got = [0.0; 9];
    for _ in 0..500 {
        for one in next(&shares, &got, &[1.0; 3], &[1.0; 3], &[None; 3]) {
            got[one.job * 3 + one.kind] += 1.0;
        }
    }
    for (got, share) in got.iter().zip(shares) {
        assert!((got / 500.0 - share).abs() < 0.02, "{got} {share}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    /// The least that anybody gets is as much as a simplex finds.
    #[test]
    fn fair_shares_are_as_good_as_those_of_a_simplex(
        claims in prop::collection::vec((1_u32..5, 1_u32..4, prop::array::uniform3(0_u32..9)), 1..7),
        supply in prop::array::uniform3(1_u32..9),
    ) {
        let claims: Vec<Claim> = claims
            .into_iter()
            .map(|(gpus, weight, speeds)| Claim {
                gpus: gpus.into(),
                weight: weight.into(),
                // Everybody runs somewhere.
                speeds: [speeds[0] + 1, speeds[1], speeds[2]].map(f64::from).to_vec(),
            })
            .collect();
        let supply = supply.map(f64::from);
        let found = max_min(fair(&claims, &supply).of());
        // The level is the last variable; rows are what each gets, its time, and GPUs of each kind.
        let width = claims.len() * 3 + 1;
        let (mut rows, mut most) = (Vec::new(), Vec::new());
        for (at, claim) in claims.iter().enumerate() {
            let all: f64 = supply.iter().sum();
            let mean = claim.speeds.iter().zip(&supply).map(|(v, n)| v * n).sum::<f64>() / all;
            let (mut gets, mut time) = (vec![0.0; width], vec![0.0; width]);
            for kind in 0..3 {
                gets[at * 3 + kind] = -claim.speeds[kind] / mean * claim.gpus / claim.weight;
                time[at * 3 + kind] = 1.0;
            }
            gets[width - 1] = 1.0;
            rows.extend([gets, time]);
            most.extend([0.0, 1.0]);
        }
        for kind in 0..3 {
            let mut room = vec![0.0; width];
            claims.iter().enumerate().for_each(|(at, claim)| room[at * 3 + kind] = claim.gpus);
            rows.push(room);
            most.push(supply[kind]);
        }
        let mut goal = vec![0.0; width];
        goal[width - 1] = 1.0;
        let best = linear::maximise(&goal, &rows, &most, Steps::USUAL).unwrap();
        prop_assert!((found.level - best.value).abs() < 1e-5 * best.value.max(1.0), "{} {}", found.level, best.value);
    }
}

const MINUTE: u64 = 60_000_000_000;

/// As many nodes of one GPU as kinds are named.
fn ground(kinds: &[u32]) -> Fleet {
    let mut fleet = fleet(&vec![1; kinds.len()]);
    let mut other = fleet.kinds[0].clone();
    other.name = "B".into();
    fleet.kinds.push(other);
    for (gpu, kind) in fleet.gpus.iter_mut().zip(kinds) {
        gpu.kind = KindId(*kind);
    }
    fleet
}

fn taker(id: u32, speeds: &[(u32, u32)]) -> Job {
    Job {
        submitted: Nanoseconds(0),
        preemption: Preemption::Allowed {
            checkpoint_every: Nanoseconds(1),
            restart: Nanoseconds(0),
        },
        speeds: speeds
            .iter()
            .map(|(kind, speed)| (KindId(*kind), *speed))
            .collect(),
        ..job(id, 1, 1, 1000)
    }
}

/// A run with rounds of six minutes: who is where after each decision.
fn run(fleet: &Fleet, jobs: &[Job], rounds: u64) -> Vec<Vec<Option<NodeId>>> {
    let mut world = World::new(fleet);
    let mut policy = Policy {
        rounds: Some(Rounds {
            length: Nanoseconds(6 * MINUTE),
        }),
        ..Policy::new(Box::new(FirstFit))
    };
    for job in jobs {
        let event = Event::Submitted(job.clone());
        world
            .apply(&TimestampedEvent {
                at: job.submitted,
                event,
            })
            .unwrap();
    }
    let mut now = Nanoseconds(0);
    let mut seen = Vec::new();
    while now.0 < rounds * 6 * MINUTE {
        let demand: Vec<JobId> = (world.jobs())
            .filter(|(_, state)| state.seeks())
            .map(|(id, _)| id)
            .collect();
        let (plan, _) = decide(now, &world, &demand, &mut policy, Effort::BARE);
        world.accept(&plan).unwrap();
        for action in plan.actions {
            world
                .apply(&TimestampedEvent {
                    at: now,
                    event: Event::done(action),
                })
                .unwrap();
        }
        // A second look in the same round changes nothing more.
        let demand: Vec<JobId> = (world.jobs())
            .filter(|(_, state)| state.seeks())
            .map(|(id, _)| id)
            .collect();
        let later = Nanoseconds(now.0 + MINUTE);
        let (plan, _) = decide(later, &world, &demand, &mut policy, Effort::BARE);
        let stops =
            |action: &Action| matches!(action, Action::Preempt { .. } | Action::Move { .. });
        assert!(!plan.actions.iter().any(stops), "{:?}", plan.actions);
        let at = |job: &Job| {
            world
                .job(job.id)
                .unwrap()
                .assignments
                .first()
                .map(|one| one.node)
        };
        seen.push(jobs.iter().map(at).collect());
        now = wake_at(&world, &mut policy, now).unwrap_or(Nanoseconds(u64::MAX));
    }
    seen
}

#[test]
fn three_jobs_share_two_gpus_evenly() {
    let jobs: Vec<Job> = (0..3).map(|id| taker(id, &[])).collect();
    let seen = run(&ground(&[0, 0]), &jobs, 30);
    assert_eq!(seen.len(), 30);
    for (job, _) in jobs.iter().zip(0..) {
        let rounds = seen
            .iter()
            .filter(|round| round[job.id.index()].is_some())
            .count();
        assert!((19..=21).contains(&rounds), "{rounds}");
    }
    // Nobody changes places who runs on.
    let moved = seen.windows(2).flat_map(|two| two[0].iter().zip(&two[1]));
    let moved = moved.filter(|(one, other)| one.is_some() && other.is_some() && one != other);
    assert_eq!(moved.count(), 0);
}

#[test]
fn who_gains_by_a_kind_gets_it() {
    // The first takes the first node, which is of the kind on which the second is four times as fast.
    let jobs = [taker(0, &[]), taker(1, &[(0, 4000), (1, 1000)])];
    let seen = run(&ground(&[0, 1]), &jobs, 6);
    let there = [Some(NodeId(0)), Some(NodeId(1))];
    assert_eq!(seen[0], there);
    for round in &seen[1..] {
        assert!(round.iter().all(Option::is_some), "nobody waits: {round:?}");
    }
    let on_fast = seen
        .iter()
        .filter(|round| round[1] == Some(NodeId(0)))
        .count();
    assert!(on_fast >= 4, "{seen:?}");
}

/// Who may not be stopped keeps its place, and who comes within a round waits for the next.
#[test]
fn who_may_not_be_stopped_keeps_its_place() {
    let mut fixed = taker(0, &[]);
    fixed.preemption = Preemption::Never;
    let seen = run(&ground(&[0]), &[fixed, taker(1, &[])], 4);
    assert!(
        seen.iter()
            .all(|round| round[0] == Some(NodeId(0)) && round[1].is_none())
    );
}

//! What holds of any tree of queues and any stream of jobs.

use super::{Run, SECOND, in_queue, policy, queue, quota};
use gpuwise_domain::placement::{
    Action, Job, JobId, Outcome, Preemption, Queue, QueueId, QuotaLimit, QuotaShort, Shortage,
};
use gpuwise_sched::{
    decide::{Effort, Order, Policy, decide},
    queues::{self, validate},
    world::{StoredJob, World},
};
use proptest::prelude::*;

/// A random tree of queues, each owning part of what is above it.
fn trees() -> impl Strategy<Value = Vec<Queue>> {
    let limit = || prop::option::of(0_u64..6);
    let row = (
        0_u32..4,
        0_u64..6,
        limit(),
        limit(),
        prop::option::of(0_u64..8),
    );
    prop::collection::vec(row, 1..5).prop_map(|rows| {
        let mut left = vec![];
        let mut queues: Vec<Queue> = Vec::new();
        for (id, (parent, nominal, borrowing, lending, cap)) in rows.into_iter().enumerate() {
            let parent = (parent as usize)
                .checked_sub(1)
                .filter(|parent| *parent < id);
            let room = parent.map_or(8, |parent| left[parent]);
            let nominal = nominal.min(room);
            if let Some(parent) = parent {
                left[parent] -= nominal;
            }
            left.push(nominal);
            let cap = cap.map(|cap| cap.max(nominal));
            let parent = parent.map(|parent| parent as u32);
            let quota = quota(nominal, borrowing, lending, cap);
            queues.push(queue(&format!("q{id}"), parent, &[quota]));
        }
        queues
    })
}

/// What a queue holds with all below it, counted from the jobs.
fn held(world: &World, queue: QueueId) -> u64 {
    let below =
        |job: &StoredJob| queues::upwards(world.queues(), job.queue).any(|above| above == queue);
    let jobs = world.jobs().filter(|(_, state)| below(&state.job));
    jobs.map(|(_, state)| queues::milli_of(world, &state.assignments))
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Caps and borrowing limits hold at every level after every decision; accounts are what jobs hold;
    /// who is below its own gets it by taking back, where its jobs can be placed at all.
    #[test]
    fn limits_hold_at_every_level(
        queues in trees(),
        steps in prop::collection::vec((0_u32..5, 1_u32..4, 1_u64..20, 0_u32..3), 1..24),
    ) {
        prop_assert_eq!(validate(&queues), []);
        let mut run = Run::new(&[4, 4], &queues, policy(Order::Share, 0, None));
        for (id, (queue, gpus, seconds, ends)) in steps.into_iter().enumerate() {
            let second = id as u64;
            if ends == 0 {
                let running = run.world.jobs().find(|(_, state)| !state.assignments.is_empty());
                if let Some((job, _)) = running {
                    run.end(second, job.0);
                }
            }
            let queue = queue % queues.len() as u32;
            run.submit(second, in_queue(id as u32, queue, gpus, seconds));
            let before = run.world.clone();
            let (plan, _) = run.decide(second);
            let mut again = Run { world: before, policy: policy(Order::Share, 0, None) };
            prop_assert_eq!(&again.decide(second).0, &plan, "the same again");
            for (row, id) in queues.iter().zip((0..).map(QueueId)) {
                let held = held(&run.world, id);
                let account = run.world.shares().account(id).unwrap();
                prop_assert_eq!(account.held_milli.iter().sum::<u64>(), held);
                let quota = row.quotas[0];
                if let Some(cap) = quota.cap_milli {
                    prop_assert!(held <= cap, "{} holds {held} of {cap}", row.name);
                }
                if let Some(most) = quota.borrowing_milli {
                    prop_assert!(held <= quota.nominal_milli + most, "{} borrows too much", row.name);
                }
            }
            // What one keeps nobody else has.
            let free: u64 = run.world.nodes().iter().map(|node| u64::from(node.milli_free)).sum();
            let top = queues.iter().zip((0..).map(QueueId)).filter(|(row, _)| row.parent.is_none());
            let kept: u64 = top
                .filter_map(|(row, id)| {
                    let quota = row.quotas[0];
                    let children = queues.iter().any(|other| other.parent == Some(id));
                    let kept = quota.nominal_milli.saturating_sub(quota.lending_milli?);
                    (!children).then(|| kept.saturating_sub(held(&run.world, id)))
                })
                .sum();
            let owned: u64 = queues.iter().filter(|q| q.parent.is_none())
                .map(|q| q.quotas[0].nominal_milli).sum();
            if owned <= 8000 {
                prop_assert!(free >= kept, "{kept} are kept and {free} free");
            }
        }
    }

    /// Where a quota is short, what is said of it is what the files and the jobs say, and adds up.
    #[test]
    fn what_is_said_of_a_quota_adds_up(
        queues in trees(),
        steps in prop::collection::vec((0_u32..5, 1_u32..4), 1..24),
    ) {
        let mut run = Run::new(&[4, 4], &queues, policy(Order::Arrival, 0, None));
        for (id, (queue, gpus)) in steps.into_iter().enumerate() {
            let queue = queue % queues.len() as u32;
            let asked = Job { preemption: Preemption::Never, ..in_queue(id as u32, queue, gpus, 100) };
            run.submit(id as u64, asked);
            let before = run.world.clone();
            let waiting = [JobId(id as u32)];
            let mut policy = policy(Order::Arrival, 0, None);
            let now = before.now();
            let (_, report) = decide(now, &before, &waiting, &mut policy, Effort::ORDINARY);
            for told in &report.decisions {
                if let Outcome::Waits { shortage: Shortage::Quota(short), .. } = &told.outcome {
                    adds_up(&before, &queues, (queue, gpus), short)?;
                }
            }
            let _ = run.decide(id as u64);
        }
    }

    /// With durations that are known the first who waits starts no later than if nobody went ahead, and
    /// no later than it was told.
    #[test]
    fn nobody_delays_the_head(
        jobs in prop::collection::vec((0_u64..30, 1_u32..3, 1_u32..5, 1_u64..40), 2..24),
        reservations in 1_u32..4,
    ) {
        let strict = starts(&jobs, policy_strict(), None);
        let mut told = Vec::new();
        let ahead = starts(&jobs, policy(Order::Arrival, reservations, None), Some(&mut told));
        for (job, promised) in told {
            prop_assert!(
                ahead[job].is_some_and(|start| start <= promised),
                "job {job} was promised {promised} s and started at {:?}", ahead[job]
            );
        }
        // The first that ever waited: until then both went alike.
        let waited = |job: &usize| strict[*job].is_some_and(|start| start > arrival(&jobs, *job));
        let first = (0..jobs.len()).filter(waited).min_by_key(|job| (arrival(&jobs, *job), *job));
        if let Some(first) = first {
            prop_assert!(ahead[first] <= strict[first], "{:?} {:?}", ahead[first], strict[first]);
        }
    }

    /// Whoever has waited for the starvation timeout starts after that before everybody who came before it, and
    /// those who then ran, have had their time once: by then + (n + 1) times the longest job.
    #[test]
    fn nobody_starves(
        jobs in prop::collection::vec((0_u64..60, 1_u32..3, 1_u32..5, 1_u64..20), 2..30),
        starvation_timeout in 1_u64..30,
    ) {
        let starts = starts(&jobs, policy(Order::Shortest, 0, Some(starvation_timeout)), None);
        let longest = jobs.iter().map(|job| job.3).max().unwrap();
        for (job, start) in starts.iter().enumerate() {
            let came = arrival(&jobs, job);
            let aged = came + starvation_timeout;
            let before = (0..jobs.len()).filter(|other| {
                (arrival(&jobs, *other), *other) < (came, job)
                    && starts[*other].is_some_and(|start| start > aged)
            });
            // A decision falls at a whole second.
            let bound = aged + (before.count() as u64 + 1) * longest;
            prop_assert!(start.is_some_and(|start| start <= bound), "{job}: {start:?} > {bound}");
        }
    }
}

/// The figures of a short quota, counted from the jobs' assignments and the queues as they were given.
fn adds_up(
    world: &World,
    queues: &[Queue],
    (queue, gpus): (u32, u32),
    short: &QuotaShort,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(
        (short.queue, short.needed_milli),
        (queue, u64::from(gpus) * 1000)
    );
    prop_assert!(short.room_milli < short.needed_milli);
    let rest = short
        .limit_milli
        .saturating_sub(short.used_milli + short.guaranteed_milli);
    prop_assert_eq!(
        rest + short.guaranteed_here_milli,
        short.room_milli,
        "{:?}",
        short
    );
    prop_assert!(short.guaranteed_here_milli <= short.guaranteed_milli);
    prop_assert_eq!(short.held_milli, held(world, QueueId(queue)));
    let nominal = |id: u32| queues[id as usize].quotas[0].nominal_milli;
    prop_assert_eq!(short.nominal_milli, nominal(queue));
    let limits = |id: u32| queues::upwards(queues, Some(QueueId(queue))).any(|one| one.0 == id);
    let (below, limit, used) = match short.by {
        QuotaLimit::Cap { queue } => {
            prop_assert!(limits(queue));
            let cap = queues[queue as usize].quotas[0].cap_milli;
            (
                Some(QueueId(queue)),
                cap.unwrap(),
                held(world, QueueId(queue)),
            )
        }
        QuotaLimit::Borrowing { queue } => {
            prop_assert!(limits(queue));
            let borrowing = queues[queue as usize].quotas[0].borrowing_milli.unwrap();
            let all = held(world, QueueId(queue));
            (Some(QueueId(queue)), nominal(queue) + borrowing, all)
        }
        QuotaLimit::Cohort => {
            let tops = (0_u32..)
                .zip(queues)
                .filter(|(_, row)| row.parent.is_none());
            let owned: u64 = tops.clone().map(|(id, _)| nominal(id)).sum();
            let used = tops.map(|(id, _)| held(world, QueueId(id))).sum();
            // Two nodes of four GPUs.
            (None, owned.max(8000), used)
        }
    };
    prop_assert_eq!((short.limit_milli, short.used_milli), (limit, used));
    let mut each = 0;
    for (id, held_milli) in short.users.into_iter().filter(|user| user.1 > 0) {
        prop_assert_eq!(queues[id as usize].parent, below);
        prop_assert_eq!(u64::from(held_milli), held(world, QueueId(id)));
        each += u64::from(held_milli);
    }
    prop_assert!(each <= used);
    Ok(())
}

fn policy_strict() -> Policy {
    Policy {
        skips: false,
        ..policy(Order::Arrival, 0, None)
    }
}

fn arrival(jobs: &[(u64, u32, u32, u64)], job: usize) -> u64 {
    jobs[job].0
}

/// When each job starts on two nodes of four GPUs, decided at every second. Gangs of one or two workers.
fn starts(
    jobs: &[(u64, u32, u32, u64)],
    policy: Policy,
    mut told: Option<&mut Vec<(usize, u64)>>,
) -> Vec<Option<u64>> {
    let mut run = Run::new(&[4, 4], &[], policy);
    let mut starts = vec![None; jobs.len()];
    let mut ends: Vec<(u64, u32)> = Vec::new();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|job| (jobs[*job].0, *job));
    for second in 0..4000 {
        let due: Vec<(u64, u32)> = ends.iter().copied().filter(|end| end.0 == second).collect();
        for (_, id) in &due {
            run.end(second, *id);
        }
        let came: Vec<usize> = order
            .iter()
            .copied()
            .filter(|job| jobs[*job].0 == second)
            .collect();
        for job in &came {
            let (_, workers, gpus, seconds) = jobs[*job];
            let mut asked = in_queue(*job as u32, 0, gpus, seconds);
            asked.queue = None;
            asked.gang = gpuwise_domain::placement::Gang::exactly(workers);
            run.submit(second, asked);
        }
        let aged = run.policy.limits.starvation_timeout.is_some();
        if due.is_empty() && came.is_empty() && !aged {
            continue;
        }
        if run.world.jobs().next().is_none() {
            continue;
        }
        let (plan, report) = run.decide(second);
        for action in &plan.actions {
            if let Action::Place { job, .. } = action {
                starts[job.index()] = Some(second);
                ends.push((second + jobs[job.index()].3, job.0));
            }
        }
        for decision in report.decisions {
            if let (
                Outcome::Waits {
                    start: Some(start), ..
                },
                Some(told),
            ) = (decision.outcome, &mut told)
            {
                told.push((decision.job.index(), start.0 / SECOND));
            }
        }
    }
    starts
}

//! Whose jobs may be preempted when a queue reclaims what it lent.
//!
//! A job may be preempted for one of another queue if, below the common ancestor of both, the reclaimer's
//! side stays within its nominal quota with the new job, and the reclaimee's side has borrowed, at every
//! level. The reclaimee cannot reclaim that in turn: its side would have to stay within its nominal quota,
//! and what it lost was over it. So nobody preempts each other in turn.

use super::{admit::amounts, order::ancestor_path, pool::Pool, shares::held_by};
use crate::world::{Phase, StoredJob, World};
use gpuwise_domain::placement::{JobId, KindId, Preemption, QueueId};
use gpuwise_units::Nanoseconds;
use std::cmp::Reverse;

/// Jobs that may be preempted so that a job's queue has its nominal quota; the first goes first: of the queue
/// with the largest over-quota share, of lowest priority, then the one that loses least, then the latest.
/// Empty: its queue does not reclaim, or has its nominal quota.
pub fn reclaimable(world: &World, job: &StoredJob, now: Nanoseconds) -> Vec<JobId> {
    let Some(queue) = job.queue else {
        return Vec::new();
    };
    let reclaims = world
        .queues()
        .get(queue.index())
        .is_some_and(|queue| queue.reclaims);
    if !reclaims {
        return Vec::new();
    }
    let needed = u64::from(job.gang.least.max(1));
    let pools: Vec<(&Pool, u64)> = amounts(world, job.worker.gpu)
        .into_iter()
        .flat_map(|(kind, milli)| {
            let pools = world.shares().pools().iter();
            let there = pools.filter(move |pool| pool.kinds.has(kind));
            there.map(move |pool| (pool, milli.saturating_mul(needed)))
        })
        .collect();
    let path = ancestor_path(world, Some(queue));
    let mut found = candidates(world, &pools, &path, now);
    found.sort_unstable();
    // Nobody is preempted of a queue that is within its nominal quota once those before are gone.
    let mut left: Vec<Pool> = pools.iter().map(|(pool, _)| (*pool).clone()).collect();
    let mut victims = Vec::new();
    for (.., id) in found {
        let Some(state) = world.job(id) else { continue };
        let Some(reclaimee) = state.job.queue else {
            continue;
        };
        let held = held_by(world, &state.assignments);
        let mut over = false;
        for (pool, (_, milli)) in left.iter_mut().zip(&pools) {
            let inside = held
                .iter()
                .filter(|(kind, _)| pool.kinds.has(KindId(**kind)));
            let gives: u64 = inside.map(|(_, milli)| milli).sum();
            if gives > 0 && over_quota_share(world, pool, &path, reclaimee, *milli).is_some() {
                over = true;
                pool.change(world.queues(), reclaimee, gives, false);
            }
        }
        if over {
            victims.push(id);
        }
    }
    victims
}

/// What is least goes first.
type Rank = (u64, i32, u64, Reverse<Nanoseconds>, JobId);

/// Queues that have borrowed what a job's queue may have back, and how much, in thousandths of GPUs. Empty:
/// it reclaims nothing.
pub(crate) fn borrowers(world: &World, job: &StoredJob) -> Vec<(QueueId, u64)> {
    let queue = job.queue.and_then(|id| world.queues().get(id.index()));
    if !queue.is_some_and(|queue| queue.reclaims) {
        return Vec::new();
    }
    let needed = u64::from(job.gang.least.max(1));
    let path = ancestor_path(world, job.queue);
    let amounts = amounts(world, job.worker.gpu);
    let mut found = Vec::new();
    for other in (0..world.queues().len() as u32).map(QueueId) {
        let mut borrowed = 0;
        for (kind, milli) in &amounts {
            let milli = milli.saturating_mul(needed);
            let pools = world.shares().pools().iter();
            borrowed += pools
                .filter(|pool| pool.kinds.has(*kind))
                .filter(|pool| over_quota_share(world, pool, &path, other, milli).is_some())
                .map(|pool| pool.borrowed(other))
                .sum::<u64>();
        }
        if borrowed > 0 {
            found.push((other, borrowed));
        }
    }
    found
}

fn candidates(
    world: &World,
    pools: &[(&Pool, u64)],
    path: &[QueueId],
    now: Nanoseconds,
) -> Vec<Rank> {
    let mut found: Vec<Rank> = Vec::new();
    for (id, state) in world.jobs() {
        let Preemption::Allowed {
            checkpoint_every, ..
        } = state.job.preemption
        else {
            continue;
        };
        // One that is being started may be part of the same plan.
        if !matches!(state.phase, Phase::Running { .. }) || !world.may_disrupt(state, now) {
            continue;
        }
        let Some(reclaimee) = state.job.queue else {
            continue;
        };
        let held = held_by(world, &state.assignments);
        let over = pools.iter().filter_map(|(pool, milli)| {
            let inside = held.keys().any(|kind| pool.kinds.has(KindId(*kind)));
            inside
                .then(|| over_quota_share(world, pool, path, reclaimee, *milli))
                .flatten()
        });
        let Some(over) = over.max() else { continue };
        let done = world.done_by(now, id).0;
        let lost = done.checked_rem(checkpoint_every.0).unwrap_or(0);
        found.push((
            u64::MAX - over,
            state.job.priority,
            lost,
            Reverse(state.seated),
            id,
        ));
    }
    found
}

/// How much a queue has borrowed beside its nominal quota, in thousandths of that, where a reclaimer may have
/// it back; `None`: it may not.
fn over_quota_share(
    world: &World,
    pool: &Pool,
    path: &[QueueId],
    reclaimee: QueueId,
    milli: u64,
) -> Option<u64> {
    let other = ancestor_path(world, Some(reclaimee));
    let common = path.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let (path, other) = (path.get(common..)?, other.get(common..)?);
    // Neither is above the other.
    if path.is_empty() || other.is_empty() {
        return None;
    }
    let within = |id: &QueueId| pool.held(*id).saturating_add(milli) <= pool.nominal(*id);
    if !path.iter().all(within) || !other.iter().all(|id| pool.borrowed(*id) > 0) {
        return None;
    }
    let nominal = pool.nominal(reclaimee).max(1);
    Some(
        (u128::from(pool.borrowed(reclaimee)) * 1000 / u128::from(nominal))
            .min(u128::from(u64::MAX)) as u64,
    )
}

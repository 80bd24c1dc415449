//! Whose jobs may be stopped when a queue takes back what it lent.
//!
//! A job may be stopped for one of another queue if, where the ways of both queues part, the taker's side
//! stays within its own with the new job, and the holder's side has borrowed, there and all the way down.
//! The holder cannot take that back in the same way: its side would have to stay within its own, and what
//! it lost was beyond that. So nobody stops each other in turn.

use super::{admit::amounts, pool::Pool, shares::held_by, turns::way_down};
use crate::world::{Phase, World};
use gpuwise_domain::placement::{Job, JobId, KindId, Preemption, QueueId};
use gpuwise_units::Nanoseconds;
use std::cmp::Reverse;

/// Jobs that may be stopped so that a job's queue has what is its own; the first goes first: of the queue
/// that has borrowed most beside its own, of lowest priority, then the one that loses least, then the
/// latest. Empty: its queue does not take back, or has all that is its own.
pub fn reclaimable(world: &World, job: &Job, now: Nanoseconds) -> Vec<JobId> {
    let Some(queue) = job.queue else {
        return Vec::new();
    };
    let takes = world
        .queues()
        .get(queue.index())
        .is_some_and(|queue| queue.reclaims);
    if !takes {
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
    let way = way_down(world, Some(queue));
    let mut found = candidates(world, &pools, &way, now);
    found.sort_unstable();
    // Nobody is stopped of a queue that has no more than its own once those before are gone.
    let mut left: Vec<Pool> = pools.iter().map(|(pool, _)| (*pool).clone()).collect();
    let mut victims = Vec::new();
    for (.., id) in found {
        let Some(state) = world.job(id) else { continue };
        let Some(theirs) = state.job.queue else {
            continue;
        };
        let held = held_by(world, &state.seats);
        let mut over = false;
        for (pool, (_, milli)) in left.iter_mut().zip(&pools) {
            let inside = held
                .iter()
                .filter(|(kind, _)| pool.kinds.has(KindId(**kind)));
            let gives: u64 = inside.map(|(_, milli)| milli).sum();
            if gives > 0 && beyond(world, pool, &way, theirs, *milli).is_some() {
                over = true;
                pool.change(world.queues(), theirs, gives, false);
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

fn candidates(
    world: &World,
    pools: &[(&Pool, u64)],
    way: &[QueueId],
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
        if !matches!(state.phase, Phase::Running { .. }) || state.stopping {
            continue;
        }
        let Some(theirs) = state.job.queue else {
            continue;
        };
        let held = held_by(world, &state.seats);
        let over = pools.iter().filter_map(|(pool, milli)| {
            let inside = held.keys().any(|kind| pool.kinds.has(KindId(*kind)));
            inside
                .then(|| beyond(world, pool, way, theirs, *milli))
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

/// How much a queue has borrowed beside what is its own, in thousandths of its own, where a taker may have
/// it back; `None`: it may not.
fn beyond(
    world: &World,
    pool: &Pool,
    takers: &[QueueId],
    holder: QueueId,
    milli: u64,
) -> Option<u64> {
    let holders = way_down(world, Some(holder));
    let common = takers
        .iter()
        .zip(&holders)
        .take_while(|(a, b)| a == b)
        .count();
    let (takers, holders) = (takers.get(common..)?, holders.get(common..)?);
    // Both sides have a way of their own from where they part.
    if takers.is_empty() || holders.is_empty() {
        return None;
    }
    let within = |id: &QueueId| pool.held(*id).saturating_add(milli) <= pool.own(*id);
    if !takers.iter().all(within) || !holders.iter().all(|id| pool.borrowed(*id) > 0) {
        return None;
    }
    let own = pool.own(holder).max(1);
    Some(
        (u128::from(pool.borrowed(holder)) * 1000 / u128::from(own)).min(u128::from(u64::MAX))
            as u64,
    )
}

/// Whether a running job may be stopped for another by what their queues own and hold.
pub fn may_take(world: &World, taker: &Job, holder: JobId, now: Nanoseconds) -> bool {
    reclaimable(world, taker, now).contains(&holder)
}

//! Whether a job may take what it asks for, by the quotas and budgets of its queue and those above it.

use super::{
    budget,
    pool::Limit,
    shares::{held_by, slice_milli},
};
use crate::{
    fit, mig,
    world::{StoredJob, World},
};
use gpuwise_domain::placement::{Assignment, GpuAsk, KindId, Kinds, QueueId, Shortage};
use gpuwise_units::Nanoseconds;
use std::borrow::Cow;

/// What a job may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    pub kinds: Kinds,
    /// Workers at most.
    pub workers: u32,
}

/// What a job may take by quotas and budgets: kinds of which as many workers as it prefers may be taken,
/// or else those of which most may, at least as many as it needs.
///
/// # Errors
/// With what is short: the limit that leaves most room, or the budget.
pub fn admit(world: &World, job: &StoredJob, now: Nanoseconds) -> Result<Admitted, Shortage> {
    let preferred = job.gang.preferred.max(job.gang.least).max(1);
    let everything = Admitted {
        kinds: Kinds::ANY,
        workers: preferred,
    };
    let Some(queue) = job.queue else {
        return Ok(everything);
    };
    if job.worker.gpu == GpuAsk::None {
        return Ok(everything);
    }
    let needed = job.gang.least.max(1);
    let budgets = budget::budgets(world, queue, now);
    let mut best = Admitted {
        kinds: Kinds::NONE,
        workers: 0,
    };
    let mut short: Option<(Limit, u64)> = None;
    let mut spent = None;
    for (kind, milli) in amounts(world, job.worker.gpu) {
        let limit = room(world, queue, kind);
        let room = limit.map_or(u64::from(preferred), |limit| {
            limit.room_milli.checked_div(milli).unwrap_or(u64::MAX)
        });
        let mut workers = room.min(u64::from(preferred)) as u32;
        if workers < needed {
            if let Some(limit) = limit
                && short.is_none_or(|(other, _)| limit.room_milli > other.room_milli)
            {
                short = Some((limit, milli.saturating_mul(u64::from(needed))));
            }
            continue;
        }
        let afford = |workers| {
            let cost = budget::cost(world, job, (kind, milli), workers, now);
            budget::affordable(&budgets, cost)
        };
        if !budgets.is_empty() && afford(workers).is_err() {
            // Fewer workers hold less and take longer: only where the length is not known they cost less.
            workers = needed;
            if let Err(queue) = afford(workers) {
                spent = Some(queue);
                continue;
            }
        }
        if workers > best.workers {
            (best.kinds, best.workers) = (Kinds::NONE, workers);
        }
        if workers == best.workers {
            best.kinds = best.kinds.with(kind);
        }
    }
    match (best.workers, spent, short) {
        (0, Some(queue), _) => Err(Shortage::Budget { queue: queue.0 }),
        (0, None, Some((limit, needed))) => Err(short_of(world, limit, queue, needed)),
        // No kind of the fleet will do: that is for those who look for a place to say.
        (0, None, None) => Ok(everything),
        _ => Ok(best),
    }
}

/// Whether a job's queue may take what these assignments hold: an instance that is there can be larger than the
/// one that was asked for.
pub(crate) fn within_quota(
    world: &World,
    job: &StoredJob,
    assignments: &[Assignment],
) -> Result<(), Shortage> {
    let (Some(queue), GpuAsk::Slice { .. }) = (job.queue, job.worker.gpu) else {
        return Ok(());
    };
    let held = held_by(world, assignments);
    for pool in world.shares().pools() {
        let inside = held
            .iter()
            .filter(|(kind, _)| pool.kinds.has(KindId(**kind)));
        let milli: u64 = inside.map(|(_, milli)| milli).sum();
        let limit = pool.room(world.queues(), queue);
        if milli > limit.room_milli {
            return Err(short_of(world, limit, queue, milli));
        }
    }
    Ok(())
}

fn short_of(world: &World, limit: Limit, queue: QueueId, needed_milli: u64) -> Shortage {
    let pool = world.shares().pools().iter();
    let mut pool = pool.filter(|pool| pool.kinds == limit.kinds);
    pool.next().map_or(Shortage::Untold, |pool| {
        Shortage::Quota(pool.short(world.queues(), queue, limit, needed_milli))
    })
}

/// A job narrowed to what it may take.
pub(crate) fn narrowed<'j>(
    world: &World,
    job: &'j StoredJob,
    admitted: Admitted,
) -> Cow<'j, StoredJob> {
    let kinds = job.worker.gpu.kinds();
    let there = (0..world.kinds().len() as u32).fold(Kinds::NONE, |set, k| set.with(KindId(k)));
    let all = kinds.and(there).and(admitted.kinds) == kinds.and(there);
    if all && admitted.workers >= job.gang.preferred {
        return Cow::Borrowed(job);
    }
    let mut job = job.clone();
    job.gang.preferred = job.gang.preferred.min(admitted.workers);
    match &mut job.worker.gpu {
        GpuAsk::None => {}
        GpuAsk::Whole { kinds, .. }
        | GpuAsk::Fraction { kinds, .. }
        | GpuAsk::Slice { kinds, .. } => *kinds = kinds.and(admitted.kinds),
    }
    Cow::Owned(job)
}

/// The limit that leaves a queue least room in a kind; `None`: no quota is given over it.
pub fn room(world: &World, queue: QueueId, kind: KindId) -> Option<Limit> {
    let pools = world.shares().pools().iter();
    let limits = pools
        .filter(|pool| pool.kinds.has(kind))
        .map(|pool| pool.room(world.queues(), queue));
    limits.min_by_key(|limit| limit.room_milli)
}

/// Kinds that would do, and what one worker holds of each at least, in thousandths of GPUs.
pub(super) fn amounts(world: &World, ask: GpuAsk) -> Vec<(KindId, u64)> {
    let kinds = match ask {
        GpuAsk::Whole { kinds, need, .. } => fit::kinds_with(world, kinds, need),
        other => other.kinds(),
    };
    let there = (0..world.kinds().len() as u32).map(KindId);
    there
        .filter(|kind| kinds.has(*kind))
        .filter_map(|kind| {
            let GpuAsk::Slice { slice, .. } = ask else {
                return Some((kind, ask.milli()));
            };
            let geometry = world.kind(kind)?.mig.as_ref()?;
            let shapes = geometry.shapes.iter().zip(0_u8..);
            let enough = shapes.filter(|(shape, _)| mig::gives(shape, &slice));
            let least = enough.map(|(_, at)| slice_milli(world, kind, at)).min()?;
            Some((kind, least))
        })
        .collect()
}

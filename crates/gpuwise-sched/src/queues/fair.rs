//! Whose turn it is by shares: what queues hold beside their weights, and what they used before.

use super::{account::Account, order::ancestor_path};
use crate::world::World;
use gpuwise_domain::placement::{KindId, QueueId, Weigh};
use gpuwise_units::Nanoseconds;
use std::cmp::Ordering;

/// The share of the fleet that a queue holds with all below it: of weighted GPU time, or of what it has
/// most of where resources are compared (dominant resource). 1 is the whole fleet.
pub fn share(world: &World, queue: QueueId) -> f64 {
    let shares = world.shares();
    let Some(account) = shares.account(queue) else {
        return 0.0;
    };
    let part = |held: u64, of: u64| {
        if of == 0 {
            0.0
        } else {
            held as f64 / of as f64
        }
    };
    if shares.sharing().weigh == Weigh::Dominant {
        let (cpu, memory) = shares.host_capacity();
        let kinds = account.held_milli.iter().zip(0..);
        let gpus = kinds.map(|(held, kind)| part(*held, shares.capacity(kind)));
        let hosts = [
            part(account.cpu_milli, cpu),
            part(account.memory_mib, memory),
        ];
        return gpus.chain(hosts).fold(0.0, f64::max);
    }
    let rates = shares.rates();
    let kinds = (0..world.kinds().len()).map(|kind| (kind, KindId(kind as u32)));
    let all: u64 = kinds
        .map(|(at, kind)| rates.weighted(kind, shares.capacity(at)))
        .sum();
    part(account.weighted_milli(rates), all)
}

/// What a queue's turn goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareOf {
    /// What it holds now beside its weight, which past use moves; below its own it goes first.
    Held,
    /// What it has used beside its weight, what it holds now counting as it goes on: Slurm's fair tree.
    Used,
}

/// What a queue has used, weighted and counted less with age, until now: GPU-seconds.
pub fn past(world: &World, queue: QueueId, now: Nanoseconds) -> f64 {
    let shares = world.shares();
    shares.account(queue).map_or(0.0, |account: &Account| {
        let mut account = account.clone();
        account.settle(now, shares.rates());
        account.past
    })
}

/// Weights of queues beside each other, moved by what they used before.
///
/// With w a queue's part of the weights and u its part of what they used, the weight becomes
/// max(0, w + k (w − u)): who used more than its part gets less for a while.
pub fn weights(world: &World, beside: &[QueueId], now: Nanoseconds) -> Vec<f64> {
    let given = |id: &QueueId| {
        let queue = world.queues().get(id.index());
        queue.map_or(0.0, |queue| f64::from(queue.weight_milli))
    };
    let total: f64 = beside.iter().map(given).sum();
    let part = |value: f64, of: f64| if of > 0.0 { value / of } else { 0.0 };
    let sharing = world.shares().sharing();
    let k = f64::from(sharing.past_milli) / 1000.0;
    if sharing.half_life.is_none() || k == 0.0 {
        return beside.iter().map(|id| part(given(id), total)).collect();
    }
    let used: Vec<f64> = beside.iter().map(|id| past(world, *id, now)).collect();
    let all: f64 = used.iter().sum();
    let moved = beside.iter().zip(&used).map(|(id, used)| {
        let w = part(given(id), total);
        let u = if all > 0.0 { used / all } else { w };
        (w + k * (w - u)).max(0.0)
    });
    moved.collect()
}

/// The queue that goes next, of those that have somebody waiting: level by level the one that has less
/// than its own; then of higher priority; then that with the least share beside its weight. By use nothing
/// counts but priority, then what each has used beside its weight: the level fair share of Slurm's fair tree,
/// whose users are queues at the end of a way.
///
/// Jobs of no queue, and those of a queue that has others below it, stand beside queues with a weight of 1
/// and no share of their own.
pub fn poorest(
    now: Nanoseconds,
    world: &World,
    by: ShareOf,
    waiting: &[Option<QueueId>],
) -> Option<Option<QueueId>> {
    let mut ways: Vec<(Option<QueueId>, Vec<QueueId>)> = waiting
        .iter()
        .map(|queue| (*queue, ancestor_path(world, *queue)))
        .collect();
    for level in 0.. {
        if ways.len() <= 1 {
            break;
        }
        // Those whose way ends here go before all who are further down.
        if let Some((queue, _)) = ways.iter().find(|(_, way)| way.len() <= level) {
            return Some(*queue);
        }
        let mut beside: Vec<QueueId> = ways
            .iter()
            .filter_map(|(_, w)| w.get(level).copied())
            .collect();
        beside.sort_unstable();
        beside.dedup();
        let next = match by {
            ShareOf::Held => least(now, world, &beside)?,
            ShareOf::Used => least_used(now, world, &beside)?,
        };
        ways.retain(|(_, way)| way.get(level) == Some(&next));
    }
    ways.first().map(|(queue, _)| *queue)
}

/// What a queue has used until now, weighted, in GPU-seconds: counted less with age where there is a
/// half-life, else all of it and what it used before.
pub fn used(world: &World, queue: QueueId, now: Nanoseconds) -> f64 {
    let shares = world.shares();
    if shares.sharing().half_life.is_some() {
        return past(world, queue, now);
    }
    shares.account(queue).map_or(0.0, |account| {
        let rates = shares.rates();
        let mut account = account.clone();
        account.settle(now, rates);
        let kinds = account.used.iter().zip((0..).map(KindId));
        let weighted = kinds.map(|(used, kind)| {
            // Thousandths of a GPU times nanoseconds.
            *used as f64 / 1e12 * rates.weighted(kind, 1000) as f64 / 1000.0
        });
        account.past + weighted.sum::<f64>()
    })
}

/// The queue with the greatest level fair share: its part of the weights over its part of what those beside
/// it used. Who used nothing goes first, of those the heavier.
fn least_used(now: Nanoseconds, world: &World, beside: &[QueueId]) -> Option<QueueId> {
    let key = |id: &QueueId| {
        let queue = world.queues().get(id.index());
        let weight = queue.map_or(0.0, |queue| f64::from(queue.weight_milli));
        let priority = queue.map_or(0, |queue| queue.priority);
        let used = used(world, *id, now);
        let load = if weight > 0.0 {
            used / weight
        } else {
            f64::INFINITY
        };
        (*id, -i64::from(priority), load, -weight)
    };
    let order = |a: &(QueueId, i64, f64, f64), b: &(QueueId, i64, f64, f64)| -> Ordering {
        let first = a.1.cmp(&b.1).then(a.2.total_cmp(&b.2));
        first.then(a.3.total_cmp(&b.3)).then(a.0.cmp(&b.0))
    };
    beside.iter().map(key).min_by(order).map(|key| key.0)
}

fn least(now: Nanoseconds, world: &World, beside: &[QueueId]) -> Option<QueueId> {
    if let [only] = beside {
        return Some(*only);
    }
    let weights = weights(world, beside, now);
    let keys = beside.iter().zip(&weights).map(|(id, weight)| {
        let queue = world.queues().get(id.index());
        let owed = world
            .shares()
            .pools()
            .iter()
            .any(|pool| pool.unused(*id) > 0);
        let share = share(world, *id);
        let priority = queue.map_or(0, |queue| queue.priority);
        // Who has nothing goes before who has something; of those the heavier.
        let load = if *weight > 0.0 {
            share / weight
        } else {
            f64::INFINITY
        };
        (*id, !owed, -i64::from(priority), load, -weight)
    });
    let order =
        |a: &(QueueId, bool, i64, f64, f64), b: &(QueueId, bool, i64, f64, f64)| -> Ordering {
            let first = (a.1, a.2).cmp(&(b.1, b.2));
            first
                .then(a.3.total_cmp(&b.3))
                .then(a.4.total_cmp(&b.4))
                .then(a.0.cmp(&b.0))
        };
    keys.min_by(order).map(|key| key.0)
}

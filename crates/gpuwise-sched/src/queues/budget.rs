//! What queues have spent, what those who run will still cost, and who is too dear.

use super::{account::upwards, ends, shares::held_by};
use crate::world::{StoredJob, World};
use gpuwise_domain::placement::{KindId, QueueId};
use gpuwise_units::{Money, Nanoseconds};

/// Micro-units times thousandths of GPUs times nanoseconds of an hour, in one micro-unit.
const PER_MICRO: i128 = 3_600_000_000_000 * 1000;

/// What a queue may spend in a period, has spent and will spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spending {
    pub budget: Money,
    /// What it has spent in this period, with all below it.
    pub spent: Money,
    /// What those of its jobs that run will still cost until their expected ends; of those that are not
    /// known, until the end of the period, or nothing where there is none.
    pub committed: Money,
}

impl Spending {
    pub const fn left_micros(&self) -> i64 {
        let spent = self.spent.micros.saturating_add(self.committed.micros);
        self.budget.micros.saturating_sub(spent)
    }
}

/// What a queue with a budget has spent and will spend; `None`: it has no budget, or not all kinds of
/// GPU that it holds are priced in its currency.
pub fn spending(world: &World, queue: QueueId, now: Nanoseconds) -> Option<Spending> {
    let budget = world.queues().get(queue.index())?.budget?;
    let shares = world.shares();
    let rates = shares.rates();
    if rates.currency() != Some(budget.currency) {
        return None;
    }
    let mut account = shares.account(queue)?.clone();
    account.settle(now, rates);
    let mut committed = 0_i128;
    for id in &account.running {
        let state = world.job(*id)?;
        let done = world.done_by(now, *id);
        let left = ends::left(world, state, &state.assignments, done, 0.0);
        let until_end = || rates.period_end(now).map(|end| Nanoseconds(end.0 - now.0));
        let Some(left) = left.or_else(until_end) else {
            continue;
        };
        for (kind, milli) in held_by(world, &state.assignments) {
            let price = rates.price(KindId(kind))?;
            committed += i128::from(price) * i128::from(milli) * i128::from(left.0);
        }
    }
    Some(Spending {
        budget,
        spent: account.spent(budget.currency),
        committed: Money {
            micros: micros(committed),
            currency: budget.currency,
        },
    })
}

/// What a job costs with so many workers, each with so many thousandths of GPUs of a kind; `None`: the
/// kind has no price. One of unknown length costs until the end of the period, or nothing that can be told.
pub fn cost(
    world: &World,
    job: &StoredJob,
    (kind, milli): (KindId, u64),
    workers: u32,
    now: Nanoseconds,
) -> Option<i64> {
    let rates = world.shares().rates();
    let price = rates.price(kind)?;
    let done = world.done_by(now, job.id);
    let until_end = || rates.period_end(now).map(|end| Nanoseconds(end.0 - now.0));
    let length = ends::length_on(job, done, kind, workers).or_else(until_end);
    let held = i128::from(milli) * i128::from(workers);
    let length = i128::from(length.unwrap_or_default().0);
    Some(micros(
        i128::from(price)
            .saturating_mul(held)
            .saturating_mul(length),
    ))
}

/// The first queue, from below, whose budget has not so much left; `Ok`: all have.
pub(super) fn affordable(
    left: &[(QueueId, Option<i64>)],
    cost: Option<i64>,
) -> Result<(), QueueId> {
    for (queue, left) in left {
        // What has no price cannot be held against a budget.
        match (left, cost) {
            (Some(left), Some(cost)) if cost <= *left && *left > 0 => {}
            _ => return Err(*queue),
        }
    }
    Ok(())
}

/// Queues above a job that have budgets, from below, and what each has left; `None`: it cannot be told.
pub(super) fn budgets(
    world: &World,
    queue: QueueId,
    now: Nanoseconds,
) -> Vec<(QueueId, Option<i64>)> {
    upwards(world.queues(), Some(queue))
        .filter(|id| {
            world
                .queues()
                .get(id.index())
                .is_some_and(|q| q.budget.is_some())
        })
        .map(|id| {
            (
                id,
                spending(world, id, now).map(|spending| spending.left_micros()),
            )
        })
        .collect()
}

fn micros(numerator: i128) -> i64 {
    let rounded = numerator
        .saturating_add(PER_MICRO / 2)
        .div_euclid(PER_MICRO);
    rounded.clamp(0, i128::from(i64::MAX)) as i64
}

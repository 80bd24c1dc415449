//! In which order those who wait are looked at.

use super::{
    account::upwards,
    fair::{self, ShareOf},
};
use crate::{
    decide::{Order, barred},
    world::World,
};
use gpuwise_domain::placement::{JobId, QueueId};
use gpuwise_units::Nanoseconds;
use std::collections::{BTreeMap, VecDeque};

/// Those who wait, in the order of their turns. With shares the order follows what is placed meanwhile.
#[derive(Debug, Clone)]
pub struct SchedulingOrder {
    /// Who has waited too long, and in orders without shares all others behind them.
    line: VecDeque<JobId>,
    /// How many of the line have waited too long.
    aged: usize,
    /// With shares: those of each queue, in their order.
    queues: BTreeMap<Option<QueueId>, VecDeque<JobId>>,
    /// Whose turn it was, at which number of changes: as long as nothing changes it is its turn again.
    turn: Option<(u64, Option<QueueId>)>,
    by: ShareOf,
}

impl SchedulingOrder {
    /// Of those of `demand` who seek a place. Who has waited for `starvation_timeout` or longer comes first, as they came.
    pub fn new(
        now: Nanoseconds,
        world: &World,
        demand: &[JobId],
        order: Order,
        starvation_timeout: Option<Nanoseconds>,
    ) -> Self {
        let waits = |id: &JobId| {
            let state = world.job(*id).filter(|state| state.seeks());
            state.is_some_and(|state| barred(world, state, now).is_none())
        };
        let mut ids: Vec<JobId> = demand.iter().copied().filter(waits).collect();
        let is_aged = |id: &JobId| {
            starvation_timeout.is_some_and(|starvation_timeout| {
                world
                    .job(*id)
                    .is_some_and(|s| s.job.submitted + starvation_timeout <= now)
            })
        };
        if ids.len() > 1 {
            ids.sort_by_cached_key(|id| key(now, world, *id, order, is_aged(id)));
            ids.dedup();
        }
        let aged = ids.iter().take_while(|id| is_aged(id)).count();
        let mut turns = Self {
            line: ids.into(),
            aged,
            queues: BTreeMap::new(),
            turn: None,
            by: match order {
                Order::FairTree => ShareOf::Used,
                _ => ShareOf::Held,
            },
        };
        if matches!(order, Order::Share | Order::FairTree) {
            for id in turns.line.split_off(aged) {
                let queue = world.job(id).and_then(|state| state.job.queue);
                turns.queues.entry(queue).or_default().push_back(id);
            }
        }
        turns
    }

    /// Who is next, and whether it has waited too long.
    pub fn next(&mut self, now: Nanoseconds, world: &World) -> Option<(JobId, bool)> {
        if let Some(id) = self.line.pop_front() {
            let aged = self.aged > 0;
            self.aged = self.aged.saturating_sub(1);
            return Some((id, aged));
        }
        let changes = world.changes().count();
        let same = |(at, queue): &(u64, _)| *at == changes && self.queues.contains_key(queue);
        let queue = if let Some((_, queue)) = self.turn.filter(same) {
            queue
        } else {
            let waiting: Vec<Option<QueueId>> = self.queues.keys().copied().collect();
            fair::poorest(now, world, self.by, &waiting)?
        };
        self.turn = Some((changes, queue));
        let line = self.queues.get_mut(&queue)?;
        let id = line.pop_front();
        if line.is_empty() {
            self.queues.remove(&queue);
        }
        id.map(|id| (id, false))
    }

    /// All who are still to be looked at: those in line, then those of each queue.
    pub fn rest(self) -> impl Iterator<Item = JobId> {
        let queues = self.queues.into_values().flatten();
        self.line.into_iter().chain(queues)
    }

    /// Whether somebody is still to be looked at.
    pub fn more(&self) -> bool {
        !self.line.is_empty() || !self.queues.is_empty()
    }
}

/// When it is somebody's turn. What is least goes first: aged as they came; then by the order; then as they came.
pub(crate) fn key(
    now: Nanoseconds,
    world: &World,
    id: JobId,
    order: Order,
    aged: bool,
) -> (bool, i64, u128, Option<Nanoseconds>, JobId) {
    let Some(state) = world.job(id) else {
        return (true, 0, u128::MAX, None, id);
    };
    let submitted = Some(state.job.submitted);
    // Who lent out its GPUs gets them back before anybody else gets some.
    if aged || state.rare.wanted.is_some() {
        return (false, 0, 0, submitted, id);
    }
    let priority = match order {
        Order::Arrival => 0,
        _ => -i64::from(state.job.priority),
    };
    let measure = match order {
        Order::Arrival | Order::Priority | Order::Share | Order::FairTree => 0,
        // Of those whose length is not known nothing can be said: they go last.
        Order::Shortest => state.job.duration.map_or(u128::MAX, |belief| {
            u128::from(belief.expected.0.saturating_sub(state.done.0))
        }),
        Order::LeastServed => state.served_until(world, now),
        Order::Deadline => state
            .job
            .deadline
            .map_or(u128::MAX, |deadline| u128::from(deadline.0)),
    };
    (true, priority, measure, submitted, id)
}

/// The queues on the way down to one, from above.
pub(super) fn ancestor_path(world: &World, queue: Option<QueueId>) -> Vec<QueueId> {
    let mut way: Vec<QueueId> = upwards(world.queues(), queue).collect();
    way.reverse();
    way
}

//! Kinds of GPU over which quotas are given, and what of them each queue may take.
//!
//! Every queue has its guaranteed quota, and lends the rest of its nominal quota to those beside it through
//! their parent. Above all queues is the fleet: what is in no nominal quota can be borrowed by any.

use super::account::upwards;
use gpuwise_domain::placement::{Kinds, Queue, QueueId, Quota, QuotaLimit, QuotaShort};

/// Kinds that some quota names together.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pool {
    pub kinds: Kinds,
    /// What the fleet has of them, in thousandths of GPUs, whatever their health.
    pub capacity_milli: u64,
    /// What all queues together can share: what is lent to the fleet, and what nobody owns.
    shared_milli: u64,
    shared_taken: u64,
    rows: Vec<Row>,
}

/// A queue in a pool; all in thousandths of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
struct Row {
    /// Nominal quota, of all below it too.
    nominal: u64,
    /// What is there for it and those below it without borrowing from beside it.
    total: u64,
    /// What of that it never lends: total less lending limit.
    guaranteed: u64,
    borrowing: Option<u64>,
    /// Its cap, borrowed or not.
    cap: Option<u64>,
    /// What it holds with all below it.
    held: u64,
    /// What of its total is taken: by itself, and by those below it beyond what is guaranteed to them.
    taken: u64,
}

/// What a queue may still take, and what sets that limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limit {
    pub kinds: Kinds,
    pub by: QuotaLimit,
    /// What may still be taken.
    pub room_milli: u64,
}

/// Every set of kinds that a quota names, with nothing taken.
pub(super) fn pools(queues: &[Queue], capacity: impl Fn(Kinds) -> u64) -> Vec<Pool> {
    let mut sets: Vec<Kinds> = queues
        .iter()
        .flat_map(|q| &q.quotas)
        .map(|q| q.kinds)
        .collect();
    sets.sort_unstable();
    sets.dedup();
    let pool = |kinds| Pool::new(kinds, capacity(kinds), queues);
    sets.into_iter().map(pool).collect()
}

impl Pool {
    fn new(kinds: Kinds, capacity_milli: u64, queues: &[Queue]) -> Self {
        let quota = |queue: &Queue| queue.quotas.iter().find(|q| q.kinds == kinds).copied();
        let quotas: Vec<Option<Quota>> = queues.iter().map(quota).collect();
        let mut rows = vec![Row::default(); queues.len()];
        // What the children own and what they lend, as they are met: children come after parents.
        let (mut owned, mut lent) = (vec![0_u64; queues.len()], vec![0_u64; queues.len()]);
        let (mut nominal_of_all, mut lent_by_all) = (0_u64, 0_u64);
        for at in (0..queues.len()).rev() {
            let below = owned.get(at).copied().unwrap_or(0);
            let quota = quotas.get(at).copied().flatten();
            let nominal = quota.map_or(below, |quota| quota.nominal_milli.max(below));
            let total = (nominal - below).saturating_add(lent.get(at).copied().unwrap_or(0));
            let lending = quota.and_then(|quota| quota.lending_milli);
            let guaranteed = lending.map_or(0, |lending| total.saturating_sub(lending));
            let parent = upwards(queues, Some(QueueId(at as u32))).nth(1);
            let (above, beside) = match parent {
                Some(id) => (owned.get_mut(id.index()), lent.get_mut(id.index())),
                None => (Some(&mut nominal_of_all), Some(&mut lent_by_all)),
            };
            if let (Some(above), Some(beside)) = (above, beside) {
                *above = above.saturating_add(nominal);
                *beside = beside.saturating_add(total - guaranteed);
            }
            if let Some(row) = rows.get_mut(at) {
                *row = Row {
                    nominal,
                    total,
                    guaranteed,
                    borrowing: quota.and_then(|quota| quota.borrowing_milli),
                    cap: quota.and_then(|quota| quota.cap_milli),
                    ..Row::default()
                };
            }
        }
        let unassigned = capacity_milli.saturating_sub(nominal_of_all);
        Self {
            kinds,
            capacity_milli,
            shared_milli: unassigned.saturating_add(lent_by_all),
            shared_taken: 0,
            rows,
        }
    }

    /// The fleet has so much of its kinds now; quotas and what is held stay as they are.
    pub(super) fn set_capacity(&mut self, queues: &[Queue], capacity_milli: u64) {
        let fresh = Self::new(self.kinds, capacity_milli, queues);
        self.capacity_milli = capacity_milli;
        self.shared_milli = fresh.shared_milli;
    }

    /// A queue takes, or gives back, so much.
    pub fn change(&mut self, queues: &[Queue], queue: QueueId, milli: u64, takes: bool) {
        let moved = |value: u64, by: u64| {
            if takes {
                value.saturating_add(by)
            } else {
                value.saturating_sub(by)
            }
        };
        let mut by = milli;
        for id in upwards(queues, Some(queue)) {
            let Some(row) = self.rows.get_mut(id.index()) else {
                return;
            };
            row.held = moved(row.held, milli);
            let before = row.taken.saturating_sub(row.guaranteed);
            row.taken = moved(row.taken, by);
            // Only what goes beyond its guaranteed quota is taken from above.
            by = before.abs_diff(row.taken.saturating_sub(row.guaranteed));
        }
        self.shared_taken = moved(self.shared_taken, by);
    }

    /// How much a queue may take now beyond what it has, and what sets that limit.
    pub fn room(&self, queues: &[Queue], queue: QueueId) -> Limit {
        let path: Vec<QueueId> = upwards(queues, Some(queue)).collect();
        let mut room_milli = self.shared_milli.saturating_sub(self.shared_taken);
        let mut by = QuotaLimit::Cohort;
        for id in path.iter().rev() {
            let row = self.row(*id);
            let guaranteed = row.guaranteed.saturating_sub(row.taken);
            if let Some(borrowing_milli) = row.borrowing {
                let lends = (row.total - row.guaranteed).saturating_add(borrowing_milli);
                let room = lends.saturating_sub(row.taken.saturating_sub(row.guaranteed));
                // Of equal limits the one nearest to the queue is told.
                if room <= room_milli {
                    room_milli = room;
                    by = QuotaLimit::Borrowing { queue: id.0 };
                }
            }
            room_milli = room_milli.saturating_add(guaranteed);
        }
        // A cap holds for all below it, whatever is guaranteed to them.
        for id in path {
            let row = self.row(id);
            if let Some(cap) = row.cap
                && cap.saturating_sub(row.held) <= room_milli
            {
                room_milli = cap.saturating_sub(row.held);
                by = QuotaLimit::Cap { queue: id.0 };
            }
        }
        Limit {
            kinds: self.kinds,
            by,
            room_milli,
        }
    }

    /// The arithmetic of a limit that leaves a queue less than a job needs.
    pub fn short(
        &self,
        queues: &[Queue],
        queue: QueueId,
        limit: Limit,
        needed_milli: u64,
    ) -> QuotaShort {
        let all = || (0..queues.len() as u32).map(QueueId);
        let parent = |id: QueueId| upwards(queues, Some(id)).nth(1);
        let (of, limit_milli, used_milli) = self.limited(queues, limit.by);
        // A cap holds whatever is guaranteed below it.
        let keeps = !matches!(limit.by, QuotaLimit::Cap { .. });
        let below = |id: &QueueId| match of {
            Some(of) => *id != of && upwards(queues, Some(*id)).any(|above| above == of),
            None => true,
        };
        let guaranteed = |id: QueueId| {
            let row = self.row(id);
            row.guaranteed.saturating_sub(row.taken)
        };
        let own_path = upwards(queues, Some(queue)).filter(below);
        let held = |id: QueueId| u32::try_from(self.row(id).held).unwrap_or(u32::MAX);
        let mut users: Vec<(u32, u32)> = all()
            .filter(|id| parent(*id) == of && held(*id) > 0)
            .map(|id| (id.0, held(id)))
            .collect();
        users.sort_by_key(|(id, held)| (core::cmp::Reverse(*held), *id));
        let user = |at: usize| users.get(at).copied().unwrap_or((0, 0));
        QuotaShort {
            queue: queue.0,
            nominal_milli: self.nominal(queue),
            held_milli: self.held(queue),
            kinds: self.kinds,
            needed_milli,
            room_milli: limit.room_milli,
            by: limit.by,
            limit_milli,
            used_milli,
            guaranteed_milli: if keeps {
                all().filter(below).map(guaranteed).sum()
            } else {
                0
            },
            guaranteed_here_milli: if keeps {
                own_path.map(guaranteed).sum()
            } else {
                0
            },
            users: [user(0), user(1), user(2)],
        }
    }

    /// Whose limit it is (`None`: that of all queues together), how much that is, and what of it is used.
    fn limited(&self, queues: &[Queue], by: QuotaLimit) -> (Option<QueueId>, u64, u64) {
        match by {
            QuotaLimit::Cap { queue } => {
                let row = self.row(QueueId(queue));
                let limit = row.cap.unwrap_or(row.nominal);
                (Some(QueueId(queue)), limit, row.held)
            }
            QuotaLimit::Borrowing { queue } => {
                let row = self.row(QueueId(queue));
                let limit = row.nominal.saturating_add(row.borrowing.unwrap_or(0));
                (Some(QueueId(queue)), limit, row.held)
            }
            QuotaLimit::Cohort => {
                let tops = (0..queues.len() as u32).map(QueueId);
                let tops = tops.filter(|id| upwards(queues, Some(*id)).nth(1).is_none());
                let owned = tops.clone().map(|id| self.row(id).nominal).sum();
                let held = tops.map(|id| self.row(id).held).sum();
                (None, self.capacity_milli.max(owned), held)
            }
        }
    }

    /// A queue's nominal quota, of all below it too.
    pub fn nominal(&self, queue: QueueId) -> u64 {
        self.row(queue).nominal
    }

    /// What a queue holds with all below it.
    pub fn held(&self, queue: QueueId) -> u64 {
        self.row(queue).held
    }

    /// What a queue holds beyond its nominal quota.
    pub fn borrowed(&self, queue: QueueId) -> u64 {
        let row = self.row(queue);
        row.held.saturating_sub(row.nominal)
    }

    /// What a queue does not use of its nominal quota.
    pub fn unused(&self, queue: QueueId) -> u64 {
        let row = self.row(queue);
        row.nominal.saturating_sub(row.held)
    }

    fn row(&self, queue: QueueId) -> Row {
        self.rows.get(queue.index()).copied().unwrap_or_default()
    }
}

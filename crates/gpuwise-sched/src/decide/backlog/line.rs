//! Jobs that are equal in all that decides whether they get a place, in the order of their turns.

use super::Rules;
use crate::{
    decide::{Order, verdicts::Ask},
    world::{JobState, StoredJob},
};
use gpuwise_domain::placement::{GpuAsk, JobId, Kinds, NodeId, Preemption, QueueId, WorkerAsk};
use gpuwise_units::Nanoseconds;
use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Unbounded},
};

/// When it is somebody's turn: what is least goes first. `false` comes before `true`: who has waited too long.
pub(in crate::decide) type Turn = (bool, i64, u128, Option<Nanoseconds>, JobId);

/// Where somebody stands in its line: by what the order goes by, then as they came.
pub(super) type Place = (u128, Nanoseconds, JobId);

/// What those of one line have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum LineKey {
    Class(Box<Common>),
    /// One who failed before, is held back, is still to leave, or wants back what it lent: for itself.
    Alone(JobId),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Common {
    queue: Option<QueueId>,
    ask: Ask,
    near: Vec<NodeId>,
    priority: i32,
    stoppable: bool,
    /// Where that decides who may be moved for it.
    length: Option<Nanoseconds>,
}

impl LineKey {
    pub(super) fn of(id: JobId, state: &JobState, rules: Rules) -> Self {
        let alone = state.rare.wanted.is_some()
            || state.hold
            || state.stopping
            || state.trouble().is_some()
            || !state.assignments.is_empty();
        if alone {
            return Self::Alone(id);
        }
        let job = &state.job;
        let length = job.duration.filter(|_| rules.lengths);
        Self::Class(Box::new(Common {
            queue: job.queue,
            ask: Ask::of(job),
            near: job.near.clone(),
            priority: job.priority,
            stoppable: matches!(job.preemption, Preemption::Allowed { .. }),
            length: length.map(|length| length.expected),
        }))
    }
}

/// Where somebody stands in its line.
pub(super) fn place(id: JobId, state: &JobState, rules: Rules) -> Place {
    let measure = match rules.order {
        Order::Arrival | Order::Priority | Order::Share | Order::FairTree => 0,
        Order::Shortest => state.job.duration.map_or(u128::MAX, |belief| {
            u128::from(belief.expected.0.saturating_sub(state.done.0))
        }),
        // Who has nothing is served no more.
        Order::LeastServed => state.served(),
        Order::Deadline => {
            let deadline = state.job.deadline;
            deadline.map_or(u128::MAX, |deadline| u128::from(deadline.0))
        }
    };
    (measure, state.job.submitted, id)
}

/// A line of equals.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) key: LineKey,
    places: BTreeSet<Place>,
    /// As they came, where that is another order and it counts how long they wait.
    ages: Option<BTreeSet<(Nanoseconds, JobId)>>,
    /// The kinds of GPU on which nobody of it found a place when it was last looked for.
    pub(super) no_place: Option<Kinds>,
}

impl Line {
    pub(super) const fn new(key: LineKey) -> Self {
        Self {
            key,
            places: BTreeSet::new(),
            ages: None,
            no_place: None,
        }
    }

    pub(super) fn joins(&mut self, place: Place, rules: Rules) {
        self.places.insert(place);
        if rules.starvation_timeout.is_some() && !rules.as_they_came() {
            let ages = self.ages.get_or_insert_default();
            ages.insert((place.1, place.2));
        }
    }

    pub(super) fn leaves(&mut self, place: Place) {
        self.places.remove(&place);
        if let Some(ages) = &mut self.ages {
            ages.remove(&(place.1, place.2));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn queue(&self) -> Option<QueueId> {
        match &self.key {
            LineKey::Class(common) => common.queue,
            LineKey::Alone(_) => None,
        }
    }

    /// What a worker of it asks; `None`: it stands alone.
    pub(super) fn ask(&self) -> Option<&WorkerAsk> {
        match &self.key {
            LineKey::Class(common) => Some(&common.ask.worker),
            LineKey::Alone(_) => None,
        }
    }

    pub(super) fn only(&self) -> Option<JobId> {
        match &self.key {
            LineKey::Alone(id) => Some(*id),
            LineKey::Class(_) => None,
        }
    }

    fn priority(&self, order: Order) -> i64 {
        match (&self.key, order) {
            (LineKey::Class(common), order) if order != Order::Arrival => {
                -i64::from(common.priority)
            }
            _ => 0,
        }
    }

    /// The next after a turn of those who have waited too long.
    pub(super) fn next_aged(
        &self,
        after: Option<Turn>,
        aged_until: Option<Nanoseconds>,
    ) -> Option<Turn> {
        let until = aged_until?;
        let after = match after {
            None => None,
            Some((false, _, _, submitted, id)) => Some((submitted?, id)),
            Some(_) => return None,
        };
        let next = if let Some(ages) = &self.ages {
            let from = after.map_or(Unbounded, Excluded);
            ages.range((from, Unbounded)).next().copied()
        } else {
            let from = after.map_or(Unbounded, |(submitted, id)| Excluded((0, submitted, id)));
            let next = self.places.range((from, Unbounded)).next();
            next.map(|(_, submitted, id)| (*submitted, *id))
        };
        let (submitted, id) = next.filter(|(submitted, _)| *submitted <= until)?;
        Some((false, 0, 0, Some(submitted), id))
    }

    /// The next after a turn of those who have not.
    pub(super) fn next_other(
        &self,
        after: Option<Turn>,
        aged_until: Option<Nanoseconds>,
        rules: Rules,
    ) -> Option<Turn> {
        let priority = self.priority(rules.order);
        let from = match after {
            // Who has waited too long stands first.
            None | Some((false, ..)) => match aged_until.filter(|_| rules.as_they_came()) {
                Some(until) => Excluded((0, until, JobId(u32::MAX))),
                None => Unbounded,
            },
            Some((true, before, measure, submitted, id)) => match before.cmp(&priority) {
                std::cmp::Ordering::Less => Unbounded,
                std::cmp::Ordering::Equal => Excluded((measure, submitted?, id)),
                std::cmp::Ordering::Greater => return None,
            },
        };
        let aged = |submitted: Nanoseconds| aged_until.is_some_and(|until| submitted <= until);
        let mut next = self.places.range((from, Unbounded));
        let (measure, submitted, id) = next.find(|(_, submitted, _)| !aged(*submitted))?;
        Some((true, priority, *measure, Some(*submitted), *id))
    }

    /// The last of those who have not waited too long, and are not left out.
    pub(super) fn last_other(
        &self,
        aged_until: Option<Nanoseconds>,
        rules: Rules,
        left_out: &dyn Fn(JobId) -> bool,
    ) -> Option<Turn> {
        let aged = |submitted: Nanoseconds| aged_until.is_some_and(|until| submitted <= until);
        let mut places = self.places.iter().rev();
        let (measure, submitted, id) =
            places.find(|(_, submitted, id)| !aged(*submitted) && !left_out(*id))?;
        let priority = self.priority(rules.order);
        Some((true, priority, *measure, Some(*submitted), *id))
    }
}

/// Whether an ask is for an instance of a GPU.
pub(in crate::decide) fn asks_slice(job: &StoredJob) -> bool {
    matches!(job.worker.gpu, GpuAsk::Slice { .. })
}

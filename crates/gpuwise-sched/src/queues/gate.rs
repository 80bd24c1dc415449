//! Who may go ahead of whom: reservations over time, and backfill behind those whose start is guaranteed.
//!
//! One who finds no place gets a guard: the moment when it will find one if everybody ends as expected, the
//! seats that it takes then, and the fleet as it is then. Others may go ahead only if they are expected to
//! have ended by then, or if they find room in that fleet beside it.

use super::{admit, ends, kept};
use crate::world::World;
use gpuwise_domain::placement::{
    Action, Ended, Event, Job, JobId, NodeId, QueueId, Seat, Shortage, Stamped,
};
use gpuwise_units::Nanoseconds;

/// What holds beside the choice of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Who has waited so long goes first, and its start is guaranteed; `None`: nobody.
    pub patience: Option<Nanoseconds>,
    /// How many of those who find no place have a guaranteed start, in their order.
    pub guarantees: u32,
    /// By how many standard deviations of its logarithm a duration is taken to be longer than expected.
    pub deviations: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            patience: None,
            guarantees: 0,
            deviations: 1.0,
        }
    }
}

/// A guaranteed start.
#[derive(Debug, Clone)]
struct Guard {
    job: JobId,
    /// When it starts; `None`: when those end of whom nobody knows when.
    start: Option<Nanoseconds>,
    end: Option<Nanoseconds>,
    seats: Vec<Seat>,
    prepare: Vec<Action>,
    /// The fleet when it has started.
    then: World,
}

/// What was seen of those who were looked at before.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    guards: Vec<Guard>,
    /// Queues in which nobody goes ahead of one who has waited too long for its quota.
    closed: Vec<(QueueId, JobId)>,
    /// Whether what is kept for a queue is lent to those who may be stopped.
    lends: bool,
}

/// Finds seats in a fleet, those nodes left out, and what must be done before.
pub(crate) type FindSeats<'a> =
    &'a mut dyn FnMut(&World, &[NodeId]) -> Option<(Vec<Seat>, Vec<Action>)>;

/// Seats that are to be held against what is guaranteed and kept.
pub(crate) struct Held<'a> {
    pub(crate) job: JobId,
    pub(crate) seats: &'a [Seat],
    pub(crate) prepare: &'a [Action],
}

impl Gate {
    /// One that has seen nobody; it may lend what is kept for a queue.
    pub(crate) fn new(lends: bool) -> Self {
        Self {
            lends,
            ..Self::default()
        }
    }

    /// Who must go first in a job's queue; `None`: it may go.
    pub(crate) fn behind(&self, world: &World, job: &Job) -> Option<JobId> {
        let closed = |id: QueueId| self.closed.iter().find(|(queue, _)| *queue == id);
        let mut way = super::account::upwards(world.queues(), job.queue);
        way.find_map(closed).map(|(_, head)| *head)
    }

    /// Nobody of these queues goes ahead of this job.
    pub(crate) fn close(&mut self, shortage: Shortage, job: JobId) {
        let queue = match shortage {
            Shortage::Quota(short) => short.limits(),
            Shortage::Budget { queue } => queue,
            _ => return,
        };
        self.closed.push((QueueId(queue), job));
    }

    /// So many have a guaranteed start.
    pub(crate) fn guards(&self) -> usize {
        self.guards.len()
    }

    /// The first whose start is guaranteed.
    pub(crate) fn first(&self) -> Option<JobId> {
        self.guards.first().map(|guard| guard.job)
    }

    /// Nodes on which these seats would delay one whose start is guaranteed, or take what is kept for
    /// another queue. None: the seats are good, and guarded ones know of them.
    pub(crate) fn offends(
        &mut self,
        world: &World,
        held: &Held<'_>,
        now: Nanoseconds,
        deviations: f64,
    ) -> Vec<NodeId> {
        let mut nodes = kept::taken_from(world, held.job, held.seats, now, deviations, self.lends);
        let Some(state) = world.job(held.job) else {
            return nodes;
        };
        if !nodes.is_empty() || self.guards.is_empty() {
            return nodes;
        }
        let end = ends::end_on(world, state, held.seats, now, deviations);
        self.fit_in(&state.job, held, (now, end), &mut nodes);
        nodes
    }

    /// Takes seats in every guarded future that a span runs into; names the nodes in the way, and takes
    /// nothing then.
    fn fit_in(
        &mut self,
        job: &Job,
        held: &Held<'_>,
        (from, end): (Nanoseconds, Option<Nanoseconds>),
        nodes: &mut Vec<NodeId>,
    ) {
        let meets = |guard: &Guard| {
            let Some(start) = guard.start else {
                return true;
            };
            start >= from && end.is_none_or(|end| end > start)
        };
        let mut taken = 0;
        for guard in self.guards.iter_mut().filter(|guard| meets(guard)) {
            let admitted = admit::admit(&guard.then, job, guard.then.now());
            let allowed =
                admitted.is_ok_and(|admitted| admitted.workers >= held.seats.len() as u32);
            if allowed && seat_in(&mut guard.then, held) {
                taken += 1;
                continue;
            }
            nodes.extend(held.seats.iter().map(|seat| seat.node));
            if allowed {
                let theirs = |node: &NodeId| guard.seats.iter().any(|seat| seat.node == *node);
                if nodes.iter().any(theirs) {
                    nodes.retain(theirs);
                }
            }
            nodes.sort_unstable();
            nodes.dedup();
            break;
        }
        if !nodes.is_empty() {
            for guard in self
                .guards
                .iter_mut()
                .filter(|guard| meets(guard))
                .take(taken)
            {
                let action = place(held);
                let at = guard.then.now();
                let event = Event::Failed(action);
                let _ = guard.then.apply(&Stamped { at, event });
            }
        }
    }

    /// Guarantees a job's start. `seats` finds its seats in a fleet, those nodes left out; the job finds
    /// none in this one. Gives when it will start, where that can be told.
    pub(crate) fn guarantee(
        &mut self,
        world: &World,
        job: &Job,
        now: Nanoseconds,
        deviations: f64,
        seats: FindSeats<'_>,
    ) -> Option<Nanoseconds> {
        let mut future = world.clone();
        for (time, events) in self.agenda(world, now, deviations) {
            let at = time.unwrap_or(future.now());
            for event in events {
                // What a guard takes was free then.
                let _ = future.apply(&Stamped { at, event });
            }
            if admit::admit(&future, job, at).is_err() {
                continue;
            }
            let mut closed = Vec::new();
            // Each turn closes a node, so this ends.
            while let Some((found, prepare)) = seats(&future, &closed) {
                let held = Held {
                    job: job.id,
                    seats: &found,
                    prepare: &prepare,
                };
                let state = future.job(job.id)?;
                let end =
                    ends::end_on(&future, state, &found, at, deviations).filter(|_| time.is_some());
                let before = closed.len();
                let mut nodes = kept::taken_from(&future, job.id, &found, at, deviations, false);
                if nodes.is_empty() {
                    self.fit_in(job, &held, (at, end), &mut nodes);
                }
                if nodes.is_empty() {
                    let mut then = future;
                    seat_in(&mut then, &held);
                    self.guards.push(Guard {
                        job: job.id,
                        start: time,
                        end,
                        seats: found,
                        prepare,
                        then,
                    });
                    return time;
                }
                closed.extend(nodes);
                closed.sort_unstable();
                closed.dedup();
                if closed.len() == before {
                    break;
                }
            }
        }
        None
    }

    /// What is expected to happen from now on: those who run end, those whose start is guaranteed start
    /// and end. Last, at no time, what nobody knows when.
    fn agenda(
        &self,
        world: &World,
        now: Nanoseconds,
        deviations: f64,
    ) -> Vec<(Option<Nanoseconds>, Vec<Event>)> {
        let ended = |job: JobId| Event::Ended {
            job,
            how: Ended::Finished,
        };
        // Of one moment those who end come before those who start.
        let mut all: Vec<(bool, Option<Nanoseconds>, u8, Event)> = Vec::new();
        for (end, id) in ends::ends(world, now, deviations) {
            all.push((end.is_none(), end, 0, ended(id)));
        }
        for guard in &self.guards {
            let begun = |action: &Action| Event::Begun(action.clone());
            let start = guard.start;
            all.extend(
                guard
                    .prepare
                    .iter()
                    .map(|one| (start.is_none(), start, 1, begun(one))),
            );
            let action = Action::Place {
                job: guard.job,
                seats: guard.seats.clone(),
            };
            all.push((start.is_none(), start, 1, Event::Begun(action)));
            if let Some(end) = guard.end {
                all.push((false, Some(end), 0, ended(guard.job)));
            }
        }
        all.sort_by_key(|(unknown, at, rank, _)| (*unknown, *at, *rank));
        let mut agenda: Vec<(Option<Nanoseconds>, Vec<Event>)> = Vec::new();
        for (_, at, _, event) in all {
            match agenda.last_mut() {
                Some((time, events)) if *time == at => events.push(event),
                _ => agenda.push((at, vec![event])),
            }
        }
        agenda
    }
}

fn place(held: &Held<'_>) -> Action {
    Action::Place {
        job: held.job,
        seats: held.seats.to_vec(),
    }
}

/// Takes seats in a fleet; whether they were free.
fn seat_in(world: &mut World, held: &Held<'_>) -> bool {
    let at = world.now();
    for action in held.prepare {
        let event = Event::Begun(action.clone());
        let _ = world.apply(&Stamped { at, event });
    }
    let event = Event::Begun(place(held));
    world.apply(&Stamped { at, event }).is_ok()
}

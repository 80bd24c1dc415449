//! Who may go ahead of whom: reservations over time, and backfill behind those whose start is reserved.
//!
//! One who finds no place gets a reservation: the moment when it will find one if everybody ends as expected, the
//! assignments that it takes then, and the fleet as it is then. Others may go ahead only if they are expected to
//! have ended by then, or if they find room in that fleet beside it.

use super::{admit, ends, reserved};
use crate::world::{StoredJob, World};
use gpuwise_domain::placement::{
    Action, Assignment, Ended, Event, JobId, NodeId, QueueId, Shortage, TimestampedEvent,
};
use gpuwise_units::Nanoseconds;

/// What holds beside the choice of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Who has waited so long goes first, and its start is reserved; `None`: nobody.
    pub starvation_timeout: Option<Nanoseconds>,
    /// How many of those who find no place have a reserved start, in their order.
    pub reservations: u32,
    /// Runtime padding: by how many standard deviations of its logarithm a duration is taken to be longer than
    /// expected.
    pub padding_sigmas: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            starvation_timeout: None,
            reservations: 0,
            padding_sigmas: 1.0,
        }
    }
}

#[derive(Debug, Clone)]
struct BackfillReservation {
    job: JobId,
    /// When it starts; `None`: when those end of whom nobody knows when.
    start: Option<Nanoseconds>,
    end: Option<Nanoseconds>,
    assignments: Vec<Assignment>,
    prepare: Vec<Action>,
    /// The fleet when it has started.
    then: World,
}

/// What was seen of those who were looked at before.
#[derive(Debug, Clone, Default)]
pub struct AdmissionGate {
    reservations: Vec<BackfillReservation>,
    /// Queues in which nobody goes ahead of one who has waited too long for its quota.
    closed: Vec<(QueueId, JobId)>,
    /// Whether what is reserved for a queue is lent to those who may be stopped.
    lends: bool,
}

/// Finds assignments in a fleet, those nodes left out, and what must be done before.
pub(crate) type FindAssignments<'a> =
    &'a mut dyn FnMut(&World, &[NodeId]) -> Option<(Vec<Assignment>, Vec<Action>)>;

/// Assignments that are to be held against backfill reservations and reserved GPUs.
pub(crate) struct Tentative<'a> {
    pub(crate) job: JobId,
    pub(crate) assignments: &'a [Assignment],
    pub(crate) prepare: &'a [Action],
}

impl AdmissionGate {
    /// One that has seen nobody; it may lend what is reserved for a queue.
    pub(crate) fn new(lends: bool) -> Self {
        Self {
            lends,
            ..Self::default()
        }
    }

    /// Who must go first in a job's queue; `None`: it may go.
    pub(crate) fn behind(&self, world: &World, job: &StoredJob) -> Option<JobId> {
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

    /// So many have a reserved start.
    pub(crate) fn reservations(&self) -> usize {
        self.reservations.len()
    }

    /// The first whose start is reserved.
    pub(crate) fn first(&self) -> Option<JobId> {
        self.reservations.first().map(|reservation| reservation.job)
    }

    /// Nodes on which these assignments would delay one whose start is reserved, or take what is reserved for
    /// another queue. None: the assignments are good, and those who have reservations know of them.
    pub(crate) fn offends(
        &mut self,
        world: &World,
        held: &Tentative<'_>,
        now: Nanoseconds,
        padding_sigmas: f64,
    ) -> Vec<NodeId> {
        let mut nodes = reserved::taken_from(
            world,
            held.job,
            held.assignments,
            now,
            padding_sigmas,
            self.lends,
        );
        let Some(state) = world.job(held.job) else {
            return nodes;
        };
        if !nodes.is_empty() || self.reservations.is_empty() {
            return nodes;
        }
        let end = ends::end_on(world, state, held.assignments, now, padding_sigmas);
        self.fit_in(&state.job, held, (now, end), &mut nodes);
        nodes
    }

    /// Takes assignments in every reserved future that a span runs into; names the nodes in the way, and takes
    /// nothing then.
    fn fit_in(
        &mut self,
        job: &StoredJob,
        held: &Tentative<'_>,
        (from, end): (Nanoseconds, Option<Nanoseconds>),
        nodes: &mut Vec<NodeId>,
    ) {
        let meets = |reservation: &BackfillReservation| {
            let Some(start) = reservation.start else {
                return true;
            };
            start >= from && end.is_none_or(|end| end > start)
        };
        let mut taken = 0;
        for reservation in self
            .reservations
            .iter_mut()
            .filter(|reservation| meets(reservation))
        {
            let admitted = admit::admit(&reservation.then, job, reservation.then.now());
            let allowed =
                admitted.is_ok_and(|admitted| admitted.workers >= held.assignments.len() as u32);
            if allowed && assign_in(&mut reservation.then, held) {
                taken += 1;
                continue;
            }
            nodes.extend(held.assignments.iter().map(|assignment| assignment.node));
            if allowed {
                let theirs = |node: &NodeId| {
                    reservation
                        .assignments
                        .iter()
                        .any(|assignment| assignment.node == *node)
                };
                if nodes.iter().any(theirs) {
                    nodes.retain(theirs);
                }
            }
            nodes.sort_unstable();
            nodes.dedup();
            break;
        }
        if !nodes.is_empty() {
            for reservation in self
                .reservations
                .iter_mut()
                .filter(|reservation| meets(reservation))
                .take(taken)
            {
                let action = place(held);
                let at = reservation.then.now();
                let event = Event::failed(action);
                let _ = reservation.then.apply(&TimestampedEvent { at, event });
            }
        }
    }

    /// Reserves a job's start. `assignments` finds its assignments in a fleet, those nodes left out; the job finds
    /// none in this one. Gives when it will start, where that can be told.
    pub(crate) fn reserve(
        &mut self,
        world: &World,
        job: &StoredJob,
        now: Nanoseconds,
        padding_sigmas: f64,
        assignments: FindAssignments<'_>,
        left: &mut u64,
    ) -> Option<Nanoseconds> {
        let mut future = world.clone();
        let price = 1 + world.nodes().len() as u64 / 64;
        for (time, events) in self.agenda(world, now, padding_sigmas) {
            *left = left.checked_sub(price + events.len() as u64)?;
            let at = time.unwrap_or(future.now());
            for event in events {
                // What a reservation takes was free then.
                let _ = future.apply(&TimestampedEvent { at, event });
            }
            if admit::admit(&future, job, at).is_err() {
                continue;
            }
            let mut closed = Vec::new();
            // Each turn closes a node, so this ends.
            while let Some((found, prepare)) = assignments(&future, &closed) {
                *left = left.checked_sub(price)?;
                let held = Tentative {
                    job: job.id,
                    assignments: &found,
                    prepare: &prepare,
                };
                let state = future.job(job.id)?;
                let end = ends::end_on(&future, state, &found, at, padding_sigmas)
                    .filter(|_| time.is_some());
                let before = closed.len();
                let mut nodes =
                    reserved::taken_from(&future, job.id, &found, at, padding_sigmas, false);
                if nodes.is_empty() {
                    self.fit_in(job, &held, (at, end), &mut nodes);
                }
                if nodes.is_empty() {
                    let mut then = future;
                    assign_in(&mut then, &held);
                    self.reservations.push(BackfillReservation {
                        job: job.id,
                        start: time,
                        end,
                        assignments: found,
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

    /// What is expected to happen from now on: those who run end, those whose start is reserved start
    /// and end. Last, at no time, what nobody knows when.
    fn agenda(
        &self,
        world: &World,
        now: Nanoseconds,
        padding_sigmas: f64,
    ) -> Vec<(Option<Nanoseconds>, Vec<Event>)> {
        let ended = |job: JobId| Event::Ended {
            job,
            how: Ended::Finished,
        };
        // Of one moment those who end come before those who start.
        let mut all: Vec<(bool, Option<Nanoseconds>, u8, Event)> = Vec::new();
        for (end, id) in ends::ends(world, now, padding_sigmas) {
            all.push((end.is_none(), end, 0, ended(id)));
        }
        for reservation in &self.reservations {
            let begun = |action: &Action| Event::begun(action.clone());
            let start = reservation.start;
            all.extend(
                reservation
                    .prepare
                    .iter()
                    .map(|one| (start.is_none(), start, 1, begun(one))),
            );
            let action = Action::Place {
                job: reservation.job,
                assignments: reservation.assignments.clone(),
            };
            all.push((start.is_none(), start, 1, Event::begun(action)));
            if let Some(end) = reservation.end {
                all.push((false, Some(end), 0, ended(reservation.job)));
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

fn place(held: &Tentative<'_>) -> Action {
    Action::Place {
        job: held.job,
        assignments: held.assignments.to_vec(),
    }
}

/// Takes assignments in a fleet; whether they were free.
fn assign_in(world: &mut World, held: &Tentative<'_>) -> bool {
    let at = world.now();
    for action in held.prepare {
        let event = Event::begun(action.clone());
        let _ = world.apply(&TimestampedEvent { at, event });
    }
    let event = Event::begun(place(held));
    world.apply(&TimestampedEvent { at, event }).is_ok()
}

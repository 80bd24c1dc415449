//! Replicas as the gateway keeps them.

use super::{
    clock::Clock,
    gateway::Gateway,
    observer::ReplicaState,
    routers::{Candidate, Router},
    scenario::Admission,
};
use crate::{
    cost::{CostSegment, Picoseconds, RequestOverhead, StepCost, StepWork},
    engine::Replica,
};
use std::{cell::RefCell, rc::Rc};

/// Step times that the replicas of a pool share, so that each is computed once.
#[derive(Debug)]
pub(super) struct Shared<C>(Rc<RefCell<C>>);

impl<C> Shared<C> {
    pub(super) fn new(cost: C) -> Self {
        Self(Rc::new(RefCell::new(cost)))
    }
}

impl<C> Clone for Shared<C> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<C: StepCost> StepCost for Shared<C> {
    fn decode(&mut self, sequences: u32, context: u64, replica: u64) -> CostSegment {
        self.0.borrow_mut().decode(sequences, context, replica)
    }

    fn mixed(&mut self, work: &StepWork, replica: u64) -> Picoseconds {
        self.0.borrow_mut().mixed(work, replica)
    }

    fn around(&self, input: u32) -> RequestOverhead {
        self.0.borrow().around(input)
    }
}

/// A replica. Times are picoseconds.
#[derive(Debug)]
pub(super) struct Slot<C> {
    pub(super) engine: Replica<Shared<C>>,
    pub(super) pool: u16,
    /// Its place in its pool, counted from 0.
    pub(super) place: u16,
    pub(super) state: ReplicaState,
    /// Its time, where it does not have its GPU for itself.
    pub(super) clock: Option<Clock>,
    /// When its engine turns next, by its own time; none while it is idle.
    pub(super) turn: Option<u64>,
    /// Whether what it does next is not known.
    pub(super) dirty: bool,
    /// Its place among the candidates of its pool, while it serves.
    pub(super) candidate: Option<usize>,
    /// Requests sent to it that are not over, and their prompt tokens.
    pub(super) requests: u32,
    pub(super) tokens: u64,
    /// Requests whose cache it holds for another replica.
    pub(super) holds: u32,
    /// When its timer rings; other timers of it are old.
    pub(super) wake: u64,
    pub(super) starts: u32,
    pub(super) failures: u32,
    /// Since when it is kept, and how long it served before `since`.
    pub(super) kept_since: u64,
    pub(super) kept: u64,
    pub(super) ready_since: u64,
    pub(super) ready: u64,
    pub(super) out_free: u64,
    pub(super) in_free: u64,
}

impl<C> Slot<C> {
    pub(super) fn new(engine: Replica<Shared<C>>, pool: u16, place: u16, now: u64) -> Self {
        Self {
            engine,
            pool,
            place,
            state: ReplicaState::Gone,
            clock: None,
            turn: None,
            dirty: false,
            candidate: None,
            requests: 0,
            tokens: 0,
            holds: 0,
            wake: 0,
            starts: 0,
            failures: 0,
            kept_since: now,
            kept: 0,
            ready_since: now,
            ready: 0,
            out_free: 0,
            in_free: 0,
        }
    }

    /// Whether it has an engine that runs.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, ReplicaState::Ready | ReplicaState::Draining)
    }

    /// Whether a gateway may send it another request.
    pub(super) fn is_open(&self, admission: &Admission) -> bool {
        admission.in_replica.is_none_or(|most| self.requests < most)
            && admission
                .tokens_in_replica
                .is_none_or(|most| self.requests == 0 || self.tokens < most)
    }

    /// Its engine's time at a time of the run.
    pub(super) fn own(&self, now: u64) -> u64 {
        self.clock.as_ref().map_or(now, |clock| clock.own(now))
    }

    /// When its engine turns next, by the run's time.
    pub(super) fn turns_at(&self) -> u64 {
        match (self.turn, &self.clock) {
            (None, _) => super::events::NEVER,
            (Some(turn), None) => turn,
            (Some(turn), Some(clock)) => clock.run(turn),
        }
    }
}

/// A pool while it runs.
#[derive(Debug)]
pub(super) struct PoolState<C> {
    pub(super) cost: Shared<C>,
    pub(super) router: Router,
    pub(super) gateway: Gateway,
    /// Replicas that serve, in the order of their numbers, as they are.
    pub(super) candidates: Vec<Candidate>,
    /// The same as of when the gateway last looked, where signals age.
    pub(super) seen: Vec<Candidate>,
    /// All replicas that there ever were, by their place.
    pub(super) slots: Vec<u16>,
    /// The entry of its replica counts that comes next.
    pub(super) changes: usize,
}

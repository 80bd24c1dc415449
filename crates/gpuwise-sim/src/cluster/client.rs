//! Those who send: when each request is sent, and what waits for what.

use super::{
    events::{Kind, NEVER, Timers},
    flights::Flights,
};
use crate::traffic::{Pacing, Source};
use gpuwise_domain::request::Request;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

pub(super) const NANOSECOND: u64 = 1_000;

/// Clients with what they have yet to send. Times are nanoseconds.
#[derive(Debug)]
pub(super) struct Client<S> {
    source: S,
    next: Option<Request>,
    pacing: Pacing,
    /// Concurrent requests; under [`Pacing::InFlight`] those that think, too.
    taken: u32,
    /// Requests taken from the source.
    pulled: u64,
    /// Those that may be sent but for the limit, by when they were due.
    ready: BinaryHeap<Reverse<(u64, u64)>>,
    sessions: IndexMap<u32, Session, FxBuildHasher>,
}

#[derive(Debug, Default)]
struct Session {
    /// Whether one of its requests is sent, or about to be.
    busy: bool,
    /// When the last ended.
    end: Option<u64>,
    behind: VecDeque<u64>,
}

/// What to do with a request that was pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pulled {
    Now(u64),
    /// Its timer rings, or its session calls it.
    Later,
}

impl<S: Source> Client<S> {
    pub(super) fn new(mut source: S) -> Self {
        let next = source.next();
        Self {
            pacing: source.pacing(),
            source,
            next,
            taken: 0,
            pulled: 0,
            ready: BinaryHeap::new(),
            sessions: IndexMap::default(),
        }
    }

    /// Whether nothing is left to send of what was not pulled.
    pub(super) fn is_exhausted(&self) -> bool {
        self.next.is_none()
    }

    /// When, in picoseconds, a request is to be pulled or let through: at the earliest `now`.
    pub(super) fn next_time(&self, now: u64) -> u64 {
        let time = match self.pacing {
            Pacing::InFlight(most) => match self.next {
                Some(_) if self.taken < most => 0,
                _ => NEVER,
            },
            Pacing::Scheduled { cap } => {
                if cap.is_some_and(|cap| self.taken >= cap) {
                    NEVER
                } else if self.ready.is_empty() {
                    self.next.as_ref().map_or(NEVER, |request| request.due.0)
                } else {
                    0
                }
            }
        };
        time.saturating_mul(NANOSECOND).max(now)
    }

    /// Takes the next: from those that wait for the limit, or from the source.
    pub(super) fn pull(
        &mut self,
        now: u64,
        flights: &mut Flights,
        timers: &mut Timers,
        pool_of: impl Fn(&Request) -> u16,
    ) -> Pulled {
        let due = self.next.as_ref().map(|request| request.due.0);
        if let Some(Reverse((ready, number))) = self.ready.peek().copied()
            && due.is_none_or(|due| ready <= due)
        {
            self.ready.pop();
            return Pulled::Now(number);
        }
        let Some(mut request) = self.next.take() else {
            return Pulled::Later;
        };
        self.next = self.source.next();
        let first = self.pulled;
        self.pulled += 1;
        if let Pacing::InFlight(most) = self.pacing {
            // One of the first thinks about nothing yet.
            let thinks = first >= u64::from(most) && request.session.is_none();
            request.due.0 = now + if thinks { request.think.0 } else { 0 };
        }
        let (session, think, due) = (request.session, request.think.0, request.due.0);
        let pool = pool_of(&request);
        let number = flights.add(request, pool);
        let mut at = due;
        if let Some(session) = session {
            let session = self.sessions.entry(session).or_default();
            if session.busy {
                session.behind.push_back(number);
                return Pulled::Later;
            }
            session.busy = true;
            at = at.max(session.end.map_or(0, |end| end.saturating_add(think)));
            if let Some(flight) = flights.get_mut(number) {
                flight.due = at;
            }
        }
        if matches!(self.pacing, Pacing::InFlight(_)) {
            self.taken += 1;
        }
        if at <= now && at == due {
            return Pulled::Now(number);
        }
        if at <= now {
            // Others may have been due before its session let it go.
            self.ready.push(Reverse((at, number)));
            return Pulled::Later;
        }
        wake(at, number, flights, timers);
        Pulled::Later
    }

    /// A request's time has come; whether it may be sent, or has to wait for the limit.
    pub(super) fn may_send(&mut self, due: u64, number: u64) -> bool {
        match self.pacing {
            Pacing::Scheduled { cap: Some(cap) } if self.taken >= cap => {
                self.ready.push(Reverse((due, number)));
                false
            }
            _ => true,
        }
    }

    /// A request is sent for the first time.
    pub(super) fn sent(&mut self) {
        if matches!(self.pacing, Pacing::Scheduled { cap: Some(_) }) {
            self.taken += 1;
        }
    }

    /// Whether anything waits for the end of a request, so that its client has to be told.
    pub(super) fn cares(&self, session: Option<u32>) -> bool {
        session.is_some() || self.pacing != Pacing::Scheduled { cap: None }
    }

    /// A client sees the end of a request at `now`.
    pub(super) fn seen(
        &mut self,
        now: u64,
        session: Option<u32>,
        flights: &mut Flights,
        timers: &mut Timers,
    ) {
        self.taken = self.taken.saturating_sub(1);
        let Some(session) = session.and_then(|session| self.sessions.get_mut(&session)) else {
            return;
        };
        session.end = Some(now);
        session.busy = false;
        let number = session.behind.pop_front();
        if let Some(flight) = number.and_then(|number| flights.get_mut(number)) {
            session.busy = true;
            let think = flight.request.as_ref().map_or(0, |request| request.think.0);
            let at = flight.due.max(now.saturating_add(think));
            let number = flight.number;
            flight.due = at;
            if matches!(self.pacing, Pacing::InFlight(_)) {
                self.taken += 1;
            }
            wake(at, number, flights, timers);
        }
    }

    /// The rest of what was due by `horizon`, which the limit held back.
    pub(super) fn held_back(&mut self, horizon: u64) -> Option<Request> {
        if matches!(self.pacing, Pacing::InFlight(_)) {
            return None;
        }
        let due = self
            .next
            .as_ref()
            .is_some_and(|request| request.due.0 <= horizon);
        let request = if due { self.next.take() } else { None };
        if request.is_some() {
            self.next = self.source.next();
        }
        request
    }
}

/// Sets the timer of a request to `at` nanoseconds.
pub(super) fn wake(at: u64, number: u64, flights: &mut Flights, timers: &mut Timers) {
    if let Some(flight) = flights.get_mut(number) {
        flight.wake = at.saturating_mul(NANOSECOND);
        timers.add(flight.wake, Kind::Send, number);
    }
}

//! Requests that a client means to send or has sent, until their end is told.

use super::gateway::Key;
use crate::engine::Ticket;
use gpuwise_domain::request::Request;
use std::collections::VecDeque;

pub(super) const NOWHERE: u16 = u16::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// With its client: for its session, for a place under the limit, or to be sent again.
    Client,
    /// At the gateway, for a replica that takes it.
    Gateway,
    /// On its way into a replica's queue.
    Transit,
    /// In a replica that computes its prompt for another.
    Prefill,
    /// In a replica that waits for its cache.
    Moving,
    Engine,
    /// Over; its client does not know yet.
    Over,
}

/// A request and what has become of it so far. Times are nanoseconds.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) number: u64,
    /// What is sent; none while an engine has it.
    pub(super) request: Option<Request>,
    /// From when its latencies count.
    pub(super) due: u64,
    /// When it was first sent.
    pub(super) sent: Option<u64>,
    /// When its timer rings; other timers of it are old.
    pub(super) wake: u64,
    /// When its client gives up.
    pub(super) deadline: u64,
    pub(super) waits: Key,
    pub(super) place: Place,
    /// The replica that serves it, or is to.
    pub(super) replica: u16,
    pub(super) ticket: Option<Ticket>,
    pub(super) prefill: Option<Box<Prefill>>,
    pub(super) retries: u16,
    pub(super) preemptions: u16,
    pub(super) input: u32,
    /// When it was first planned and when its first token was out, in picoseconds, where the engine's
    /// time is not the run's.
    pub(super) told: (Option<u64>, Option<u64>),
    /// Whether its tenant's limit counts it.
    pub(super) counted: bool,
    pub(super) tenant: u16,
    pub(super) adapter: u16,
    pub(super) session: Option<u32>,
    pub(super) pool: u16,
}

/// The part of a request that another replica computes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefill {
    pub(super) replica: u16,
    pub(super) stage: Stage,
    /// When it was first planned there, in picoseconds.
    pub(super) scheduled: Option<u64>,
    /// Prompt tokens that it found there.
    pub(super) cached: u32,
    /// Prompt tokens to move.
    pub(super) tokens: u32,
}

/// How far the part of another replica is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// On its way there, or in its engine.
    Computing,
    Held(Ticket),
    /// The other replica has nothing of it.
    Done,
}

/// All of them by number. Numbers are given in order, so that a window from the oldest to the newest
/// finds each in a slab.
#[derive(Debug, Default)]
pub(super) struct Flights {
    slab: Vec<Flight>,
    spare: Vec<u32>,
    /// Of each number from `base` its place in the slab.
    window: VecDeque<u32>,
    base: u64,
}

/// The number is over.
const GONE: u32 = u32::MAX;

impl Flights {
    pub(super) fn next(&self) -> u64 {
        self.base + self.window.len() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len() - self.spare.len()
    }

    pub(super) fn add(&mut self, request: Request, pool: u16) -> u64 {
        let number = self.next();
        let flight = Flight {
            number,
            due: request.due.0,
            sent: None,
            wake: 0,
            deadline: u64::MAX,
            waits: ((0, 0), 0),
            place: Place::Client,
            replica: NOWHERE,
            ticket: None,
            prefill: None,
            retries: 0,
            preemptions: 0,
            told: (None, None),
            counted: false,
            input: request.input,
            tenant: request.tenant,
            adapter: request.adapter,
            session: request.session,
            pool,
            request: Some(request),
        };
        let at = if let Some(at) = self.spare.pop() {
            self.slab[at as usize] = flight;
            at
        } else {
            self.slab.push(flight);
            (self.slab.len() - 1) as u32
        };
        self.window.push_back(at);
        number
    }

    pub(super) fn get(&self, number: u64) -> Option<&Flight> {
        let at = *self
            .window
            .get(usize::try_from(number.checked_sub(self.base)?).ok()?)?;
        self.slab.get(at as usize)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Flight> {
        let at = *self
            .window
            .get(usize::try_from(number.checked_sub(self.base)?).ok()?)?;
        self.slab.get_mut(at as usize)
    }

    pub(super) fn remove(&mut self, number: u64) {
        let Some(place) = number.checked_sub(self.base) else {
            return;
        };
        let Some(at) = self.window.get_mut(place as usize) else {
            return;
        };
        if *at != GONE {
            self.spare.push(*at);
            *at = GONE;
        }
        while self.window.front() == Some(&GONE) {
            self.window.pop_front();
            self.base += 1;
        }
    }

    /// The numbers of all, in order.
    pub(super) fn numbers(&self) -> Vec<u64> {
        (self.base..)
            .zip(&self.window)
            .filter(|(_, at)| **at != GONE)
            .map(|(number, _)| number)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_until_they_are_removed() {
        let mut flights = Flights::default();
        for input in 0..5 {
            let request = Request {
                input,
                ..Request::default()
            };
            assert_eq!(flights.add(request, 0), u64::from(input));
        }
        for number in [0, 3, 1, 1, 17] {
            flights.remove(number);
        }
        assert_eq!(flights.numbers(), [2, 4]);
        assert_eq!(flights.len(), 2);
        assert!(flights.get(0).is_none() && flights.get(3).is_none() && flights.get(5).is_none());
        assert_eq!(flights.get(4).map(|flight| flight.input), Some(4));
        let number = flights.add(
            Request {
                input: 9,
                ..Request::default()
            },
            0,
        );
        assert_eq!((number, flights.numbers()), (5, vec![2, 4, 5]));
    }
}

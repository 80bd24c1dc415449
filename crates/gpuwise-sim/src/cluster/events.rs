//! What happens when: timers in a fixed order, and which replica is next.

use std::{cmp::Reverse, collections::BinaryHeap};

pub(super) const NEVER: u64 = u64::MAX;

/// What happens outside of engines. At the same time they happen in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The number of replicas of a pool changes; the number says which pool.
    Scale,
    /// A replica is up; the number says which.
    Ready,
    /// A replica dies; the number says which.
    Fail,
    /// The cache of a request's prompt is at its replica.
    Moved,
    /// A client sees the end of its request.
    Seen,
    /// A request is at its replica's queue.
    Arrive,
    /// A client has waited long enough.
    TimeOut,
    /// A client sends a request.
    Send,
}

/// When, what, and of which request, replica or pool.
pub(super) type Event = (u64, Kind, u64);

#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<Event>>);

impl Timers {
    pub(super) fn add(&mut self, time: u64, kind: Kind, number: u64) {
        if time < NEVER {
            self.0.push(Reverse((time, kind, number)));
        }
    }

    pub(super) fn peek(&self) -> Option<Event> {
        self.0.peek().map(|event| event.0)
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.0.pop().map(|event| event.0)
    }
}

/// The earliest of many times, each of which changes often: a tree of winners. Among equal times the
/// first place wins.
#[derive(Debug)]
pub(super) struct Tournament {
    /// Of a power of two, at least the number of places.
    leaves: usize,
    /// The winner of each pair from the root at 1; the leaves' times come after the inner nodes.
    times: Vec<u64>,
}

impl Tournament {
    pub(super) fn new() -> Self {
        Self {
            leaves: 1,
            times: vec![NEVER; 2],
        }
    }

    /// Sets the time of a place, which may be new.
    pub(super) fn set(&mut self, place: usize, time: u64) {
        if place >= self.leaves {
            self.grow(place);
        }
        let mut at = self.leaves + place;
        let Some(leaf) = self.times.get_mut(at) else {
            return;
        };
        *leaf = time;
        while at > 1 {
            at /= 2;
            let winner = self.time(2 * at).min(self.time(2 * at + 1));
            if self.time(at) == winner {
                return;
            }
            if let Some(node) = self.times.get_mut(at) {
                *node = winner;
            }
        }
    }

    /// The earliest time; [`NEVER`] if no place has one.
    pub(super) fn earliest(&self) -> u64 {
        self.time(1)
    }

    /// The first place that has the earliest time.
    pub(super) fn winner(&self) -> usize {
        let earliest = self.earliest();
        let mut at = 1;
        while at < self.leaves {
            at = if self.time(2 * at) == earliest {
                2 * at
            } else {
                2 * at + 1
            };
        }
        at - self.leaves
    }

    fn time(&self, at: usize) -> u64 {
        self.times.get(at).copied().unwrap_or(NEVER)
    }

    fn grow(&mut self, place: usize) {
        let leaves = (place + 1).next_power_of_two();
        let mut times = vec![NEVER; 2 * leaves];
        for old in 0..self.leaves {
            times[leaves + old] = self.time(self.leaves + old);
        }
        for at in (1..leaves).rev() {
            times[at] = times[2 * at].min(times[2 * at + 1]);
        }
        self.leaves = leaves;
        self.times = times;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwise_units::RandomStream;

    #[test]
    fn timers_come_in_the_order_of_time_kind_and_number() {
        let mut timers = Timers::default();
        for (time, kind, number) in [
            (5, Kind::Send, 1),
            (5, Kind::Scale, 9),
            (5, Kind::Send, 0),
            (4, Kind::Send, 7),
            (NEVER, Kind::Scale, 0),
        ] {
            timers.add(time, kind, number);
        }
        let order: Vec<Event> = std::iter::from_fn(|| timers.pop()).collect();
        assert_eq!(
            order,
            [
                (4, Kind::Send, 7),
                (5, Kind::Scale, 9),
                (5, Kind::Send, 0),
                (5, Kind::Send, 1)
            ]
        );
    }

    #[test]
    fn the_winner_is_the_first_of_the_earliest() {
        let mut chance = RandomStream::new(3, "tournament", 0);
        let mut tree = Tournament::new();
        let mut plain = vec![NEVER; 37];
        assert_eq!(tree.earliest(), NEVER);
        for _ in 0..2_000 {
            let place = chance.below(37) as usize;
            let time = if chance.below(4) == 0 {
                NEVER
            } else {
                chance.below(50)
            };
            plain[place] = time;
            tree.set(place, time);
            let earliest = plain.iter().copied().min();
            assert_eq!(Some(tree.earliest()), earliest);
            if tree.earliest() < NEVER {
                assert_eq!(
                    Some(tree.winner()),
                    plain.iter().position(|time| Some(*time) == earliest)
                );
            }
        }
    }
}

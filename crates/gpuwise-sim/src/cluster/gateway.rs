//! Requests that wait at a gateway for a replica.

use super::scenario::{Admission, GatewayOrder, GatewayQueue};
use std::collections::BTreeMap;

/// In which lane a request waits, and the order in which it came.
pub(super) type Key = (Lane, u64);

/// Requests of one priority, or of one tenant.
pub(super) type Lane = (i16, u16);

/// Lanes whose first has the least turn go first; within a lane who came first.
///
/// A turn is made where a request is the first of its lane, from those of its lane that were taken: who gives up before
/// that has had none, and those behind it are where they would be without it.
#[derive(Debug, Default)]
pub(super) struct Gateway {
    lanes: BTreeMap<Lane, LaneQueue>,
    /// The first of each lane, by priority, turn, and the order in which they came.
    heads: BTreeMap<(i16, u64, u64), Lane>,
    many: usize,
    tokens: u64,
    came: u64,
    /// The turn of the last that was taken.
    turn: u64,
    /// Most that waited at a time.
    pub(super) most: usize,
}

#[derive(Debug, Default)]
struct LaneQueue {
    waiting: BTreeMap<u64, Queued>,
    /// The turn of the last of it that was taken.
    taken: u64,
    /// The turn of its first, and when that came.
    head: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct Queued {
    number: u64,
    input: u32,
    /// The turn that it was when it came, and how much later its own is.
    from: u64,
    length: u64,
}

/// What of a request decides its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) number: u64,
    pub(super) tenant: u16,
    pub(super) priority: i16,
    pub(super) input: u32,
}

impl Gateway {
    pub(super) const fn len(&self) -> usize {
        self.many
    }

    /// Whether one more may wait.
    pub(super) fn has_room(&self, admission: &Admission, input: u32) -> bool {
        match admission.held {
            GatewayQueue::None => false,
            GatewayQueue::Most(most) => (self.many as u64) < u64::from(most),
            GatewayQueue::MostTokens(most) => self.tokens + u64::from(input) <= most,
            GatewayQueue::All => true,
        }
    }

    /// Lets one wait; returns what to take it out by.
    pub(super) fn push(&mut self, admission: &Admission, waiting: Waiting) -> Key {
        let (lane, length) = match &admission.order {
            GatewayOrder::Arrival => ((0, 0), 0),
            GatewayOrder::Priority => ((waiting.priority, 0), 0),
            GatewayOrder::Weights(weights) => ((0, waiting.tenant), length(weights, waiting)),
        };
        let came = self.came;
        self.came += 1;
        let queued = Queued {
            number: waiting.number,
            input: waiting.input,
            from: self.turn,
            length,
        };
        let queue = self.lanes.entry(lane).or_default();
        queue.waiting.insert(came, queued);
        self.many += 1;
        self.tokens += u64::from(waiting.input);
        self.most = self.most.max(self.many);
        self.make_head(lane);
        (lane, came)
    }

    /// Fair queueing: a request's turn is after those of its tenant that were taken, by its tokens over the tenant's
    /// weight, and not before the turn that it was when it came.
    fn make_head(&mut self, lane: Lane) {
        let Some(queue) = self.lanes.get_mut(&lane) else {
            return;
        };
        let first = queue.waiting.first_key_value();
        let first = first.map(|(came, one)| {
            let start = queue.taken.max(one.from);
            (start.saturating_add(one.length), *came)
        });
        if queue.head == first {
            return;
        }
        if let Some((turn, came)) = queue.head {
            self.heads.remove(&(lane.0, turn, came));
        }
        queue.head = first;
        match first {
            Some((turn, came)) => {
                self.heads.insert((lane.0, turn, came), lane);
            }
            // What was taken of it is not after the turn that it is now.
            None => {
                self.lanes.remove(&lane);
            }
        }
    }

    pub(super) fn first(&self) -> Option<u64> {
        let (_, lane) = self.heads.first_key_value()?;
        let queue = self.lanes.get(lane)?;
        queue.waiting.first_key_value().map(|(_, one)| one.number)
    }

    /// It is let through: its turn has been.
    pub(super) fn take(&mut self, (lane, came): Key) {
        let Some(queue) = self.lanes.get_mut(&lane) else {
            return;
        };
        let Some(one) = queue.waiting.get(&came) else {
            return;
        };
        let turn = queue.taken.max(one.from).saturating_add(one.length);
        queue.taken = turn;
        self.turn = self.turn.max(turn);
        self.leave((lane, came));
    }

    /// It leaves without having had its turn.
    pub(super) fn leave(&mut self, (lane, came): Key) {
        let queue = self.lanes.get_mut(&lane);
        if let Some(one) = queue.and_then(|queue| queue.waiting.remove(&came)) {
            self.many -= 1;
            self.tokens -= u64::from(one.input);
            self.make_head(lane);
        }
    }
}

fn length(weights: &[(u16, f64)], waiting: Waiting) -> u64 {
    let listed = weights.iter().find(|(tenant, _)| *tenant == waiting.tenant);
    let weight = listed.map_or(1.0, |(_, weight)| *weight);
    libm::round(f64::from(waiting.input.max(1)) * 1024.0 / weight) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(gateway: &mut Gateway, keys: &BTreeMap<u64, Key>) -> Vec<u64> {
        std::iter::from_fn(|| {
            let first = gateway.first()?;
            gateway.take(keys[&first]);
            Some(first)
        })
        .collect()
    }

    fn order(order: GatewayOrder, waiting: &[(u16, i16, u32)]) -> Vec<u64> {
        let admission = Admission {
            held: GatewayQueue::All,
            order,
            ..Admission::default()
        };
        let mut gateway = Gateway::default();
        let mut keys = BTreeMap::new();
        for (number, (tenant, priority, input)) in (0..).zip(waiting) {
            let (tenant, priority, input) = (*tenant, *priority, *input);
            let key = gateway.push(
                &admission,
                Waiting {
                    number,
                    tenant,
                    priority,
                    input,
                },
            );
            keys.insert(number, key);
        }
        drain(&mut gateway, &keys)
    }

    #[test]
    fn orders() {
        let waiting = [
            (0, 2, 10),
            (0, 1, 10),
            (1, 1, 10),
            (1, 2, 10),
            (0, 0, 10),
            (0, 0, 10),
        ];
        assert_eq!(order(GatewayOrder::Arrival, &waiting), [0, 1, 2, 3, 4, 5]);
        assert_eq!(order(GatewayOrder::Priority, &waiting), [4, 5, 1, 2, 0, 3]);
    }

    #[test]
    fn tokens_are_taken_by_weight() {
        let waits = |longer: u32| -> Vec<(u16, i16, u32)> {
            (0..40)
                .map(|number| {
                    (
                        u16::from(number >= 20),
                        0,
                        if number < 20 { 100 } else { longer },
                    )
                })
                .collect()
        };
        let of_second = |taken: &[u64]| taken.iter().filter(|number| **number >= 20).count();
        let taken = order(GatewayOrder::Weights(vec![(1, 3.0)]), &waits(100));
        assert_eq!(of_second(&taken[..24]), 18, "three of four");
        let taken = order(GatewayOrder::Weights(Vec::new()), &waits(200));
        assert_eq!(
            of_second(&taken[..15]),
            5,
            "half of the tokens are a third of the requests"
        );
    }

    #[test]
    fn room_is_counted() {
        let mut gateway = Gateway::default();
        let admission = |held| Admission {
            held,
            ..Admission::default()
        };
        let waiting = |number| Waiting {
            number,
            tenant: 0,
            priority: 0,
            input: 60,
        };
        assert!(!gateway.has_room(&admission(GatewayQueue::None), 1));
        let key = gateway.push(&admission(GatewayQueue::All), waiting(0));
        assert!(gateway.has_room(&admission(GatewayQueue::Most(2)), 60));
        assert!(!gateway.has_room(&admission(GatewayQueue::MostTokens(100)), 60));
        gateway.push(&admission(GatewayQueue::All), waiting(1));
        assert!(!gateway.has_room(&admission(GatewayQueue::Most(2)), 60));
        gateway.leave(key);
        assert!(gateway.has_room(&admission(GatewayQueue::MostTokens(120)), 60));
        assert_eq!((gateway.len(), gateway.most), (1, 2));
    }

    /// Whoever gives up before its turn leaves the others where they would be without it.
    #[test]
    fn who_gives_up_delays_nobody() {
        let mut chance = gpuwise_units::RandomStream::new(3, "leavers", 0);
        let admission = Admission {
            held: GatewayQueue::All,
            order: GatewayOrder::Weights(vec![(1, 3.0), (2, 0.5)]),
            ..Admission::default()
        };
        for _ in 0..300 {
            let (mut with, mut without) = (Gateway::default(), Gateway::default());
            let mut keys = (BTreeMap::new(), BTreeMap::new());
            let (mut number, mut seen) = (0, (Vec::new(), Vec::new()));
            for _ in 0..=chance.below(5) {
                let mut leaves = Vec::new();
                for _ in 0..chance.below(12) {
                    let one = Waiting {
                        number,
                        tenant: chance.below(3) as u16,
                        priority: 0,
                        input: 1 + chance.below(500) as u32,
                    };
                    let key = with.push(&admission, one);
                    if chance.below(3) == 0 {
                        leaves.push(key);
                    } else {
                        keys.0.insert(number, key);
                        keys.1.insert(number, without.push(&admission, one));
                    }
                    number += 1;
                }
                for key in leaves {
                    with.leave(key);
                }
                for _ in 0..chance.below(8) {
                    let (Some(one), Some(other)) = (with.first(), without.first()) else {
                        break;
                    };
                    with.take(keys.0[&one]);
                    without.take(keys.1[&other]);
                    seen.0.push(one);
                    seen.1.push(other);
                }
            }
            seen.0.extend(drain(&mut with, &keys.0));
            seen.1.extend(drain(&mut without, &keys.1));
            assert_eq!(seen.0, seen.1);
            assert_eq!((with.len(), with.tokens), (0, 0));
        }
    }
}

//! Requests that wait at a gateway for a replica.

use super::scenario::{Admission, GatewayOrder, GatewayQueue};
use std::collections::BTreeMap;

/// Priority, turn, and the order in which they came.
pub(super) type Key = (i16, u64, u64);

/// They are in the order of their keys.
#[derive(Debug, Default)]
pub(super) struct Gateway {
    waiting: BTreeMap<Key, u64>,
    tokens: u64,
    came: u64,
    /// The turn of the last that was taken.
    turn: u64,
    /// Of each tenant the turn after its last.
    turns: BTreeMap<u16, u64>,
    /// Most that waited at a time.
    pub(super) most: usize,
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
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether one more may wait.
    pub(super) fn has_room(&self, admission: &Admission, input: u32) -> bool {
        match admission.held {
            GatewayQueue::None => false,
            GatewayQueue::Most(most) => (self.waiting.len() as u64) < u64::from(most),
            GatewayQueue::MostTokens(most) => self.tokens + u64::from(input) <= most,
            GatewayQueue::All => true,
        }
    }

    /// Lets one wait; returns what to take it out by.
    pub(super) fn push(&mut self, admission: &Admission, waiting: Waiting) -> Key {
        let (priority, turn) = match &admission.order {
            GatewayOrder::Arrival => (0, 0),
            GatewayOrder::Priority => (waiting.priority, 0),
            GatewayOrder::Weights(weights) => (0, self.fair_turn(weights, waiting)),
        };
        let key = (priority, turn, self.came);
        self.came += 1;
        self.waiting.insert(key, waiting.number);
        self.tokens += u64::from(waiting.input);
        self.most = self.most.max(self.waiting.len());
        key
    }

    /// Fair queueing: a request's turn is after those of its tenant that wait, by its tokens over the
    /// tenant's weight, and not before the turn that it is now.
    fn fair_turn(&mut self, weights: &[(u16, f64)], waiting: Waiting) -> u64 {
        let listed = weights.iter().find(|(tenant, _)| *tenant == waiting.tenant);
        let weight = listed.map_or(1.0, |(_, weight)| *weight);
        let own = self.turns.entry(waiting.tenant).or_default();
        let start = (*own).max(self.turn);
        let length = f64::from(waiting.input.max(1)) * 1024.0 / weight;
        *own = start.saturating_add(libm::round(length) as u64);
        *own
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(_, number)| *number)
    }

    pub(super) fn remove(&mut self, key: Key, input: u32) {
        if self.waiting.remove(&key).is_some() {
            self.tokens -= u64::from(input);
            self.turn = self.turn.max(key.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(gateway: &mut Gateway, keys: &BTreeMap<u64, (Key, u32)>) -> Vec<u64> {
        std::iter::from_fn(|| {
            let first = gateway.first()?;
            let (key, input) = keys[&first];
            gateway.remove(key, input);
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
            keys.insert(number, (key, input));
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
        gateway.remove(key, 60);
        assert!(gateway.has_room(&admission(GatewayQueue::MostTokens(120)), 60));
        assert_eq!((gateway.len(), gateway.most), (1, 2));
    }
}

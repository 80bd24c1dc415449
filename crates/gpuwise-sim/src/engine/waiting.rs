//! The queue before the batch.

use super::sequence::{State, Table};
use std::collections::{BTreeSet, VecDeque};

/// Requests that wait, in the order in which they are asked to join. Some are out of date: they left
/// otherwise.
#[derive(Debug)]
pub(super) struct Waiting {
    by_priority: bool,
    line: VecDeque<(u32, u32)>,
    ranked: BTreeSet<(i16, u64, u32, u32)>,
    count: u32,
    tokens: u64,
}

impl Waiting {
    pub(super) fn new(by_priority: bool) -> Self {
        Self {
            by_priority,
            line: VecDeque::new(),
            ranked: BTreeSet::new(),
            count: 0,
            tokens: 0,
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Tokens that they have to compute before their first one.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    pub(super) fn push_back(&mut self, table: &Table, slot: u32) {
        self.push(table, slot, false);
    }

    /// Before all others, or by its priority.
    pub(super) fn push_front(&mut self, table: &Table, slot: u32) {
        self.push(table, slot, true);
    }

    fn push(&mut self, table: &Table, slot: u32, front: bool) {
        let sequence = table.get(slot);
        self.count += 1;
        self.tokens += sequence.unread();
        let entry = (slot, sequence.generation);
        if self.by_priority {
            self.ranked
                .insert((sequence.request.priority, sequence.arrival, slot, entry.1));
        } else if front {
            self.line.push_front(entry);
        } else {
            self.line.push_back(entry);
        }
    }

    pub(super) fn head(&mut self, table: &Table) -> Option<u32> {
        loop {
            let (slot, generation) = if self.by_priority {
                let first = self.ranked.first()?;
                (first.2, first.3)
            } else {
                *self.line.front()?
            };
            if table.place(slot, generation).is_some() && table.get(slot).state == State::Waiting {
                return Some(slot);
            }
            self.drop_head();
        }
    }

    fn drop_head(&mut self) {
        if self.by_priority {
            self.ranked.pop_first();
        } else {
            self.line.pop_front();
        }
    }

    /// Takes the next one out.
    pub(super) fn pop(&mut self, table: &Table) -> Option<u32> {
        let slot = self.head(table)?;
        self.drop_head();
        self.left(table, slot);
        Some(slot)
    }

    /// One of them left; its entry is skipped when its turn comes.
    pub(super) fn left(&mut self, table: &Table, slot: u32) {
        self.count -= 1;
        self.tokens -= table.get(slot).unread();
    }

    /// One of them has so many tokens more to compute.
    pub(super) fn grew(&mut self, tokens: u32) {
        self.tokens += u64::from(tokens);
    }

    /// All of them, in order.
    pub(super) fn each<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = u32> + 'a {
        let line = self.line.iter().copied();
        let ranked = self.ranked.iter().map(|entry| (entry.2, entry.3));
        line.chain(ranked).filter_map(|(slot, generation)| {
            table
                .place(slot, generation)
                .filter(|at| table.get(*at).state == State::Waiting)
        })
    }

    /// A new order of the line.
    pub(super) fn reorder(&mut self, table: &Table, slots: &[u32]) {
        self.line.clear();
        self.line.extend(
            slots
                .iter()
                .map(|slot| (*slot, table.get(*slot).generation)),
        );
    }

    pub(super) fn clear(&mut self) {
        self.line.clear();
        self.ranked.clear();
        self.count = 0;
        self.tokens = 0;
    }
}

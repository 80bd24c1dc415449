//! Groups in the order of what an ask costs on them, while prices stay as they are.
//!
//! The workers of a gang are asked for one after the other, and what a few of them take moves no price of a large
//! fleet: who is best after one was taken is found without weighing all again.

use super::{
    groups::Group,
    look::{Look, Weights},
};
use std::{cmp::Reverse, collections::BinaryHeap};

/// Entries that may be out of date, beside as many as there are groups.
const SPARE: usize = 1024;

/// What a group costs in grains, the rank of its first node, and its number.
pub(super) type Entry = (i64, u32, u32);

#[derive(Debug, Default)]
pub(super) struct Standing {
    /// The best on top. Of a group whose first node is another now there are several: one that does not have its
    /// rank is out of date.
    heap: BinaryHeap<Reverse<Entry>>,
    /// Whether all groups are in it.
    complete: bool,
    /// What was paid at the last look.
    weights: Option<Box<Weights>>,
}

impl Standing {
    /// Whether groups stand in order now: it is worth while only where they are asked for twice at the same prices.
    pub(super) fn is_ready(&mut self, look: &Look<'_>, groups: &[Group]) -> bool {
        let same = self.weights.as_deref() == Some(look.weights());
        if !same {
            self.forget();
            self.weights = Some(Box::new(*look.weights()));
            return false;
        }
        if !self.complete || self.heap.len() > 2 * groups.len() + SPARE {
            let all = groups
                .iter()
                .zip(0..)
                .filter(|(group, _)| !group.is_empty());
            let all = all.map(|(group, at)| Reverse((look.grains_of(group), group.rank, at)));
            self.heap = all.collect();
            self.complete = true;
        }
        true
    }

    /// A group has another first node.
    pub(super) fn note(&mut self, look: &Look<'_>, group: &Group, at: u32) {
        if self.complete && !group.is_empty() {
            self.push((look.grains_of(group), group.rank, at));
        }
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.heap.push(Reverse(entry));
    }

    /// Takes out the first if it can be as good as the best.
    pub(super) fn pop(&mut self, look: &Look<'_>) -> Option<Entry> {
        let Reverse((grains, rank, _)) = *self.heap.peek()?;
        let best = look.is_beaten_by(grains, rank);
        let Reverse(entry) = best.then(|| self.heap.pop())??;
        Some(entry)
    }

    /// Groups are others now.
    pub(super) fn forget(&mut self) {
        self.heap.clear();
        (self.complete, self.weights) = (false, None);
    }
}

//! A tournament over nodes: the best score on top, of equal ones the first leaf.

use std::{cmp::Reverse, collections::BinaryHeap};

/// The score of a leaf that takes no part.
pub(super) const OUT: i32 = i32::MIN;

/// Scores by leaf, and above each pair its larger one.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    /// The root at 1, the children of `k` at `2k` and `2k + 1`, leaves from `half` on.
    best: Vec<i32>,
    half: usize,
    /// Leaves that take part.
    inside: u32,
}

impl Tree {
    /// The tournament of these scores, a leaf each.
    pub(super) fn new(scores: impl ExactSizeIterator<Item = i32>) -> Self {
        let half = scores.len().max(1).next_power_of_two();
        let mut best = vec![OUT; 2 * half];
        let mut inside = 0;
        for (score, at) in scores.zip(half..) {
            if let Some(leaf) = best.get_mut(at) {
                *leaf = score;
            }
            inside += u32::from(score != OUT);
        }
        let mut tree = Self { best, half, inside };
        for at in (1..half).rev() {
            let above = tree.at(2 * at).max(tree.at(2 * at + 1));
            tree.put(at, above);
        }
        tree
    }

    /// How many leaves take part.
    pub(super) const fn inside(&self) -> u32 {
        self.inside
    }

    /// Gives a leaf another score.
    pub(super) fn set(&mut self, leaf: usize, score: i32) {
        let mut at = self.half + leaf;
        let old = self.at(at);
        if old == score {
            return;
        }
        self.inside += u32::from(old == OUT);
        self.inside -= u32::from(score == OUT);
        self.put(at, score);
        while at > 1 {
            at /= 2;
            let above = self.at(2 * at).max(self.at(2 * at + 1));
            if above == self.at(at) {
                break;
            }
            self.put(at, above);
        }
    }

    /// The first leaf of the best score, and the score; `None`: no leaf takes part.
    pub(super) fn top(&self) -> Option<(usize, i32)> {
        let top = self.at(1);
        if top == OUT {
            return None;
        }
        let mut at = 1;
        while at < self.half {
            at *= 2;
            at += usize::from(self.at(at) != top);
        }
        Some((at - self.half, top))
    }

    /// The first leaf of the best score among those that are accepted.
    pub(super) fn find(&self, mut accepts: impl FnMut(usize) -> bool) -> Option<usize> {
        // Best first; of equal scores the leftmost subtree.
        let mut open = BinaryHeap::from([(self.at(1), Reverse(0_usize), 1_usize)]);
        while let Some((score, Reverse(first), at)) = open.pop() {
            if score == OUT {
                return None;
            }
            if at >= self.half {
                if accepts(at - self.half) {
                    return Some(at - self.half);
                }
                continue;
            }
            // A subtree's leaves begin at `first`; its right half begins half its width later.
            let width = self.half >> at.ilog2();
            open.push((self.at(2 * at), Reverse(first), 2 * at));
            let right = first + width / 2;
            open.push((self.at(2 * at + 1), Reverse(right), 2 * at + 1));
        }
        None
    }

    fn at(&self, at: usize) -> i32 {
        self.best.get(at).copied().unwrap_or(OUT)
    }

    fn put(&mut self, at: usize, score: i32) {
        if let Some(place) = self.best.get_mut(at) {
            *place = score;
        }
    }
}

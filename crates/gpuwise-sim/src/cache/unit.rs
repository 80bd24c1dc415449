//! Content that somebody may ask for again.

use super::queue::NONE;
use std::cmp::Ordering;

/// The blocks that end within one stretch of content: how many of them are there, and who holds them.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) name: u64,
    /// Leading blocks that are present.
    pub(super) present: u32,
    /// Leading blocks that somebody holds; those between are in the free queue.
    held: u32,
    /// How many hold exactly so many.
    holders: u32,
    /// Those that hold fewer: (blocks, how many hold so many), ascending.
    shallower: Vec<(u32, u32)>,
    /// The run of the free queue that was let go last; its `older` ones follow up to `present`.
    pub(super) newest: u32,
}

impl Unit {
    pub(super) const fn new(name: u64, blocks: u32) -> Self {
        Self {
            name,
            present: blocks,
            held: blocks,
            holders: 1,
            shallower: Vec::new(),
            newest: NONE,
        }
    }

    /// Leading blocks that somebody holds.
    pub(super) const fn held(&self) -> u32 {
        self.held
    }

    /// One more holds so many leading blocks.
    pub(super) fn hold(&mut self, blocks: u32) {
        match blocks.cmp(&self.held) {
            Ordering::Equal => self.holders += 1,
            Ordering::Greater => {
                if self.holders > 0 {
                    self.shallower.push((self.held, self.holders));
                }
                self.held = blocks;
                self.holders = 1;
            }
            Ordering::Less => match self.shallower.binary_search_by_key(&blocks, |own| own.0) {
                Ok(at) => self.shallower[at].1 += 1,
                Err(at) => self.shallower.insert(at, (blocks, 1)),
            },
        }
    }

    /// One that held so many leading blocks lets go.
    pub(super) fn drop(&mut self, blocks: u32) {
        if blocks == self.held {
            self.holders = self.holders.saturating_sub(1);
            if self.holders == 0 {
                (self.held, self.holders) = self.shallower.pop().unwrap_or((0, 0));
            }
        } else if let Ok(at) = self.shallower.binary_search_by_key(&blocks, |own| own.0) {
            self.shallower[at].1 -= 1;
            if self.shallower[at].1 == 0 {
                self.shallower.remove(at);
            }
        }
    }

    /// One that holds all that is present computed more.
    pub(super) fn grow(&mut self, blocks: u32) {
        let before = self.held;
        self.present += blocks;
        self.hold(before + blocks);
        self.drop(before);
    }
}

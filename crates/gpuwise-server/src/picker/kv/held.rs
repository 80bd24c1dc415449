//! What an engine says it holds: its blocks by its names, and the beginnings of prompts that end with them.

use super::{
    events::{BlockHash, Event, Stored},
    tokens::{Adapter, Beginning},
};
use rustc_hash::FxBuildHasher;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Blocks of an engine that are remembered: 16 million tokens in blocks of 16.
const BLOCKS: usize = 1 << 20;
/// Adapters of an engine that are told apart.
const ADAPTERS: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Held {
    /// `None`: it is not known what it is the end of, since what comes before was stored before anybody listened, or
    /// since tokens do not tell it apart.
    blocks: HashMap<BlockHash, Option<Beginning>, FxBuildHasher>,
    ends: HashSet<Beginning, FxBuildHasher>,
    adapters: BTreeSet<Adapter>,
    /// Tokens of a block, as it said last.
    pub(super) size: Option<u32>,
}

/// What an event did to what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Held(Beginning),
    Gone(Beginning),
    /// Nothing that was held is held any more.
    Cleared,
}

impl Held {
    pub(super) fn take(&mut self, event: Event, mut changed: impl FnMut(Change)) {
        match event {
            Event::Stored(stored) => self.store(&stored, changed),
            Event::Removed(blocks) => {
                for block in blocks {
                    let end = self.blocks.remove(&block).flatten();
                    if let Some(end) = end.filter(|end| self.ends.remove(end)) {
                        changed(Change::Gone(end));
                    }
                }
            }
            Event::Cleared => {
                self.clear();
                changed(Change::Cleared);
            }
            Event::Other => {}
        }
    }

    fn clear(&mut self) {
        *self = Self {
            size: self.size,
            ..Self::default()
        };
    }

    fn store(&mut self, stored: &Stored, mut changed: impl FnMut(Change)) {
        if self.blocks.len().saturating_add(stored.blocks.len()) > BLOCKS {
            // More than can be: it is begun anew, as one that nothing is known of.
            self.clear();
            changed(Change::Cleared);
        }
        self.size = Some(stored.size);
        let mut end = stored.adapter.and_then(|adapter| {
            if self.adapters.len() < ADAPTERS {
                self.adapters.insert(adapter);
            }
            match stored.parent {
                None => Some(Beginning::empty(adapter)),
                Some(parent) => self.blocks.get(&parent).copied().flatten(),
            }
        });
        for (at, block) in stored.blocks.iter().enumerate() {
            let size = stored.size as usize;
            let tokens = stored.tokens.get(at * size..(at + 1) * size);
            end = end.zip(tokens).map(|(end, tokens)| end.then(tokens));
            self.blocks.insert(*block, end);
            if let Some(end) = end {
                self.ends.insert(end);
                changed(Change::Held(end));
            }
        }
    }

    pub(super) fn ends_with(&self, beginning: Beginning) -> bool {
        self.ends.contains(&beginning)
    }

    /// Whether it has blocks of an adapter of this name.
    pub(super) fn knows(&self, adapter: Adapter) -> bool {
        self.adapters.contains(&adapter)
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }
}

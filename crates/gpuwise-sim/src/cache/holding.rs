//! What a request finds and holds of a pool.

use super::chain::Cursor;

/// What a lookup finds. It holds nothing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hit {
    /// Tokens found: whole blocks.
    pub tokens: u32,
    pub blocks: u64,
    /// How many of them are on the free queue: holding them makes so many fewer free.
    pub free_blocks: u64,
    /// The request's number, where it resumes.
    pub(super) resumed: Option<u64>,
    /// Tokens that it has to compute in all.
    pub(super) asked: u32,
}

/// The blocks of one request. Give it back by [`Pool::release`](super::Pool::release) or
/// [`Pool::preempt`](super::Pool::preempt): what is only dropped stays in use.
#[derive(Debug, Clone)]
#[must_use = "its blocks stay in use until it is released"]
pub struct Holding {
    /// Blocks of its named stretches, in order.
    pub(super) units: Vec<Held>,
    /// What it found of the content after its segments when it resumed.
    pub(super) tail: Option<(u32, u32)>,
    /// Before the stretch that it is in.
    pub(super) cursor: Cursor,
    /// Full blocks whose content is settled.
    pub(super) full: u64,
    /// Blocks in all, growth by `take` left out until it is told.
    pub(super) blocks: u64,
    /// Tokens it found in the cache.
    pub(super) found: u32,
}

impl Holding {
    /// Tokens that it found in the cache: its computing starts there.
    pub const fn found(&self) -> u32 {
        self.found
    }

    pub const fn blocks(&self) -> u64 {
        self.blocks
    }
}

/// Blocks of one stretch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    /// The unit, if it holds any of it.
    pub(super) unit: u32,
    /// Leading blocks of the unit.
    pub(super) shared: u32,
    /// Blocks after them that it keeps to itself: copies of what others hold.
    pub(super) own: u32,
}

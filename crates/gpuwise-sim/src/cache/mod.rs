//! The KV cache of one engine rank: a pool of equal blocks, with the rules of prefix caching.
//!
//! # Rules
//! - Only full blocks are cached, and as soon as their tokens are scheduled, so that a later request
//!   of the same step finds them. An answer is cached when its request lets go.
//! - A prompt finds at most all of its tokens but one, rounded down to blocks: a wholly cached prompt
//!   of whole blocks computes its last block again.
//! - What is found leaves the free queue. New blocks come from the queue's head, and only then is
//!   what they hold forgotten (lazy eviction, least recently used first).
//! - A request lets go of its blocks from its last to its first: full ones to the back of the queue,
//!   others to its front or its back ([`PoolSettings::unhashed_first`]). A block that several hold is
//!   free when the last lets go.
//! - Of several copies of the same content only the first is found. A request that computes a copy
//!   keeps to itself what it computes of that stretch from there on. (vLLM finds every copy; a test
//!   bounds the difference to 1 % of the tokens found.)
//!
//! # Representation
//! No block is an object. What nobody else can ask for is a count, and a stretch of the free queue is
//! one entry that says how many blocks it is. Content that may be asked for again is a *unit*: the
//! blocks that end within one segment of a prompt. Of a unit a leading part is present, for its tail is
//! always let go, and thus evicted, first.

mod chain;
mod find;
mod holding;
mod pool;
mod queue;
mod settle;
mod unit;

pub use holding::{Hit, Holding};
pub use pool::Pool;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSettings {
    /// Blocks in all, the null block included.
    pub blocks: u64,
    /// Tokens of a block (16 in vLLM by default, 1 in SGLang); 0 is taken for 1.
    pub block_tokens: u32,
    /// Whether blocks are kept to be found again.
    pub caching: bool,
    /// Whether one block is a placeholder that nobody gets, as in vLLM.
    pub null_block: bool,
    /// Whether blocks that are not full go to the front of the free queue (vLLM since 0.23) or to
    /// its back.
    pub unhashed_first: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolStatistics {
    /// Prompt tokens of requests that were admitted; those that resume are not counted.
    pub asked_tokens: u64,
    /// How many of them were found.
    pub found_tokens: u64,
    /// Tokens that preempted requests found again when they resumed.
    pub resumed_tokens: u64,
    /// Blocks of content that somebody may ask for again, overwritten to make room.
    pub evicted_blocks: u64,
}

/// Too few blocks are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{needed} KV cache blocks are needed and {free} are free: preempt a request or wait")]
pub struct Short {
    pub needed: u64,
    pub free: u64,
}

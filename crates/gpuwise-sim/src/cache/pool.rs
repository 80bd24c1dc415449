//! The pool itself.

use super::{
    Hit, Holding, PoolSettings, PoolStatistics, Short,
    chain::Cursor,
    queue::{FreeQueue, NONE},
    unit::Unit,
};
use gpuwise_domain::request::Request;
use indexmap::IndexMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The KV cache blocks of one engine rank.
#[derive(Debug, Clone)]
pub struct Pool {
    pub(super) settings: PoolSettings,
    pub(super) block_tokens: u64,
    pub(super) total: u64,
    pub(super) queue: FreeQueue,
    pub(super) units: Vec<Unit>,
    /// Places of `units` that are not used.
    pub(super) spare: Vec<u32>,
    /// Units by name, as far as any of them is present.
    pub(super) names: IndexMap<u64, u32, BuildHasherDefault<AsIs>>,
    statistics: PoolStatistics,
}

impl Pool {
    /// A pool whose blocks are all free.
    pub fn new(settings: PoolSettings) -> Self {
        let total = settings
            .blocks
            .saturating_sub(u64::from(settings.null_block));
        Self {
            settings,
            block_tokens: u64::from(settings.block_tokens.max(1)),
            total,
            queue: FreeQueue::new(total),
            units: Vec::new(),
            spare: Vec::new(),
            names: IndexMap::default(),
            statistics: PoolStatistics::default(),
        }
    }

    pub const fn settings(&self) -> &PoolSettings {
        &self.settings
    }

    /// Blocks that nobody holds; what they cache is still found until they are used.
    pub const fn free(&self) -> u64 {
        self.queue.blocks()
    }

    /// Blocks that requests can have, the null block left out.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Blocks that somebody holds.
    pub const fn used(&self) -> u64 {
        self.total - self.queue.blocks()
    }

    pub const fn statistics(&self) -> PoolStatistics {
        self.statistics
    }

    /// Blocks that so many tokens fill or begin.
    pub const fn blocks_for(&self, tokens: u64) -> u64 {
        tokens.div_ceil(self.block_tokens)
    }

    /// What a new request would find. Nothing changes, so that routers can ask too.
    pub fn find(&self, request: &Request) -> Hit {
        self.look(request, request.input, None)
    }

    /// What a preempted request would find when it resumes with so many `tokens` to compute (its
    /// prompt and its output so far). `number` is what [`Pool::preempt`] was told.
    pub fn find_resumed(&self, request: &Request, number: u64, tokens: u32) -> Hit {
        self.look(request, tokens, Some(number))
    }

    /// Free blocks that it takes to hold a hit and have `tokens` tokens in all.
    pub const fn needed_for(&self, hit: &Hit, tokens: u64) -> u64 {
        self.blocks_for(tokens).saturating_sub(hit.blocks) + hit.free_blocks
    }

    /// Starts a holding with what was found. Blocks that were evicted since the lookup are missing
    /// from it: ask [`Holding::found`].
    pub fn hold(&mut self, request: &Request, hit: &Hit) -> Holding {
        let mut holding = Holding {
            units: Vec::new(),
            tail: None,
            cursor: Cursor::start(request),
            full: 0,
            blocks: 0,
            found: 0,
        };
        if self.settings.caching && hit.blocks > 0 {
            self.take_hit(request, hit, &mut holding);
        }
        holding.blocks = holding.full;
        holding.found = (holding.full * self.block_tokens) as u32;
        if hit.resumed.is_some() {
            self.statistics.resumed_tokens += u64::from(holding.found);
        } else {
            self.statistics.asked_tokens += u64::from(hit.asked);
            self.statistics.found_tokens += u64::from(holding.found);
        }
        holding
    }

    /// More blocks that a holding needs to have `tokens` tokens in all.
    pub const fn needed(&self, holding: &Holding, tokens: u64) -> u64 {
        self.blocks_for(tokens).saturating_sub(holding.blocks)
    }

    /// Gives a holding the blocks for `tokens` tokens in all, and makes the prompt's full ones
    /// findable.
    ///
    /// # Errors
    /// [`Short`] if too few blocks are free; then nothing has changed.
    pub fn extend(
        &mut self,
        holding: &mut Holding,
        request: &Request,
        tokens: u64,
    ) -> Result<(), Short> {
        let needed = self.needed(holding, tokens);
        if !self.take(needed) {
            let free = self.free();
            return Err(Short { needed, free });
        }
        holding.blocks += needed;
        self.settle(holding, request, tokens / self.block_tokens);
        Ok(())
    }

    /// Takes blocks for the growth of requests that decode, without saying for whom. Whoever releases
    /// or extends one of these holdings later says by its tokens how much of it was its own. False
    /// if too few are free; then nothing has changed.
    pub fn take(&mut self, blocks: u64) -> bool {
        if blocks > self.queue.blocks() {
            return false;
        }
        let mut left = blocks;
        while left > 0 {
            let at = self.queue.front();
            if at == NONE {
                return false;
            }
            let run = *self.queue.run(at);
            let some = left.min(run.blocks);
            left -= some;
            if run.unit != NONE {
                self.evict(at, run.unit, some);
            } else if some == run.blocks {
                self.queue.remove(at);
            } else {
                self.queue.shrink(at, some);
            }
        }
        true
    }

    /// Tells a holding that its growth up to `tokens` tokens came by [`Pool::take`].
    pub fn grown(&self, holding: &mut Holding, tokens: u64) {
        holding.blocks = holding.blocks.max(self.blocks_for(tokens));
    }

    /// Ends the holding of a request that is done, with `tokens` tokens computed in all (growth by
    /// [`Pool::take`] included). Its answer can be found if it has a name.
    pub fn release(&mut self, holding: Holding, request: &Request, tokens: u64) {
        self.let_go(holding, request, tokens, None);
    }

    /// Ends the holding of a request that loses its place. Until its blocks are used by others, the
    /// request of this `number` finds its own full ones again by [`Pool::find_resumed`].
    pub fn preempt(&mut self, holding: Holding, request: &Request, tokens: u64, number: u64) {
        self.let_go(holding, request, tokens, Some(number));
    }

    /// Whether its parts agree with each other: blocks of the queue add up, and of every unit exactly
    /// the present part that nobody holds is in the queue. It walks over all of it: for tests.
    pub fn is_consistent(&self) -> bool {
        let queued = self.queue.count() == self.queue.blocks() && self.free() <= self.total;
        queued
            && self.names.iter().all(|(name, &at)| {
                let unit = &self.units[at as usize];
                let mut covered = unit.held();
                let mut run_at = unit.newest;
                while run_at != NONE {
                    let run = self.queue.run(run_at);
                    if run.unit != at || run.from != covered {
                        return false;
                    }
                    covered += run.blocks as u32;
                    run_at = run.older;
                }
                unit.name == *name && covered == unit.present && unit.present > 0
            })
    }

    /// Overwrites blocks of a unit, from its end.
    fn evict(&mut self, at: u32, unit_at: u32, blocks: u64) {
        self.statistics.evicted_blocks += blocks;
        let unit = &mut self.units[unit_at as usize];
        unit.present -= blocks as u32;
        let run = *self.queue.run(at);
        if blocks < run.blocks {
            self.queue.shrink(at, blocks);
            return;
        }
        if run.newer == NONE {
            unit.newest = NONE;
        } else {
            self.queue.run_mut(run.newer).older = NONE;
        }
        self.queue.remove(at);
        if unit.present == 0 {
            self.names.swap_remove(&unit.name);
            self.spare.push(unit_at);
        }
    }
}

/// The names are well mixed already.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

//! The pool itself.

use super::{
    Hit, Holding, PoolSettings, PoolStatistics, Short,
    chain::{Cursor, Stretch},
    holding::Held,
    queue::{FreeQueue, NONE},
    unit::Unit,
};
use gpuwise_domain::request::Request;
use indexmap::IndexMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The KV cache blocks of one engine rank.
#[derive(Debug, Clone)]
pub struct Pool {
    settings: PoolSettings,
    block_tokens: u64,
    total: u64,
    queue: FreeQueue,
    units: Vec<Unit>,
    spare: Vec<u32>,
    names: IndexMap<u64, u32, BuildHasherDefault<AsIs>>,
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

    /// What it was made with.
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

    /// What it has seen.
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

    fn look(&self, request: &Request, asked: u32, resumed: Option<u64>) -> Hit {
        let mut hit = Hit {
            resumed,
            asked,
            ..Hit::default()
        };
        if !self.settings.caching || (request.prefix.is_none() && resumed.is_none()) {
            return hit;
        }
        let most = u64::from(asked).saturating_sub(1) / self.block_tokens;
        let mut cursor = Cursor::start(request);
        let mut whole = true;
        while let Some((stretch, after)) = cursor.next(request, self.block_tokens) {
            whole = self.look_at(stretch, most, &mut hit);
            if !whole {
                break;
            }
            cursor = after;
        }
        if whole && resumed.is_some() {
            let tail = cursor.tail(request, resumed);
            if let Some(name) = tail.name {
                let stretch = self.open_stretch(name, tail.tokens);
                self.look_at(stretch, most, &mut hit);
            }
        }
        hit.tokens = (hit.blocks * self.block_tokens) as u32;
        hit
    }

    /// Adds what is found of a stretch; false where it is not found wholly.
    fn look_at(&self, stretch: Stretch, most: u64, hit: &mut Hit) -> bool {
        let Some(&at) = self.names.get(&stretch.name) else {
            return false;
        };
        let unit = &self.units[at as usize];
        let there = u64::from(unit.present).min(most.saturating_sub(stretch.first));
        hit.blocks += there;
        hit.free_blocks += there.saturating_sub(u64::from(unit.held()));
        there == stretch.end - stretch.first
    }

    /// A stretch without a known end.
    const fn open_stretch(&self, name: u64, tokens: u64) -> Stretch {
        Stretch {
            name,
            first: tokens / self.block_tokens,
            end: u64::MAX,
        }
    }

    fn take_hit(&mut self, request: &Request, hit: &Hit, holding: &mut Holding) {
        while holding.full < hit.blocks {
            let Some((stretch, after)) = holding.cursor.next(request, self.block_tokens) else {
                break;
            };
            let Some((unit, shared)) = self.take_unit(stretch, hit.blocks) else {
                return;
            };
            holding.full += u64::from(shared);
            holding.units.push(Held {
                unit,
                shared,
                own: 0,
            });
            if holding.full < stretch.end {
                return;
            }
            holding.cursor = after;
        }
        if holding.full < hit.blocks && hit.resumed.is_some() {
            let tail = holding.cursor.tail(request, hit.resumed);
            if let Some(name) = tail.name {
                holding.tail = self.take_unit(self.open_stretch(name, tail.tokens), hit.blocks);
                holding.full += holding.tail.map_or(0, |(_, shared)| u64::from(shared));
            }
        }
    }

    /// Holds what is present of a stretch, up to a block of the request.
    fn take_unit(&mut self, stretch: Stretch, most: u64) -> Option<(u32, u32)> {
        let at = *self.names.get(&stretch.name)?;
        let present = u64::from(self.units[at as usize].present);
        let shared = present.min(most.saturating_sub(stretch.first)) as u32;
        if shared == 0 {
            return None;
        }
        let unit = &mut self.units[at as usize];
        unit.hold(shared);
        // The newest run begins where the held part ended.
        while unit.newest != NONE {
            let newest = unit.newest;
            let run = *self.queue.run(newest);
            if run.from >= shared {
                break;
            }
            let covered = u64::from(shared - run.from);
            if covered < run.blocks {
                self.queue.shrink(newest, covered);
                self.queue.run_mut(newest).from = shared;
                break;
            }
            self.queue.remove(newest);
            unit.newest = run.older;
            if run.older != NONE {
                self.queue.run_mut(run.older).newer = NONE;
            }
        }
        Some((at, shared))
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

    /// Settles whose the content of the full blocks up to `target` is.
    fn settle(&mut self, holding: &mut Holding, request: &Request, target: u64) {
        if !self.settings.caching {
            return;
        }
        while holding.full < target {
            let Some((stretch, after)) = holding.cursor.next(request, self.block_tokens) else {
                holding.full = target;
                return;
            };
            if holding.full == stretch.first {
                holding.units.push(Held {
                    unit: NONE,
                    shared: 0,
                    own: 0,
                });
            }
            let more = target.min(stretch.end) - holding.full;
            holding.full += more;
            if let Some(held) = holding.units.last_mut() {
                self.compute(held, stretch.name, more as u32);
            }
            if holding.full == stretch.end {
                holding.cursor = after;
            }
        }
    }

    /// More blocks of a stretch are computed by one that holds a part of it.
    fn compute(&mut self, held: &mut Held, name: u64, blocks: u32) {
        if held.own > 0 {
            held.own += blocks;
        } else if held.shared > 0 {
            let unit = &mut self.units[held.unit as usize];
            if unit.present == held.shared {
                unit.grow(blocks);
                held.shared += blocks;
            } else {
                held.own += blocks;
            }
        } else if self.names.contains_key(&name) {
            held.own += blocks;
        } else {
            held.unit = self.add_unit(Unit::new(name, blocks));
            held.shared = blocks;
        }
    }

    fn add_unit(&mut self, unit: Unit) -> u32 {
        let name = unit.name;
        let at = if let Some(at) = self.spare.pop() {
            self.units[at as usize] = unit;
            at
        } else {
            self.units.push(unit);
            (self.units.len() - 1) as u32
        };
        self.names.insert(name, at);
        at
    }

    fn let_go(&mut self, holding: Holding, request: &Request, tokens: u64, number: Option<u64>) {
        let mut holding = holding;
        self.grown(&mut holding, tokens);
        self.settle(&mut holding, request, tokens / self.block_tokens);
        let named: u64 = holding
            .units
            .iter()
            .map(|held| u64::from(held.shared) + u64::from(held.own))
            .sum();
        let again = holding.tail.map_or(0, |(_, shared)| u64::from(shared));
        let full = if self.settings.caching {
            (tokens / self.block_tokens)
                .min(holding.blocks)
                .max(named + again)
        } else {
            0
        };
        let unhashed = holding.blocks.saturating_sub(full);
        if self.settings.unhashed_first {
            self.queue.push_front(unhashed);
        } else {
            self.queue.push_back(unhashed);
        }
        self.let_tail_go(&holding, request, full - named - again, number);
        for held in holding.units.iter().rev() {
            self.queue.push_back(u64::from(held.own));
            if held.shared > 0 {
                self.let_unit_go(held.unit, held.shared);
            }
        }
        debug_assert!(self.queue.blocks() <= self.total);
    }

    /// Lets go of the content after all segments: `own` full blocks behind what was found again.
    fn let_tail_go(&mut self, holding: &Holding, request: &Request, own: u64, number: Option<u64>) {
        let (unit, shared) = holding.tail.unwrap_or((NONE, 0));
        let mut held = Held {
            unit,
            shared,
            own: 0,
        };
        if own > 0 {
            let tail = holding.cursor.tail(request, number);
            let first = tail.tokens / self.block_tokens + u64::from(shared);
            let nameable = own.min((tail.end / self.block_tokens).saturating_sub(first));
            match tail.name {
                Some(name) if nameable > 0 => self.compute(&mut held, name, nameable as u32),
                _ => held.own = nameable as u32,
            }
            // More than the answer was to have: drafts, or tokens after its end.
            held.own += (own - nameable) as u32;
        }
        self.queue.push_back(u64::from(held.own));
        if held.shared > 0 {
            self.let_unit_go(held.unit, held.shared);
        }
    }

    fn let_unit_go(&mut self, at: u32, shared: u32) {
        let unit = &mut self.units[at as usize];
        let before = unit.held();
        unit.drop(shared);
        let from = unit.held();
        let blocks = before - from;
        if blocks == 0 {
            return;
        }
        let newest = unit.newest;
        if newest != NONE && newest == self.queue.back() {
            self.queue.widen(newest, blocks);
            self.queue.run_mut(newest).from = from;
            return;
        }
        let run = self.queue.push_unit(at, from, blocks);
        self.queue.run_mut(run).older = newest;
        if newest != NONE {
            self.queue.run_mut(newest).newer = run;
        }
        unit.newest = run;
    }
}

/// The names are well mixed already.
#[derive(Debug, Clone, Copy, Default)]
struct AsIs(u64);

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

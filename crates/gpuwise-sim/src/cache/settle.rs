//! Whose the content of computed blocks is, and letting go of it.

use super::{Holding, Pool, holding::Held, queue::NONE, unit::Unit};
use gpuwise_domain::request::Request;

impl Pool {
    /// Settles whose the content of the full blocks up to `target` is.
    pub(super) fn settle(&mut self, holding: &mut Holding, request: &Request, target: u64) {
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

    pub(super) fn let_go(
        &mut self,
        holding: Holding,
        request: &Request,
        tokens: u64,
        number: Option<u64>,
    ) {
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

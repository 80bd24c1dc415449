//! TensorRT-LLM: which requests have a place in the cache, then which of them are in the step.

use super::{
    rank::{Plan, Rank},
    sequence::{NONE, State},
    settings::{Capacity, TensorRtLlmRules},
    sink::Sink,
};

impl Rank {
    pub(super) fn plan_tensorrt_llm<S: Sink>(
        &mut self,
        plan: &mut Plan<'_, S>,
        rules: &TensorRtLlmRules,
    ) {
        let paused = self.pause(plan);
        let blocks = self.decodes.blocks();
        let mut budget = self
            .settings
            .max_batched_tokens
            .saturating_sub(self.decodes.count());
        let taken = self.pool.take(blocks);
        debug_assert!(taken, "others have been paused");
        self.reserved = self.reserved.saturating_sub(blocks);
        self.advance(plan);
        let open = self.read_contexts(plan, rules, &mut budget);
        if open && !paused {
            while self.start_context(plan, rules, &mut budget) {}
        }
        let step = &mut plan.step;
        step.steady = step.work.prefill == 0
            && step.work.decodes > 0
            && step.wasted == 0
            && step.ending.is_empty()
            && !paused
            && self.prefills.is_empty();
    }

    /// While the next step does not fit, the latest arrivals lose their places.
    fn pause<S: Sink>(&mut self, plan: &mut Plan<'_, S>) -> bool {
        let mut paused = false;
        while self.decodes.blocks() > self.pool.free() {
            let Some(slot) = self.latest_arrival() else {
                break;
            };
            self.preempt(plan, slot);
            paused = true;
        }
        paused
    }

    fn latest_arrival(&self) -> Option<u32> {
        let mut latest = None;
        let mut at = self.table.first();
        while at != NONE {
            let sequence = self.table.get(at);
            let there = matches!(sequence.state, State::Decode | State::Prefill);
            if there && latest.is_none_or(|(_, other)| sequence.arrival > other) {
                latest = Some((at, sequence.arrival));
            }
            at = sequence.after;
        }
        latest.map(|(slot, _)| slot)
    }

    /// Tokens of a prompt in a step: chunks are whole blocks, except for the last one.
    fn context_chunk(&self, rules: &TensorRtLlmRules, rest: u32, budget: u32) -> u32 {
        if rest <= budget {
            rest
        } else if rules.chunked_context {
            budget / self.settings.cache.block_tokens * self.settings.cache.block_tokens
        } else {
            0
        }
    }

    /// Prompts that are under way go on, by arrival; false if one of them had no place.
    fn read_contexts<S: Sink>(
        &mut self,
        plan: &mut Plan<'_, S>,
        rules: &TensorRtLlmRules,
        budget: &mut u32,
    ) -> bool {
        let mut open = true;
        let mut slots = core::mem::take(&mut self.prefills);
        slots.sort_by_key(|slot| self.table.get(*slot).arrival);
        slots.retain(|&slot| {
            let sequence = self.table.get(slot);
            let rest = sequence.goal - sequence.computed;
            let some = self.context_chunk(rules, rest, *budget);
            open &= some > 0;
            if !open {
                return true;
            }
            *budget -= some;
            !self.read_context(plan, slot, some)
        });
        self.prefills = slots;
        open
    }

    /// A sequence computes `tokens` of its prompt; true if that was the rest.
    fn read_context<S: Sink>(&mut self, plan: &mut Plan<'_, S>, slot: u32, tokens: u32) -> bool {
        let done = self.chunk(plan, slot, tokens);
        if done {
            let sequence = self.table.get(slot);
            let read = (slot, sequence.generation, u64::from(sequence.goal));
            plan.step.read.push(read);
            self.yield_first(plan, slot);
        }
        done
    }

    /// The next request gets its place in the cache and in the step; false if it cannot.
    fn start_context<S: Sink>(
        &mut self,
        plan: &mut Plan<'_, S>,
        rules: &TensorRtLlmRules,
        budget: &mut u32,
    ) -> bool {
        if self.table.running() >= self.settings.max_sequences {
            return false;
        }
        let Some(slot) = self.waiting.head(&self.table) else {
            return false;
        };
        let hit = self.look(slot);
        let sequence = self.table.get(slot);
        let goal = u64::from(sequence.goal);
        let whole = u64::from(sequence.request.input) + u64::from(sequence.wanted);
        let fits = match rules.capacity {
            Capacity::GuaranteedNoEvict => {
                self.pool.needed_for(&hit, whole) + self.reserved <= self.pool.free()
            }
            Capacity::MaxUtilization => self.pool.needed_for(&hit, goal) <= self.pool.free(),
        };
        let some = self.context_chunk(rules, sequence.goal - hit.tokens, *budget);
        if !fits || some == 0 {
            return false;
        }
        self.waiting.pop(&self.table);
        self.begin_with(slot, &hit, goal);
        if rules.capacity == Capacity::GuaranteedNoEvict {
            self.reserved += self.pool.blocks_for(whole) - self.pool.blocks_for(goal);
        }
        self.join(plan, slot);
        *budget -= some;
        if !self.read_context(plan, slot, some) {
            self.prefills.push(slot);
        }
        true
    }

    /// Blocks that were kept free for a sequence which leaves the batch.
    pub(super) fn release_reserved(&mut self, slot: u32) {
        let sequence = self.table.get(slot);
        let whole = u64::from(sequence.request.input) + u64::from(sequence.wanted);
        let has = u64::from(sequence.computed.max(sequence.goal));
        let more = self
            .pool
            .blocks_for(whole)
            .saturating_sub(self.pool.blocks_for(has));
        self.reserved = self.reserved.saturating_sub(more);
    }
}

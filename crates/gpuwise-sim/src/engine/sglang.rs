//! SGLang: a step of prompts alone if one can be made, else a step of decodes.

use super::{
    rank::{Plan, Rank},
    sequence::{NEVER, NONE, State},
    settings::{SglangOrder, SglangRules},
    sink::Sink,
};
use crate::cache::Holding;
use gpuwise_domain::request::Request;

/// Shared tokens up to which a request is looked for in the queue too, and from which it is held back.
const SHARED_IN_QUEUE: u32 = 32;

/// What is left of a step of prompts, in tokens.
struct Room {
    page: u64,
    ratio_tokens: f64,
    reserved: u64,
    input: i64,
    chunk: i64,
    joined: u32,
    done: Vec<u32>,
}

impl Room {
    /// Tokens of cache that are not kept free for output.
    fn total(&self, free_blocks: u64) -> f64 {
        (free_blocks * self.page) as f64 - self.ratio_tokens - self.reserved as f64
    }

    fn spent(&mut self, tokens: u32) {
        let paged = u64::from(tokens).next_multiple_of(self.page).cast_signed();
        self.input -= paged;
        self.chunk -= paged;
        self.joined += 1;
    }

    fn is_over(&self, free_blocks: u64) -> bool {
        self.total(free_blocks) <= 0.0 || self.input <= 0 || self.chunk <= 0
    }
}

impl Rank {
    pub(super) fn plan_sglang<S: Sink>(&mut self, plan: &mut Plan<'_, S>, rules: &SglangRules) {
        if self.table.running() == 0 && self.waiting.count() == 0 {
            let first = self.sglang.first_ratio;
            self.sglang.set_ratio(first);
            return;
        }
        if self.decodes.count() == 0 {
            self.sglang.full = false;
        }
        if !self.read_prompts(plan, rules) {
            self.decode_all(plan, rules);
        }
        let step = &mut plan.step;
        step.steady = step.work.prefill == 0
            && step.work.decodes > 0
            && step.wasted == 0
            && step.ending.is_empty()
            && step.dropped.is_empty()
            && self.sglang.chunked.is_none()
            && (self.waiting.count() == 0 || self.sglang.full);
    }

    /// A step of prompts, if one can be made.
    fn read_prompts<S: Sink>(&mut self, plan: &mut Plan<'_, S>, rules: &SglangRules) -> bool {
        let running = self.decodes.count();
        let chunked = self.sglang.chunked;
        if chunked.is_none() && (self.sglang.full || self.waiting.count() == 0) {
            return false;
        }
        if chunked.is_none() && running >= self.settings.max_sequences {
            self.sglang.full = true;
            return false;
        }
        let mixed = i64::from(if rules.mixed_chunk { running } else { 0 });
        let ratio = if rules.ignore_end {
            1.0
        } else {
            self.sglang.ratio()
        };
        let rest = self.remaining(rules.output_clip);
        let mut room = Room {
            page: u64::from(self.settings.cache.block_tokens),
            ratio_tokens: ratio * rest as f64 + mixed as f64,
            reserved: 0,
            input: i64::from(self.settings.max_batched_tokens) - mixed,
            chunk: rules
                .chunked_prefill
                .map_or(i64::MAX, |own| i64::from(own) - mixed),
            joined: 0,
            done: Vec::new(),
        };
        if let Some(slot) = chunked {
            self.read_on(plan, rules, &mut room, slot);
        }
        if self.sglang.chunked.is_none() && !(chunked.is_some() && room.is_over(self.pool.free())) {
            self.order_queue(rules);
            while self.let_in(plan, rules, &mut room, running) {}
        }
        if room.joined == 0 {
            return false;
        }
        let blocks = self.decodes.blocks();
        if rules.mixed_chunk && running > 0 && self.pool.take(blocks) {
            self.resume_decodes(plan);
        } else {
            let before: u32 = self.sglang.groups.iter().map(|group| group.1).sum();
            if running > before {
                self.sglang.groups.push((NEVER, running - before));
            }
        }
        let ends = plan.step.ending.len();
        for slot in room.done {
            self.yield_first(plan, slot);
        }
        // Sequences of prompts stand before those that decode.
        plan.step.ending.rotate_left(ends);
        true
    }

    /// Output tokens that the decodes are to yield, no more than `clip` of each.
    fn remaining(&self, clip: u32) -> u64 {
        if self.decodes.most_wanted() <= clip {
            return self.decodes.remaining();
        }
        let mut all = 0;
        let mut at = self.table.first();
        while at != NONE {
            let sequence = self.table.get(at);
            if sequence.state == State::Decode {
                let computed = self.decodes.computed(sequence.base);
                let yielded = (computed + 1).saturating_sub(sequence.request.input);
                all += u64::from(sequence.wanted.saturating_sub(yielded).min(clip));
            }
            at = sequence.after;
        }
        all
    }

    /// The sequence that is computed in chunks goes on.
    fn read_on<S: Sink>(
        &mut self,
        plan: &mut Plan<'_, S>,
        rules: &SglangRules,
        room: &mut Room,
        slot: u32,
    ) {
        let sequence = self.table.get(slot);
        let rest = i64::from(sequence.goal - sequence.computed);
        let fits = room.chunk.min(room.total(self.pool.free()) as i64);
        let fits = if fits <= 0 { room.chunk } else { fits };
        let held = sequence.holding.as_ref().map_or(0, Holding::blocks);
        let there =
            ((held + self.pool.free()) * room.page).cast_signed() - i64::from(sequence.computed);
        let some = rest.min(fits).min(there);
        if some <= 0 {
            return;
        }
        let all = u64::from(sequence.computed) + some as u64;
        self.take_for(slot, all);
        self.share(plan, rules, room, slot, some as u32);
    }

    /// Blocks for `tokens` tokens of a sequence, whose content is found only when it is computed.
    pub(super) fn take_for(&mut self, slot: u32, tokens: u64) {
        let sequence = self.table.get_mut(slot);
        if let Some(holding) = &mut sequence.holding {
            let taken = self.pool.take(self.pool.needed(holding, tokens));
            debug_assert!(taken, "its blocks were counted");
            self.pool.grown(holding, tokens);
        }
    }

    /// A sequence gets `tokens` tokens of a step of prompts, for which it has the blocks.
    fn share<S: Sink>(
        &mut self,
        plan: &mut Plan<'_, S>,
        rules: &SglangRules,
        room: &mut Room,
        slot: u32,
        tokens: u32,
    ) {
        room.spent(tokens);
        let done = self.chunk(plan, slot, tokens);
        let sequence = self.table.get(slot);
        plan.step
            .read
            .push((slot, sequence.generation, u64::from(sequence.computed)));
        if done {
            let rest = sequence.wanted - sequence.generated;
            room.reserved += u64::from(rest.min(rules.output_clip));
            room.done.push(slot);
            self.sglang.chunked = None;
        } else {
            self.sglang.chunked = Some(slot);
        }
    }

    /// The next request joins the step of prompts; false if none can.
    fn let_in<S: Sink>(
        &mut self,
        plan: &mut Plan<'_, S>,
        rules: &SglangRules,
        room: &mut Room,
        running: u32,
    ) -> bool {
        let Some(slot) = self.waiting.head(&self.table) else {
            return false;
        };
        if running + room.joined >= self.settings.max_sequences {
            self.sglang.full = true;
            return false;
        }
        let hit = self.look(slot);
        let sequence = self.table.get(slot);
        let rest = sequence.goal - hit.tokens;
        let output = (sequence.wanted - sequence.generated).min(rules.output_clip);
        let total = (u64::from(rest) + u64::from(output)) as f64;
        if total >= room.total(self.pool.free() - hit.free_blocks) {
            self.sglang.full = true;
            return false;
        }
        let paged = u64::from(rest).next_multiple_of(room.page).cast_signed();
        if paged >= room.input && room.joined > 0 {
            return false;
        }
        let some = if paged <= room.chunk {
            rest
        } else {
            (room.chunk.max(0) as u64 / room.page * room.page) as u32
        };
        if some == 0 {
            return false;
        }
        self.waiting.pop(&self.table);
        self.begin_with(slot, &hit, u64::from(hit.tokens + some));
        self.join(plan, slot);
        self.share(plan, rules, room, slot, some);
        self.sglang.chunked.is_none() && !room.is_over(self.pool.free())
    }

    /// Orders the queue by what is found in the cache.
    fn order_queue(&mut self, rules: &SglangRules) {
        let SglangOrder::LongestPrefix { until } = rules.order else {
            return;
        };
        if self.waiting.count() > until || self.waiting.count() < 2 {
            return;
        }
        let mut slots: Vec<u32> = self.waiting.each(&self.table).collect();
        let mut leaders: Vec<u32> = Vec::new();
        let mut keys = Vec::with_capacity(slots.len());
        for &slot in &slots {
            let found = self.look(slot).tokens;
            let request = &self.table.get(slot).request;
            let follows = found <= SHARED_IN_QUEUE
                && leaders.iter().any(|own| {
                    common(request, &self.table.get(*own).request) >= u64::from(SHARED_IN_QUEUE)
                });
            if found <= SHARED_IN_QUEUE && !follows {
                leaders.push(slot);
            }
            keys.push((slot, (follows, u32::MAX - found)));
        }
        keys.sort_by_key(|(_, key)| *key);
        slots.clear();
        slots.extend(keys.iter().map(|(slot, _)| *slot));
        self.waiting.reorder(&self.table, &slots);
    }

    /// A step of all decodes, some of which may lose their places for it.
    fn decode_all<S: Sink>(&mut self, plan: &mut Plan<'_, S>, rules: &SglangRules) {
        if self.sglang.left {
            self.sglang.left = false;
            self.sglang.full = false;
        }
        if self.decodes.blocks() > self.pool.free() {
            self.retract(plan, rules);
        } else {
            self.sglang.decoded(1);
        }
        let blocks = self.decodes.blocks();
        if self.decodes.count() == 0 || !self.pool.take(blocks) {
            return;
        }
        self.resume_decodes(plan);
    }

    /// The decodes, some of which waited for steps of prompts, yield a token each.
    fn resume_decodes<S>(&mut self, plan: &mut Plan<'_, S>) {
        let mut left = self.decodes.count() - self.stopping;
        for (since, count) in self.sglang.groups.drain(..) {
            let some = count.min(left);
            left -= some;
            plan.step.stalled.push((since, some));
        }
        self.advance(plan);
    }

    /// Sequences with the fewest tokens of output lose their places, of these the longest prompts
    /// first.
    fn retract<S: Sink>(&mut self, plan: &mut Plan<'_, S>, rules: &SglangRules) {
        let mut slots = Vec::new();
        let mut at = self.table.first();
        while at != NONE {
            let sequence = self.table.get(at);
            if sequence.state == State::Decode {
                let yielded = self.decodes.computed(sequence.base) + 1 - sequence.request.input;
                slots.push((yielded, u32::MAX - sequence.request.input, at));
            }
            at = sequence.after;
        }
        slots.sort_by_key(|(yielded, short, _)| core::cmp::Reverse((*yielded, *short)));
        while slots.len() > 1 && self.decodes.blocks() > self.pool.free() {
            if let Some((_, _, slot)) = slots.pop() {
                let prompt = u64::from(self.table.get(slot).request.input);
                self.lose_place(plan, slot, prompt);
                self.waiting.push_back(&self.table, slot);
            }
        }
        if self.decodes.blocks() > self.pool.free()
            && let Some((_, _, slot)) = slots.pop()
        {
            self.break_off(plan, slot);
        }
        let yielded: u64 = slots.iter().map(|own| u64::from(own.0)).sum();
        let wanted: u64 = slots
            .iter()
            .map(|own| u64::from(self.table.get(own.2).wanted))
            .sum();
        let ahead = u64::from(rules.retract_steps) * slots.len() as u64;
        self.sglang
            .set_ratio(((yielded + ahead) as f64 / (wanted + 1) as f64).min(1.0));
        self.sglang.full = false;
    }
}

/// Tokens that two prompts have in common from their beginning.
fn common(one: &Request, other: &Request) -> u64 {
    if one.adapter != other.adapter {
        return 0;
    }
    let (one, other) = (one.prefix.as_deref(), other.prefix.as_deref());
    let pairs = one
        .unwrap_or_default()
        .iter()
        .zip(other.unwrap_or_default());
    let equal = pairs.take_while(|(own, that)| own == that);
    equal.map(|(own, _)| u64::from(own.tokens)).sum()
}

//! vLLM V1: running sequences first, then waiting ones, into one budget of tokens.

use super::{
    rank::{Plan, Rank},
    sequence::{NEVER, NONE, State},
    settings::VllmRules,
    sink::Sink,
};
use crate::cache::Hit;

struct Room {
    budget: u32,
    /// Whether a running sequence lost its place.
    preempted: bool,
    /// Whether the next step can be another than this one though nothing comes.
    unsteady: bool,
}

impl Rank {
    pub(super) fn plan_vllm<S: Sink>(&mut self, plan: &mut Plan<'_, S>, rules: &VllmRules) {
        let mut room = Room {
            budget: self.settings.max_batched_tokens,
            preempted: false,
            unsteady: false,
        };
        if !self.run_all(plan, rules, &mut room) {
            self.run_in_order(plan, rules, &mut room);
        }
        if !room.preempted {
            self.admit(plan, rules, &mut room);
        }
        let step = &mut plan.step;
        step.steady = step.work.prefill == 0
            && step.work.decodes > 0
            && step.ending.is_empty()
            && step.wasted == 0
            && step.drafts.is_empty()
            && step.late.is_empty()
            && !room.preempted
            && !room.unsteady;
    }

    /// Most prompt tokens of one sequence in a step.
    fn threshold(rules: &VllmRules, alone: bool) -> u32 {
        if rules.long_prefill_threshold == 0 || alone {
            u32::MAX
        } else {
            rules.long_prefill_threshold
        }
    }

    fn alone(&self) -> bool {
        self.table.running() + self.waiting.count() == 1
    }

    /// Runs every running sequence, where the order among them makes no difference. False where it
    /// may: then nothing has changed.
    fn run_all<S: Sink>(
        &mut self,
        plan: &mut Plan<'_, S>,
        rules: &VllmRules,
        room: &mut Room,
    ) -> bool {
        if self.behind > 0 || self.settings.speculation.is_some() {
            return false;
        }
        let Some(left) = room.budget.checked_sub(self.decodes.count()) else {
            return false;
        };
        let mut blocks = self.decodes.blocks();
        let threshold = Self::threshold(rules, self.alone());
        let mut tokens = 0u32;
        for (at, &slot) in self.prefills.iter().enumerate() {
            let sequence = self.table.get(slot);
            let more = (sequence.goal - sequence.computed).min(threshold);
            let some = more.min(left.saturating_sub(tokens));
            let last = at + 1 == self.prefills.len() && self.table.last() == slot;
            if some == 0 || (some < more && !last) {
                return false;
            }
            tokens += some;
            if let Some(holding) = &sequence.holding {
                blocks += self
                    .pool
                    .needed(holding, u64::from(sequence.computed + some));
            }
        }
        if blocks > self.pool.free() {
            return false;
        }
        self.pool.take(self.decodes.blocks());
        self.advance(plan);
        room.budget = left;
        let mut slots = core::mem::take(&mut self.prefills);
        slots.retain(|&slot| {
            let sequence = self.table.get(slot);
            let some = (sequence.goal - sequence.computed)
                .min(threshold)
                .min(room.budget);
            room.budget -= some;
            !self.read(plan, slot, some)
        });
        self.prefills = slots;
        true
    }

    /// A running sequence computes `tokens` of its prompt, for which there are blocks; true when that
    /// was the rest.
    fn read<S: Sink>(&mut self, plan: &mut Plan<'_, S>, slot: u32, tokens: u32) -> bool {
        let sequence = self.table.get_mut(slot);
        if let Some(holding) = &mut sequence.holding {
            let all = u64::from(sequence.computed + tokens);
            let enough = self.pool.extend(holding, &sequence.request, all);
            debug_assert!(enough.is_ok(), "its blocks were counted");
        }
        let done = self.chunk(plan, slot, tokens);
        if done {
            self.yield_first(plan, slot);
        }
        done
    }

    /// Runs the running sequences one by one in their order, and takes the place of the last ones
    /// where blocks are short.
    fn run_in_order<S: Sink>(
        &mut self,
        plan: &mut Plan<'_, S>,
        rules: &VllmRules,
        room: &mut Room,
    ) {
        let threshold = Self::threshold(rules, self.alone());
        let mut at = self.table.first();
        while at != NONE && room.budget > 0 {
            let sequence = self.table.get(at);
            let more = match sequence.state {
                State::Decode => 1,
                State::Prefill => (sequence.goal - sequence.computed)
                    .min(threshold)
                    .min(room.budget),
                State::Draft => self.draft_tokens(at).min(room.budget),
                _ => 0,
            };
            if more == 0 {
                at = sequence.after;
                continue;
            }
            if !self.make_room(plan, rules, room, at, more) {
                break;
            }
            let turn = self.turn;
            let sequence = self.table.get_mut(at);
            sequence.turn = turn;
            sequence.planned = more;
            room.budget -= more;
            at = sequence.after;
        }
        self.run_planned(plan, room);
    }

    /// Blocks for `more` tokens of a running sequence, for which others may lose their place; false
    /// if it lost its own.
    fn make_room<S: Sink>(
        &mut self,
        plan: &mut Plan<'_, S>,
        rules: &VllmRules,
        room: &mut Room,
        slot: u32,
        more: u32,
    ) -> bool {
        loop {
            if self.grow(slot, more) {
                return true;
            }
            room.preempted = true;
            let victim = if rules.priority {
                self.least_urgent()
            } else {
                self.latest()
            };
            let Some(victim) = victim else { return false };
            let sequence = self.table.get(victim);
            if sequence.turn == self.turn {
                room.budget += sequence.planned;
            }
            self.preempt(plan, victim);
            if victim == slot {
                return false;
            }
        }
    }

    /// Takes the blocks for `more` tokens of a running sequence, if they are there.
    fn grow(&mut self, slot: u32, more: u32) -> bool {
        if self.table.get(slot).state == State::Draft {
            return self.grow_drafts(slot, more);
        }
        let sequence = self.table.get_mut(slot);
        if sequence.state == State::Decode {
            let computed = u64::from(self.decodes.computed(sequence.base));
            let blocks = self.pool.blocks_for(computed + 1) - self.pool.blocks_for(computed);
            return self.pool.take(blocks);
        }
        let all = u64::from(sequence.computed + more);
        let Some(holding) = &mut sequence.holding else {
            return false;
        };
        self.pool.extend(holding, &sequence.request, all).is_ok()
    }

    /// The running sequence with the greatest (priority, arrival).
    fn least_urgent(&self) -> Option<u32> {
        let mut worst = None;
        let mut at = self.table.first();
        while at != NONE {
            let sequence = self.table.get(at);
            let key = (sequence.request.priority, sequence.arrival);
            if worst.is_none_or(|(_, other)| key > other) {
                worst = Some((at, key));
            }
            at = sequence.after;
        }
        worst.map(|(slot, _)| slot)
    }

    /// Those that got tokens compute; decodes that got none stay behind.
    fn run_planned<S: Sink>(&mut self, plan: &mut Plan<'_, S>, room: &mut Room) {
        let mut behind = core::mem::take(&mut self.scratch);
        behind.clear();
        let mut at = self.table.first();
        while at != NONE {
            let turn = self.turn;
            let sequence = self.table.get_mut(at);
            let after = sequence.after;
            if sequence.state == State::Decode {
                let entry = (at, sequence.generation);
                if sequence.turn != turn {
                    if !sequence.behind {
                        sequence.behind = true;
                        self.behind += 1;
                        plan.step.dropped.push(entry);
                    }
                    behind.push(at);
                } else if sequence.behind {
                    sequence.behind = false;
                    self.behind -= 1;
                    if sequence.finish != NEVER {
                        plan.step.late.push(entry);
                    }
                }
            }
            at = after;
        }
        room.unsteady |= !behind.is_empty();
        self.hold_back(plan, &mut behind);
        self.run_drafts(plan);
        self.scratch = behind;
        let mut slots = core::mem::take(&mut self.prefills);
        slots.retain(|&slot| {
            let sequence = self.table.get(slot);
            if sequence.turn != self.turn {
                return true;
            }
            let done = self.chunk(plan, slot, sequence.planned);
            if done {
                self.yield_first(plan, slot);
            }
            !done
        });
        self.prefills = slots;
    }

    /// All decodes but these take a step.
    fn hold_back<S>(&mut self, plan: &mut Plan<'_, S>, behind: &mut [u32]) {
        let mut stopping = 0;
        for &slot in behind.iter() {
            stopping += u32::from(self.table.get(slot).finish == NEVER);
            self.decodes.leave(&mut self.table, slot);
        }
        self.stopping -= stopping;
        self.advance(plan);
        self.stopping += stopping;
        for &slot in behind.iter() {
            let sequence = self.table.get(slot);
            let computed = sequence.computed;
            let rest = sequence.wanted.saturating_sub(sequence.generated);
            let remaining = (rest > 0).then_some(rest);
            self.decodes
                .join(&mut self.table, slot, computed, remaining);
        }
    }

    /// Waiting requests join while there is room.
    fn admit<S: Sink>(&mut self, plan: &mut Plan<'_, S>, rules: &VllmRules, room: &mut Room) {
        self.admit_loaded(plan, room);
        let kept = (rules.watermark * self.pool.total() as f64) as u64;
        let mut aside = Vec::new();
        while room.budget > 0 && self.table.running() < self.settings.max_sequences {
            let Some(slot) = self.waiting.head(&self.table) else {
                break;
            };
            if !self.adapter_fits(slot) {
                self.waiting.pop(&self.table);
                aside.push(slot);
                continue;
            }
            let hit = self.look(slot);
            let goal = self.table.get(slot).goal;
            let kept = if self.table.running() > 0 { kept } else { 0 };
            if self.table.get(slot).remote && self.table.get(slot).preemptions == 0 {
                let needed =
                    self.pool.needed_for(&hit, u64::from(goal)) + self.needed_by_prefills();
                if needed + kept > self.pool.free() {
                    break;
                }
                self.waiting.pop(&self.table);
                self.load(plan, slot, &hit);
                continue;
            }
            let some = (goal - hit.tokens).min(Self::threshold(rules, self.alone()));
            if !rules.chunked_prefill && some > room.budget {
                break;
            }
            let some = some.min(room.budget);
            let held = if rules.reserve_full_prompt {
                goal
            } else {
                hit.tokens + some
            };
            if self.pool.needed_for(&hit, u64::from(held)) + kept > self.pool.free() {
                break;
            }
            self.waiting.pop(&self.table);
            let enough = self.begin(slot, &hit, u64::from(hit.tokens + some));
            debug_assert!(enough, "its blocks were counted");
            self.join(plan, slot);
            room.budget -= some;
            if self.chunk(plan, slot, some) {
                self.yield_first(plan, slot);
            } else {
                self.prefills.push(slot);
            }
        }
        for slot in aside.into_iter().rev() {
            self.waiting.push_front(&self.table, slot);
        }
    }

    /// Blocks that running sequences still need for their prompts.
    fn needed_by_prefills(&self) -> u64 {
        let needed = |slot: &u32| {
            let sequence = self.table.get(*slot);
            sequence
                .holding
                .as_ref()
                .map_or(0, |own| self.pool.needed(own, u64::from(sequence.goal)))
        };
        self.prefills.iter().map(needed).sum()
    }

    /// A request takes the blocks of its whole prompt, whose cache comes from elsewhere.
    fn load<S: Sink>(&mut self, plan: &mut Plan<'_, S>, slot: u32, hit: &Hit) {
        let goal = self.table.get(slot).goal;
        let enough = self.begin(slot, hit, u64::from(goal));
        debug_assert!(enough, "its blocks were counted");
        let sequence = self.table.get_mut(slot);
        sequence.state = State::Loading;
        let ticket = sequence.ticket(self.index, slot);
        plan.sink.blocks_taken(plan.now, ticket, sequence.number);
    }

    /// Requests whose cache has come compute the last token of their prompt.
    fn admit_loaded<S: Sink>(&mut self, plan: &mut Plan<'_, S>, room: &mut Room) {
        while room.budget > 0 && self.table.running() < self.settings.max_sequences {
            let Some((slot, generation)) = self.loaded.pop_front() else {
                return;
            };
            if self.table.place(slot, generation).is_none() {
                continue;
            }
            self.join(plan, slot);
            room.budget -= 1;
            if self.chunk(plan, slot, 1) {
                self.yield_first(plan, slot);
            }
        }
    }
}

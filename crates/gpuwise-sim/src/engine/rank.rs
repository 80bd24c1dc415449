//! One rank: its queue, its batch and its KV cache, in planned steps. It knows no durations.

use super::{
    Ticket,
    decodes::Decodes,
    memory::SglangState,
    sequence::{NEVER, State, Table},
    settings::{Policy, Settings},
    sink::Sink,
    step::{Entry, Step},
    waiting::Waiting,
};
use crate::cache::{Hit, Pool};
use gpuwise_domain::request::Request;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Rank {
    pub(super) index: u32,
    pub(super) settings: Settings,
    pub(super) table: Table,
    pub(super) waiting: Waiting,
    /// Requests whose cache has come from elsewhere.
    pub(super) loaded: VecDeque<(u32, u32)>,
    pub(super) decodes: Decodes,
    /// Running sequences whose prompt is not done, in running order.
    pub(super) prefills: Vec<u32>,
    pub(super) pool: Pool,
    pub(super) current: Box<Step>,
    /// The step planned behind it.
    pub(super) next: Box<Step>,
    pub(super) spare: Option<Box<Step>>,
    pub(super) sglang: SglangState,
    /// Running sequences of each adapter, [0] being the base model.
    pub(super) adapters: Vec<u32>,
    /// Adapters of those whose last token was planned last.
    pub(super) ended: Vec<u16>,
    /// Sequences among the decodes that have yielded their last token, which nobody knows yet.
    pub(super) stopping: u32,
    /// Decodes that got no token in the step planned last.
    pub(super) behind: u32,
    /// Aborted while they ran.
    pub(super) aborted: Vec<(u32, u32)>,
    arrivals: u64,
    late: bool,
    /// KV blocks that running sequences will have when they end, less those that they have:
    /// TensorRT-LLM keeps them free.
    pub(super) reserved: u64,
    pub(super) turn: u64,
    /// Output tokens that running sequences are still to yield, and the uncomputed rest of prompts.
    pub(super) owed: u64,
    pub(super) counts: Counts,
    pub(super) scratch: Vec<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) prompt_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) preemptions: u64,
    pub(super) broken: u64,
}

pub(super) struct Plan<'a, S> {
    pub(super) now: u64,
    pub(super) sink: &'a mut S,
    /// The step that is planned, taken out of the rank.
    pub(super) step: Box<Step>,
}

impl Rank {
    pub(super) fn new(index: u32, settings: &Settings) -> Self {
        let by_priority = matches!(&settings.policy, Policy::Vllm(rules) if rules.priority);
        Self {
            index,
            table: Table::new(),
            waiting: Waiting::new(by_priority),
            loaded: VecDeque::new(),
            decodes: Decodes::new(settings.cache.block_tokens),
            prefills: Vec::new(),
            pool: Pool::new(settings.cache),
            current: Box::default(),
            next: Box::default(),
            spare: None,
            sglang: SglangState::new(&settings.policy),
            adapters: Vec::new(),
            ended: Vec::new(),
            stopping: 0,
            behind: 0,
            aborted: Vec::new(),
            arrivals: 0,
            // SGLang asks whether a sequence has ended when its tokens are out, whatever ends it.
            late: settings.overlap
                && (settings.ends_by_stop || matches!(settings.policy, Policy::Sglang(_))),
            reserved: 0,
            turn: 0,
            owed: 0,
            counts: Counts::default(),
            scratch: Vec::new(),
            settings: settings.clone(),
        }
    }

    /// Whether ends are seen a step late.
    pub(super) fn late_ends(&self) -> bool {
        self.late
    }

    /// Puts a request into the queue.
    pub(super) fn submit(
        &mut self,
        now: u64,
        number: u64,
        request: Request,
        remote: bool,
    ) -> Ticket {
        self.arrivals += 1;
        let wanted = self.wanted(&request);
        self.owed += u64::from(request.input) + u64::from(wanted);
        let slot = self
            .table
            .insert(number, request, wanted, self.arrivals, now);
        self.table.get_mut(slot).remote = remote;
        self.waiting.push_back(&self.table, slot);
        self.table.get(slot).ticket(self.index, slot)
    }

    /// What a waiting sequence would find in the cache.
    pub(super) fn look(&self, slot: u32) -> Hit {
        let sequence = self.table.get(slot);
        if sequence.preemptions > 0 {
            self.pool
                .find_resumed(&sequence.request, sequence.number, sequence.goal)
        } else {
            self.pool.find(&sequence.request)
        }
    }

    /// Gives a sequence that left the queue what was found, and blocks for `tokens` tokens in all.
    /// False if they are not there, which its caller has made sure of.
    pub(super) fn begin(&mut self, slot: u32, hit: &Hit, tokens: u64) -> bool {
        let sequence = self.table.get_mut(slot);
        let mut holding = self.pool.hold(&sequence.request, hit);
        let found = holding.found();
        let enough = self
            .pool
            .extend(&mut holding, &sequence.request, tokens)
            .is_ok();
        sequence.holding = Some(holding);
        sequence.computed = found;
        self.owed = self.owed.saturating_sub(u64::from(found));
        if sequence.scheduled == NEVER {
            sequence.cached = found;
        }
        enough
    }

    /// As [`Self::begin`]; what it computes is found only when it is said to be.
    pub(super) fn begin_with(&mut self, slot: u32, hit: &Hit, tokens: u64) {
        let enough = self.begin(slot, hit, u64::from(hit.tokens));
        debug_assert!(enough, "what is found needs no blocks");
        self.take_for(slot, tokens);
    }

    /// A sequence joins those that run.
    pub(super) fn join<S: Sink>(&mut self, plan: &mut Plan<'_, S>, slot: u32) {
        self.table.run(slot);
        let sequence = self.table.get_mut(slot);
        sequence.state = State::Prefill;
        let adapter = usize::from(sequence.request.adapter);
        if sequence.scheduled == NEVER {
            sequence.scheduled = plan.now;
            plan.sink.scheduled(plan.now, sequence.number);
        }
        if self.settings.max_adapters.is_some() {
            if self.adapters.len() <= adapter {
                self.adapters.resize(adapter + 1, 0);
            }
            self.adapters[adapter] += 1;
        }
    }

    /// A running sequence computes `tokens` more of its prompt, whose blocks it has; true when that
    /// was the rest.
    pub(super) fn chunk<S>(&mut self, plan: &mut Plan<'_, S>, slot: u32, tokens: u32) -> bool {
        let sequence = self.table.get_mut(slot);
        let (before, more) = (u64::from(sequence.computed), u64::from(tokens));
        sequence.computed += tokens;
        let work = &mut plan.step.work;
        work.prefill += tokens;
        work.prefill_context += more * before + more * (more + 1) / 2;
        self.counts.prompt_tokens += more;
        if sequence.computed < sequence.goal {
            return false;
        }
        work.finished += 1;
        plan.step.tokens += 1;
        true
    }

    /// A sequence whose prompt is done yields a token in this step and decodes from the next on. To
    /// be called after the decodes of the step have advanced.
    pub(super) fn yield_first<S>(&mut self, plan: &mut Plan<'_, S>, slot: u32) {
        let late = self.late_ends();
        let drafts = self.settings.speculation.is_some();
        let sequence = self.table.get_mut(slot);
        sequence.generated += 1;
        let entry = (slot, sequence.generation);
        plan.step.firsts.push(entry);
        let (computed, wanted, generated) = (sequence.goal, sequence.wanted, sequence.generated);
        if generated >= wanted {
            plan.step.ending.push(entry);
        }
        if generated < wanted || late {
            if drafts {
                sequence.state = State::Draft;
                return;
            }
            let remaining = (generated < wanted).then(|| wanted - generated);
            self.stopping += u32::from(remaining.is_none());
            self.decodes
                .join(&mut self.table, slot, computed, remaining);
        } else {
            sequence.state = State::Ending;
            if !self.adapters.is_empty() {
                self.ended.push(sequence.request.adapter);
            }
        }
    }

    /// The decodes take one more step, for which they have their blocks.
    pub(super) fn advance<S>(&mut self, plan: &mut Plan<'_, S>) {
        let work = &mut plan.step.work;
        work.decodes = self.decodes.count();
        work.context = self.decodes.context();
        plan.step.tokens += work.decodes - self.stopping;
        plan.step.wasted = self.stopping;
        self.decodes.advance(1);
        self.collect_ends(&mut plan.step.ending);
    }

    /// Notes who yielded its last token in the step planned last.
    fn collect_ends(&mut self, ending: &mut Vec<Entry>) {
        let late = self.late_ends();
        while let Some(slot) = self.decodes.pop_end(&self.table) {
            ending.push((slot, self.table.get(slot).generation));
            if late {
                self.decodes.ended(&mut self.table, slot);
                self.stopping += 1;
            } else {
                self.decodes.leave(&mut self.table, slot);
                let sequence = self.table.get_mut(slot);
                sequence.state = State::Ending;
                if !self.adapters.is_empty() {
                    self.ended.push(sequence.request.adapter);
                }
            }
        }
    }

    pub(super) fn leave_adapter(&mut self, adapter: u16) {
        if let Some(count) = self.adapters.get_mut(usize::from(adapter)) {
            *count = count.saturating_sub(1);
        }
    }

    /// Sequences whose last token was planned before need no adapter in the plan that begins.
    pub(super) fn begin_plan(&mut self) {
        self.turn += 1;
        while let Some(adapter) = self.ended.pop() {
            self.leave_adapter(adapter);
        }
    }

    /// How many more steps like the one planned last may follow it, if nothing comes.
    pub(super) fn more_steps(&mut self) -> u64 {
        let end = self.decodes.until_end(&self.table);
        self.decodes.steps_in(end, self.pool.free())
    }

    /// So many more steps like the one planned last are planned; `step` is the last of them.
    pub(super) fn extend(&mut self, steps: u64, next: bool) {
        let blocks = self.decodes.blocks_in(steps);
        let taken = self.pool.take(blocks);
        debug_assert!(taken, "the steps were counted by what is free");
        self.decodes.advance(steps);
        self.reserved = self.reserved.saturating_sub(blocks);
        self.sglang.decoded(steps);
        let mut ending = core::mem::take(&mut self.last_step(next).ending);
        self.collect_ends(&mut ending);
        let step = self.last_step(next);
        step.steady &= ending.is_empty();
        step.ending = ending;
        if next {
            step.work.context += steps * u64::from(step.work.decodes);
        }
    }

    pub(super) fn last_step(&mut self, next: bool) -> &mut Box<Step> {
        if next {
            &mut self.next
        } else {
            &mut self.current
        }
    }

    /// An empty step, whose place a filled one takes later.
    pub(super) fn blank(&mut self) -> Box<Step> {
        self.spare.take().unwrap_or_default()
    }

    /// The planned step begins to run at `now`.
    pub(super) fn start_next(&mut self, now: u64) {
        core::mem::swap(&mut self.current, &mut self.next);
        self.next.clear();
        self.mark_dropped(now);
    }

    /// A step without work is none.
    pub(super) fn drop_next(&mut self) {
        core::mem::swap(&mut self.current, &mut self.next);
        self.next.clear();
        let dropped = core::mem::take(&mut self.current.dropped);
        self.current.clear();
        self.current.dropped = dropped;
    }

    /// Those that have no token in the step that begins had their last one by now.
    pub(super) fn mark_dropped(&mut self, now: u64) {
        self.sglang.starts(now);
        for &(slot, generation) in &self.current.dropped {
            if let Some(at) = self.table.place(slot, generation) {
                let sequence = self.table.get_mut(at);
                sequence.last_token = sequence.last_token.min(now);
            }
        }
    }

    /// The cache of a prompt has come from elsewhere.
    pub(super) fn remote_arrived(&mut self, slot: u32, generation: u32) {
        if let Some(at) = self.table.place(slot, generation) {
            let sequence = self.table.get_mut(at);
            if sequence.state == State::Loading {
                sequence.state = State::Loaded;
                let before = sequence.computed;
                sequence.computed = sequence.goal.saturating_sub(1).max(before);
                self.owed = self
                    .owed
                    .saturating_sub(u64::from(sequence.computed - before));
                self.loaded.push_back((slot, generation));
            }
        }
    }
}

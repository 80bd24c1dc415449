//! One rank: its queue, its batch and its KV cache, in planned steps. It knows no durations.

use super::{
    Ticket,
    decodes::Decodes,
    sequence::{NEVER, NONE, State, Table},
    settings::{Capacity, Policy, Role, Settings},
    sglang::SglangState,
    sink::{Done, Sink},
    step::{Entry, Step},
    waiting::Waiting,
};
use crate::cache::{Hit, Pool};
use gpuwise_domain::request::{Outcome, Request};
use std::collections::VecDeque;

/// One rank of an engine.
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
    /// The step that runs.
    pub(super) current: Box<Step>,
    /// The step planned behind it.
    pub(super) next: Box<Step>,
    /// An empty one.
    pub(super) spare: Option<Box<Step>>,
    pub(super) sglang: SglangState,
    /// Running sequences of each adapter, [0] being the base model.
    pub(super) adapters: Vec<u32>,
    /// Adapters of those whose last token was planned last.
    ended: Vec<u16>,
    /// Sequences among the decodes that have yielded their last token, which nobody knows yet.
    pub(super) stopping: u32,
    /// Decodes that got no token in the step planned last.
    pub(super) behind: u32,
    /// Given up while they ran.
    given_up: Vec<(u32, u32)>,
    arrivals: u64,
    late: bool,
    /// KV blocks that running sequences will have when they end, less those that they have:
    /// TensorRT-LLM keeps them free.
    pub(super) promised: u64,
    /// Counts the plans.
    pub(super) turn: u64,
    /// Output tokens that running sequences are still to yield, and the uncomputed rest of prompts.
    pub(super) owed: u64,
    pub(super) counts: Counts,
    /// Scratch of plans.
    pub(super) scratch: Vec<u32>,
}

/// What a rank has done.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) prompt_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) preemptions: u64,
    /// Sequences that failed.
    pub(super) broken: u64,
}

/// What a plan is made with.
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
            given_up: Vec::new(),
            arrivals: 0,
            // SGLang asks whether a sequence has ended when its tokens are out, whatever ends it.
            late: settings.overlap
                && (settings.ends_by_stop || matches!(settings.policy, Policy::Sglang(_))),
            promised: 0,
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

    /// Most tokens that a request ever has in the cache.
    pub(super) fn most_tokens(&self, request: &Request) -> u64 {
        u64::from(request.input) + u64::from(self.wanted(request)) - u64::from(!self.late_ends())
    }

    /// Tokens that a request is to yield here.
    pub(super) fn wanted(&self, request: &Request) -> u32 {
        if self.settings.role == Role::Prefill {
            1
        } else {
            request.output
        }
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
                self.table.get_mut(slot).finish = NEVER;
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

    /// Whether the adapter of a waiting request has a place in the batch.
    pub(super) fn adapter_fits(&self, slot: u32) -> bool {
        let Some(most) = self.settings.max_adapters else {
            return true;
        };
        let adapter = usize::from(self.table.get(slot).request.adapter);
        let there = self.adapters.get(adapter).is_some_and(|count| *count > 0);
        let others = self
            .adapters
            .iter()
            .skip(1)
            .filter(|count| **count > 0)
            .count();
        adapter == 0 || there || others < most as usize
    }

    fn leave_adapter(&mut self, adapter: u16) {
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
        self.promised = self.promised.saturating_sub(blocks);
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

    /// A running sequence loses its place: it goes to the front of the queue and computes anew.
    pub(super) fn preempt<S: Sink>(&mut self, plan: &mut Plan<'_, S>, slot: u32) {
        self.lose_place(plan, slot, u64::MAX);
        self.waiting.push_front(&self.table, slot);
    }

    /// A running sequence goes back to the queue, where its caller puts it; of what it computed up to
    /// `kept` tokens can be found again.
    pub(super) fn lose_place<S: Sink>(&mut self, plan: &mut Plan<'_, S>, slot: u32, kept: u64) {
        self.leave_batch(slot);
        let turn = self.turn;
        let sequence = self.table.get_mut(slot);
        sequence.preemptions = sequence.preemptions.saturating_add(1);
        let mut tokens = u64::from(sequence.computed);
        if sequence.turn == turn && sequence.state != State::Draft {
            tokens += u64::from(sequence.planned);
        }
        sequence.drafted = 0;
        if let Some(mut holding) = sequence.holding.take() {
            let hashed = if sequence.state == State::Prefill {
                tokens
            } else {
                u64::from(sequence.computed)
            };
            self.pool.grown(&mut holding, tokens);
            self.pool.preempt(
                holding,
                &sequence.request,
                hashed.min(kept),
                sequence.number,
            );
        }
        if sequence.generated > 0 {
            plan.step.dropped.push((slot, sequence.generation));
        }
        let unread = sequence.unread();
        sequence.state = State::Waiting;
        sequence.computed = 0;
        sequence.turn = 0;
        sequence.goal = sequence.request.input + sequence.generated;
        self.owed += u64::from(sequence.goal) - unread;
        plan.sink.preempted(plan.now, sequence.number);
        self.counts.preemptions += 1;
    }

    /// Takes a sequence out of all lists of those that run.
    pub(super) fn leave_batch(&mut self, slot: u32) {
        match self.table.get(slot).state {
            State::Decode => {
                self.stopping -= u32::from(self.table.get(slot).finish == NEVER);
                self.decodes.leave(&mut self.table, slot);
            }
            State::Prefill => self.prefills.retain(|own| *own != slot),
            _ => {}
        }
        match &self.settings.policy {
            Policy::Sglang(_) => self.sglang.forget(slot),
            Policy::TensorRtLlm(rules) if rules.capacity == Capacity::GuaranteedNoEvict => {
                self.unpromise(slot);
            }
            _ => {}
        }
        self.table.stop(slot);
        let sequence = self.table.get_mut(slot);
        if sequence.behind {
            sequence.behind = false;
            self.behind -= 1;
        }
        if sequence.state != State::Ending {
            let adapter = sequence.request.adapter;
            self.leave_adapter(adapter);
        }
    }

    /// The steps that ran are over: their tokens come out at `now`, whose ends leave.
    pub(super) fn output<S: Sink>(&mut self, now: u64, steps: u64, sink: &mut S) {
        let blank = self.blank();
        let mut step = core::mem::replace(&mut self.current, blank);
        let tokens = steps * u64::from(step.tokens);
        self.counts.output_tokens += tokens;
        self.owed = self
            .owed
            .saturating_sub(tokens + u64::from(step.work.prefill));
        for &(slot, generation, tokens) in &step.read {
            if let Some(at) = self.table.place(slot, generation) {
                self.settle(at, tokens);
            }
        }
        for &(slot, generation) in &step.firsts {
            let Some(at) = self.table.place(slot, generation) else {
                continue;
            };
            let sequence = self.table.get_mut(at);
            if sequence.given_up {
                continue;
            }
            if sequence.first_token == NEVER {
                sequence.first_token = now;
                sink.first_token(now, sequence.number);
            } else {
                sink.gaps(now, now.saturating_sub(sequence.last_token), 1);
                sequence.last_token = NEVER;
            }
        }
        for &(slot, generation) in &step.late {
            if let Some(at) = self.table.place(slot, generation) {
                let sequence = self.table.get_mut(at);
                sink.gaps(now, now.saturating_sub(sequence.last_token), 1);
                sequence.last_token = NEVER;
            }
        }
        for &(since, count) in &step.stalled {
            sink.gaps(now, now.saturating_sub(since), count);
        }
        let in_order = matches!(self.settings.policy, Policy::Vllm(_));
        if in_order && step.ending.len() > 1 && !step.firsts.is_empty() {
            step.ending
                .sort_by_key(|(slot, _)| self.table.get(*slot).order);
        }
        for &(slot, generation) in &step.ending {
            if self.table.place(slot, generation).is_some() {
                self.end(slot, now, sink);
            }
        }
        step.clear();
        self.spare = Some(step);
    }

    /// What was computed of a prompt can be found from now on.
    fn settle(&mut self, slot: u32, tokens: u64) {
        let sequence = self.table.get_mut(slot);
        if let Some(holding) = &mut sequence.holding {
            let there = self.pool.extend(holding, &sequence.request, tokens);
            debug_assert!(there.is_ok(), "its blocks were taken");
        }
    }

    /// A sequence whose last token is out leaves.
    fn end<S: Sink>(&mut self, slot: u32, now: u64, sink: &mut S) {
        match self.table.get(slot).state {
            State::Ending | State::Decode | State::Draft => {
                self.leave_batch(slot);
                self.sglang.left(self.table.get(slot).wanted <= 1);
            }
            State::Waiting => {
                self.waiting.left(&self.table, slot);
                self.forget(slot);
            }
            _ => return,
        }
        let hold = self.settings.role == Role::Prefill && !self.table.get(slot).given_up;
        if hold {
            self.table.get_mut(slot).state = State::Held;
        } else {
            self.free(slot);
        }
        if !self.table.get(slot).given_up {
            let done = self.done(slot, now, Outcome::Completed);
            sink.ended(done);
        }
        if !hold {
            self.table.vacate(slot);
        }
    }

    /// Gives back the blocks of a sequence that is in no batch.
    fn free(&mut self, slot: u32) {
        let sequence = self.table.get_mut(slot);
        if let Some(holding) = sequence.holding.take() {
            self.pool
                .release(holding, &sequence.request, u64::from(sequence.computed));
        }
    }

    /// What is told of a sequence that is over; its request goes along.
    fn done(&mut self, slot: u32, now: u64, outcome: Outcome) -> Done {
        let ticket = self.table.get(slot).ticket(self.index, slot);
        let held = self.table.get(slot).state == State::Held;
        let sequence = self.table.get_mut(slot);
        let request = if held {
            sequence.request.clone()
        } else {
            core::mem::take(&mut sequence.request)
        };
        let known = |time: u64| (time != NEVER).then_some(time);
        Done {
            number: sequence.number,
            ticket,
            request,
            submitted: sequence.submitted,
            scheduled: known(sequence.scheduled),
            first_token: known(sequence.first_token),
            end: now,
            generated: sequence.generated.min(sequence.wanted),
            cached: sequence.cached,
            preemptions: sequence.preemptions,
            outcome,
        }
    }

    /// A client gives a request up. What it holds in the batch goes at the next turn of the loop.
    /// `ahead` tokens of a decode are out beyond those of the steps that were planned to be.
    pub(super) fn cancel(&mut self, slot: u32, now: u64, ahead: i64) -> Option<Done> {
        let sequence = self.table.get(slot);
        let state = sequence.state;
        if sequence.given_up || matches!(state, State::Vacant | State::Held) {
            return None;
        }
        if state == State::Decode {
            let computed = i64::from(self.decodes.computed(sequence.base));
            let out = computed + 1 - i64::from(sequence.request.input) + ahead;
            let generated = if sequence.first_token == NEVER {
                0
            } else {
                out.max(1)
            };
            self.table.get_mut(slot).generated = generated as u32;
        }
        match state {
            State::Waiting => self.waiting.left(&self.table, slot),
            State::Loading | State::Loaded => self.free(slot),
            _ => {
                let sequence = self.table.get_mut(slot);
                sequence.given_up = true;
                let request = sequence.request.clone();
                let entry = (slot, sequence.generation);
                let done = self.done(slot, now, Outcome::TimedOut);
                self.table.get_mut(slot).request = request;
                self.given_up.push(entry);
                return Some(done);
            }
        }
        self.forget(slot);
        let done = self.done(slot, now, Outcome::TimedOut);
        self.table.vacate(slot);
        Some(done)
    }

    /// A running sequence fails.
    pub(super) fn break_off<S: Sink>(&mut self, plan: &mut Plan<'_, S>, slot: u32) {
        self.counts.broken += 1;
        self.leave_batch(slot);
        self.forget(slot);
        self.free(slot);
        if !self.table.get(slot).given_up {
            let done = self.done(slot, plan.now, Outcome::Failed);
            plan.sink.ended(done);
        }
        self.table.vacate(slot);
    }

    /// What a sequence is not to compute and to yield any more.
    fn forget(&mut self, slot: u32) {
        let sequence = self.table.get(slot);
        let rest =
            sequence.unread() + u64::from(sequence.wanted.saturating_sub(sequence.generated));
        self.owed = self.owed.saturating_sub(rest);
    }

    /// The turn of the loop: what was given up leaves.
    pub(super) fn turn_over(&mut self) {
        while let Some((slot, generation)) = self.given_up.pop() {
            if self.table.place(slot, generation).is_none() {
                continue;
            }
            if self.table.get(slot).state == State::Waiting {
                self.waiting.left(&self.table, slot);
            } else {
                self.leave_batch(slot);
            }
            self.forget(slot);
            self.free(slot);
            self.table.vacate(slot);
        }
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

    /// Whether a request that came may be in the next plan, where the others could not.
    pub(super) fn may_join(&mut self, slot: u32) -> bool {
        if self.settings.max_adapters.is_some() {
            return true;
        }
        if let Policy::Sglang(_) = self.settings.policy {
            return !self.sglang.closed();
        }
        self.table.running() < self.settings.max_sequences
            && self.waiting.head(&self.table) == Some(slot)
    }

    /// Whether it has nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.table.running() == 0 && self.waiting.count() == 0 && self.loaded.is_empty()
    }

    /// Whether a request can be in no step, even alone.
    pub(super) fn never_joins(&self, request: &Request) -> bool {
        let (input, wanted) = (u64::from(request.input), u64::from(self.wanted(request)));
        let budget = u64::from(self.settings.max_batched_tokens);
        let cache = &self.settings.cache;
        match &self.settings.policy {
            Policy::Vllm(rules) => !rules.chunked_prefill && self.most_tokens(request) > budget,
            Policy::Sglang(rules) => {
                input + wanted >= self.pool.total() * u64::from(cache.block_tokens)
                    || rules
                        .chunked_prefill
                        .is_some_and(|chunk| chunk < cache.block_tokens)
            }
            Policy::TensorRtLlm(rules) => {
                let most = match rules.capacity {
                    Capacity::GuaranteedNoEvict => input,
                    Capacity::MaxUtilization => input + wanted,
                };
                let chunks = rules.chunked_context && budget >= u64::from(cache.block_tokens);
                self.pool.blocks_for(input + wanted) > self.pool.total()
                    || (most > budget && !chunks)
            }
        }
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

    /// The cache of a prompt that ended here has been pulled.
    pub(super) fn release_remote(&mut self, slot: u32, generation: u32) {
        if let Some(at) = self.table.place(slot, generation)
            && self.table.get(at).state == State::Held
        {
            self.free(at);
            self.table.vacate(at);
        }
    }

    /// The engine dies: all requests end, the cache is lost.
    pub(super) fn fail<S: Sink>(&mut self, now: u64, sink: &mut S) {
        let slots: Vec<u32> = self.table.occupied().collect();
        for slot in slots {
            let sequence = self.table.get(slot);
            if sequence.state != State::Held && !sequence.given_up {
                let done = self.done(slot, now, Outcome::Failed);
                sink.ended(done);
            }
            self.table.vacate(slot);
        }
        self.table.stop_all();
        self.waiting.clear();
        self.loaded.clear();
        self.decodes.clear();
        self.prefills.clear();
        self.pool = Pool::new(self.settings.cache);
        self.current.clear();
        self.next.clear();
        self.sglang = SglangState::new(&self.settings.policy);
        self.adapters.clear();
        self.ended.clear();
        self.given_up.clear();
        self.stopping = 0;
        self.promised = 0;
        self.behind = 0;
        self.owed = 0;
    }

    /// Tokens that it has still to compute and to yield for all requests.
    pub(super) fn owed(&self) -> u64 {
        self.owed
    }

    /// Prompt tokens that are not computed.
    pub(super) fn unread(&self) -> u64 {
        let running: u64 = self
            .prefills
            .iter()
            .map(|slot| self.table.get(*slot).unread())
            .sum();
        self.waiting.tokens() + running
    }

    /// The running sequence that loses its place first, in the order of joining.
    pub(super) fn latest(&self) -> Option<u32> {
        Some(self.table.last()).filter(|slot| *slot != NONE)
    }
}

//! How sequences leave the batch: by their end, preempted or aborted.

use super::{
    memory::SglangState,
    rank::{Plan, Rank},
    sequence::{NEVER, State},
    settings::{Capacity, Policy, Role},
    sink::{Done, Sink},
};
use crate::cache::Pool;
use gpuwise_domain::request::Outcome;

impl Rank {
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
                self.release_reserved(slot);
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
            if sequence.aborted {
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
        let hold = self.settings.role == Role::Prefill && !self.table.get(slot).aborted;
        if hold {
            self.table.get_mut(slot).state = State::Held;
        } else {
            self.free(slot);
        }
        if !self.table.get(slot).aborted {
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
        if sequence.aborted || matches!(state, State::Vacant | State::Held) {
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
                sequence.aborted = true;
                let request = sequence.request.clone();
                let entry = (slot, sequence.generation);
                let done = self.done(slot, now, Outcome::TimedOut);
                self.table.get_mut(slot).request = request;
                self.aborted.push(entry);
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
        if !self.table.get(slot).aborted {
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
        while let Some((slot, generation)) = self.aborted.pop() {
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
            if sequence.state != State::Held && !sequence.aborted {
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
        self.aborted.clear();
        self.stopping = 0;
        self.reserved = 0;
        self.behind = 0;
        self.owed = 0;
    }
}

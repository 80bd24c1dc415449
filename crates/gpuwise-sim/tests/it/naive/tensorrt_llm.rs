//! TensorRT-LLM, sequence by sequence.

use super::{Batch, Rank, Sequence, Share};
use gpuwise_sim::engine::{Capacity, TensorRtLlmRules};

impl Rank {
    fn blocks_of(&self, tokens: u64) -> u64 {
        tokens.div_ceil(u64::from(self.settings.cache.block_tokens))
    }

    pub(super) fn plan_tensorrt_llm(&mut self, rules: &TensorRtLlmRules) -> Batch {
        let mut batch = Vec::new();
        let paused = self.pause();
        let mut budget = u64::from(self.settings.max_batched_tokens);
        for at in 0..self.running.len() {
            if !self.decodes(&self.running[at]) {
                continue;
            }
            let one = &mut self.running[at];
            assert!(self.pool.grow(&mut one.holding, one.computed + 1));
            batch.push(Share {
                number: one.number,
                tokens: 1,
                before: one.computed,
                yields: true,
                decode: true,
                drafts: None,
            });
            budget -= 1;
        }
        let mut reading: Vec<usize> = (0..self.running.len())
            .filter(|at| self.running[*at].reading)
            .collect();
        reading.sort_by_key(|at| self.running[*at].arrival);
        let mut open = true;
        for at in reading {
            let one = &self.running[at];
            let left = one.tokens() - one.computed;
            let some = self.part(rules, left, budget);
            open &= some > 0;
            if open {
                let (number, before) = (one.number, one.computed);
                batch.push(Share {
                    number,
                    tokens: some,
                    before,
                    yields: some == left,
                    decode: false,
                    drafts: None,
                });
                budget -= some;
            }
        }
        while open && !paused && self.start(rules, &mut budget, &mut batch) {}
        for share in &batch {
            let one = self
                .running
                .iter_mut()
                .find(|own| own.number == share.number)
                .expect("it runs");
            one.computed += share.tokens;
            one.generated += u64::from(share.yields);
            one.reading &= !share.yields;
        }
        batch
    }

    fn decodes(&self, own: &Sequence) -> bool {
        !own.reading && !self.ends(own)
    }

    /// The latest arrivals lose their places while the next step does not fit.
    fn pause(&mut self) -> bool {
        let mut paused = false;
        loop {
            let begins = |own: &&Sequence| {
                self.decodes(own) && self.blocks_of(own.computed + 1) > self.blocks_of(own.computed)
            };
            if self.running.iter().filter(begins).count() as u64 <= self.pool.free() {
                break;
            }
            let open = (0..self.running.len()).filter(|at| !self.ends(&self.running[*at]));
            let last = open
                .max_by_key(|at| self.running[*at].arrival)
                .expect("one decodes");
            let mut victim = self.running.remove(last);
            let holding = std::mem::take(&mut victim.holding);
            self.pool
                .release(holding, &victim.request, victim.number, victim.computed);
            victim.computed = 0;
            victim.preemptions += 1;
            self.greatest.preemptions += 1;
            self.waiting.push_front(victim);
            paused = true;
        }
        paused
    }

    fn part(&self, rules: &TensorRtLlmRules, left: u64, budget: u64) -> u64 {
        let page = u64::from(self.settings.cache.block_tokens);
        match (left <= budget, rules.chunked_context) {
            (true, _) => left,
            (false, true) => budget / page * page,
            (false, false) => 0,
        }
    }

    fn start(&mut self, rules: &TensorRtLlmRules, budget: &mut u64, batch: &mut Batch) -> bool {
        if self.waiting.is_empty() || self.running.len() >= self.settings.max_sequences as usize {
            return false;
        }
        let one = &self.waiting[0];
        let (blocks, free) = self.pool.find(&one.request, one.number, one.tokens());
        let found = blocks * u64::from(self.settings.cache.block_tokens);
        let whole = |own: &Sequence| u64::from(own.request.input) + u64::from(own.request.output);
        // Blocks that those that run will have, less those that they have: all of a prompt at once.
        let has = |own: &Sequence| own.holding.blocks();
        let promised: u64 = self
            .running
            .iter()
            .map(|own| self.blocks_of(whole(own)) - has(own))
            .sum();
        let (held, kept) = match rules.capacity {
            Capacity::GuaranteedNoEvict => (whole(one), promised),
            Capacity::MaxUtilization => (one.tokens(), 0),
        };
        let needed = self.blocks_of(held) - blocks + free;
        let left = one.tokens() - found;
        let some = self.part(rules, left, *budget);
        if needed + kept > self.pool.free() || some == 0 {
            return false;
        }
        let mut one = self.waiting.pop_front().expect("it waits");
        one.holding = self.pool.hold(&one.request, one.number, one.tokens());
        let tokens = one.tokens();
        assert!(self.pool.grow(&mut one.holding, tokens));
        one.computed = found;
        one.reading = true;
        one.cached.get_or_insert(found);
        one.scheduled.get_or_insert(self.now);
        *budget -= some;
        batch.push(Share {
            number: one.number,
            tokens: some,
            before: found,
            yields: some == left,
            decode: false,
            drafts: None,
        });
        self.running.push(one);
        true
    }
}

//! vLLM V1, sequence by sequence.

use super::{Batch, Rank, Share};
use gpuwise_sim::engine::VllmRules;

/// A step in the making.
struct Making {
    budget: u64,
    batch: Batch,
    preempted: bool,
}

impl Rank {
    pub(super) fn plan_vllm(&mut self, rules: &VllmRules) -> Batch {
        let mut making = Making {
            budget: u64::from(self.settings.max_batched_tokens),
            batch: Vec::new(),
            preempted: false,
        };
        let threshold = self.threshold(rules);
        let mut at = 0;
        while at < self.running.len() && making.budget > 0 {
            let sequence = &self.running[at];
            let drafts = self.settings.speculation.filter(|_| !sequence.reading);
            let left = match drafts {
                Some(own) => 1 + u64::from(own.drafts),
                None => sequence.tokens() - sequence.computed,
            };
            let threshold = if drafts.is_some() {
                u64::MAX
            } else {
                threshold
            };
            let more = left.min(threshold).min(making.budget);
            let wanted = u64::from(sequence.request.output);
            let yields_last =
                drafts.is_some() && sequence.drafted > 0 && sequence.generated + 1 >= wanted;
            let late = self.settings.overlap && self.settings.ends_by_stop;
            if more == 0 || self.ends(sequence) || (yields_last && !late) {
                at += 1;
                continue;
            }
            let number = sequence.number;
            if !self.allocate(number, more, rules, &mut making) {
                break;
            }
            at = self
                .running
                .iter()
                .position(|own| own.number == number)
                .expect("it runs");
            let sequence = &self.running[at];
            making.batch.push(Share {
                number,
                tokens: more,
                before: sequence.computed + sequence.drafted,
                yields: more == left && drafts.is_none(),
                decode: !sequence.reading,
                drafts: drafts.map(|_| sequence.joined),
            });
            making.budget -= more;
            at += 1;
        }
        if !making.preempted {
            self.admit_vllm(rules, &mut making);
        }
        for share in &making.batch {
            let sequence = self
                .running
                .iter_mut()
                .find(|own| own.number == share.number)
                .expect("it runs");
            if share.drafts.is_some() {
                sequence.drafted += share.tokens;
                continue;
            }
            sequence.computed += share.tokens;
            sequence.generated += u64::from(share.yields);
            sequence.reading &= !share.yields;
        }
        making.batch
    }

    fn threshold(&self, rules: &VllmRules) -> u64 {
        let alone = self.running.len() + self.waiting.len() == 1;
        match rules.long_prefill_threshold {
            0 => u64::MAX,
            _ if alone => u64::MAX,
            some => u64::from(some),
        }
    }

    /// Blocks for a running sequence, at the cost of others; false if it lost its own place.
    fn allocate(&mut self, number: u64, more: u64, rules: &VllmRules, making: &mut Making) -> bool {
        loop {
            let one = self
                .running
                .iter_mut()
                .find(|own| own.number == number)
                .expect("it runs");
            let most = u64::from(one.request.input) + u64::from(one.request.output)
                - u64::from(!(self.settings.overlap && self.settings.ends_by_stop));
            let all = (one.computed + one.drafted + more).min(most);
            // Full blocks of prompts are found at once, those of answers when they are let go.
            let enough = if one.reading {
                self.pool
                    .extend(&mut one.holding, &one.request, number, all)
            } else {
                self.pool.grow(&mut one.holding, all)
            };
            if enough {
                return true;
            }
            making.preempted = true;
            let at = if rules.priority {
                let key = |at: &usize| {
                    (
                        self.running[*at].request.priority,
                        self.running[*at].arrival,
                    )
                };
                (0..self.running.len()).max_by_key(key).expect("one runs")
            } else {
                self.running.len() - 1
            };
            let mut victim = self.running.remove(at);
            let mut computed = victim.computed;
            if let Some(at) = making
                .batch
                .iter()
                .position(|share| share.number == victim.number)
            {
                let share = making.batch.remove(at);
                making.budget += share.tokens;
                computed += if victim.reading { share.tokens } else { 0 };
            }
            let holding = std::mem::take(&mut victim.holding);
            self.pool
                .release(holding, &victim.request, victim.number, computed);
            victim.computed = 0;
            victim.drafted = 0;
            victim.preemptions += 1;
            self.greatest.preemptions += 1;
            let own = victim.number == number;
            self.waiting.push_front(victim);
            if own {
                return false;
            }
        }
    }

    fn admit_vllm(&mut self, rules: &VllmRules, making: &mut Making) {
        let watermark = (rules.watermark * self.total as f64) as u64;
        let mut aside = Vec::new();
        while making.budget > 0 && self.running.len() < self.settings.max_sequences as usize {
            let first = if rules.priority {
                let key = |at: &usize| {
                    (
                        self.waiting[*at].request.priority,
                        self.waiting[*at].arrival,
                    )
                };
                (0..self.waiting.len()).min_by_key(key)
            } else {
                (!self.waiting.is_empty()).then_some(0)
            };
            let Some(at) = first else { break };
            if !self.adapter_fits(self.waiting[at].request.adapter) {
                aside.extend(self.waiting.remove(at));
                continue;
            }
            let threshold = self.threshold(rules);
            let one = &self.waiting[at];
            let (blocks, free) = self.pool.find(&one.request, one.number, one.tokens());
            let found = blocks * u64::from(self.settings.cache.block_tokens);
            let left = one.tokens() - found;
            let some = left.min(threshold);
            if !rules.chunked_prefill && some > making.budget {
                break;
            }
            let some = some.min(making.budget);
            let held = if rules.reserve_full_prompt {
                one.tokens()
            } else {
                found + some
            };
            let needed = held.div_ceil(u64::from(self.settings.cache.block_tokens)) - blocks + free;
            let kept = if self.running.is_empty() {
                0
            } else {
                watermark
            };
            if needed + kept > self.pool.free() {
                break;
            }
            let mut one = self.waiting.remove(at).expect("found");
            one.holding = self.pool.hold(&one.request, one.number, one.tokens());
            assert!(
                self.pool
                    .extend(&mut one.holding, &one.request, one.number, found + some)
            );
            one.computed = found;
            one.reading = true;
            one.joined += 1;
            one.cached.get_or_insert(found);
            one.scheduled.get_or_insert(self.now);
            making.budget -= some;
            making.batch.push(Share {
                number: one.number,
                tokens: some,
                before: found,
                yields: some == left,
                decode: false,
                drafts: None,
            });
            self.running.push(one);
        }
        for one in aside.into_iter().rev() {
            self.waiting.push_front(one);
        }
    }

    fn adapter_fits(&self, adapter: u16) -> bool {
        let Some(most) = self.settings.max_adapters else {
            return true;
        };
        let mut others: Vec<u16> = self
            .running
            .iter()
            .filter(|own| !self.ends(own) && own.request.adapter != 0)
            .map(|own| own.request.adapter)
            .collect();
        others.sort_unstable();
        others.dedup();
        adapter == 0 || others.contains(&adapter) || others.len() < most as usize
    }
}

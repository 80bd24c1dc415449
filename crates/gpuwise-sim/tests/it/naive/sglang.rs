//! SGLang, sequence by sequence.

use super::{Batch, Rank, Sequence, Share};
use gpuwise_sim::engine::{SglangOrder, SglangRules};

/// What the rules remember.
#[derive(Debug, Default)]
pub(super) struct Memory {
    from: f64,
    steps: u64,
    chunked: Option<u64>,
    full: bool,
    pub(super) left: bool,
    started: bool,
}

impl Memory {
    /// A sequence left.
    pub(super) fn left(&mut self, at_once: bool) {
        self.left = true;
        self.full &= !at_once;
    }
}

/// A step of prompts in the making, in tokens.
struct Making {
    batch: Batch,
    offset: f64,
    input: i64,
    chunk: i64,
}

impl Rank {
    fn ratios(rules: &SglangRules) -> (f64, f64, f64) {
        let first = (rules.initial_ratio * rules.conservativeness).min(1.0);
        let least = (first * rules.least_ratio).min(1.0);
        (first, least, (first - least) / f64::from(rules.ratio_steps))
    }

    fn decoding(&self) -> usize {
        self.running.iter().filter(|own| !own.reading).count()
    }

    fn needed_by_decodes(&self) -> u64 {
        let page = u64::from(self.settings.cache.block_tokens);
        let begins = |own: &&Sequence| !own.reading && own.computed.is_multiple_of(page);
        self.running.iter().filter(begins).count() as u64
    }

    pub(super) fn plan_sglang(&mut self, rules: &SglangRules) -> Batch {
        let (first, least, decay) = Self::ratios(rules);
        if !self.sglang.started || (self.running.is_empty() && self.waiting.is_empty()) {
            self.sglang.from = first;
            self.sglang.steps = 0;
            self.sglang.started = true;
        }
        if self.running.is_empty() && self.waiting.is_empty() {
            return Vec::new();
        }
        if self.decoding() == 0 {
            self.sglang.full = false;
        }
        let ratio = (self.sglang.from - decay * self.sglang.steps as f64).max(least);
        let mut batch = self.prompts(rules, if rules.ignore_end { 1.0 } else { ratio });
        if batch.is_empty() {
            batch = self.decode_step(rules);
        }
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

    fn total(&self, making: &Making) -> f64 {
        (self.pool.free() * u64::from(self.settings.cache.block_tokens)) as f64 - making.offset
    }

    fn prompts(&mut self, rules: &SglangRules, ratio: f64) -> Batch {
        let decoding = self.decoding();
        let most = self.settings.max_sequences as usize;
        let clip = u64::from(rules.output_clip);
        if self.sglang.chunked.is_none() {
            if self.sglang.full || self.waiting.is_empty() {
                return Vec::new();
            }
            if decoding >= most {
                self.sglang.full = true;
                return Vec::new();
            }
        }
        let rest = |own: &Sequence| {
            u64::from(own.request.output)
                .saturating_sub(own.generated)
                .min(clip)
        };
        let remaining: u64 = self
            .running
            .iter()
            .filter(|own| !own.reading)
            .map(rest)
            .sum();
        let mixed = if rules.mixed_chunk {
            i64::try_from(decoding).expect("few")
        } else {
            0
        };
        let mut making = Making {
            batch: Vec::new(),
            offset: ratio * remaining as f64 + mixed as f64,
            input: i64::from(self.settings.max_batched_tokens) - mixed,
            chunk: rules
                .chunked_prefill
                .map_or(i64::MAX, |own| i64::from(own) - mixed),
        };
        let mut open = true;
        if let Some(number) = self.sglang.chunked {
            open = self.read_on(&mut making, number, clip);
        }
        if open {
            self.order(rules);
        }
        while open && !self.waiting.is_empty() {
            if decoding + making.batch.len() >= most {
                self.sglang.full = true;
                break;
            }
            open = self.let_in(&mut making, clip);
        }
        if !making.batch.is_empty()
            && rules.mixed_chunk
            && self.needed_by_decodes() <= self.pool.free()
        {
            let all = self.decode_shares();
            making.batch.extend(all);
        }
        making.batch
    }

    /// The prompt that is computed in chunks goes on; true if others may follow.
    fn read_on(&mut self, making: &mut Making, number: u64, clip: u64) -> bool {
        let page = u64::from(self.settings.cache.block_tokens);
        let fits = making.chunk.min(self.total(making) as i64);
        let fits = if fits <= 0 { making.chunk } else { fits };
        let free = self.pool.free();
        let one = self
            .running
            .iter_mut()
            .find(|own| own.number == number)
            .expect("it runs");
        let there = (one.computed.div_ceil(page) + free) * page - one.computed;
        let left = one.tokens() - one.computed;
        let some = left.min(there).cast_signed().min(fits);
        if some <= 0 {
            return false;
        }
        let some = some.cast_unsigned();
        assert!(self.pool.grow(&mut one.holding, one.computed + some));
        let one = one.clone();
        self.give(making, &one, some, clip);
        self.sglang.chunked.is_none() && !self.is_over(making)
    }

    /// The head of the queue joins if it can; true if others may follow.
    fn let_in(&mut self, making: &mut Making, clip: u64) -> bool {
        let page = u64::from(self.settings.cache.block_tokens);
        let one = &self.waiting[0];
        let (blocks, free) = self.pool.find(&one.request, one.number, one.tokens());
        let left = one.tokens() - blocks * page;
        let rest = u64::from(one.request.output) - one.generated;
        if (left + rest.min(clip)) as f64 >= self.total(making) - (free * page) as f64 {
            self.sglang.full = true;
            return false;
        }
        let paged = left.next_multiple_of(page).cast_signed();
        if paged >= making.input && !making.batch.is_empty() {
            return false;
        }
        let some = if paged <= making.chunk {
            left
        } else {
            making.chunk.max(0).cast_unsigned() / page * page
        };
        if some == 0 {
            return false;
        }
        let mut one = self.waiting.pop_front().expect("it waits");
        one.holding = self.pool.hold(&one.request, one.number, one.tokens());
        one.computed = blocks * page;
        assert!(self.pool.grow(&mut one.holding, one.computed + some));
        one.reading = true;
        one.cached.get_or_insert(one.computed);
        one.scheduled.get_or_insert(self.now);
        self.running.push(one.clone());
        self.give(making, &one, some, clip);
        self.sglang.chunked.is_none() && !self.is_over(making)
    }

    fn is_over(&self, making: &Making) -> bool {
        self.total(making) <= 0.0 || making.input <= 0 || making.chunk <= 0
    }

    fn give(&mut self, making: &mut Making, one: &Sequence, some: u64, clip: u64) {
        let page = u64::from(self.settings.cache.block_tokens);
        let yields = one.computed + some == one.tokens();
        making.batch.push(Share {
            number: one.number,
            tokens: some,
            before: one.computed,
            yields,
            decode: false,
            drafts: None,
        });
        let paged = some.next_multiple_of(page).cast_signed();
        making.input -= paged;
        making.chunk -= paged;
        if yields {
            making.offset += (u64::from(one.request.output) - one.generated).min(clip) as f64;
        }
        self.sglang.chunked = (!yields).then_some(one.number);
    }

    fn order(&mut self, rules: &SglangRules) {
        let SglangOrder::LongestPrefix { until } = rules.order else {
            return;
        };
        if self.waiting.len() > until as usize {
            return;
        }
        let mut leaders: Vec<Sequence> = Vec::new();
        let mut keyed = Vec::new();
        for one in std::mem::take(&mut self.waiting) {
            let (blocks, _) = self.pool.find(&one.request, one.number, one.tokens());
            let found = blocks * u64::from(self.settings.cache.block_tokens);
            let mut follows = false;
            if found <= 32 {
                follows = leaders.iter().any(|own| shared(own, &one) >= 32);
                if !follows {
                    leaders.push(one.clone());
                }
            }
            keyed.push(((follows, u64::MAX - found), one));
        }
        keyed.sort_by_key(|(key, _)| *key);
        self.waiting = keyed.into_iter().map(|(_, one)| one).collect();
    }

    fn decode_shares(&mut self) -> Batch {
        let mut batch = Vec::new();
        for one in self.running.iter_mut().filter(|own| !own.reading) {
            if batch.iter().any(|share: &Share| share.number == one.number) {
                continue;
            }
            assert!(self.pool.grow(&mut one.holding, one.computed + 1));
            batch.push(Share {
                number: one.number,
                tokens: 1,
                before: one.computed,
                yields: true,
                decode: true,
                drafts: None,
            });
        }
        batch
    }

    fn decode_step(&mut self, rules: &SglangRules) -> Batch {
        if self.sglang.left {
            self.sglang.left = false;
            self.sglang.full = false;
        }
        if self.needed_by_decodes() <= self.pool.free() {
            self.sglang.steps += 1;
            return self.decode_shares();
        }
        // Descending by (output, -prompt), the last loses its place first.
        let mut order: Vec<&Sequence> = self.running.iter().filter(|own| !own.reading).collect();
        order.sort_by_key(|own| std::cmp::Reverse((own.generated, -i64::from(own.request.input))));
        let mut numbers: Vec<u64> = order.iter().map(|own| own.number).collect();
        while numbers.len() > 1 && self.needed_by_decodes() > self.pool.free() {
            let number = numbers.pop().expect("more than one");
            let mut victim = self.take_out(number);
            let holding = std::mem::take(&mut victim.holding);
            let kept = victim.computed.min(u64::from(victim.request.input));
            self.pool.release(holding, &victim.request, number, kept);
            victim.computed = 0;
            victim.preemptions += 1;
            self.greatest.preemptions += 1;
            self.waiting.push_back(victim);
        }
        if self.needed_by_decodes() > self.pool.free() {
            let number = numbers.pop().expect("one");
            let broken = self.take_out(number);
            self.pool
                .release(broken.holding, &broken.request, number, broken.computed);
            self.broken.push(number);
        }
        let left: Vec<&Sequence> = self
            .running
            .iter()
            .filter(|own| numbers.contains(&own.number))
            .collect();
        let yielded: u64 = left.iter().map(|own| own.generated).sum();
        let wanted: u64 = left.iter().map(|own| u64::from(own.request.output)).sum();
        let ahead = u64::from(rules.retract_steps) * left.len() as u64;
        self.sglang.from = ((yielded + ahead) as f64 / (wanted + 1) as f64).min(1.0);
        self.sglang.steps = 0;
        self.sglang.full = false;
        self.decode_shares()
    }

    fn take_out(&mut self, number: u64) -> Sequence {
        let at = self
            .running
            .iter()
            .position(|own| own.number == number)
            .expect("it runs");
        self.running.remove(at)
    }
}

fn shared(one: &Sequence, other: &Sequence) -> u64 {
    let (a, b) = (
        one.request.prefix.as_deref(),
        other.request.prefix.as_deref(),
    );
    let pairs = a.unwrap_or_default().iter().zip(b.unwrap_or_default());
    let equal =
        pairs.take_while(|(own, that)| own == that && one.request.adapter == other.request.adapter);
    equal.map(|(own, _)| u64::from(own.tokens)).sum()
}

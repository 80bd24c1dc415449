//! The block pool against the naive one, operation by operation.

use crate::{
    cache::request,
    naive_pool::{NaiveHolding, NaivePool},
};
use gpuwise_domain::request::{Request, Segment};
use gpuwise_sim::cache::{Holding, Pool, PoolSettings};
use proptest::prelude::*;
use std::collections::VecDeque;

/// One thing that an engine does.
#[derive(Debug, Clone)]
enum Act {
    /// Lets a request in, with so many tokens of its prompt beyond what is found.
    Admit(usize, u64),
    /// A further chunk of some prompt.
    Chunk(usize, u64),
    /// A token more for all whose prompt is computed.
    Decode,
    Release(usize),
    Preempt(usize),
    Resume(usize, u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (any::<usize>(), 1..60_u64).prop_map(|(which, chunk)| Act::Admit(which, chunk)),
        3 => (any::<usize>(), 1..40_u64).prop_map(|(which, chunk)| Act::Chunk(which, chunk)),
        3 => Just(Act::Decode),
        3 => any::<usize>().prop_map(Act::Release),
        1 => any::<usize>().prop_map(Act::Preempt),
        2 => (any::<usize>(), 1..60_u64).prop_map(|(which, chunk)| Act::Resume(which, chunk)),
    ];
    prop::collection::vec(act, 1..60)
}

/// Tokens of a content: equal names are mostly equally long.
fn length(content: u64) -> u32 {
    [16, 5, 23, 8, 1, 32, 11, 4][content as usize % 8]
}

fn prompts() -> impl Strategy<Value = Vec<Request>> {
    let segment =
        (0..6_u64, prop::option::weighted(0.1, 0..20_u32)).prop_map(|(content, other)| Segment {
            content,
            tokens: other.unwrap_or(length(content)),
        });
    let prompt = (
        prop::collection::vec(segment, 0..5),
        prop_oneof![Just(0_u32), 0..30_u32],
        prop::option::of(0..6_u64),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(segments, own, answer, adapter)| {
            let shared: u32 = segments.iter().map(|segment| segment.tokens).sum();
            Request {
                // Some prompts are shorter than their segments.
                input: (shared + own)
                    .saturating_sub(u32::from(own == 29) * 20)
                    .max(1),
                output: answer.map_or(9, length),
                prefix: (!segments.is_empty()).then(|| segments.into()),
                answer,
                adapter: u16::from(adapter),
                ..Request::default()
            }
        });
    prop::collection::vec(prompt, 1..8)
}

/// A request with its blocks in both pools.
struct Running {
    which: usize,
    number: u64,
    tokens: u64,
    /// Tokens that are to be computed: the prompt, and the output before it lost its place.
    target: u64,
    fast: Holding,
    naive: NaiveHolding,
}

/// The last token of an answer is never computed.
fn most_tokens(prompt: &Request) -> u64 {
    u64::from(prompt.input) + u64::from(prompt.output) - 1
}

/// Both pools, driven alike.
struct Pair {
    prompts: Vec<Request>,
    fast: Pool,
    naive: NaivePool,
    running: Vec<Running>,
    /// Preempted: which prompt, number, tokens to compute.
    waiting: Vec<(usize, u64, u64)>,
    started: u64,
}

impl Pair {
    fn act(&mut self, act: &Act) {
        match *act {
            Act::Admit(which, chunk) => {
                let which = which % self.prompts.len();
                self.started += 1;
                let target = u64::from(self.prompts[which].input);
                self.admit(which, self.started, target, false, chunk);
            }
            Act::Resume(which, chunk) if !self.waiting.is_empty() => {
                let (which, number, target) = self.waiting.remove(which % self.waiting.len());
                self.admit(which, number, target, true, chunk);
            }
            Act::Chunk(which, chunk) if !self.running.is_empty() => {
                let at = which % self.running.len();
                self.chunk(at, chunk);
            }
            Act::Decode => self.decode(),
            Act::Release(which) if !self.running.is_empty() => {
                let one = self.running.remove(which % self.running.len());
                let prompt = &self.prompts[one.which];
                self.fast.release(one.fast, prompt, one.tokens);
                self.naive
                    .release(one.naive, prompt, one.number, one.tokens);
            }
            Act::Preempt(which) if !self.running.is_empty() => {
                let one = self.running.remove(which % self.running.len());
                let prompt = &self.prompts[one.which];
                if one.tokens == most_tokens(prompt) {
                    self.fast.release(one.fast, prompt, one.tokens);
                    self.naive
                        .release(one.naive, prompt, one.number, one.tokens);
                    return;
                }
                self.fast.preempt(one.fast, prompt, one.tokens, one.number);
                self.naive
                    .release(one.naive, prompt, one.number, one.tokens);
                let target = one.target.max(one.tokens + 1);
                self.waiting.push((one.which, one.number, target));
            }
            _ => {}
        }
    }

    fn admit(&mut self, which: usize, number: u64, target: u64, resumed: bool, chunk: u64) {
        let prompt = &self.prompts[which];
        let hit = if resumed {
            self.fast.find_resumed(prompt, number, target as u32)
        } else {
            self.fast.find(prompt)
        };
        let fast = self.fast.hold(prompt, &hit);
        let naive = self.naive.hold(prompt, number, target);
        let tokens = u64::from(fast.found());
        assert_eq!(fast.found(), hit.tokens);
        self.running.push(Running {
            which,
            number,
            tokens,
            target,
            fast,
            naive,
        });
        self.chunk(self.running.len() - 1, chunk);
    }

    fn chunk(&mut self, at: usize, chunk: u64) {
        let one = &mut self.running[at];
        let prompt = &self.prompts[one.which];
        let target = (one.tokens + chunk).min(one.target);
        if one.tokens >= target {
            return;
        }
        let fits = self.fast.extend(&mut one.fast, prompt, target).is_ok();
        let naive = self
            .naive
            .extend(&mut one.naive, prompt, one.number, target);
        assert_eq!(fits, naive);
        if fits {
            one.tokens = target;
        }
    }

    fn decode(&mut self) {
        for one in &mut self.running {
            let most = most_tokens(&self.prompts[one.which]);
            if one.tokens < one.target || one.tokens == most {
                continue;
            }
            let blocks = self.fast.blocks_for(one.tokens + 1) - self.fast.blocks_for(one.tokens);
            let fits = self.fast.take(blocks);
            assert_eq!(fits, self.naive.grow(&mut one.naive, one.tokens + 1));
            if fits {
                one.tokens += 1;
                one.target = one.tokens;
            }
        }
    }

    fn compare(&mut self, after: &Act) {
        assert_eq!(self.fast.free(), self.naive.free(), "free after {after:?}");
        assert_eq!(self.fast.free() + self.fast.used(), self.fast.total());
        assert!(self.fast.is_consistent(), "after {after:?}");
        let held: u64 = self
            .running
            .iter()
            .map(|one| self.fast.blocks_for(one.tokens))
            .sum();
        assert_eq!(self.naive.holders(), held, "holders after {after:?}");
        for (which, prompt) in self.prompts.iter().enumerate() {
            let hit = self.fast.find(prompt);
            let naive = self.naive.find(prompt, u64::MAX, u64::from(prompt.input));
            assert_eq!(
                (hit.blocks, hit.free_blocks),
                naive,
                "prompt {which} after {after:?}"
            );
        }
        for &(which, number, target) in &self.waiting {
            let prompt = &self.prompts[which];
            let hit = self.fast.find_resumed(prompt, number, target as u32);
            let naive = self.naive.find(prompt, number, target);
            assert_eq!(
                (hit.blocks, hit.free_blocks),
                naive,
                "preempted {number} after {after:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_pool_is_the_naive_pool(
        prompts in prompts(),
        acts in acts(),
        block_tokens in prop::sample::select(vec![1_u32, 2, 4, 16]),
        size in 10..200_u64,
        caching in prop::bool::weighted(0.9),
        unhashed_first in any::<bool>(),
    ) {
        let blocks = (size / u64::from(block_tokens)).max(2);
        let mut pair = Pair {
            prompts,
            fast: Pool::new(PoolSettings {
                blocks,
                block_tokens,
                caching,
                null_block: false,
                unhashed_first,
            }),
            naive: NaivePool::new(
                blocks as usize,
                block_tokens as usize,
                caching,
                unhashed_first,
            ),
            running: Vec::new(),
            waiting: Vec::new(),
            started: 0,
        };
        for act in &acts {
            pair.act(act);
            pair.compare(act);
        }
        while !pair.running.is_empty() {
            pair.act(&Act::Release(0));
        }
        prop_assert_eq!(pair.fast.free(), pair.fast.total());
    }
}

/// Sessions of five turns over four system prompts, every third one with two samples of each turn;
/// turns of different sessions alternate.
fn sessions() -> Vec<Request> {
    let mut requests = Vec::new();
    for turn in 0..5_u64 {
        for session in 0..40_u64 {
            let user = |turn: u64| (1000 + session * 10 + turn, 20 + (session * 7 % 50) as u32);
            let answer = |turn: u64, sample: u64| 5000 + session * 100 + turn * 10 + sample;
            let mut segments = vec![(session % 4, 128)];
            for earlier in 0..turn {
                segments.extend([user(earlier), (answer(earlier, 0), 30)]);
            }
            segments.push(user(turn));
            for sample in 0..=u64::from(session % 3 == 0) {
                requests.push(Request {
                    output: 30,
                    answer: Some(answer(turn, sample)),
                    ..request(segments.iter().map(|one| one.1).sum(), &segments)
                });
            }
        }
    }
    requests
}

/// Tokens found by requests of which twelve at a time compute 48 tokens a step.
fn found_in_all(mut pool: NaivePool, requests: &[Request]) -> u64 {
    let mut found = 0;
    let mut running: VecDeque<(usize, u64, NaiveHolding)> = VecDeque::new();
    let mut next = 0;
    while next < requests.len() || !running.is_empty() {
        while running.len() < 12 && next < requests.len() {
            let tokens = u64::from(requests[next].input);
            let (blocks, _) = pool.find(&requests[next], next as u64, tokens);
            found += blocks * 16;
            let holding = pool.hold(&requests[next], next as u64, tokens);
            running.push_back((next, blocks * 16, holding));
            next += 1;
        }
        for _ in 0..running.len() {
            let (at, done, mut holding) = running.pop_front().expect("counted");
            let request = &requests[at];
            let target = (done + 48).min(u64::from(request.input));
            assert!(pool.extend(&mut holding, request, at as u64, target));
            if target < u64::from(request.input) {
                running.push_back((at, target, holding));
            } else {
                assert!(pool.grow(&mut holding, target + 29));
                pool.release(holding, request, at as u64, target + 29);
            }
        }
    }
    found
}

#[test]
fn finding_the_first_copy_alone_costs_little_of_what_is_found() {
    let requests = sessions();
    let asked: u64 = requests.iter().map(|one| u64::from(one.input)).sum();
    let check = |blocks: usize, at_least: f64| {
        let pool = NaivePool::new(blocks, 16, true, true);
        let all = found_in_all(pool.clone().with_copies(), &requests) as f64;
        let first = found_in_all(pool, &requests) as f64;
        assert!(all > at_least * asked as f64, "{all} of {asked}");
        assert!((first - all).abs() < 0.01 * all, "{first} for {all}");
    };
    check(350, 0.2);
    check(900, 0.5);
    check(5000, 0.7);
}

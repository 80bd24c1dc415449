//! The block pool: rules by hand, and the naive pool operation by operation.

use crate::naive_pool::{NaiveHolding, NaivePool};
use gpuwise_domain::request::{Request, Segment};
use gpuwise_sim::cache::{Holding, Pool, PoolSettings};
use proptest::prelude::*;

fn settings(blocks: u64, block_tokens: u32) -> PoolSettings {
    PoolSettings {
        blocks,
        block_tokens,
        caching: true,
        null_block: false,
        unhashed_first: true,
    }
}

fn request(input: u32, segments: &[(u64, u32)]) -> Request {
    Request {
        input,
        output: 8,
        prefix: (!segments.is_empty()).then(|| {
            segments
                .iter()
                .map(|&(content, tokens)| Segment { content, tokens })
                .collect()
        }),
        ..Request::default()
    }
}

/// Computes a prompt in one go, and lets it go.
fn serve(pool: &mut Pool, request: &Request) -> u32 {
    let hit = pool.find(request);
    let mut holding = pool.hold(request, &hit);
    let tokens = u64::from(request.input);
    pool.extend(&mut holding, request, tokens).expect("fits");
    let found = holding.found();
    pool.release(holding, request, tokens);
    found
}

#[test]
fn a_wholly_cached_prompt_computes_its_last_block_again() {
    let check = |input: u32, block_tokens: u32, found: u32| {
        let mut pool = Pool::new(settings(1000, block_tokens));
        let prompt = request(input, &[(7, input)]);
        assert_eq!(serve(&mut pool, &prompt), 0, "{input}");
        assert_eq!(
            serve(&mut pool, &prompt),
            found,
            "{input} by {block_tokens}"
        );
        assert_eq!(
            serve(&mut pool, &prompt),
            found,
            "{input} by {block_tokens}"
        );
    };
    check(64, 16, 48);
    check(65, 16, 64);
    check(63, 16, 48);
    check(16, 16, 0);
    check(1, 16, 0);
    // Pages of one token: all but the last.
    check(64, 1, 63);
}

#[test]
fn the_null_block_is_nobodys() {
    let mut pool = Pool::new(PoolSettings {
        null_block: true,
        ..settings(5, 16)
    });
    assert_eq!((pool.total(), pool.free(), pool.used()), (4, 4, 0));
    assert!(!pool.take(5));
    assert!(pool.take(4));
    assert_eq!((pool.free(), pool.used()), (0, 4));
}

#[test]
fn what_is_let_go_is_found_until_its_block_is_used() {
    let mut pool = Pool::new(settings(8, 16));
    let shared = request(65, &[(1, 64)]);
    serve(&mut pool, &shared);
    // All is free and four blocks are still found.
    assert_eq!(pool.free(), 8);
    assert_eq!(pool.find(&shared).blocks, 4);
    assert_eq!(pool.find(&shared).free_blocks, 4);
    // Four others were never used: the content stays.
    assert!(pool.take(4));
    assert_eq!(pool.find(&shared).blocks, 4);
    // From then on its last block is used first.
    for left in [3, 2, 1, 0] {
        assert!(pool.take(1));
        assert_eq!(pool.find(&shared).blocks, left);
    }
    assert_eq!(pool.statistics().evicted_blocks, 4);
}

#[test]
fn a_scan_of_prompts_that_never_return_evicts_a_shared_prefix_just_before_its_reuse() {
    let shared = request(80, &[(1, 64)]);
    let other = request(64, &[]);
    let check = |others: u32, found: u32| {
        let mut pool = Pool::new(settings(16, 16));
        serve(&mut pool, &shared);
        for _ in 0..others {
            serve(&mut pool, &other);
        }
        assert_eq!(serve(&mut pool, &shared), found, "after {others}");
    };
    // The shared prompt leaves 5 blocks, each other 4: 11 blocks were free before the shared ones.
    check(2, 64);
    check(3, 64);
    check(4, 0);
}

#[test]
fn blocks_that_are_not_full_go_where_the_release_of_the_engine_puts_them() {
    let check = |unhashed_first: bool, found: u32| {
        let mut pool = Pool::new(PoolSettings {
            unhashed_first,
            ..settings(5, 16)
        });
        // Four full blocks and one that is not.
        let shared = request(65, &[(1, 65)]);
        serve(&mut pool, &shared);
        // Twelve prompts of less than a block: each takes the head of the queue.
        let small = request(5, &[]);
        for _ in 0..12 {
            serve(&mut pool, &small);
        }
        assert_eq!(pool.find(&shared).tokens, found);
    };
    check(true, 64);
    check(false, 0);
}

#[test]
fn a_last_segment_of_part_of_a_block_is_never_found() {
    // As in Mooncake's traces: segments of 512 tokens, the last one shorter.
    let mut pool = Pool::new(settings(1000, 16));
    let first = request(1000, &[(1, 512), (2, 488)]);
    let longer = request(1500, &[(1, 512), (2, 488), (3, 500)]);
    let other = request(1000, &[(1, 512), (4, 488)]);
    serve(&mut pool, &first);
    // 1000 tokens are 62 blocks and 8 tokens.
    assert_eq!(serve(&mut pool, &longer), 992);
    assert_eq!(serve(&mut pool, &other), 512);
    // Equal content behind another beginning is other content.
    let moved = request(1000, &[(5, 512), (2, 488)]);
    assert_eq!(serve(&mut pool, &moved), 0);
}

#[test]
fn a_later_request_of_the_same_step_finds_what_is_scheduled_so_far() {
    let mut pool = Pool::new(settings(100, 16));
    let prompt = request(512, &[(1, 500)]);
    let hit = pool.find(&prompt);
    let mut holding = pool.hold(&prompt, &hit);
    for (chunk, found) in [(100, 96), (200, 192), (490, 480), (505, 496), (512, 496)] {
        pool.extend(&mut holding, &prompt, chunk).expect("fits");
        let hit = pool.find(&prompt);
        assert_eq!((hit.tokens, hit.free_blocks), (found, 0), "{chunk}");
    }
    pool.release(holding, &prompt, 512);
    assert_eq!(pool.find(&prompt).free_blocks, 31);
}

#[test]
fn a_shared_block_is_free_when_the_last_lets_go() {
    let mut pool = Pool::new(settings(100, 16));
    let prompt = request(65, &[(1, 64)]);
    let mut holdings = Vec::new();
    for used in [5, 6, 7] {
        let hit = pool.find(&prompt);
        let mut holding = pool.hold(&prompt, &hit);
        pool.extend(&mut holding, &prompt, 65).expect("fits");
        holdings.push(holding);
        assert_eq!(pool.used(), used);
    }
    for used in [6, 5, 0] {
        pool.release(holdings.pop().expect("three"), &prompt, 65);
        assert_eq!(pool.used(), used);
    }
}

#[test]
fn an_answer_is_found_by_the_next_prompt_of_its_session() {
    let mut pool = Pool::new(settings(100, 16));
    let first = Request {
        answer: Some(50),
        output: 40,
        ..request(100, &[(1, 100)])
    };
    let hit = pool.find(&first);
    let mut holding = pool.hold(&first, &hit);
    pool.extend(&mut holding, &first, 100).expect("fits");
    // The last of 40 tokens is never computed: 139 are, and 39 of them grow over two blocks.
    assert!(pool.take(2));
    pool.release(holding, &first, 139);
    let second = request(200, &[(1, 100), (50, 40), (2, 60)]);
    assert_eq!(pool.find(&second).tokens, 128);
    // Another adapter computes other keys and values.
    let adapted = Request {
        adapter: 1,
        ..second.clone()
    };
    assert_eq!(pool.find(&adapted).tokens, 0);
}

#[test]
fn a_preempted_request_finds_its_own_blocks_until_they_are_used() {
    let check = |used_by_others: u64, found: u32| {
        let mut pool = Pool::new(settings(10, 16));
        let own = request(100, &[]);
        let hit = pool.find(&own);
        let mut holding = pool.hold(&own, &hit);
        pool.extend(&mut holding, &own, 100).expect("fits");
        // 30 tokens of output are there: 129 have keys and values, in 8 full blocks and a ninth.
        assert!(pool.take(2));
        pool.preempt(holding, &own, 129, 3);
        assert_eq!(pool.free(), 10);
        assert!(pool.take(used_by_others));
        assert_eq!(pool.find(&own).tokens, 0, "a new request of its kind");
        assert_eq!(pool.find_resumed(&own, 4, 130).tokens, 0, "another");
        let hit = pool.find_resumed(&own, 3, 130);
        assert_eq!(hit.tokens, found);
        assert_eq!(pool.needed_for(&hit, 130), 9);
        let mut holding = pool.hold(&own, &hit);
        if pool.needed(&holding, 130) <= pool.free() {
            pool.extend(&mut holding, &own, 130).expect("fits");
            pool.release(holding, &own, 130);
        }
        assert_eq!(pool.statistics().resumed_tokens, u64::from(found));
    };
    // The ninth, not full, is at the front, and the tenth was never used.
    check(0, 128);
    check(2, 128);
    check(3, 112);
    check(9, 16);
    check(10, 0);
}

#[test]
fn what_is_computed_behind_a_copy_stays_its_own() {
    let mut pool = Pool::new(settings(6, 16));
    let prompt = request(97, &[(1, 97)]);
    let start = |pool: &mut Pool, tokens: u64| {
        let hit = pool.find(&prompt);
        let mut holding = pool.hold(&prompt, &hit);
        pool.extend(&mut holding, &prompt, tokens).expect("fits");
        holding
    };
    let mut slow = start(&mut pool, 16);
    let fast = start(&mut pool, 48);
    assert_eq!((fast.found(), pool.used()), (16, 3));
    // The second block is there already: this is a copy.
    pool.extend(&mut slow, &prompt, 32).expect("fits");
    pool.release(fast, &prompt, 48);
    assert_eq!(pool.find(&prompt).tokens, 48);
    // Another uses all that is free: of the stretch one block is left, and the copy.
    serve(&mut pool, &request(64, &[]));
    assert_eq!((pool.find(&prompt).tokens, pool.used()), (16, 2));
    pool.extend(&mut slow, &prompt, 80).expect("fits");
    assert_eq!(pool.find(&prompt).tokens, 16);
    pool.release(slow, &prompt, 80);
    assert_eq!((pool.find(&prompt).tokens, pool.free()), (16, 6));
    assert!(pool.is_consistent());
}

#[test]
fn without_caching_nothing_is_found() {
    let mut pool = Pool::new(PoolSettings {
        caching: false,
        ..settings(10, 16)
    });
    let prompt = request(100, &[(1, 100)]);
    assert_eq!(serve(&mut pool, &prompt), 0);
    assert_eq!(serve(&mut pool, &prompt), 0);
    assert_eq!(pool.free(), 10);
}

#[test]
fn too_few_blocks_change_nothing() {
    let mut pool = Pool::new(settings(4, 16));
    let prompt = request(100, &[(1, 100)]);
    let hit = pool.find(&prompt);
    let mut holding = pool.hold(&prompt, &hit);
    let short = pool.extend(&mut holding, &prompt, 100).expect_err("seven");
    assert_eq!((short.needed, short.free), (7, 4));
    assert!(!pool.take(5));
    assert_eq!((pool.free(), holding.blocks()), (4, 0));
    pool.release(holding, &prompt, 0);
    assert_eq!(pool.free(), 4);
}

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

//! The block pool: its rules, worked by hand.

use gpuwise_domain::request::{Request, Segment};
use gpuwise_sim::cache::{Pool, PoolSettings};

fn settings(blocks: u64, block_tokens: u32) -> PoolSettings {
    PoolSettings {
        blocks,
        block_tokens,
        caching: true,
        null_block: false,
        unhashed_first: true,
    }
}

pub(crate) fn request(input: u32, segments: &[(u64, u32)]) -> Request {
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
fn what_a_request_computes_beyond_its_answer_is_no_part_of_it() {
    // Of drafts, or after the end of the text: 64 tokens where the answer is to have 32.
    let mut pool = Pool::new(settings(100, 16));
    let first = Request {
        answer: Some(50),
        output: 32,
        ..request(64, &[(1, 64)])
    };
    let hit = pool.find(&first);
    let mut holding = pool.hold(&first, &hit);
    pool.extend(&mut holding, &first, 128).expect("fits");
    pool.release(holding, &first, 128);
    let second = request(200, &[(1, 64), (50, 32), (2, 104)]);
    assert_eq!(pool.find(&second).tokens, 96);
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

//! How many requests a second the block pool takes in, lets grow and lets go, on one core.

use divan::{Bencher, black_box, counter::ItemsCount};
use gpuwise_domain::request::{Request, Segment};
use gpuwise_sim::cache::{Holding, Pool, PoolSettings};
use std::collections::VecDeque;

const REQUESTS: u64 = 20_000;
/// Requests that hold blocks at a time.
const RUNNING: usize = 256;

fn main() {
    divan::main();
}

fn pool() -> Pool {
    Pool::new(PoolSettings {
        blocks: 40_000,
        block_tokens: 16,
        caching: true,
        null_block: true,
        unhashed_first: true,
    })
}

fn prompt(segments: &[u64]) -> Request {
    Request {
        input: 1024,
        output: 128,
        prefix: (!segments.is_empty()).then(|| {
            segments
                .iter()
                .map(|&content| Segment {
                    content,
                    tokens: 512,
                })
                .collect()
        }),
        ..Request::default()
    }
}

/// Each request computes its prompt in one chunk, grows by 127 tokens and lets go.
fn serve(pool: &mut Pool, requests: &[Request]) -> u64 {
    let mut running: VecDeque<(usize, Holding)> = VecDeque::with_capacity(RUNNING);
    for number in 0..REQUESTS as usize {
        if running.len() == RUNNING
            && let Some((at, holding)) = running.pop_front()
        {
            pool.release(holding, &requests[at], 1024 + 127);
        }
        let at = number % requests.len();
        let request = &requests[at];
        let hit = pool.find(request);
        let mut holding = pool.hold(request, &hit);
        let extended = pool.extend(&mut holding, request, 1024).is_ok();
        assert!(extended && pool.take(8));
        running.push_back((at, holding));
    }
    for (at, holding) in running {
        pool.release(holding, &requests[at], 1024 + 127);
    }
    pool.free()
}

fn bench(bencher: Bencher, requests: &[Request]) {
    bencher
        .counter(ItemsCount::new(REQUESTS))
        .with_inputs(pool)
        .bench_refs(|pool| serve(pool, black_box(requests)));
}

/// Prompts that have nothing in common.
#[divan::bench]
fn unique(bencher: Bencher) {
    bench(bencher, &[prompt(&[])]);
}

/// One of eight beginnings of 512 tokens, then content of their own.
#[divan::bench]
fn beginnings(bencher: Bencher) {
    let requests: Vec<_> = (0..8).map(|content| prompt(&[content])).collect();
    bench(bencher, &requests);
}

/// Segments of 512 tokens that come back after the pool has forgotten them: all is evicted.
#[divan::bench]
fn evicted(bencher: Bencher) {
    let requests: Vec<_> = (0..5000)
        .map(|content| prompt(&[content % 8, content + 8]))
        .collect();
    bench(bencher, &requests);
}

/// Prompts of 240 segments of 512 tokens, as long ones of published traces are.
#[divan::bench]
fn long(bencher: Bencher) {
    let requests: Vec<_> = (0..100)
        .map(|last| {
            let mut segments: Vec<u64> = (0..239).map(|place| last / 4 * 1000 + place).collect();
            segments.push(1_000_000 + last);
            Request {
                input: 240 * 512,
                ..prompt(&segments)
            }
        })
        .collect();
    bencher.counter(ItemsCount::new(100_u64)).bench_local(|| {
        let mut pool = pool();
        for request in &requests {
            let hit = pool.find(request);
            let mut holding = pool.hold(request, &hit);
            let mut tokens = u64::from(holding.found());
            while tokens < u64::from(request.input) {
                tokens = (tokens + 8192).min(u64::from(request.input));
                assert!(pool.extend(&mut holding, request, tokens).is_ok());
            }
            pool.release(holding, request, tokens);
        }
        pool.free()
    });
}

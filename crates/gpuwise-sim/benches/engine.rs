//! How many requests a second one replica serves in simulation, on one core.

use divan::{Bencher, counter::ItemsCount};
use gpuwise_domain::request::Request;
use gpuwise_sim::{
    cache::PoolSettings,
    cost::Linear,
    engine::{
        Capacity, Done, Policy, Replica, Role, Settings, SglangOrder, SglangRules, Sink,
        TensorRtLlmRules, VllmRules,
    },
};
use gpuwise_units::RandomStream;

const REQUESTS: u64 = 200_000;

fn main() {
    divan::main();
}

fn settings(policy: Policy) -> Settings {
    Settings {
        policy,
        ranks: 1,
        max_sequences: 1024,
        max_batched_tokens: 8192,
        max_context: 8192,
        cache: PoolSettings {
            blocks: 40_000,
            block_tokens: 16,
            caching: true,
            null_block: true,
            unhashed_first: true,
        },
        overlap: true,
        ends_by_stop: false,
        speculation: None,
        role: Role::Whole,
        max_adapters: None,
        max_queued: None,
        max_queued_tokens: None,
    }
}

/// The knee of this cost is at about 43 requests a second.
const COST: Linear = Linear {
    step: 8_000_000_000,
    sequence: 20_000_000,
    token: 5_000_000,
    context: 20_000,
};

/// Poisson arrivals in picoseconds.
fn arrivals(rate: f64) -> Vec<u64> {
    let mut stream = RandomStream::new(1, "bench gaps", 0);
    let mut time = 0.0;
    let mut next = || {
        time += -libm::log(1.0 - stream.uniform()) / rate;
        (time * 1e12) as u64
    };
    (0..REQUESTS).map(|_| next()).collect()
}

#[derive(Default)]
struct Sum {
    requests: u64,
    latency: u128,
}

impl Sink for Sum {
    fn ended(&mut self, done: Done) {
        self.requests += 1;
        self.latency += u128::from(done.end - done.submitted);
    }
}

fn serve(settings: &Settings, arrivals: &[u64]) -> u128 {
    let Ok(mut replica) = Replica::new(settings.clone(), COST) else {
        return 0;
    };
    let mut sum = Sum::default();
    for (number, &time) in (0..).zip(arrivals) {
        replica.advance(time, &mut sum);
        let request = Request {
            input: 1024,
            output: 128,
            ..Request::default()
        };
        if replica.submit(time, number, request).is_err() {
            return 0;
        }
    }
    replica.advance(u64::MAX, &mut sum);
    assert_eq!(sum.requests, REQUESTS);
    sum.latency
}

fn bench(bencher: Bencher<'_, '_>, policy: Policy, rate: f64) {
    let settings = settings(policy);
    let arrivals = arrivals(rate);
    bencher
        .counter(ItemsCount::new(REQUESTS))
        .bench_local(|| serve(&settings, &arrivals));
}

#[divan::bench(sample_count = 10, args = [10.0, 20.0, 30.0, 38.0])]
fn vllm(bencher: Bencher<'_, '_>, rate: f64) {
    bench(bencher, Policy::Vllm(VllmRules::default()), rate);
}

#[divan::bench(sample_count = 10, args = [30.0])]
fn tensorrt_llm(bencher: Bencher<'_, '_>, rate: f64) {
    let rules = TensorRtLlmRules {
        capacity: Capacity::GuaranteedNoEvict,
        chunked_context: false,
    };
    bench(bencher, Policy::TensorRtLlm(rules), rate);
}

#[divan::bench(sample_count = 5, args = [30.0])]
fn sglang(bencher: Bencher<'_, '_>, rate: f64) {
    let rules = SglangRules {
        chunked_prefill: Some(8192),
        mixed_chunk: false,
        order: SglangOrder::Arrival,
        conservativeness: 1.0,
        initial_ratio: 0.7,
        least_ratio: 0.14,
        ratio_steps: 600,
        output_clip: 4096,
        retract_steps: 20,
        ignore_end: false,
    };
    bench(bencher, Policy::Sglang(rules), rate);
}

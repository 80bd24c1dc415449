//! How many requests a second a simulated cluster gets through, on one core.
//!
//! The conversation trace is read from the folder that `GPUWISE_DATA` names; without it that timing
//! takes lengths and times drawn at the same means.

#![allow(clippy::disallowed_methods)]

use divan::{Bencher, black_box, counter::ItemsCount};
use gpuwise_domain::request::Request;
use gpuwise_read::traffic::{decompress, read_trace, text};
use gpuwise_sim::{
    cache::PoolSettings,
    cluster::{
        NullObserver, Pool, Scenario,
        routers::{CacheAware, KvAware, Measure, Routing},
        run,
    },
    cost::Linear,
    engine::{Policy, Role, Settings, VllmRules},
    metrics::{Recorder, RecorderSettings},
    traffic::Recorded,
};
use gpuwise_units::{Nanoseconds, RandomStream};
use std::path::PathBuf;

/// Requests of one timing with drawn traffic.
const REQUESTS: u64 = 200_000;
/// Share of the largest throughput that is offered.
const SHARE: f64 = 0.7;
/// Rows of the conversation trace, repeated six times.
const CONVERSATION: u64 = 19_366;
const MILLISECOND: u64 = 1_000_000_000;

fn main() {
    divan::main();
}

fn scenario(replicas: u16, routing: Routing) -> Scenario<Linear> {
    let engine = Settings {
        policy: Policy::Vllm(VllmRules::default()),
        ranks: 1,
        max_sequences: 256,
        max_batched_tokens: 2_048,
        max_context: 32_768,
        cache: PoolSettings {
            blocks: 28_000,
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
    };
    let cost = Linear {
        step: 8 * MILLISECOND,
        sequence: MILLISECOND / 50,
        token: MILLISECOND / 200,
        context: MILLISECOND / 50_000,
    };
    Scenario::new(
        Pool {
            routing,
            ..Pool::new(engine, cost, replicas)
        },
        1,
    )
}

/// Requests a second if all are there from the beginning.
fn most(scenario: &Scenario<Linear>, requests: &[Request]) -> f64 {
    let at_once = requests.iter().take(20_000).map(|request| Request {
        due: Nanoseconds(0),
        ..request.clone()
    });
    let statistics = run(
        scenario,
        Recorded::new(at_once.collect()),
        &mut NullObserver,
    );
    statistics.map_or(1.0, |statistics| {
        statistics.requests as f64 / (statistics.end.0 as f64 * 1e-9)
    })
}

/// The same requests at a share of the largest throughput.
fn at_share(scenario: &Scenario<Linear>, mut requests: Vec<Request>) -> Vec<Request> {
    let rate = SHARE * most(scenario, &requests);
    let last = requests.last().map_or(1, |request| request.due.0.max(1));
    let factor = requests.len() as f64 / rate * 1e9 / last as f64;
    for request in &mut requests {
        request.due = Nanoseconds((request.due.0 as f64 * factor) as u64);
    }
    requests
}

fn poisson(count: u64, input: u32, output: u32) -> Vec<Request> {
    let mut chance = RandomStream::new(1, "bench arrivals", 0);
    let mut due = 0.0;
    (0..count)
        .map(|_| {
            due -= (1.0 - chance.uniform()).ln();
            Request {
                due: Nanoseconds((due * 1e9) as u64),
                input,
                output,
                ..Request::default()
            }
        })
        .collect()
}

/// The conversation trace of Azure, six times one after the other.
fn conversation() -> Vec<Request> {
    let folder = std::env::var_os("GPUWISE_DATA").map(PathBuf::from);
    let path = folder.map(|folder| folder.join("traffic/azure_llm_2023_conv.csv.gz"));
    let Some(bytes) = path.and_then(|path| std::fs::read(path).ok()) else {
        return poisson(6 * CONVERSATION, 1_155, 211);
    };
    let plain = decompress(&bytes, 1 << 30).expect("the trace is whole");
    let trace = read_trace(text(&plain).expect("it is text")).expect("it is a trace");
    let once = trace.into_requests();
    let span = once.last().map_or(0, |request| request.due.0);
    (0..6)
        .flat_map(|round| {
            once.iter().map(move |request| Request {
                due: Nanoseconds(round * span + request.due.0),
                ..request.clone()
            })
        })
        .collect()
}

fn time(bencher: Bencher, scenario: &Scenario<Linear>, requests: Vec<Request>) {
    let requests = at_share(scenario, requests);
    let source = Recorded::new(requests);
    let count = source.requests().len();
    bencher
        .counter(ItemsCount::new(count))
        .with_inputs(|| source.clone())
        .bench_values(|source| black_box(run(scenario, source, &mut NullObserver)));
}

/// 1,024 tokens in, 128 out.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn one_replica(bencher: Bencher) {
    time(
        bencher,
        &scenario(1, Routing::RoundRobin),
        poisson(REQUESTS, 1_024, 128),
    );
}

/// The same with everything that a report needs.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn one_replica_recorded(bencher: Bencher) {
    let scenario = scenario(1, Routing::RoundRobin);
    let source = Recorded::new(at_share(&scenario, poisson(REQUESTS, 1_024, 128)));
    bencher
        .counter(ItemsCount::new(REQUESTS))
        .with_inputs(|| (source.clone(), Recorder::new(RecorderSettings::default())))
        .bench_values(|(source, mut recorder)| {
            let statistics = run(&scenario, source, &mut recorder);
            (recorder, statistics)
        });
}

/// 116,196 requests on 8 replicas.
#[divan::bench(sample_count = 5, sample_size = 1, args = [0, 1, 2, 3])]
fn conversation_on_eight(bencher: Bencher, router: usize) {
    let routings = [
        Routing::RoundRobin,
        Routing::Least(Measure::Requests),
        Routing::KvAware(KvAware::default()),
        Routing::CacheAware(CacheAware::default()),
    ];
    time(
        bencher,
        &scenario(8, routings[router].clone()),
        conversation(),
    );
}

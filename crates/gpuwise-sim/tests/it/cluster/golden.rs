//! Named scenarios whose every record is known: a changed hash is a changed behaviour, which its commit
//! has to explain.

use super::{Paced, SECOND, engine, hash, kept, real};
use gpuwise_domain::{
    client::GapLaw,
    request::{Outcome, Request, RequestRecord},
};
use gpuwise_sim::{
    cluster::{
        Admission, Duration, Failure, Failures, GatewayQueue, Link, Pool, RemotePrefill, Retry,
        RunStatistics, Scenario, StartUp,
        routers::{CacheAware, KvAware, Measure, Routing, Scorer, Weighted},
    },
    cost::Linear,
    engine::{Capacity, Policy, Role, SglangOrder, SglangRules, TensorRtLlmRules},
    traffic::{
        Arrivals, ConversationStream, Conversations, Extent, Generator, LengthLaw, Lengths, Pacing,
        Pattern, PrefixPool, Recorded, Source, SystemPrompts,
    },
};
use gpuwise_units::{Nanoseconds, PerSecond};

const REQUESTS: u64 = 2_000;

fn lengths(input: f64, output: f64) -> Lengths {
    let law = |mean: f64| LengthLaw::LogNormal {
        mu: libm::log(mean) - 0.32,
        sigma: 0.8,
        longest: 8_192,
    };
    Lengths::Each {
        input: law(input),
        output: law(output),
    }
}

fn generated(arrivals: Arrivals, lengths: Lengths, share: f64) -> Vec<Request> {
    let prefix = (share > 0.0).then_some(PrefixPool { share, groups: 8 });
    let pattern = Pattern {
        prefix,
        ..Pattern::open(arrivals, lengths)
    };
    let generator = Generator::new(&pattern, Extent::requests(REQUESTS), 4);
    generator.map(Iterator::collect).unwrap_or_default()
}

fn chat(rate: f64) -> Vec<Request> {
    generated(
        Arrivals::poisson(PerSecond::new(rate)),
        lengths(900.0, 200.0),
        0.0,
    )
}

fn cluster(replicas: u16, routing: Routing) -> Scenario<Linear> {
    let mut engine = engine(64, 8_000);
    engine.overlap = true;
    engine.max_context = 32_768;
    Scenario::new(
        Pool {
            routing,
            ..Pool::new(engine, real(), replicas)
        },
        7,
    )
}

fn least() -> Routing {
    Routing::Least(Measure::Requests)
}

/// A run that has been seen before: how many requests ended well, and the hash of all records.
fn known(
    scenario: &Scenario<Linear>,
    source: impl Source,
    expected: (u64, u64),
) -> (Vec<RequestRecord>, RunStatistics) {
    let (kept, statistics) = kept(scenario, source);
    let found = (statistics.count(Outcome::Completed), hash(&kept.records));
    assert_eq!(found, expected, "({}, {:#018x})", found.0, found.1);
    (kept.records, statistics)
}

fn preemptions(records: &[RequestRecord]) -> u64 {
    records
        .iter()
        .map(|record| u64::from(record.preemptions))
        .sum()
}

#[test]
fn chat_one_replica() {
    known(
        &cluster(1, Routing::RoundRobin),
        Recorded::new(chat(5.0)),
        (2_000, 0x34b2_842b_c856_28c3),
    );
}

#[test]
fn code_bursty() {
    let requests = generated(
        Arrivals::gamma(PerSecond::new(8.0), 4.0),
        lengths(2_000.0, 30.0),
        0.0,
    );
    known(
        &cluster(2, least()),
        Recorded::new(requests),
        (2_000, 0x5ee4_35be_3158_bf3a),
    );
}

fn shared() -> Recorded {
    Recorded::new(generated(
        Arrivals::poisson(PerSecond::new(12.0)),
        lengths(1_500.0, 100.0),
        0.7,
    ))
}

#[test]
fn prefix_heavy() {
    let routing = Routing::CacheAware(CacheAware::default());
    known(
        &cluster(4, routing),
        shared(),
        (2_000, 0x5853_702d_abea_72ac),
    );
}

#[test]
fn prefix_heavy_exact() {
    let routing = Routing::KvAware(KvAware::default());
    known(
        &cluster(4, routing),
        shared(),
        (2_000, 0x5470_4d5f_2d0d_0718),
    );
}

#[test]
fn prefix_heavy_scored() {
    let weighted = |scorer, weight| Weighted { scorer, weight };
    let scorers = vec![
        weighted(Scorer::GuessedPrefix, 3.0),
        weighted(Scorer::Queue, 2.0),
        weighted(Scorer::KvFree, 2.0),
    ];
    let mut scenario = cluster(4, Routing::Scored(scorers));
    scenario.pools[0].signal_age = Nanoseconds(SECOND / 20);
    known(&scenario, shared(), (2_000, 0x9879_de28_858b_2df8));
}

#[test]
fn preempting() {
    let mut scenario = cluster(1, Routing::RoundRobin);
    scenario.pools[0].engine.cache.blocks = 900;
    let requests = generated(
        Arrivals::poisson(PerSecond::new(3.0)),
        lengths(300.0, 400.0),
        0.0,
    );
    let (records, _) = known(
        &scenario,
        Recorded::new(requests),
        (2_000, 0x75c9_f042_200e_c6cc),
    );
    assert!(preemptions(&records) > 50, "{}", preemptions(&records));
}

#[test]
fn sglang_prefill_first() {
    let mut scenario = cluster(1, Routing::RoundRobin);
    scenario.pools[0].engine.cache.block_tokens = 1;
    scenario.pools[0].engine.cache.blocks = 128_000;
    scenario.pools[0].engine.max_batched_tokens = 16_384;
    scenario.pools[0].engine.policy = Policy::Sglang(SglangRules {
        chunked_prefill: Some(8_192),
        mixed_chunk: false,
        order: SglangOrder::Arrival,
        conservativeness: 1.0,
        initial_ratio: 0.7,
        least_ratio: 0.14,
        ratio_steps: 600,
        output_clip: 4_096,
        retract_steps: 20,
        ignore_end: false,
    });
    known(
        &scenario,
        Recorded::new(chat(5.0)),
        (2_000, 0xcea6_89b9_4217_e1e5),
    );
}

#[test]
fn trtllm_no_evict() {
    let mut scenario = cluster(1, Routing::RoundRobin);
    scenario.pools[0].engine.cache.blocks = 2_000;
    scenario.pools[0].engine.max_batched_tokens = 8_192;
    scenario.pools[0].engine.policy = Policy::TensorRtLlm(TensorRtLlmRules {
        capacity: Capacity::GuaranteedNoEvict,
        chunked_context: false,
    });
    let (records, _) = known(
        &scenario,
        Recorded::new(chat(5.0)),
        (2_000, 0xc9de_0dd4_d2a2_2ab6),
    );
    assert_eq!(preemptions(&records), 0);
}

#[test]
fn disaggregated() {
    let mut scenario = cluster(2, least());
    scenario.pools[0].engine.role = Role::Decode;
    scenario.pools[0].prefill = Some(RemotePrefill {
        pool: 1,
        threshold: 256,
        link: Link {
            name: "200 Gbit/s".to_owned(),
            bytes_per_second: 25e9,
            latency: Nanoseconds(50_000),
        },
        bytes_per_token: 160 * 1_024,
    });
    let mut prompts = scenario.pools[0].clone();
    prompts.engine.role = Role::Prefill;
    prompts.prefill = None;
    scenario.pools.push(prompts);
    let (_, statistics) = known(
        &scenario,
        Recorded::new(chat(8.0)),
        (2_000, 0x7c78_530a_ac26_8283),
    );
    assert!(statistics.moves.count > 1_000, "{:?}", statistics.moves);
}

fn lossy() -> Scenario<Linear> {
    let mut scenario = cluster(3, least());
    let failure = |replica, at: u64| Failure {
        replica,
        at: Nanoseconds(at * SECOND),
        returns: true,
    };
    scenario.pools[0].failures = Failures::Listed(vec![failure(2, 60), failure(0, 90)]);
    scenario.pools[0].start = StartUp {
        weights: Some(Duration {
            mean: 25.0,
            variation: 0.3,
        }),
        engine: Some(Duration {
            mean: 12.0,
            variation: 0.2,
        }),
        ..StartUp::INSTANT
    };
    scenario
}

#[test]
fn replica_lost() {
    let (_, statistics) = known(
        &lossy(),
        Recorded::new(chat(10.0)),
        (1_983, 0x007f_cb90_2513_1ef9),
    );
    assert!(statistics.count(Outcome::Failed) > 0);
}

#[test]
fn retries() {
    let mut scenario = lossy();
    scenario.retry = Some(Retry::default());
    scenario.time_out = Some(Nanoseconds(20 * SECOND));
    scenario.pools[0].admission = Admission {
        in_replica: Some(48),
        held: GatewayQueue::Most(40),
        ..Admission::default()
    };
    let (_, statistics) = known(
        &scenario,
        Recorded::new(chat(16.0)),
        (2_000, 0xb133_810e_d34b_b1b5),
    );
    assert!(statistics.retries > 0);
}

#[test]
fn closed_loop() {
    let source = Paced(Recorded::new(chat(1.0)), Pacing::InFlight(48));
    known(
        &cluster(2, Routing::TwoChoices(Measure::Requests)),
        source,
        (2_000, 0x2e6b_1fe6_6e67_bcb1),
    );
}

#[test]
fn multi_turn() {
    let law = |mean: f64| LengthLaw::LogNormal {
        mu: libm::log(mean),
        sigma: 0.5,
        longest: 2_000,
    };
    let laws = Conversations {
        starts: Arrivals::poisson(PerSecond::new(1.2)),
        rounds: LengthLaw::Fixed(6),
        think: Nanoseconds(8 * SECOND),
        thinking: GapLaw::Exponential,
        system: SystemPrompts {
            count: 4,
            tokens: 600,
            skew: 1.0,
        },
        question: law(80.0),
        answer: law(150.0),
        longest: 30_000,
    };
    let Ok(talk) = ConversationStream::new(laws, Extent::requests(REQUESTS), 3) else {
        panic!("sound laws")
    };
    let (records, _) = known(
        &cluster(3, Routing::Session),
        talk,
        (2_000, 0xdb81_1d16_6342_fa75),
    );
    let found: u64 = records
        .iter()
        .map(|record| u64::from(record.cached.unwrap_or(0)))
        .sum();
    let asked: u64 = records.iter().map(|record| u64::from(record.input)).sum();
    assert!(
        found * 2 > asked,
        "most of a conversation is cached: {found} of {asked}"
    );
}

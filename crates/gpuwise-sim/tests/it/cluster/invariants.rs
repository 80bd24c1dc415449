//! What holds in every run.

use super::{Kept, Paced, SECOND, check, engine, hash, kept, plain, real};
use gpuwise_domain::request::{Request, RequestRecord, Segment};
use gpuwise_sim::{
    cluster::{
        Admission, Duration, Failures, GatewayOrder, GatewayQueue, Pool, Retry, Scenario, StartUp,
        routers::{CacheAware, KvAware, Measure, Routing, Scorer, Weighted},
        run,
    },
    cost::Linear,
    traffic::{Pacing, Recorded},
};
use gpuwise_units::{Nanoseconds, RandomStream};
use proptest::prelude::*;

fn traffic(seed: u64, count: u32, rate: f64, sessions: u32) -> Vec<Request> {
    let mut chance = RandomStream::new(seed, "traffic", 0);
    let mut due = 0.0;
    (0..count)
        .map(|number| {
            due += -(1.0 - chance.uniform()).ln() / rate;
            let shared = 16 * chance.below(30) as u32;
            let own = 1 + chance.below(400) as u32;
            let content = chance.below(6);
            Request {
                due: Nanoseconds((due * 1e9) as u64),
                input: shared + own,
                output: 1 + chance.below(60) as u32,
                prefix: (shared > 0).then(|| {
                    [Segment {
                        content,
                        tokens: shared,
                    }]
                    .into()
                }),
                session: (sessions > 0 && number % 3 > 0)
                    .then(|| chance.below(u64::from(sessions)) as u32),
                think: Nanoseconds(chance.below(2) * 50_000_000),
                tenant: chance.below(3) as u16,
                priority: chance.below(2) as i16,
                adapter: chance.below(2) as u16,
                ..Request::default()
            }
        })
        .collect()
}

fn routing(choice: u8) -> Routing {
    let weighted = |scorer, weight| Weighted { scorer, weight };
    match choice {
        0 => Routing::RoundRobin,
        1 => Routing::Random,
        2 => Routing::Least(Measure::Requests),
        3 => Routing::Least(Measure::Tokens),
        4 => Routing::TwoChoices(Measure::Requests),
        5 => Routing::Session,
        6 => Routing::CacheAware(CacheAware::default()),
        7 => Routing::PrefixAware,
        8 => Routing::KvAware(KvAware::default()),
        _ => Routing::Scored(vec![
            weighted(Scorer::Prefix, 3.0),
            weighted(Scorer::Queue, 2.0),
            weighted(Scorer::KvFree, 2.0),
            weighted(Scorer::ColdTurn, 1.0),
            weighted(Scorer::Adapter, 1.0),
        ]),
    }
}

#[derive(Debug, Clone)]
struct Case {
    scenario: Scenario<Linear>,
    requests: Vec<Request>,
    pacing: Pacing,
}

fn case() -> impl Strategy<Value = Case> {
    let shape = (
        0..10_u8,
        1..5_u16,
        1..12_u32,
        60..400_u64,
        0..4_u8,
        any::<bool>(),
    );
    let client = (
        0..4_u8,
        0..3_u8,
        any::<bool>(),
        0..3_u8,
        any::<u64>(),
        1..120_u32,
    );
    (shape, client).prop_map(|(shape, client)| {
        let (choice, replicas, sequences, blocks, gate, stale) = shape;
        let (pacing, retry, patience, failures, seed, count) = client;
        let mut engine = engine(sequences, blocks);
        engine.max_context = 2_000;
        engine.overlap = seed.is_multiple_of(2);
        engine.max_queued = (seed % 5 == 0).then_some(4);
        engine.max_adapters = Some(2);
        let mut pool = Pool::new(engine, real(), replicas);
        pool.routing = routing(choice);
        pool.signal_age = Nanoseconds(if stale { 100_000_000 } else { 0 });
        pool.admission = match gate {
            0 => Admission::default(),
            1 => Admission {
                in_replica: Some(3),
                held: GatewayQueue::Most(5),
                ..Admission::default()
            },
            2 => Admission {
                in_replica: Some(2),
                tokens_in_replica: Some(900),
                held: GatewayQueue::All,
                order: GatewayOrder::Weights(vec![(1, 2.0)]),
                ..Admission::default()
            },
            _ => Admission {
                in_replica: Some(sequences),
                held: GatewayQueue::MostTokens(4_000),
                order: GatewayOrder::Priority,
                tenant_limits: vec![(1, 3)],
                ..Admission::default()
            },
        };
        if failures == 1 {
            pool.failures = Failures::Random {
                between: 1.0,
                repair: 0.3,
            };
        }
        pool.start = StartUp {
            engine: Some(Duration {
                mean: 0.2,
                variation: 0.5,
            }),
            ..StartUp::INSTANT
        };
        if failures == 2 {
            let time = |tenths: u64| Nanoseconds(tenths * SECOND / 10);
            pool.replicas = vec![(time(0), replicas), (time(3), replicas + 2), (time(8), 1)];
        }
        let scenario = Scenario {
            time_out: patience.then_some(Nanoseconds(2 * SECOND)),
            retry: (retry > 0).then(|| Retry {
                budget: (retry > 1).then_some(0.2),
                ..Retry::default()
            }),
            ..Scenario::new(pool, seed)
        };
        Case {
            scenario,
            requests: traffic(seed, count, 40.0, 8),
            pacing: match pacing {
                0 => Pacing::Scheduled { cap: Some(4) },
                1 => Pacing::InFlight(5),
                _ => Pacing::Scheduled { cap: None },
            },
        }
    })
}

fn source(case: &Case) -> Paced {
    Paced(Recorded::new(case.requests.clone()), case.pacing)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_request_is_lost_and_equal_seeds_give_equal_runs(case in case()) {
        let (first, statistics) = kept(&case.scenario, source(&case));
        // All that came from the source, though some may never have been served.
        prop_assert_eq!(statistics.requests, case.requests.len() as u64);
        let sampled = Scenario { sample_every: Some(Nanoseconds(7_000_003)), ..case.scenario.clone() };
        let (second, _) = kept(&sampled, source(&case));
        prop_assert_eq!(first.records, second.records);
    }

    #[test]
    fn a_horizon_leaves_the_rest_unfinished(case in case(), tenths in 1..20_u64) {
        let horizon = Nanoseconds(tenths * SECOND / 10);
        let scenario = Scenario { horizon: Some(horizon), ..case.scenario.clone() };
        let (cut, statistics) = kept(&scenario, source(&case));
        prop_assert!(cut.records.iter().all(|record| record.end <= horizon || record.due == record.end));
        if matches!(case.pacing, Pacing::Scheduled { .. }) {
            let due = case.requests.iter().filter(|request| request.due <= horizon).count();
            prop_assert_eq!(statistics.requests, due as u64);
        }
    }

    #[test]
    fn the_times_at_which_requests_were_sent_give_the_same_run(case in case()) {
        // Chances by number would differ, and so would what clients do after errors.
        let mut scenario = case.scenario.clone();
        scenario.retry = None;
        scenario.pools[0].failures = Failures::None;
        let (first, statistics) = kept(&scenario, source(&case));
        prop_assume!(first.records.iter().all(|record| record.sent < statistics.end));
        let mut order: Vec<&RequestRecord> = first.records.iter().collect();
        order.sort_by_key(|record| (record.sent, record.number));
        prop_assume!(order.windows(2).all(|pair| pair[0].sent < pair[1].sent));
        let requests = order.iter().map(|record| Request {
            due: record.sent,
            think: Nanoseconds(0),
            ..case.requests[record.number as usize].clone()
        });
        // Routers may know sessions; clients must not wait for them again.
        prop_assume!(scenario.pools[0].routing != Routing::Session);
        let requests = requests.map(|request| Request { session: None, ..request }).collect();
        let (again, _) = kept(&scenario, Recorded::new(requests));
        for (old, new) in order.iter().zip(&again.records) {
            prop_assert_eq!(
                (old.sent, old.scheduled, old.first_token, old.end, old.outcome, old.replica),
                (new.sent, new.scheduled, new.first_token, new.end, new.outcome, new.replica)
            );
        }
    }
}

#[test]
fn records_come_in_the_order_of_their_ends() {
    let pool = Pool::new(engine(4, 4_000), plain(), 3);
    let mut kept = Kept::default();
    let statistics = run(
        &Scenario::new(pool, 1),
        Recorded::new(traffic(3, 2_000, 60.0, 0)),
        &mut kept,
    );
    assert!(kept.records.is_sorted_by_key(|record| record.end));
    let before = hash(&kept.records);
    kept.records.sort_by_key(|record| record.number);
    assert_eq!(before, hash(&kept.records), "the hash knows no order");
    check(&kept.records, &statistics.unwrap_or_default());
}

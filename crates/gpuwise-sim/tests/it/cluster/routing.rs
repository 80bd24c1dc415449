//! What routers do to a cluster.

use super::{Kept, SECOND, engine, kept, real};
use gpuwise_domain::request::{Request, Segment};
use gpuwise_sim::{
    cluster::{
        Pool, Scenario,
        routers::{CacheAware, KvAware, Measure, Routing, Scorer, Weighted},
    },
    cost::Linear,
    traffic::Recorded,
};
use gpuwise_units::{Nanoseconds, RandomStream};

fn cluster(routing: Routing, age: u64) -> Scenario<Linear> {
    let pool = Pool {
        routing,
        signal_age: Nanoseconds(age),
        ..Pool::new(engine(64, 2_000), real(), 4)
    };
    Scenario::new(pool, 1)
}

/// Prompts that begin with one of 40 texts of 1,024 tokens, of conversations.
fn prompts(rate: f64) -> Vec<Request> {
    let mut chance = RandomStream::new(8, "prompts", 0);
    let mut due = 0.0;
    (0..4_000)
        .map(|_| {
            due += -(1.0 - chance.uniform()).ln() / rate;
            let content = chance.below(40);
            Request {
                due: Nanoseconds((due * 1e9) as u64),
                input: 1_024 + 1 + chance.below(256) as u32,
                output: 1 + chance.below(200) as u32,
                prefix: Some(
                    [Segment {
                        content,
                        tokens: 1_024,
                    }]
                    .into(),
                ),
                session: Some(content as u32),
                ..Request::default()
            }
        })
        .collect()
}

fn cached_share(kept: &Kept) -> f64 {
    let sum = |value: fn(&gpuwise_domain::request::RequestRecord) -> u32| {
        kept.records
            .iter()
            .map(|record| f64::from(value(record)))
            .sum::<f64>()
    };
    sum(|record| record.cached.unwrap_or(0)) / sum(|record| record.input)
}

fn mean_ttft(kept: &Kept) -> f64 {
    let sum: f64 = kept
        .records
        .iter()
        .filter_map(|record| Some(record.ttft()?.0 as f64))
        .sum();
    sum / kept.records.len() as f64 / SECOND as f64
}

#[test]
fn routers_that_know_prefixes_find_more_of_them() {
    let scored = |scorer| {
        Routing::Scored(vec![
            Weighted {
                scorer,
                weight: 2.0,
            },
            Weighted {
                scorer: Scorer::Queue,
                weight: 1.0,
            },
        ])
    };
    let mut requests = prompts(20.0);
    for request in &mut requests {
        request.session = None;
    }
    let share = |routing: Routing| {
        let (kept, _) = kept(&cluster(routing, 0), Recorded::new(requests.clone()));
        cached_share(&kept)
    };
    let blind = share(Routing::RoundRobin);
    assert!(blind < 0.8, "40 texts do not fit into one cache: {blind}");
    for routing in [
        Routing::CacheAware(CacheAware::default()),
        Routing::PrefixAware,
        Routing::KvAware(KvAware::default()),
        scored(Scorer::Prefix),
        scored(Scorer::GuessedPrefix),
    ] {
        let found = share(routing.clone());
        assert!(
            found > blind + 0.05,
            "{routing:?}: {found}, round robin {blind}"
        );
    }
}

#[test]
fn sessions_stay_with_a_replica() {
    // A session that waits for its answers would send nothing at the same time.
    let (kept, _) = kept(&cluster(Routing::Session, 0), Recorded::new(prompts(20.0)));
    let mut homes = vec![None; 40];
    for record in &kept.records {
        let home = &mut homes[record.session.map_or(0, |session| session as usize)];
        assert_eq!(*home.get_or_insert(record.replica), record.replica);
    }
    let mut used = homes;
    used.sort_unstable();
    used.dedup();
    assert_eq!(used.len(), 4, "{used:?}");
}

#[test]
fn load_decides_and_old_signals_make_herds() {
    let mut requests = prompts(14.0);
    for request in &mut requests {
        (request.prefix, request.session) = (None, None);
    }
    let ttft =
        |routing, age| mean_ttft(&kept(&cluster(routing, age), Recorded::new(requests.clone())).0);
    let least = Routing::Least(Measure::Requests);
    let [random, two, fresh] = [
        Routing::Random,
        Routing::TwoChoices(Measure::Requests),
        least.clone(),
    ]
    .map(|routing| ttft(routing, 0));
    assert!(fresh < two && two < random, "{fresh} {two} {random}");
    let stale = ttft(least, 5 * SECOND);
    assert!(
        stale > random,
        "everyone runs to the same replica: {stale}, at random {random}"
    );
    let two_stale = ttft(Routing::TwoChoices(Measure::Requests), 5 * SECOND);
    assert!(
        two_stale < stale,
        "two choices bear old signals better: {two_stale}"
    );
}

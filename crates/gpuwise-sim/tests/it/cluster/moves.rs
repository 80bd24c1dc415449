//! Prompts that one pool computes for another. Every step takes a millisecond.

use super::{engine, kept, plain, request};
use gpuwise_domain::request::{Outcome, Request, RequestRecord, Segment};
use gpuwise_sim::{
    cluster::{
        Duration, Failure, Failures, Link, Pool, RemotePrefill, Retry, RunStatistics, Scenario,
        ScenarioError, StartUp,
    },
    cost::Linear,
    engine::Role,
    traffic::Recorded,
};
use gpuwise_units::Nanoseconds;

/// A thousand tokens are moved in 1 ms, and half a millisecond of latency.
fn separated(threshold: u32) -> Scenario<Linear> {
    let mut decode = engine(8, 1_000);
    decode.role = Role::Decode;
    let mut prefill = engine(8, 1_000);
    prefill.role = Role::Prefill;
    let mut scenario = Scenario::new(Pool::new(decode, plain(), 1), 1);
    scenario.pools[0].prefill = Some(RemotePrefill {
        pool: 1,
        threshold,
        link: Link {
            name: "link".to_owned(),
            bytes_per_second: 1e9,
            latency: Nanoseconds(500_000),
        },
        bytes_per_token: 1_000,
    });
    scenario.pools.push(Pool {
        name: "prompts".to_owned(),
        ..Pool::new(prefill, plain(), 1)
    });
    scenario
}

/// First token and end in microseconds.
fn times(record: &RequestRecord) -> (u64, u64) {
    (
        record.first_token.map_or(0, |time| time.0 / 1_000),
        record.end.0 / 1_000,
    )
}

fn runs(
    scenario: &Scenario<Linear>,
    requests: Vec<Request>,
) -> (Vec<RequestRecord>, RunStatistics) {
    let (kept, statistics) = kept(scenario, Recorded::new(requests));
    (kept.records, statistics)
}

#[test]
fn the_first_token_waits_for_the_cache() {
    let (records, statistics) = runs(&separated(1), vec![request(0, 1_000, 5)]);
    // 1 ms for the prompt, 1.5 for its cache, 1 for its last token, 4 for the others.
    assert_eq!(times(&records[0]), (3_500, 7_500));
    assert_eq!(
        (records[0].scheduled, records[0].replica),
        (Some(Nanoseconds(0)), Some(0))
    );
    assert_eq!(
        (statistics.moves.count, statistics.moves.bytes),
        (1, 1_000_000)
    );
    assert_eq!(
        (statistics.moves.busy.0, statistics.moves.waited.0),
        (1_500_000, 0)
    );
}

#[test]
fn a_link_moves_one_cache_at_a_time() {
    let (records, statistics) = runs(
        &separated(1),
        vec![request(0, 1_000, 5), request(0, 1_000, 5)],
    );
    // Both prompts are one step; the second cache is there at 4 ms, in the middle of a step.
    assert_eq!(times(&records[0]), (3_500, 7_500));
    assert_eq!(times(&records[1]), (5_500, 9_500));
    assert_eq!(statistics.moves.waited.0, 1_500_000);
}

#[test]
fn short_prompts_are_computed_where_they_are_answered() {
    let prompt = |due, own: u32| Request {
        prefix: Some(
            [Segment {
                content: 1,
                tokens: 800,
            }]
            .into(),
        ),
        ..request(due, 800 + own, 3)
    };
    let requests = vec![
        prompt(0, 200),
        prompt(50_000, 150),
        request(100_000, 300, 3),
    ];
    let (records, statistics) = runs(&separated(200), requests);
    assert_eq!(statistics.moves.count, 2);
    // Of the second prompt all but 150 tokens are there.
    assert_eq!(times(&records[1]), (51_000, 53_000));
    assert_eq!(times(&records[2]), (102_800, 104_800));
}

#[test]
fn blocks_of_a_prompt_are_held_until_it_is_moved() {
    let mut scenario = separated(1);
    // Room for one prompt of 1,000 tokens at a time.
    scenario.pools[1].engine.cache.blocks = 80;
    let (records, _) = runs(&scenario, vec![request(0, 1_000, 2), request(0, 1_000, 2)]);
    assert_eq!(times(&records[0]).0, 3_500);
    // The second prompt begins when the first is moved, at 2.5 ms.
    assert_eq!(records[1].scheduled, Some(Nanoseconds(2_500_000)));
    assert_eq!(times(&records[1]).0, 6_000);
}

#[test]
fn whoever_dies_takes_the_request_along() {
    for (pool, at, expected) in [
        (0, 500, (Outcome::Failed, 1_000)),
        (0, 2_000, (Outcome::Failed, 2_000)),
        (0, 5_000, (Outcome::Failed, 5_000)),
        (1, 500, (Outcome::Failed, 500)),
        (1, 2_000, (Outcome::Failed, 2_000)),
        (1, 3_000, (Outcome::Completed, 7_500)),
    ] {
        let mut scenario = separated(1);
        let at = Nanoseconds(at * 1_000);
        scenario.pools[pool].failures = Failures::Listed(vec![Failure {
            replica: 0,
            at,
            returns: true,
        }]);
        scenario.pools[pool].start = StartUp {
            engine: Some(Duration::fixed(0.01)),
            ..StartUp::INSTANT
        };
        let requests = vec![request(0, 1_000, 5), request(20_000, 1_000, 5)];
        let (records, _) = runs(&scenario, requests.clone());
        assert_eq!(
            (records[0].outcome, times(&records[0]).1),
            expected,
            "pool {pool} at {at:?}"
        );
        assert_eq!(
            times(&records[1]),
            (23_500, 27_500),
            "pool {pool} at {at:?}: nothing is left behind"
        );
        let retry = Some(Retry {
            first: Nanoseconds(12_000_000),
            ..Retry::default()
        });
        let (again, _) = runs(&Scenario { retry, ..scenario }, requests);
        assert!(
            again
                .iter()
                .all(|record| record.outcome == Outcome::Completed)
        );
    }
}

#[test]
fn who_gives_up_frees_both_replicas() {
    for patience in [500, 1_500, 3_000, 5_000] {
        let time_out = Some(Nanoseconds(patience * 1_000));
        let scenario = Scenario {
            time_out,
            ..separated(1)
        };
        let (records, statistics) = runs(
            &scenario,
            vec![request(0, 1_000, 5), request(20_000, 100, 1)],
        );
        assert_eq!(
            (records[0].outcome, records[0].end.0),
            (Outcome::TimedOut, patience * 1_000)
        );
        let expected = if patience > 2_600 {
            Outcome::Completed
        } else {
            Outcome::TimedOut
        };
        assert_eq!(records[1].outcome, expected, "{patience}");
        assert_eq!(statistics.replicas.len(), 2);
    }
}

#[test]
fn pools_must_fit_together() {
    let mut scenario = separated(1);
    scenario.pools[1].engine.role = Role::Whole;
    assert!(matches!(
        scenario.check(),
        Err(ScenarioError::Prefill { other: 1, .. })
    ));
    let mut scenario = separated(1);
    if let Some(prefill) = &mut scenario.pools[0].prefill {
        prefill.pool = 7;
    }
    assert!(matches!(
        scenario.check(),
        Err(ScenarioError::Prefill { other: 7, .. })
    ));
}

//! Replicas that come, die and go. A token takes a millisecond, one request at a time.

use super::{SECOND, kept, records, request, single};
use gpuwise_domain::request::{Outcome, Request, Segment};
use gpuwise_sim::{
    cluster::{
        Admission, Duration, Failure, Failures, GatewayQueue, Observer, Pool, ReplicaState, Retry,
        Scenario, ScenarioError, StartUp, run,
    },
    cost::Linear,
    traffic::Recorded,
};
use gpuwise_units::Nanoseconds;

const MS: u64 = 1_000_000;

/// A start takes 50 ms, of which the machine takes 20.
fn start() -> StartUp {
    StartUp {
        machine: Some(Duration::fixed(0.02)),
        engine: Some(Duration::fixed(0.03)),
        ..StartUp::INSTANT
    }
}

fn changing(replicas: &[(u64, u16)]) -> Scenario<Linear> {
    let replicas = replicas
        .iter()
        .map(|(time, count)| (Nanoseconds(time * MS), *count))
        .collect();
    Scenario::new(
        Pool {
            replicas,
            start: start(),
            ..single()
        },
        1,
    )
}

fn failing(list: &[(u16, u64, bool)]) -> Scenario<Linear> {
    let failure = |(replica, at, returns): &(u16, u64, bool)| Failure {
        replica: *replica,
        at: Nanoseconds(at * MS),
        returns: *returns,
    };
    let mut scenario = changing(&[(0, 2)]);
    scenario.pools[0].failures = Failures::Listed(list.iter().map(failure).collect());
    scenario
}

#[derive(Default)]
struct States(Vec<(u64, u16, ReplicaState)>);

impl Observer for States {
    fn replica(&mut self, time: Nanoseconds, replica: u16, state: ReplicaState) {
        self.0.push((time.0 / MS, replica, state));
    }
}

fn states(scenario: &Scenario<Linear>, requests: Vec<Request>) -> Vec<(u64, u16, ReplicaState)> {
    let mut states = States::default();
    assert!(run(scenario, Recorded::new(requests), &mut states).is_ok());
    states.0
}

#[test]
fn replicas_start_serve_and_drain() {
    use ReplicaState::{Draining, Gone, Ready, Starting};
    let scenario = changing(&[(0, 1), (10, 3), (70, 2), (80, 1), (90, 2)]);
    let requests = vec![
        request(0, 1, 5),
        request(65_000, 1, 5),
        request(66_000, 1, 30),
        request(68_000, 1, 7),
        request(300_000, 1, 1),
    ];
    let found = states(&scenario, requests.clone());
    let expected = [
        (0, 0, Ready),
        (10, 1, Starting),
        (10, 2, Starting),
        (60, 1, Ready),
        (60, 2, Ready),
        // The newest go first, when they have nothing left.
        (70, 2, Draining),
        (80, 1, Draining),
        (90, 3, Starting),
        (96, 2, Gone),
        (140, 3, Ready),
    ];
    assert_eq!(
        found
            .iter()
            .filter(|state| state.1 != 1 || state.2 != Gone)
            .copied()
            .collect::<Vec<_>>(),
        expected
    );
    let (_, statistics) = kept(&scenario, Recorded::new(requests));
    let lives: Vec<_> = statistics
        .replicas
        .iter()
        .map(|replica| (replica.kept.0 / MS, replica.ready.0 / MS))
        .collect();
    assert_eq!(
        lives[2],
        (86, 36),
        "kept from its start until it has drained"
    );
    assert_eq!((lives[0].0, lives[3]), (301, (211, 161)));
    assert!(
        (statistics.replica_seconds()
            - 0.001 * lives.iter().map(|life| life.0 as f64).sum::<f64>())
        .abs()
            < 0.004
    );
}

#[test]
fn a_replica_that_dies_fails_what_it_has_and_comes_back_empty() {
    let scenario = failing(&[(1, 30, true)]);
    let prompt = |due| Request {
        prefix: Some(
            [Segment {
                content: 1,
                tokens: 320,
            }]
            .into(),
        ),
        ..request(due, 321, 20)
    };
    // Round robin: 0, 1, 0, 1, 0 while 1 is down, then 1 and 0 in turn.
    let requests: Vec<_> = [0, 0, 25_000, 25_000, 40_000, 65_000, 130_000, 131_000]
        .map(prompt)
        .to_vec();
    let records = records(&scenario, requests);
    let found: Vec<_> = records
        .iter()
        .map(|record| (record.replica, record.outcome, record.cached.unwrap_or(0)))
        .collect();
    let (done, failed) = (Outcome::Completed, Outcome::Failed);
    assert_eq!(
        found,
        [
            (Some(0), done, 0),
            (Some(1), done, 0),
            (Some(0), done, 320),
            (Some(1), failed, 320),
            (Some(0), done, 320),
            (Some(1), done, 0),
            (Some(0), done, 320),
            (Some(1), done, 320),
        ]
    );
    assert_eq!(records[3].end.0 / MS, 30);
}

#[test]
fn what_a_dead_replica_had_is_sent_to_another() {
    let retry = Retry {
        first: Nanoseconds(MS),
        jitter: 0.0,
        ..Retry::default()
    };
    let scenario = Scenario {
        retry: Some(retry),
        ..failing(&[(0, 10, false)])
    };
    let (kept, statistics) = kept(
        &scenario,
        Recorded::new(vec![
            request(0, 1, 20),
            request(0, 1, 20),
            request(50_000, 1, 20),
        ]),
    );
    let found: Vec<_> = kept
        .records
        .iter()
        .map(|record| (record.replica, record.retries, record.end.0 / MS))
        .collect();
    assert_eq!(
        found,
        [(Some(1), 1, 40), (Some(1), 0, 20), (Some(1), 0, 70)]
    );
    assert_eq!(statistics.replicas[0].failures, 1);
}

#[test]
fn requests_held_at_the_gateway_wait_for_a_start() {
    let mut scenario = failing(&[(0, 10, true), (1, 10, true)]);
    scenario.pools[0].admission = Admission {
        held: GatewayQueue::All,
        ..Admission::default()
    };
    let records = records(
        &scenario,
        vec![request(20_000, 1, 5), request(21_000, 1, 5)],
    );
    // The machine is there: starts take 30 ms. The first that is up takes both.
    let ends: Vec<_> = records
        .iter()
        .map(|record| (record.outcome, record.end.0 / MS))
        .collect();
    assert_eq!(ends, [(Outcome::Completed, 45), (Outcome::Completed, 50)]);
}

#[test]
fn chance_fails_as_often_as_it_should() {
    let mut scenario = changing(&[(0, 4)]);
    scenario.pools[0].failures = Failures::Random {
        between: 20.0,
        repair: 3.0,
    };
    scenario.pools[0].start = StartUp {
        engine: Some(Duration {
            mean: 2.0,
            variation: 0.3,
        }),
        ..StartUp::INSTANT
    };
    scenario.horizon = Some(Nanoseconds(20_000 * SECOND));
    let (_, statistics) = kept(
        &scenario,
        Recorded::new(vec![request(0, 1, 1), request(20_001_000_000, 1, 1)]),
    );
    let failures: u32 = statistics
        .replicas
        .iter()
        .map(|replica| replica.failures)
        .sum();
    let ready: f64 = statistics
        .replicas
        .iter()
        .map(|replica| replica.ready.0 as f64 / 1e9)
        .sum();
    // 20 s of service in every 25 s.
    assert!((ready / 80_000.0 - 0.8).abs() < 0.02, "{ready}");
    assert!(
        (f64::from(failures) / 3_200.0 - 1.0).abs() < 0.06,
        "{failures}"
    );
}

#[test]
fn parts_of_a_start_that_nobody_stated_are_said() {
    let mut scenario = changing(&[(0, 1), (10, 2)]);
    scenario.pools[0].start = StartUp {
        machine: Some(Duration::fixed(1.0)),
        ..StartUp::default()
    };
    let (_, statistics) = kept(&scenario, Recorded::new(vec![request(0, 1, 1)]));
    let expected = "how long a start takes in pool “replicas”: nobody stated the time of image, weights, engine, graphs";
    assert_eq!(statistics.unknown, [expected]);
    scenario.pools[0].replicas.truncate(1);
    let (_, statistics) = kept(&scenario, Recorded::new(vec![request(0, 1, 1)]));
    assert!(statistics.unknown.is_empty(), "nothing starts");
}

#[test]
fn scenarios_that_cannot_be_run_say_why() {
    let scenario = |change: fn(&mut Scenario<Linear>)| {
        let mut scenario = changing(&[(0, 1)]);
        change(&mut scenario);
        scenario
            .check()
            .err()
            .map(|error: ScenarioError| error.to_string())
    };
    for (change, says) in [
        (
            (|one| one.pools.clear()) as fn(&mut Scenario<Linear>),
            "no pool of replicas",
        ),
        (
            |one| one.pools[0].engine.max_sequences = 0,
            "pool “replicas”: the most sequences in a batch is 0",
        ),
        (
            |one| one.pools[0].replicas = vec![(Nanoseconds(5), 1), (Nanoseconds(3), 1)],
            "not in order of time",
        ),
        (
            |one| one.pools[0].start.image = Some(Duration::fixed(f64::NAN)),
            "image is NaN",
        ),
        (
            |one| {
                one.pools[0].failures = Failures::Random {
                    between: 0.0,
                    repair: 1.0,
                }
            },
            "between failures is 0",
        ),
        (
            |one| one.pools[0].engine.role = gpuwise_sim::engine::Role::Prefill,
            "no pool has prompts computed there",
        ),
    ] {
        let error = scenario(change).unwrap_or_default();
        assert!(error.contains(says), "“{error}” should say “{says}”");
    }
    assert_eq!(scenario(|_| ()), None);
}

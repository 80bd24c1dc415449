//! What gateways hold, refuse and let through. A token takes a millisecond.

use super::{kept, records, request, single};
use gpuwise_domain::request::{Outcome, Request};
use gpuwise_sim::{
    cluster::{Admission, GatewayOrder, GatewayQueue, Pool, Scenario},
    cost::Linear,
    traffic::Recorded,
};
use gpuwise_units::Nanoseconds;

fn gated(admission: Admission) -> Scenario<Linear> {
    Scenario::new(
        Pool {
            admission,
            ..single()
        },
        1,
    )
}

fn of(tenant: u16, priority: i16, input: u32) -> Request {
    Request {
        tenant,
        priority,
        ..request(0, input, 10)
    }
}

/// The order in which requests were served; those that were not have no place in it.
fn served(scenario: &Scenario<Linear>, requests: Vec<Request>) -> Vec<u64> {
    let mut records = records(scenario, requests);
    records.retain(|record| record.outcome == Outcome::Completed);
    records.sort_by_key(|record| record.end);
    records.iter().map(|record| record.number).collect()
}

#[test]
fn what_is_held_is_bounded_and_ordered() {
    let requests = || {
        vec![
            of(0, 5, 10),
            of(0, 5, 10),
            of(1, 1, 30),
            of(1, 3, 10),
            of(1, 1, 10),
        ]
    };
    let weights = |weight| GatewayOrder::Weights(vec![(1, weight)]);
    for (held, order, expected, why) in [
        (
            GatewayQueue::None,
            GatewayOrder::Arrival,
            &[0][..],
            "nobody waits",
        ),
        (
            GatewayQueue::Most(2),
            GatewayOrder::Arrival,
            &[0, 1, 2],
            "two wait",
        ),
        (
            GatewayQueue::MostTokens(30),
            GatewayOrder::Arrival,
            &[0, 1, 3, 4],
            "thirty tokens wait",
        ),
        (
            GatewayQueue::All,
            GatewayOrder::Arrival,
            &[0, 1, 2, 3, 4],
            "all wait",
        ),
        (
            GatewayQueue::All,
            GatewayOrder::Priority,
            &[0, 2, 4, 3, 1],
            "the smallest priority first",
        ),
        (
            GatewayQueue::All,
            weights(1.0),
            &[0, 1, 2, 3, 4],
            "the tenant of long prompts waits longer",
        ),
        (
            GatewayQueue::All,
            weights(6.0),
            &[0, 2, 3, 4, 1],
            "the tenant that weighs more waits less",
        ),
    ] {
        let admission = Admission {
            in_replica: Some(1),
            held,
            order,
            ..Admission::default()
        };
        assert_eq!(served(&gated(admission), requests()), expected, "{why}");
    }
}

#[test]
fn a_tenant_at_its_limit_is_refused() {
    let admission = Admission {
        tenant_limits: vec![(1, 2)],
        ..Admission::default()
    };
    let requests = vec![
        of(1, 0, 1),
        of(0, 0, 1),
        of(1, 0, 1),
        of(1, 0, 1),
        Request {
            tenant: 1,
            ..request(30_000, 1, 1)
        },
    ];
    let records = records(&gated(admission), requests);
    let outcomes: Vec<_> = records.iter().map(|record| record.outcome).collect();
    let done = Outcome::Completed;
    assert_eq!(outcomes, [done, done, done, Outcome::Rejected, done]);
}

#[test]
fn tokens_close_a_replica_but_an_idle_one_takes_any() {
    let admission = Admission {
        tokens_in_replica: Some(100),
        held: GatewayQueue::All,
        ..Admission::default()
    };
    let (kept, statistics) = kept(
        &gated(admission),
        Recorded::new(vec![
            of(0, 0, 500),
            of(0, 0, 60),
            of(0, 0, 60),
            of(0, 0, 60),
        ]),
    );
    assert_eq!(statistics.most_held, 3);
    let queued: Vec<_> = kept
        .records
        .iter()
        .map(|record| record.scheduled.map_or(0, |time| time.0 / 1_000_000))
        .collect();
    assert_eq!(queued, [0, 10, 20, 30]);
}

#[test]
fn who_gives_up_leaves_the_gateway() {
    let admission = Admission {
        in_replica: Some(1),
        held: GatewayQueue::Most(1),
        ..Admission::default()
    };
    let scenario = Scenario {
        time_out: Some(Nanoseconds(15_000_000)),
        ..gated(admission)
    };
    let requests = vec![
        request(0, 1, 14),
        request(1_000, 1, 15),
        request(13_000, 1, 10),
        request(15_000, 1, 12),
    ];
    let records = records(&scenario, requests);
    let ends: Vec<_> = records
        .iter()
        .map(|record| (record.outcome, record.end.0 / 1_000_000))
        .collect();
    assert_eq!(
        ends,
        [
            (Outcome::Completed, 14),
            (Outcome::TimedOut, 16),
            (Outcome::Rejected, 13),
            (Outcome::Completed, 28),
        ]
    );
}

#[test]
fn without_a_replica_requests_are_refused_or_wait() {
    let pool = Pool {
        replicas: Vec::new(),
        ..single()
    };
    let refused = records(&Scenario::new(pool.clone(), 1), vec![request(0, 1, 1)]);
    assert_eq!(refused[0].outcome, Outcome::Rejected);
    let admission = Admission {
        held: GatewayQueue::All,
        ..Admission::default()
    };
    let waiting = records(
        &Scenario::new(Pool { admission, ..pool }, 1),
        vec![request(5_000, 1, 1)],
    );
    assert_eq!(
        (waiting[0].outcome, waiting[0].sent.0),
        (Outcome::Unfinished, 5_000_000)
    );
    assert_eq!(waiting[0].scheduled, None);
}

#[test]
fn a_tenant_that_no_pool_serves_gets_an_error() {
    let pool = Pool {
        tenants: vec![3],
        ..single()
    };
    let records = records(&Scenario::new(pool, 1), vec![of(3, 0, 1), of(4, 0, 1)]);
    assert_eq!(
        (records[0].outcome, records[1].outcome),
        (Outcome::Completed, Outcome::Failed)
    );
}

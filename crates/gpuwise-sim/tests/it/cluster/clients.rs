//! When clients send, wait, give up and send again. A token takes a millisecond, one request at a time.

use super::{Paced, engine, kept, plain, records, request, single};
use gpuwise_domain::request::{Outcome, Request, RequestRecord};
use gpuwise_sim::{
    cluster::{Pool, Retry, Scenario},
    traffic::{Pacing, Recorded},
};
use gpuwise_units::Nanoseconds;

/// When a request was due, sent and over, in milliseconds.
fn times(record: &RequestRecord) -> (u64, u64, u64) {
    (
        record.due.0 / 1_000_000,
        record.sent.0 / 1_000_000,
        record.end.0 / 1_000_000,
    )
}

fn paced(requests: Vec<Request>, pacing: Pacing) -> Vec<(u64, u64, u64)> {
    let scenario = Scenario::new(single(), 1);
    let (kept, _) = kept(&scenario, Paced(Recorded::new(requests), pacing));
    kept.records.iter().map(times).collect()
}

#[test]
fn a_limit_holds_requests_back_but_hides_no_wait() {
    let requests = vec![
        request(0, 1, 10),
        request(0, 1, 10),
        request(2_000, 1, 10),
        request(50_000, 1, 10),
    ];
    let capped = paced(requests, Pacing::Scheduled { cap: Some(1) });
    assert_eq!(capped, [(0, 0, 10), (0, 10, 20), (2, 20, 30), (50, 50, 60)]);
}

#[test]
fn a_session_waits_for_its_answer_and_thinks() {
    let of_session = |due, think: u64| Request {
        session: Some(7),
        think: Nanoseconds(think * 1_000_000),
        ..request(due, 1, 10)
    };
    let requests = vec![
        of_session(0, 0),
        of_session(1_000, 5),
        request(2_000, 1, 10),
        of_session(3_000, 0),
        of_session(100_000, 5),
    ];
    let sent = paced(requests, Pacing::Scheduled { cap: None });
    // The second of the session is due when the first has ended and was thought about.
    assert_eq!(
        sent,
        [
            (0, 0, 10),
            (15, 15, 30),
            (2, 2, 20),
            (30, 30, 40),
            (100, 100, 110)
        ]
    );
}

#[test]
fn a_session_under_a_limit_counts_from_when_it_could_go() {
    let of_session = |due| Request {
        session: Some(7),
        ..request(due, 1, 10)
    };
    let requests = vec![
        of_session(0),
        request(1_000, 1, 10),
        of_session(2_000),
        request(3_000, 1, 10),
    ];
    let sent = paced(requests, Pacing::Scheduled { cap: Some(1) });
    // At 10 ms the second request is let through; the session's is due then, after the fourth.
    assert_eq!(sent, [(0, 0, 10), (1, 10, 20), (10, 30, 40), (3, 20, 30)]);
}

#[test]
fn a_closed_loop_keeps_its_number_in_flight() {
    let requests = (0..4).map(|_| Request {
        think: Nanoseconds(4_000_000),
        ..request(0, 1, 10)
    });
    let sent = paced(requests.collect(), Pacing::InFlight(2));
    assert_eq!(sent, [(0, 0, 10), (0, 0, 20), (14, 14, 30), (24, 24, 40)]);
}

#[test]
fn who_gives_up_frees_the_place() {
    let scenario = Scenario {
        time_out: Some(Nanoseconds(50_000_000)),
        ..Scenario::new(single(), 1)
    };
    let requests = vec![
        request(0, 1, 100),
        request(10_000, 1, 20),
        request(20_000, 1, 40),
        request(30_000, 1, 1),
    ];
    let records = records(&scenario, requests);
    let ends: Vec<_> = records
        .iter()
        .map(|record| (record.outcome, times(record).2, record.output))
        .collect();
    assert_eq!(
        ends,
        [
            (Outcome::TimedOut, 50, 50),
            // What ends at the very time is an answer.
            (Outcome::TimedOut, 60, 10),
            (Outcome::TimedOut, 70, 10),
            (Outcome::Completed, 71, 1),
        ]
    );
}

#[test]
fn what_ends_when_its_client_gives_up_is_an_answer() {
    let scenario = Scenario {
        time_out: Some(Nanoseconds(50_000_000)),
        ..Scenario::new(single(), 1)
    };
    let records = records(&scenario, vec![request(0, 1, 50)]);
    assert_eq!(
        (records[0].outcome, records[0].output),
        (Outcome::Completed, 50)
    );
}

#[test]
fn what_is_refused_is_sent_again() {
    let mut engine = engine(1, 1 << 20);
    engine.max_queued = Some(1);
    let retry = Retry {
        most: 2,
        first: Nanoseconds(5_000_000),
        jitter: 0.0,
        ..Retry::default()
    };
    let scenario = Scenario {
        retry: Some(retry.clone()),
        ..Scenario::new(Pool::new(engine, plain(), 1), 1)
    };
    let requests = vec![
        request(0, 1, 12),
        request(1_000, 1, 10),
        request(2_000, 1, 10),
        request(3_000, 1, 10),
    ];
    let (kept, statistics) = kept(&scenario, Recorded::new(requests.clone()));
    let found: Vec<_> = kept
        .records
        .iter()
        .map(|record| (record.outcome, record.retries, times(record)))
        .collect();
    assert_eq!(
        found,
        [
            (Outcome::Completed, 0, (0, 0, 12)),
            (Outcome::Completed, 0, (1, 1, 22)),
            // Again after 5 ms, at 7, and after 10 more, at 17: the second one runs, so it may wait.
            (Outcome::Completed, 2, (2, 2, 32)),
            (Outcome::Rejected, 2, (3, 3, 18)),
        ]
    );
    assert_eq!((statistics.retries, statistics.retries_spared), (4, 0));
    let none = Scenario {
        retry: None,
        ..scenario
    };
    let outcomes: Vec<_> = records(&none, requests)
        .iter()
        .map(|record| record.outcome)
        .collect();
    assert_eq!(outcomes[2..], [Outcome::Rejected, Outcome::Rejected]);
}

#[test]
fn what_can_never_be_served_is_said_and_not_sent_again() {
    let scenario = Scenario {
        retry: Some(Retry::default()),
        ..Scenario::new(Pool::new(engine(4, 11), plain(), 1), 1)
    };
    let records = records(
        &scenario,
        vec![
            request(0, 150, 10),
            request(0, 152, 10),
            request(0, 1 << 20, 10),
        ],
    );
    let found: Vec<_> = records
        .iter()
        .map(|record| (record.outcome, record.retries))
        .collect();
    let impossible = (Outcome::Impossible, 0);
    assert_eq!(found, [(Outcome::Completed, 0), impossible, impossible]);
}

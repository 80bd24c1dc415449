//! Clusters that are queues with a known answer.

use super::{MILLISECOND, Paced, SECOND, engine, kept, plain, request, single};
use gpuwise_domain::request::{Outcome, Request, RequestRecord};
use gpuwise_sim::{
    cluster::{
        Admission, GatewayQueue, Pool, Scenario,
        routers::{Measure, Routing},
    },
    cost::Linear,
    traffic::{Pacing, Recorded},
};
use gpuwise_units::{Nanoseconds, RandomStream};
use std::{cmp::Reverse, collections::BinaryHeap};

/// Poisson arrivals of `rate` a second with answers of exponential length, `mean` tokens of 1 ms.
fn poisson(seed: u64, count: u64, rate: f64, mean: f64, fixed: bool) -> Vec<Request> {
    let mut gaps = RandomStream::new(seed, "gaps", 0);
    let mut lengths = RandomStream::new(seed, "lengths", 0);
    let mut due = 0.0;
    (0..count)
        .map(|_| {
            due += -(1.0 - gaps.uniform()).ln() / rate;
            let length = if fixed {
                mean
            } else {
                -mean * (1.0 - lengths.uniform()).ln()
            };
            Request {
                due: Nanoseconds((due * 1e9) as u64),
                input: 1,
                output: (length.ceil() as u32).max(1),
                ..Request::default()
            }
        })
        .collect()
}

/// `count` replicas of one sequence each behind a gateway that holds what they cannot take.
fn servers(count: u16) -> Scenario<Linear> {
    let admission = Admission {
        in_replica: Some(1),
        held: GatewayQueue::All,
        ..Admission::default()
    };
    Scenario::new(
        Pool {
            admission,
            routing: Routing::Least(Measure::Requests),
            replicas: vec![(Nanoseconds(0), count)],
            ..single()
        },
        1,
    )
}

fn service(request: &Request) -> u64 {
    u64::from(request.output) * MILLISECOND / 1_000
}

/// When each request ends: whoever of `servers` is free first takes the next.
fn first_come(requests: &[Request], servers: usize) -> Vec<u64> {
    let mut free: BinaryHeap<Reverse<u64>> = (0..servers).map(|_| Reverse(0)).collect();
    requests
        .iter()
        .map(|request| {
            let Reverse(server) = free.pop().unwrap_or(Reverse(0));
            let end = server.max(request.due.0) + service(request);
            free.push(Reverse(end));
            end
        })
        .collect()
}

fn mean_wait(records: &[RequestRecord], requests: &[Request]) -> f64 {
    let wait = |(record, request): (&RequestRecord, &Request)| {
        (record.end.0 - record.due.0 - service(request)) as f64
    };
    records.iter().zip(requests).map(wait).sum::<f64>() / records.len() as f64
}

fn near(found: f64, expected: f64, share: f64, what: &str) {
    assert!(
        (found / expected - 1.0).abs() < share,
        "{what}: {found} for {expected}"
    );
}

#[test]
fn servers_with_one_queue_end_each_request_when_they_must() {
    for count in [1, 2, 5] {
        let requests = poisson(3, 20_000, 4.0 * f64::from(count), 200.0, false);
        let (kept, _) = kept(&servers(count), Recorded::new(requests.clone()));
        let ends: Vec<u64> = kept.records.iter().map(|record| record.end.0).collect();
        assert_eq!(ends, first_come(&requests, usize::from(count)), "{count}");
    }
    // The engine's own queue is the same as the gateway's.
    let requests = poisson(3, 20_000, 4.0, 200.0, false);
    let (kept, _) = kept(&Scenario::new(single(), 1), Recorded::new(requests.clone()));
    let ends: Vec<u64> = kept.records.iter().map(|record| record.end.0).collect();
    assert_eq!(ends, first_come(&requests, 1));
}

#[test]
fn waits_of_poisson_arrivals_are_within_one_percent_of_theory() {
    let (count, mean) = (1_000_000, 1_000.0);
    for fixed in [true, false] {
        let requests = poisson(5, count, 0.5, mean, fixed);
        let (kept, statistics) = kept(&Scenario::new(single(), 1), Recorded::new(requests.clone()));
        // Pollaczek and Khinchine, with the moments that were drawn.
        let moment = |power: i32| {
            let sum: f64 = requests
                .iter()
                .map(|request| (service(request) as f64).powi(power))
                .sum();
            sum / count as f64
        };
        let rate = count as f64 / requests.last().map_or(1.0, |request| request.due.0 as f64);
        let expected = rate * moment(2) / (2.0 * (1.0 - rate * moment(1)));
        near(
            mean_wait(&kept.records, &requests),
            expected,
            0.01,
            "one server",
        );
        assert_eq!(statistics.count(Outcome::Completed), count);
    }
}

#[test]
fn waits_for_several_servers_are_as_in_theory() {
    let (servers_count, count, mean) = (4_u16, 1_000_000, 1_000.0);
    let requests = poisson(6, count, 2.4, mean, false);
    let (kept, _) = kept(&servers(servers_count), Recorded::new(requests.clone()));
    let service = requests
        .iter()
        .map(|request| service(request) as f64)
        .sum::<f64>()
        / count as f64;
    let rate = count as f64 / requests.last().map_or(1.0, |request| request.due.0 as f64);
    let (load, servers) = (rate * service, f64::from(servers_count));
    // Erlang's formula for the chance to wait.
    let mut blocked = 1.0;
    for server in 1..=servers_count {
        blocked = load * blocked / (f64::from(server) + load * blocked);
    }
    let waits = blocked / (1.0 - load / servers * (1.0 - blocked));
    let expected = waits * service / (servers - load);
    // A million draws leave a standard error of 1 %.
    let found = mean_wait(&kept.records, &requests);
    near(found, expected, 0.025, "four servers");
}

#[test]
fn a_closed_loop_has_the_throughput_of_its_limit() {
    for (clients, think, sequences) in [(1, 0, 8), (8, 0, 8), (6, 300, 8), (40, 100, 8)] {
        let pool = Pool::new(engine(sequences, 1 << 20), plain(), 1);
        let requests: Vec<Request> = (0..4_000)
            .map(|_| Request {
                think: Nanoseconds(think * 1_000_000),
                ..request(0, 1, 100)
            })
            .collect();
        let source = Paced(Recorded::new(requests), Pacing::InFlight(clients));
        let (kept, _) = kept(&Scenario::new(pool, 1), source);
        let middle = &kept.records[400..3_600];
        let response: f64 = middle
            .iter()
            .map(|record| (record.end.0 - record.sent.0) as f64)
            .sum::<f64>()
            / middle.len() as f64;
        let mut ends: Vec<u64> = middle.iter().map(|record| record.end.0).collect();
        ends.sort_unstable();
        let span = (ends[ends.len() - 1] - ends[0]) as f64 / SECOND as f64;
        let found = (ends.len() - 1) as f64 / span;
        let expected = f64::from(clients) / (response / SECOND as f64 + think as f64 / 1e3);
        near(found, expected, 0.01, "clients by response and thinking");
        let limit = f64::min(
            f64::from(clients) / (0.1 + think as f64 / 1e3),
            f64::from(sequences) / 0.1,
        );
        assert!(found <= limit * 1.01, "{found} within {limit}");
    }
}

#[test]
fn counts_times_and_rates_agree() {
    let pool = Pool::new(engine(16, 1 << 16), super::real(), 3);
    let scenario = Scenario {
        sample_every: Some(Nanoseconds(1_700_000)),
        ..Scenario::new(pool, 1)
    };
    let mut requests = poisson(9, 20_000, 8.0, 150.0, false);
    for request in &mut requests {
        request.input = 500;
    }
    let (kept, statistics) = kept(&scenario, Recorded::new(requests));
    let records = &kept.records;
    let over = |time: fn(&RequestRecord) -> u64| {
        records
            .iter()
            .map(|record| time(record) as f64)
            .sum::<f64>()
            / statistics.end.0 as f64
    };
    let mean = |sum: u64| sum as f64 / kept.samples as f64;
    near(
        mean(kept.in_flight),
        over(|record| record.end.0 - record.sent.0),
        0.01,
        "whole",
    );
    let queued = over(|record| record.scheduled.map_or(0, |time| time.0 - record.sent.0));
    near(mean(kept.waiting), queued, 0.01, "queue");
    let served = over(|record| record.scheduled.map_or(0, |time| record.end.0 - time.0));
    near(mean(kept.running), served, 0.01, "server");
}

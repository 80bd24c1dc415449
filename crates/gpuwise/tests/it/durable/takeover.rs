//! Several daemons, one log: one writes, and another takes over.

use super::{Site, until};
#[cfg(feature = "postgres")]
use gpuwise_needs::postgres;
use std::{
    io::Read as _,
    time::{Duration, Instant},
};

/// From the end of one to the answers of the next.
#[cfg(feature = "postgres")]
const SOON: Duration = Duration::from_secs(10);

#[cfg(feature = "postgres")]
fn two() -> Option<(Site, super::Daemon, super::Daemon)> {
    let Some(server) = postgres::server() else {
        gpuwise_needs::skipped("no initdb under /usr/lib/postgresql");
        return None;
    };
    let site = Site::new(&server.database());
    let (first, client) = site.serve("first");
    client.tenant("vision");
    client.leased("a", 1);
    let mut second = site.start("second");
    let waiting = second.waits(&site);
    assert_eq!(waiting.get("/healthz").status, 200);
    let ready = waiting.get("/readyz");
    assert_eq!(ready.status, 503);
    assert!(
        ready.text.contains("another broker writes this log"),
        "{}",
        ready.text
    );
    let refused = waiting.lease("b", 1).expect("an answer");
    assert_eq!(refused.status, 503, "{}", refused.text);
    Some((site, first, second))
}

#[cfg(feature = "postgres")]
#[test]
fn who_is_killed_is_replaced() {
    let Some((site, mut first, mut second)) = two() else {
        return;
    };
    first.kill();
    let killed = Instant::now();
    let client = second.leads(&site);
    assert!(killed.elapsed() < SOON, "{:?}", killed.elapsed());
    assert_eq!(client.leased("a", 1), "L-1");
    assert_eq!(client.leased("b", 1), "L-2");
}

#[cfg(feature = "postgres")]
#[test]
fn who_was_thought_dead_writes_nothing_more() {
    let Some((site, mut first, mut second)) = two() else {
        return;
    };
    first.signal("-STOP");
    let stopped = Instant::now();
    let client = second.leads(&site);
    assert!(stopped.elapsed() < SOON, "{:?}", stopped.elapsed());
    // It finds this when it wakes up, and must not be heard.
    let old = first.leads(&site);
    let unheard = old.send(
        "POST",
        "/v1/leases",
        "late",
        r#"{"tenant":"vision","gpu":"8xH100"}"#,
    );
    assert_eq!(client.leased("b", 1), "L-2");
    first.signal("-CONT");
    assert_eq!(first.end().code(), Some(2));
    let said = first.said();
    assert!(
        said.contains("the log is written by another gpuwise now"),
        "{said}"
    );
    let mut answer = String::new();
    // It may have been cut off.
    let _ = unheard.expect("is sent").read_to_string(&mut answer);
    assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
    assert_eq!(client.leased("c", 1), "L-3");
    second.signal("-TERM");
    assert_eq!(second.end().code(), Some(0));
    assert_eq!(site.check()["leases"], 3);
}

#[test]
fn who_is_told_to_end_answers_what_is_open_and_hands_over_at_once() {
    let site = Site::sqlite();
    let (mut first, client) = site.serve("first");
    client.tenant("vision");
    let mut second = site.start("second");
    second.waits(&site);
    // Followers of events never end by themselves.
    let followed = client
        .send("GET", "/v1/events?after=0", "", "")
        .expect("is sent");
    let open: Vec<_> = (0..20)
        .map(|n| {
            let body = r#"{"tenant":"vision","gpu":"H100","for":"1h"}"#;
            client.send("POST", "/v1/leases", &format!("k{n}"), body)
        })
        .collect();
    let told = Instant::now();
    first.signal("-TERM");
    let mut answered = 0;
    for stream in open {
        let mut answer = String::new();
        // A connection that was not accepted yet is cut off, and nothing was done.
        let _ = stream.expect("is sent").read_to_string(&mut answer);
        answered += u64::from(answer.starts_with("HTTP/1.1 201"));
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 201"),
            "{answer}"
        );
    }
    assert_eq!(first.end().code(), Some(0), "{}", first.said());
    drop(followed);
    let client = second.leads(&site);
    assert!(
        told.elapsed() < Duration::from_secs(4),
        "{:?}",
        told.elapsed()
    );
    let kept = until("it answers", || {
        let list = client.get("/v1/leases").json();
        Some(list["items"].as_array()?.len() as u64)
    });
    assert_eq!(kept, answered);
}

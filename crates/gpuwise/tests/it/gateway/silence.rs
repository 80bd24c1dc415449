//! Engines that hang: clients are told in time, and nothing more is sent there.

use super::{
    ask,
    ends::{says, streams},
    metric, scripted, started_with, until,
};
use std::sync::atomic::Ordering;

#[test]
fn a_client_of_a_silent_engine_is_told_in_time() {
    let flags = ["--engine-first-byte", "300ms", "--engine-silence", "300ms"];
    let daemon = started_with(&flags);
    let (lease, _) = scripted::service(&daemon, "port", &[]);
    daemon.until(&lease, "active");
    for body in [says("be silent"), streams("be silent")] {
        let late = ask(&daemon, &body);
        assert_eq!(late.status, 504, "{}", late.body);
        assert_eq!(late.json()["error"]["code"], "engine-silent");
        let said = late.json()["detail"].as_str().expect("a text").to_owned();
        assert!(
            said.contains("nothing of an answer came within 0.3 s"),
            "{said}"
        );
    }
    let cut = ask(&daemon, &streams("stop amid"));
    assert_eq!(cut.status, 200);
    assert!(cut.body.contains("\"word\""), "{}", cut.body);
    assert!(
        cut.body.contains("\"code\":\"engine-silent\""),
        "{}",
        cut.body
    );
    assert!(!cut.body.contains("[DONE]"), "{}", cut.body);
    assert_eq!(
        metric(&daemon, "gpuwise_gateway_requests_silent_total"),
        3.0
    );
    assert_eq!(metric(&daemon, "gpuwise_gateway_requests_in_flight"), 0.0);
    let shown = daemon.json(&["lease", "show", &lease]);
    assert_eq!(shown["health"]["silent_requests"], 3, "{shown}");
}

const CHECKS: [&str; 6] = [
    "--health-every",
    "50ms",
    "--health-within",
    "300ms",
    "--health-failures",
    "2",
];

#[test]
fn a_replica_that_is_not_well_gets_no_requests_until_it_is() {
    let daemon = started_with(&CHECKS);
    let (lease, hung) = scripted::service(&daemon, "hung", &[]);
    let (other, well) = scripted::service(&daemon, "well", &[]);
    daemon.until(&lease, "active");
    daemon.until(&other, "active");
    hung.hangs.store(true, Ordering::SeqCst);
    let health = |lease: &str| daemon.json(&["lease", "show", lease])["health"].clone();
    until("it is not well", || health(&lease)["unwell"] == 1);
    let said = health(&lease)["reason"]
        .as_str()
        .expect("a text")
        .to_owned();
    assert_eq!(said, "GET /health was not answered within 0.3 s");
    assert!(health(&lease)["since"].is_string());
    assert_eq!(health(&other)["well"], 1);
    assert_eq!(
        metric(&daemon, "gpuwise_gateway_replicas{health=\"unwell\"}"),
        1.0
    );
    for at in 0..10 {
        let answer = ask(&daemon, &says(&format!("answer {at}")));
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    well.asked(10);
    // Where none is well that is said at once, and requests that wait for it are ended.
    well.hangs.store(true, Ordering::SeqCst);
    until("none is well", || health(&other)["unwell"] == 1);
    let none = ask(&daemon, &says("answer"));
    assert_eq!(none.status, 503, "{}", none.body);
    assert_eq!(none.json()["error"]["code"], "unwell");
    assert!(none.head.contains("retry-after: 5"), "{}", none.head);
    hung.hangs.store(false, Ordering::SeqCst);
    until("it is well again", || health(&lease)["well"] == 1);
    assert_eq!(ask(&daemon, &says("answer")).status, 200);
}

#[test]
fn a_request_that_waits_for_a_replica_that_hangs_is_ended_and_the_service_where_that_is_said() {
    let mut flags = CHECKS.to_vec();
    flags.extend(["--unwell-ends", "2s"]);
    let daemon = started_with(&flags);
    let (lease, engine) = scripted::service(&daemon, "port", &[]);
    daemon.until(&lease, "active");
    let waiting = super::send(&daemon, &daemon.token, &says("be silent"));
    engine.asked(1);
    engine.hangs.store(true, Ordering::SeqCst);
    let ended = super::answer(waiting);
    assert_eq!(ended.status, 504, "{}", ended.body);
    assert!(
        ended.body.contains("it is not well: GET /health"),
        "{}",
        ended.body
    );
    let over = daemon.until(&lease, "ended");
    let reason = over["reason"].as_str().expect("a text");
    assert!(reason.contains("no worker was well for 2 s"), "{reason}");
}

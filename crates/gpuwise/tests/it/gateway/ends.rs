//! Requests are over by whatever path they end.

use super::{Daemon, Value, ask, json, metric, scripted, send, started, until};
use std::io::Read as _;

pub(super) fn says(text: &str) -> Value {
    json!({"model": "tiny", "messages": [{"role": "user", "content": text}]})
}

pub(super) fn streams(text: &str) -> Value {
    let mut body = says(text);
    body["stream"] = true.into();
    body
}

/// Until the daemon has no request of a service open.
fn none_is_open(daemon: &Daemon) {
    until("no request is open", || {
        metric(daemon, "gpuwise_gateway_requests_in_flight") == 0.0
    });
}

#[test]
fn a_service_is_idle_after_requests_that_ended_by_any_path() {
    let daemon = started();
    let (lease, engine) = scripted::service(&daemon, "port", &["--idle", "3s"]);
    daemon.until(&lease, "active");
    assert_eq!(ask(&daemon, &says("answer")).status, 200);
    engine.asked(1);
    // The client goes before the engine answers.
    for (body, count) in [(says("be silent"), 2), (streams("be silent"), 3)] {
        let client = send(&daemon, &daemon.token, &body);
        engine.asked(count);
        drop(client);
        none_is_open(&daemon);
    }
    // The engine breaks off: before its answer, and within it.
    for text in ["break off", "half an answer"] {
        let broken = ask(&daemon, &says(text));
        assert_eq!(broken.status, 502, "{text}: {}", broken.body);
        none_is_open(&daemon);
    }
    // The client goes within a stream.
    let mut client = send(&daemon, &daemon.token, &streams("stop amid"));
    let mut byte = [0; 150];
    client.read_exact(&mut byte).expect("a head and an event");
    drop(client);
    none_is_open(&daemon);
    daemon.until(&lease, "suspended");
    // Nothing answers there any more: the next request waits for the service, and is given up.
    let client = send(&daemon, &daemon.token, &says("answer"));
    drop(client);
    none_is_open(&daemon);
    let counted = |result: &str| {
        metric(
            &daemon,
            &format!("gpuwise_gateway_requests_total{{result=\"{result}\"}}"),
        )
    };
    assert_eq!((counted("ok"), counted("failed")), (1.0, 5.0));
}

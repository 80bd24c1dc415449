//! One tenant has so much of a broker, and others have theirs.

use super::Daemon;
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

#[test]
fn a_tenant_has_so_many_leases_that_wait_and_others_theirs() {
    let flags = ["--tenant-waiting", "2", "--start-takes", "1s"];
    let mut daemon = Daemon::start(&flags);
    for tenant in ["alpha", "beta"] {
        daemon.json(&["tenant", "create", tenant]);
    }
    let ann = daemon.token_of("ann", "member", Some("alpha"));
    let bea = daemon.token_of("bea", "member", Some("beta"));
    let request = |daemon: &Daemon, token: &str, key: &str| {
        let tenant = if token == ann { "alpha" } else { "beta" };
        let ask = format!(r#"{{"tenant": "{tenant}", "gpu": "H100", "workers": 16, "for": "1h"}}"#);
        let headers = [("Idempotency-Key", key)];
        daemon.ask_as(Some(token), ("POST", "/v1/leases"), &headers, &ask)
    };
    let first = request(&daemon, &ann, "1");
    assert_eq!(first.status, 201, "{}", first.text);
    // It takes the whole fleet; until it is decided it waits, too.
    daemon.until("L-1", "active");
    assert_eq!(request(&daemon, &ann, "2").status, 201);
    assert_eq!(request(&daemon, &ann, "3").status, 201);
    let full = request(&daemon, &ann, "4");
    assert_eq!(full.status, 429, "{}", full.text);
    assert!(full.text.contains("problems/waiting"), "{}", full.text);
    assert!(full.text.contains("--tenant-waiting"), "{}", full.text);
    assert_eq!(full.header("retry-after"), Some("60"));
    // What was asked for before is told again.
    assert_eq!(request(&daemon, &ann, "3").status, 200);
    assert_eq!(request(&daemon, &bea, "1").status, 201);
    // The bound holds after a restart, and makes room as one is released.
    daemon.crash(&flags);
    assert_eq!(request(&daemon, &ann, "4").status, 429);
    daemon.json(&["lease", "release", "L-2"]);
    let room = request(&daemon, &ann, "4");
    assert_eq!(room.status, 201, "{}", room.text);
}

#[test]
fn a_request_that_is_too_large_to_be_kept_is_refused() {
    let daemon = Daemon::start(&["--lease-size", "4KiB"]);
    daemon.json(&["tenant", "create", "alpha"]);
    let ann = daemon.token_of("ann", "member", Some("alpha"));
    for (bytes, status) in [(2_000, 201), (9_000, 413)] {
        let value = "x".repeat(bytes);
        let ask = format!(
            r#"{{"tenant": "alpha", "gpu": "H100", "for": "1h", "command": ["true"], "env": {{"A": "{value}"}}}}"#
        );
        let said = daemon.ask_as(Some(&ann), ("POST", "/v1/leases"), &[], &ask);
        assert_eq!(said.status, status, "{}", said.text);
        if status == 413 {
            assert!(said.text.contains("--lease-size"), "{}", said.text);
        }
    }
}

/// A stream of events, and the status that it begins with.
fn followed(daemon: &Daemon, token: &str) -> (TcpStream, String) {
    let address = daemon.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("connects");
    let text = format!(
        "GET /v1/events?after=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).expect("is sent");
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience).expect("is set");
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("an answer");
    let status = String::from_utf8_lossy(&status[9..]).into_owned();
    (stream, status)
}

#[test]
fn a_tenant_has_so_many_streams_of_events_and_others_theirs() {
    let daemon = Daemon::start(&["--tenant-streams", "2"]);
    for tenant in ["alpha", "beta"] {
        daemon.json(&["tenant", "create", tenant]);
    }
    let ann = daemon.token_of("ann", "member", Some("alpha"));
    let bea = daemon.token_of("bea", "member", Some("beta"));
    let (one, status) = followed(&daemon, &ann);
    assert_eq!(status, "200");
    let (_two, status) = followed(&daemon, &ann);
    assert_eq!(status, "200");
    let (mut full, status) = followed(&daemon, &ann);
    assert_eq!(status, "429");
    let mut said = vec![0; 2_000];
    let read = full.read(&mut said).expect("a problem");
    let said = String::from_utf8_lossy(&said[..read]).into_owned();
    assert!(said.contains("etry-"), "{said}");
    let (_other, status) = followed(&daemon, &bea);
    assert_eq!(status, "200");
    // One that is closed makes room, also where nothing happens that it could be told.
    drop(one);
    let patience = Instant::now() + Duration::from_secs(20);
    while followed(&daemon, &ann).1 != "200" {
        assert!(Instant::now() < patience, "a closed stream still counts");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_stream_of_events_ends_with_its_token() {
    let daemon = Daemon::start(&[]);
    daemon.json(&["tenant", "create", "alpha"]);
    let ann = daemon.token_of("ann", "member", Some("alpha"));
    let (mut stream, status) = followed(&daemon, &ann);
    assert_eq!(status, "200");
    let mut revoke = daemon.command(&["token", "revoke", "ann", "--tenant", "alpha"]);
    assert!(revoke.status().expect("runs").success());
    let lease = daemon.json(&["lease", "request", "--tenant", "alpha", "--gpu", "H100"]);
    assert_eq!(lease["id"], "L-1");
    let mut said = Vec::new();
    // To its end: the last of its chunks is empty.
    while !said.ends_with(b"\r\n0\r\n\r\n") {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).expect("the stream ends");
        assert!(read > 0, "cut off");
        said.extend_from_slice(&piece[..read]);
    }
    let said = String::from_utf8_lossy(&said);
    assert!(!said.contains("lease_requested"), "{said}");
}

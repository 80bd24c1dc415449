//! Connections that others hold open stall nobody.

use super::Daemon;
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

const HALF: [&str; 4] = [
    "",
    "GET /healthz HTTP/1.1\r\nHo",
    // A whole head whose body never comes.
    "POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
    "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
];

fn opened(daemon: &Daemon, text: &str) -> TcpStream {
    let address = daemon.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("connects");
    // One that made room is closed.
    let _ = stream.write_all(text.as_bytes());
    stream
}

fn asked(daemon: &Daemon, path: &str) -> String {
    let token = &daemon.token;
    let text = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let mut stream = opened(daemon, &text);
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience).expect("is set");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer in time");
    said
}

#[test]
fn half_open_requests_beyond_the_limit_of_files_stall_nobody() {
    let daemon = Daemon::start_with_files(256, &[]);
    let mut held = Vec::new();
    for (at, text) in (0..300).zip(HALF.iter().cycle()) {
        held.push(opened(&daemon, text));
        if at % 100 == 99 {
            let said = asked(&daemon, "/healthz");
            assert!(said.starts_with("HTTP/1.1 200 "), "{at}: {said}");
            let said = asked(&daemon, "/v1/tenants");
            assert!(said.starts_with("HTTP/1.1 200 "), "{at}: {said}");
        }
    }
    let said = asked(&daemon, "/metrics");
    let count = |name: &str| {
        let line = said.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        value.unwrap_or_else(|| panic!("{name} in {said}"))
    };
    assert!(count("gpuwise_http_connections ") <= 64, "{said}");
    assert!(count("gpuwise_http_connections_closed_total{why=\"made_room\"}") > 200);
    drop(held);
}

#[test]
fn a_request_that_does_not_come_in_time_is_ended() {
    let flags = [
        "--head-timeout",
        "200ms",
        "--body-timeout",
        "200ms",
        "--idle-timeout",
        "200ms",
    ];
    let daemon = Daemon::start(&flags);
    for text in HALF {
        let mut stream = opened(&daemon, text);
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).expect("is set");
        let mut said = Vec::new();
        // It is reset where something of it was not read.
        let ended = stream.read_to_end(&mut said).map_err(|error| error.kind());
        assert_ne!(
            ended.err(),
            Some(std::io::ErrorKind::WouldBlock),
            "{text:?}"
        );
        let said = String::from_utf8_lossy(&said);
        if text.contains("Content-Length") && text.starts_with("GET") {
            assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
            assert!(said.contains("problems/body-late"), "{said}");
        }
    }
}

#[test]
fn more_connections_than_files_allow_are_refused_with_the_limit() {
    let place = crate::support::Place::new();
    let command = super::serving(&place, &["--connections", "100"]);
    let output = super::with_files(&command, 256).output().expect("runs");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("(nofile) is 256, which leaves 64"), "{said}");
    assert!(said.contains("hint: "), "{said}");
}

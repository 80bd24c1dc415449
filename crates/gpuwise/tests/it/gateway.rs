//! Services behind the gateway, with engines that are real processes.

mod ends;
mod scripted;
mod silence;

use super::broker::Daemon;
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

const ENGINE: &str = env!("CARGO_BIN_EXE_gpuwise");

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

fn send(daemon: &Daemon, token: &str, body: &Value) -> TcpStream {
    let address = daemon.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("connects");
    let body = body.to_string();
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("is sent");
    stream
}

fn answer(mut stream: TcpStream) -> Answer {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    Answer {
        status: head
            .split(' ')
            .nth(1)
            .expect("a status")
            .parse()
            .expect("a number"),
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    }
}

fn ask(daemon: &Daemon, body: &Value) -> Answer {
    answer(send(daemon, &daemon.token, body))
}

fn question(tokens: u32) -> Value {
    let message = json!({"role": "user", "content": "one two three"});
    json!({"model": "tiny", "messages": [message], "max_tokens": tokens})
}

/// Leases a service of an engine that is started with `engine`.
fn service(daemon: &Daemon, flags: &[&str], engine: &[&str]) -> String {
    let mut words = vec![
        "lease", "request", "--tenant", "vision", "--gpu", "1xH100", "--serve", "tiny",
    ];
    words.extend(flags);
    words.extend([
        "--format", "json", "--", ENGINE, "engine", "--model", "tiny",
    ]);
    words.extend(["--listen", "127.0.0.1:{port}"]);
    words.extend(engine);
    let output = daemon.command(&words).output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let lease: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    lease["id"].as_str().expect("an id").to_owned()
}

fn started() -> Daemon {
    started_with(&[])
}

fn started_with(flags: &[&str]) -> Daemon {
    let mut all = vec!["--executor", "local", "--telemetry-every", "1s"];
    all.extend(flags);
    let daemon = Daemon::start(&all);
    daemon.json(&["tenant", "create", "vision"]);
    daemon
}

fn get(daemon: &Daemon, path: &str) -> Answer {
    let (address, token) = (daemon.url.trim_start_matches("http://"), &daemon.token);
    let mut stream = TcpStream::connect(address).expect("connects");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    .expect("is sent");
    answer(stream)
}

/// A metric of the daemon.
fn metric(daemon: &Daemon, name: &str) -> f64 {
    let text = get(daemon, "/metrics").body;
    let line = text
        .lines()
        .find(|line| line.starts_with(name) && !line.starts_with('#'));
    let line = line.unwrap_or_else(|| panic!("{name} in {text}"));
    line.rsplit(' ')
        .next()
        .expect("a value")
        .parse()
        .expect("a number")
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "{what} was never so");
        thread::yield_now();
    }
}

#[test]
fn requests_reach_a_service_and_its_tokens_are_counted() {
    let daemon = started();
    let lease = service(&daemon, &[], &["--ttft", "1ms", "--tpot", "1ms"]);
    // It is held until the service is ready.
    let whole = ask(&daemon, &question(5));
    assert_eq!(whole.status, 200, "{}", whole.body);
    assert_eq!(whole.json()["usage"]["completion_tokens"], 5);
    assert_eq!(daemon.until(&lease, "active")["id"], lease);
    let mut streamed = question(4);
    streamed["stream"] = true.into();
    let pieces = ask(&daemon, &streamed);
    assert!(pieces.head.contains("text/event-stream"), "{}", pieces.head);
    assert_eq!(
        pieces.body.matches("\"content\"").count(),
        4,
        "{}",
        pieces.body
    );
    assert!(pieces.body.contains("data: [DONE]"), "{}", pieces.body);
    assert!(
        !pieces.body.contains("\"usage\""),
        "nobody asked for it: {}",
        pieces.body
    );
    streamed["stream_options"] = json!({"include_usage": true});
    let asked = ask(&daemon, &streamed).body;
    assert!(asked.contains("\"completion_tokens\":4"), "{asked}");
    until("tokens are counted", || {
        metric(&daemon, "gpuwise_gateway_tokens_total{kind=\"completion\"}") == 13.0
    });
    assert_eq!(
        metric(&daemon, "gpuwise_gateway_tokens_total{kind=\"prompt\"}"),
        9.0
    );
    until("tokens are in the log", || {
        let usage = get(&daemon, "/v1/leases/L-1/usage").json();
        usage["completion_tokens"] == 13 && usage["requests"] == 3
    });
    let missing = ask(&daemon, &json!({"model": "large", "messages": []}));
    assert_eq!(missing.status, 404);
    assert_eq!(missing.json()["error"]["code"], "model");
}

#[test]
fn a_service_that_nobody_asks_gives_its_gpus_back_until_the_next_request() {
    let daemon = started();
    let lease = service(
        &daemon,
        &["--idle", "1s"],
        &["--ttft", "1ms", "--tpot", "1ms"],
    );
    daemon.until(&lease, "active");
    daemon.until(&lease, "suspended");
    assert_eq!(daemon.json(&["top"])["held"], 0);
    let woken = ask(&daemon, &question(2));
    assert_eq!(woken.status, 200, "{}", woken.body);
    assert_eq!(daemon.json(&["lease", "show", &lease])["state"], "active");
    // What that takes is said before somebody waits for it.
    let offers = daemon.json(&["lease", "offers"]);
    let cold = &offers["services"][0];
    assert_eq!(
        (&cold["service"], &cold["starts"]),
        (&"tiny".into(), &2.into()),
        "{offers}"
    );
    let seconds = |name: &str| cold[name].as_f64().expect("is seen");
    assert!(
        0.0 < seconds("p50") && seconds("p50") <= seconds("p99"),
        "{cold}"
    );
    assert!(seconds("p99") < 30.0, "{cold}");
}

#[test]
fn another_tenants_service_is_not_there() {
    let daemon = started();
    let lease = service(&daemon, &[], &[]);
    daemon.until(&lease, "active");
    daemon.json(&["tenant", "create", "speech"]);
    let token = daemon.json(&[
        "token", "create", "ann", "--role", "member", "--tenant", "speech",
    ]);
    let token = token["token"].as_str().expect("a token");
    assert_eq!(answer(send(&daemon, token, &question(2))).status, 404);
    let token = daemon.json(&["token", "create", "bob", "--role", "auditor"]);
    let token = token["token"].as_str().expect("a token");
    assert_eq!(answer(send(&daemon, token, &question(2))).status, 403);
}

#[test]
fn more_requests_than_a_service_takes_are_refused_and_a_client_that_goes_leaves_nothing() {
    let daemon = started();
    service(
        &daemon,
        &["--max-requests", "1"],
        &["--ttft", "1ms", "--tpot", "50ms"],
    );
    let mut long = question(10_000);
    long["stream"] = true.into();
    let mut first = send(&daemon, &daemon.token, &long);
    // Its head has come: it is being answered.
    let mut byte = [0; 300];
    first.read_exact(&mut byte).expect("a head");
    let second = ask(&daemon, &question(1));
    assert_eq!(second.status, 429, "{}", second.body);
    assert!(second.head.contains("retry-after: 1"), "{}", second.head);
    drop(first);
    until("the request is over", || {
        metric(&daemon, "gpuwise_gateway_requests_in_flight") == 0.0
    });
    assert_eq!(ask(&daemon, &question(1)).status, 200);
}

#[test]
fn what_runs_outlives_the_broker_and_ends_are_known_afterwards() {
    let mut daemon = started();
    let run = |daemon: &Daemon, command: &str| {
        let mut words = vec!["lease", "request", "--tenant", "vision", "--gpu", "1xH100"];
        words.extend(["--format", "json", "--", "sh", "-c", command]);
        let output = daemon.command(&words).output().expect("runs");
        let lease: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let id = lease["id"].as_str().expect("an id").to_owned();
        daemon.until(&id, "active");
        id
    };
    let served = service(&daemon, &[], &["--ttft", "1ms"]);
    daemon.until(&served, "active");
    let ends = run(&daemon, "until [ -e end ]; do sleep 0.02; done; exit 7");
    let stays = run(&daemon, "echo $$; until [ -e never ]; do sleep 0.02; done");
    until("it has begun", || daemon.log(&stays).ends_with('\n'));
    daemon.stop();
    std::fs::write(daemon.place.path("end"), "").expect("writes");
    daemon.again(&["--executor", "local"]);
    assert_eq!(daemon.until(&ends, "failed")["exit_code"], 7);
    assert_eq!(daemon.json(&["lease", "show", &stays])["state"], "active");
    assert_eq!(ask(&daemon, &question(1)).status, 200);
    let process = format!("/proc/{}", daemon.log(&stays).trim());
    assert!(std::path::Path::new(&process).exists(), "{process}");
    daemon.json(&["lease", "release", &stays]);
    assert_eq!(daemon.until(&stays, "ended")["reason"], "released");
    until("the process has ended", || {
        !std::path::Path::new(&process).exists()
    });
    // The shell that watches over it may say that it was ended.
    let starts = daemon
        .log(&stays)
        .lines()
        .filter(|line| line.parse::<u32>().is_ok())
        .count();
    assert_eq!(starts, 1, "it was started once");
    daemon.json(&["lease", "release", &served]);
    daemon.until(&served, "ended");
}

#[test]
fn a_service_that_cannot_be_one_is_refused_and_its_field_named() {
    let daemon = started();
    let cases: [(&[&str], &str); 5] = [
        (&["--health", "health"], "service.health"),
        (&["--idle", "soon"], "service.idle"),
        (&["--ready-within", "0s"], "service.ready_within"),
        (&["--max-requests", "0"], "service.concurrency"),
        (&["--serve", ""], "service.model"),
    ];
    for (flags, field) in cases {
        let mut words = vec!["lease", "request", "--tenant", "vision", "--gpu", "1xH100"];
        if !flags.contains(&"--serve") {
            words.extend(["--serve", "tiny"]);
        }
        words.extend(flags);
        words.extend(["--", "true"]);
        let output = daemon.command(&words).output().expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(errors.contains(field), "{flags:?}: {errors}");
    }
}

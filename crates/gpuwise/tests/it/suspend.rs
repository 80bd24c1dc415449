//! Idle services lend their GPUs and get them back, with engines that are real processes.

use super::broker::Daemon;
use serde_json::Value;
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

const ENGINE: &str = env!("CARGO_BIN_EXE_gpuwise");

/// One GPU, for which two compete.
const FLEET: &str = r#"
name = "one"
[[gpu_kind]]
name = "H100"
price = "2.50 USD"
[[node]]
name = "n1"
gpus = "1xH100"
cpu = 64
memory = "1TiB"
"#;

fn started() -> Daemon {
    let daemon = Daemon::start_on(FLEET, &["--executor", "local", "--preempt"]);
    daemon.json(&["tenant", "create", "vision"]);
    daemon
}

/// A preemptible lease that sleeps.
fn spot(daemon: &Daemon) -> String {
    let words = [
        "lease",
        "request",
        "--tenant",
        "vision",
        "--gpu",
        "1xH100",
        "--preemptible",
    ];
    let output = daemon
        .command(&words)
        .args(["--for", "1h", "--format", "json", "--", "sleep", "1000"])
        .output()
        .expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let spot: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    spot["id"].as_str().expect("an id").to_owned()
}

fn service(daemon: &Daemon, flags: &[&str]) -> String {
    let mut words = vec![
        "lease", "request", "--tenant", "vision", "--gpu", "1xH100", "--serve", "tiny",
    ];
    words.extend(["--priority", "10"]);
    words.extend(flags);
    words.extend([
        "--format", "json", "--", ENGINE, "engine", "--model", "tiny",
    ]);
    words.extend(["--listen", "127.0.0.1:{port}"]);
    let output = daemon.command(&words).output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let lease: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    lease["id"].as_str().expect("an id").to_owned()
}

/// The status of what a service answers.
pub(super) fn ask(daemon: &Daemon) -> u16 {
    let address = daemon.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("connects");
    let body = r#"{"model":"tiny","messages":[{"role":"user","content":"one"}],"max_tokens":3}"#;
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Authorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
        daemon.token,
        body.len()
    )
    .expect("is sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let status = text.split(' ').nth(1).expect("a status");
    status.parse().expect("a number")
}

/// The processes that run of a lease: their leaders and ports.
pub(super) fn runs(daemon: &Daemon, lease: &str) -> Option<Value> {
    let state = daemon.place.path(".local/state/gpuwise");
    let folders = std::fs::read_dir(state).ok()?.flatten();
    let mut files = folders.map(|one| one.path().join(format!("leases/{lease}/runs.json")));
    let text = files.find_map(|file| std::fs::read_to_string(file).ok())?;
    serde_json::from_str(&text).ok()
}

pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !is_so() {
        assert!(Instant::now() < end, "{what} was never so");
        thread::yield_now();
    }
}

#[test]
fn an_engine_sleeps_its_gpu_is_lent_and_the_next_request_brings_it_back() {
    let daemon = started();
    let engine = service(&daemon, &["--idle", "1s", "--suspend", "sleep"]);
    daemon.until(&engine, "active");
    assert_eq!(ask(&daemon), 200);
    let before = runs(&daemon, &engine).expect("it runs");
    daemon.until(&engine, "suspended");
    let port = before["processes"][0]["port"].as_u64().expect("a port");
    let sleeps = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port as u16)).expect("it lives");
        write!(
            stream,
            "GET /is_sleeping HTTP/1.1\r\nHost: e\r\nConnection: close\r\n\r\n"
        )
        .expect("is sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text.contains("true")
    };
    assert!(sleeps());
    // Somebody who may be stopped takes the GPU.
    let spot = &spot(&daemon);
    daemon.until(spot, "active");
    // The holder's request brings it back: the same processes, awake.
    assert_eq!(ask(&daemon), 200);
    let after = runs(&daemon, &engine).expect("it runs");
    assert_eq!(after["processes"], before["processes"]);
    assert!(!sleeps());
    let shown = daemon.json(&["lease", "show", &engine]);
    let suspension = &shown["suspension"];
    assert_eq!(suspension["how"], "sleep");
    assert_eq!(suspension["returns"], 1);
    let back = suspension["return_p99"].as_f64().expect("a time");
    assert!((0.0..20.0).contains(&back), "{suspension}");
    let state = daemon.json(&["lease", "show", spot])["state"].clone();
    assert_ne!(state, "active");
}

#[test]
fn who_waits_gets_what_an_idle_holder_does_not_use_and_its_next_request_has_it_back() {
    let place = crate::support::Place::new();
    let policy =
        "[disruption]\npreempt = true\n[disruption.idle]\nafter = \"1s\"\nreload = \"1s\"\n";
    place.write("lend.toml", policy);
    let file = place.path("lend.toml");
    let policy = ["--policy", file.to_str().expect("UTF-8")];
    let flags = ["--executor", "local", "--telemetry-every", "1s"];
    let daemon = Daemon::start_on(FLEET, &[&flags[..], &policy].concat());
    daemon.json(&["tenant", "create", "vision"]);
    // It says nothing of when it is idle: that is measured.
    let engine = service(&daemon, &["--suspend", "sleep"]);
    daemon.until(&engine, "active");
    assert_eq!(ask(&daemon), 200);
    let before = runs(&daemon, &engine).expect("it runs");
    // Nobody waits for its GPU, and it keeps it; somebody does, and gets it while nobody asks.
    assert_eq!(daemon.json(&["lease", "show", &engine])["state"], "active");
    let spot = spot(&daemon);
    daemon.until(&spot, "active");
    assert_eq!(
        daemon.json(&["lease", "show", &engine])["state"],
        "suspended"
    );
    assert_eq!(ask(&daemon), 200, "and waits for its GPU");
    let after = runs(&daemon, &engine).expect("it runs");
    assert_eq!(after["processes"], before["processes"], "it slept");
    let suspension = &daemon.json(&["lease", "show", &engine])["suspension"];
    assert_eq!(
        (&suspension["how"], &suspension["returns"]),
        (&"sleep".into(), &1.into())
    );
    let back = suspension["return_p99"].as_f64().expect("a time");
    assert!((0.0..20.0).contains(&back), "{suspension}");
    assert_ne!(daemon.json(&["lease", "show", &spot])["state"], "active");
}

#[test]
fn a_checkpoint_signal_frees_a_gpu_and_the_engine_starts_again() {
    let daemon = started();
    let engine = service(
        &daemon,
        &["--idle", "1s", "--suspend", "checkpoint:TERM:10s"],
    );
    daemon.until(&engine, "active");
    assert!(runs(&daemon, &engine).is_some());
    daemon.until(&engine, "suspended");
    until("it has ended", || runs(&daemon, &engine).is_none());
    assert_eq!(ask(&daemon), 200, "and is started again");
    let without = daemon.refused(&[
        "lease",
        "request",
        "--tenant",
        "vision",
        "--gpu",
        "1xH100",
        "--suspend",
        "sleep",
        "--",
        "sleep",
        "1",
    ]);
    assert!(without.contains("only an engine sleeps"), "{without}");
    until("it rests again", || {
        daemon.json(&["lease", "show", &engine])["state"] == "suspended"
    });
}

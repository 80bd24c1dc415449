//! Pages of metrics are read where leases run, and a silent one is its tenant's alone.

use super::Daemon;
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

const ENGINE: &str = env!("CARGO_BIN_EXE_gpuwise");

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "{what} was never so");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Leases a GPU whose command writes the port that it was given to a file, and goes on with `script`.
fn lease(daemon: &Daemon, tenant: &str, name: &str, script: &str) -> (String, PathBuf) {
    let file = daemon.place.path(name);
    let script = format!(
        "echo $PORT > {0}.new; mv {0}.new {0}; {script}",
        file.display()
    );
    let mut words = vec!["lease", "request", "--tenant", tenant, "--gpu", "1xH100"];
    words.extend([
        "--metrics",
        "/metrics",
        "--format",
        "json",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    let output = daemon.command(&words).output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (said["id"].as_str().expect("an id").to_owned(), file)
}

fn port(file: &PathBuf) -> u16 {
    until("its port is known", || file.exists());
    let text = std::fs::read_to_string(file).expect("is read");
    text.trim().parse().expect("a port")
}

#[test]
fn a_silent_page_holds_up_no_other_tenants() {
    let daemon = Daemon::start(&["--executor", "local", "--telemetry-every", "1s"]);
    daemon.json(&["tenant", "create", "silent"]);
    daemon.json(&["tenant", "create", "speaks"]);
    let mut held = Vec::new();
    for at in 0..12 {
        let (_, file) = lease(
            &daemon,
            "silent",
            &format!("silent-{at}"),
            "exec sleep 1000",
        );
        // It takes connections, and never answers.
        held.push(TcpListener::bind(("127.0.0.1", port(&file))).expect("is free"));
    }
    let engine =
        format!("exec {ENGINE} engine --model tiny --ttft 1ms --tpot 1ms --listen 127.0.0.1:$PORT");
    let (id, file) = lease(&daemon, "speaks", "speaks", &engine);
    let port = port(&file);
    let usage = || {
        let output = daemon
            .command(&["usage", "show", &id, "--format", "json"])
            .output();
        serde_json::from_slice::<Value>(&output.expect("runs").stdout).unwrap_or(Value::Null)
    };
    until("its page was read", || {
        usage()["measured"].as_f64() > Some(0.0)
    });
    let body =
        json!({"model": "tiny", "messages": [{"role": "user", "content": "a b"}], "max_tokens": 3});
    let body = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connects");
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("is sent");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer");
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    until("what it did is known", || usage()["completion_tokens"] == 3);
    drop(held);
}

#[test]
fn addresses_where_no_lease_can_run_are_refused_with_what_can_be_said() {
    let daemon = Daemon::start(&[]);
    daemon.json(&["tenant", "create", "vision"]);
    let cases = [
        ("http://127.0.0.1:8600/metrics", "no address of a node"),
        ("http://2130706433:8600/metrics", "four decimal numbers"),
        ("http://0x7f000001:8600/metrics", "four decimal numbers"),
        ("http://0251.0376.0251.0376:8600/", "four decimal numbers"),
        (
            "http://[::ffff:169.254.169.254]:8600/",
            "no address of a node",
        ),
        ("http://n1:22/metrics", "port 22"),
        ("file:///etc/passwd", "expected a path"),
        ("/metrics", "--executor simulated gives no port"),
    ];
    for (said, expected) in cases {
        let words = [
            "lease",
            "request",
            "--tenant",
            "vision",
            "--gpu",
            "1xH100",
            "--metrics",
            said,
        ];
        let refused = daemon.refused(&words);
        assert!(refused.contains(expected), "{said}: {refused}");
    }
}

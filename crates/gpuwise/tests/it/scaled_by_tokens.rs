//! Services whose answers become longer while as many requests come: rehearsed by a trace of requests.

use super::broker::Daemon;
use crate::{support::Place, suspend::until};
use serde_json::Value;
use std::fmt::Write as _;

const FLEET: &str = r#"
name = "lab"
[[gpu_kind]]
name = "H100"
price = "2.50 USD"
[[node]]
name = "n1"
gpus = "8xH100"
cpu = 64
memory = "1TiB"
[[node]]
name = "n2"
gpus = "8xH100"
cpu = 64
memory = "1TiB"
"#;

/// A request every ten seconds for four hours, with 100 tokens out; for the last two with 300.
fn trace() -> String {
    let mut text = String::from("timestamp_s,input_tokens,output_tokens\n");
    for at in 0..1440 {
        let answer = if at < 720 { 100 } else { 300 };
        writeln!(text, "{},100,{answer}", at * 10).expect("fits");
    }
    text
}

#[test]
fn a_daemon_follows_tokens_where_requests_stay_the_same() {
    let place = Place::new();
    place.write("fleet.toml", FLEET);
    place.write("traffic.csv", trace());
    let requests = "max = 7\nrate = 0.05\nstart = \"2min\"\nwarm_cost = 0.1\n";
    place.write("requests.toml", requests);
    let tokens = "tokens = { prompt = 100, answer = 100 }\n";
    place.write("tokens.toml", format!("{requests}{tokens}"));
    let flags = [
        "--speed",
        "600",
        "--start-takes",
        "90s",
        "--rehearse",
        "tokens=traffic.csv",
        "--rehearse",
        "requests=traffic.csv",
    ];
    let mut daemon = Daemon::start_in(place, &flags, Vec::new());
    daemon.json(&["tenant", "create", "chat"]);
    // The same lease twice, but for what is counted.
    for name in ["tokens", "requests"] {
        let policy = format!("{name}.toml");
        let of = [
            "--tenant",
            "chat",
            "--gpu",
            "1xH100",
            "--suspend",
            "sleep",
            "--serve",
            name,
            "--scale",
            &policy,
        ];
        let asked = [&["lease", "request"], &of[..]].concat();
        let output = daemon.command(&asked).args(["--", "engine"]).output();
        let output = output.expect("runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let show = |daemon: &Daemon, lease: &str| daemon.json(&["lease", "show", lease]);
    let scaled = |daemon: &Daemon, lease: &str| show(daemon, lease)["scaling"].clone();
    let serve = |of: &Value| of["replicas"].as_u64().unwrap_or(0);
    let answers = |of: &Value| {
        let (tokens, arrived) = (&of["seen"]["tokens"], of["seen"]["arrived"].as_f64());
        Some(tokens["answers"].as_f64()? / arrived?)
    };
    until("it was looked at", || {
        answers(&scaled(&daemon, "L-1")).is_some()
    });
    let before = scaled(&daemon, "L-1");
    assert!((2..=5).contains(&serve(&before)), "{before}");
    until("answers are long, and six serve them", || {
        let one = scaled(&daemon, "L-1");
        answers(&one).is_some_and(|each| each > 290.0) && serve(&one) >= 6
    });
    daemon.crash(&flags);
    let after = scaled(&daemon, "L-1");
    assert!(serve(&after) >= 6, "{after}");
    let text = after["reason"].as_str().expect("a reason");
    assert!(text.contains("requests/s by tokens"), "{text}");
    assert_eq!(after["seen"]["cache"], Value::Null, "no engine says it");
    // The other one sees the same requests, and knows of nothing that has changed.
    let other = scaled(&daemon, "L-2");
    assert!(serve(&other) <= 4, "{other}");
    assert_eq!(other["seen"]["tokens"], Value::Null, "{other}");
    let whole = daemon.json(&["store", "check", "--store", "sqlite://log.db"]);
    assert_eq!(whole["problems"], Value::Array(Vec::new()));
    assert!(whole["decisions"].as_u64() > Some(100), "{whole}");
    assert_eq!(whole["decisions_otherwise"], Value::Null, "{whole}");
}

//! Policies and reservations as operators set them while the broker runs.

use super::Daemon;
use serde_json::Value;

fn lease(daemon: &Daemon, tenant: &str, flags: &[&str]) -> String {
    let mut words = vec!["lease", "request", "--tenant", tenant];
    words.extend(flags);
    let lease = daemon.json(&words);
    lease["id"].as_str().expect("an id").to_owned()
}

fn state(daemon: &Daemon, lease: &str) -> Value {
    daemon.json(&["lease", "show", lease])["state"].clone()
}

#[test]
fn what_is_reserved_is_kept_through_a_restart_until_it_is_withdrawn() {
    let flags = ["--start-takes", "1ms"];
    let mut daemon = Daemon::start(&flags);
    for tenant in ["vision", "batch"] {
        daemon.json(&["tenant", "create", tenant]);
    }
    let words = [
        "reservation",
        "create",
        "demo",
        "--tenant",
        "vision",
        "--node",
        "n1",
    ];
    let made = daemon.json(&[&words[..], &["--gpus", "8", "--for", "8h"]].concat());
    assert_eq!(made["items"][0]["name"], "demo");
    let refused = daemon.refused(&[&words[..], &["--gpus", "9", "--for", "8h"]].concat());
    assert!(refused.contains("there is a reservation"), "{refused}");
    // One node of two is left for others.
    let first = lease(&daemon, "batch", &["--gpu", "8xH100"]);
    let second = lease(&daemon, "batch", &["--gpu", "8xH100"]);
    daemon.until(&first, "active");
    daemon.crash(&flags);
    assert_eq!(state(&daemon, &second), "requested");
    let why = daemon.json(&["lease", "explain", &second]);
    let reason = why["reason"].as_str().expect("a reason");
    assert!(reason.contains("reserved"), "{reason}");
    let own = lease(&daemon, "vision", &["--gpu", "4xH100", "--for", "1h"]);
    daemon.until(&own, "active");
    daemon.json(&["lease", "release", &own]);
    daemon.until(&own, "ended");
    let left = daemon.json(&["reservation", "withdraw", "demo"]);
    assert_eq!(left["items"], Value::Array(Vec::new()));
    daemon.until(&second, "active");
    let audit = daemon.json(&["token", "audit"]);
    let done: Vec<&str> = audit["items"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["what"].as_str())
        .collect();
    assert!(done.contains(&"withdraw-reservation"), "{done:?}");
    assert!(done.contains(&"create-reservation"), "{done:?}");
}

#[test]
fn a_policy_that_is_set_moves_the_next_decision_and_outlives_a_restart() {
    let flags = ["--start-takes", "1ms"];
    let mut daemon = Daemon::start(&flags);
    daemon.json(&["tenant", "create", "vision"]);
    let held = [0, 1].map(|_| lease(&daemon, "vision", &["--gpu", "8xH100"]));
    for one in &held {
        daemon.until(one, "active");
    }
    let early = lease(&daemon, "vision", &["--gpu", "8xH100"]);
    let urgent = lease(&daemon, "vision", &["--gpu", "8xH100", "--priority", "5"]);
    let shown = daemon.json(&["policy", "show"]);
    assert_eq!(shown["version"], 1);
    daemon
        .place
        .write("fifo.toml", "name = \"turns\"\norder = \"fifo\"\n");
    let seen = daemon.ask("GET", "/v1/policies", "");
    let tag = seen.header("etag").expect("a tag").to_owned();
    let set = daemon.json(&["policy", "set", "fifo.toml", "--version", "1"]);
    assert_eq!(set["version"], 2);
    // Who saw the first one changes nothing by what it saw.
    let late = daemon.ask_as(
        Some(&daemon.token),
        ("PUT", "/v1/policies"),
        &[("if-match", &tag)],
        r#"{"order":"priority"}"#,
    );
    assert_eq!(late.status, 412, "{}", late.text);
    let refused = daemon.refused(&["policy", "set", "fifo.toml", "--version", "1"]);
    assert!(refused.contains("version 2"), "{refused}");
    let unknown = daemon.ask(
        "PUT",
        "/v1/policies",
        r#"{"queue":[{"name":"nobody","weight":2}]}"#,
    );
    assert_eq!(unknown.status, 422, "{}", unknown.text);
    assert!(unknown.text.contains("nobody"), "{}", unknown.text);
    daemon.crash(&flags);
    let shown = daemon.json(&["policy", "show"]);
    assert_eq!(
        (&shown["version"], &shown["policy"]["file"]["name"]),
        (&2.into(), &"turns".into())
    );
    // By priority the other would be next.
    daemon.json(&["lease", "release", &held[0]]);
    daemon.until(&early, "active");
    assert_eq!(state(&daemon, &urgent), "requested");
    let whole = daemon.json(&["store", "check", "--store", "sqlite://log.db"]);
    assert_eq!(whole["problems"], Value::Array(Vec::new()));
}

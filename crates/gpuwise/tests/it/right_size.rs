//! Telemetry, SLOs and right-sizing of a daemon, as people use them. The whole loop with its figures is
//! `benches/loop/loop.py`; this is the short of it.

use super::broker::Daemon;
use crate::schemas;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SERVICE: [&str; 14] = [
    "lease",
    "request",
    "--tenant",
    "chat",
    "--model",
    "llama-3.1-8b",
    "--rate",
    "30",
    "--isl",
    "1000",
    "--osl",
    "200",
    "--tpot",
    "p95:40ms",
];

fn until(what: &str, mut look: impl FnMut() -> Option<Value>) -> Value {
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} never came");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn proposal(daemon: &Daemon, state: &str) -> Option<Value> {
    let list = daemon.json(&["proposal", "list"]);
    let items = list["items"].as_array()?.clone();
    items.into_iter().find(|one| one["state"] == state)
}

#[test]
fn a_service_that_is_too_large_gets_smaller_and_the_next_plan_knows_why() {
    let daemon = Daemon::start(&[
        "--speed",
        "7200",
        "--true-speed",
        "0.8",
        "--review-every",
        "2h",
        "--proof",
        "6h",
        "--right-size",
        "accept",
    ]);
    daemon.json(&["tenant", "create", "chat"]);
    let mut big = SERVICE.to_vec();
    big.extend(["--gpu", "8xH100"]);
    let big = daemon.json(&big)["id"].as_str().expect("an id").to_owned();
    let proven = until("a proof", || proposal(&daemon, "proven"));
    assert_eq!(proven["lease"], big.as_str());
    let saving = &proven["saving"];
    assert_eq!(saving["gpus_before"], 8.0);
    assert_eq!(saving["gpus_after"], 2.0);
    let money = |text: &Value| -> f64 {
        let text = text.as_str().expect("money");
        text.split(' ')
            .next()
            .expect("an amount")
            .parse()
            .expect("a number")
    };
    let saved = money(&proven["saved"]);
    assert!(
        (money(&saving["low"])..=money(&saving["high"])).contains(&saved),
        "{saved} of {saving}"
    );
    let steps: Vec<&str> = proven["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| step["state"].as_str().expect("a state"))
        .collect();
    let whole = [
        "open", "accepted", "starting", "switched", "watched", "proven",
    ];
    assert_eq!(steps, whole);
    let list = daemon.json(&["proposal", "list"]);
    assert_eq!(schemas::held(&list), "proposals");
    let small = proven["successor"].as_str().expect("a successor");
    let shown = daemon.json(&["lease", "show", small]);
    assert_eq!(shown["gpus"].as_array().expect("GPUs").len(), 2);
    // One GPU of the predicted speed would be enough, and is not: the next plan knows.
    let next = daemon.json(&SERVICE);
    assert_eq!(next["gpus"].as_array().expect("GPUs").len(), 2);
    let slos = daemon.json(&["slo", "show", "S-1"]);
    assert_eq!(schemas::held(&slos), "slos");
    let usage = daemon.json(&["usage", "show", small]);
    assert_eq!(schemas::held(&usage), "lease-usage");
    let tpot = &slos["items"][0]["objectives"][0];
    assert_eq!(tpot["alert"], "ok");
    assert!(tpot["good"].as_f64().expect("events") > 0.95, "{tpot}");
}

#[test]
fn usage_is_told_once_and_what_cannot_be_is_kept_aside() {
    let daemon = Daemon::start(&["--start-takes", "1ms"]);
    daemon.json(&["tenant", "create", "chat"]);
    let lease = daemon.json(&["lease", "request", "--tenant", "chat", "--gpu", "1xH100"]);
    let lease = lease["id"].as_str().expect("an id").to_owned();
    let shown = daemon.until(&lease, "active");
    let uid = shown["gpus"][0]["uid"].as_str().expect("a uid");
    let event = |id: &str, gpu: &str, start: &str, end: &str| {
        json!({
            "specversion": "1.0", "type": "dev.gpuwise.usage.v1", "source": "/test", "id": id,
            "subject": lease,
            "data": {
                "start": start, "end": end,
                "gpus": [{"uid": gpu, "sm_seconds": 0.25, "joules": 100.0}],
                "requests": 10, "prompt_tokens": 5000,
                "ttft": {"bounds": [0.5, 1.0], "counts": [8, 1, 1], "sum": 4.0},
            },
        })
    };
    let start = shown["started_at"].as_str().expect("a time");
    let end = start; // A moment: what was used of it is what counts.
    let batch = json!([
        event("1", uid, start, end),
        event("1", uid, start, end),
        event("2", uid, end, "2001-01-01T00:00:00Z"),
        event("3", "GPU-of-somebody-else", start, end),
    ]);
    daemon.place.write("usage.json", batch.to_string());
    daemon.json(&["slo", "set", &lease, "--ttft", "p90:1s"]);
    let report = |code: i32| {
        let output = daemon
            .command(&["usage", "report", "usage.json"])
            .output()
            .expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{errors}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let said = report(1);
    assert!(
        said.starts_with("1 accepted, 1 known already, 2 kept aside"),
        "{said}"
    );
    assert!(said.contains("it ends before it starts"), "{said}");
    let said = report(1);
    assert!(said.starts_with("0 accepted, 2 known already"), "{said}");
    let output = daemon
        .command(&["slo", "show", "--format", "json"])
        .output()
        .expect("runs");
    let slos: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let ttft = &slos["items"][0]["objectives"][0];
    assert_eq!((&ttft["events"], &ttft["bad"]), (&json!(10), &json!(1)));
    let rules = daemon
        .command(&["slo", "rules"])
        .output()
        .expect("runs")
        .stdout;
    daemon
        .place
        .write("rules.yml", String::from_utf8(rules).expect("UTF-8"));
    let checked = std::process::Command::new("promtool")
        .args(["check", "rules"])
        .arg(daemon.place.path("rules.yml"))
        .output();
    match checked {
        Ok(checked) => {
            let said = String::from_utf8_lossy(&checked.stdout).into_owned();
            assert!(
                checked.status.success() && said.contains("4 rules"),
                "{said}"
            );
        }
        Err(_) => gpuwise_needs::skipped("promtool (apt-get install prometheus)"),
    }
    let bad = daemon.refused(&["slo", "set", &lease, "--ttft", "mean:1s"]);
    assert!(bad.contains("a share of requests"), "{bad}");
}

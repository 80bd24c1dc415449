//! What tenants ask for, wait for and pay.

use super::{Daemon, FLEET};
use crate::support::Place;
use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

#[test]
fn a_tenant_leases_and_is_billed() {
    let daemon = Daemon::start(&["--speed", "3600"]);
    daemon.json(&[
        "tenant",
        "create",
        "vision",
        "--budget",
        "20000usd/month",
        "--quota",
        "16xH100",
    ]);
    let lease = daemon.json(&[
        "lease", "request", "--tenant", "vision", "--gpu", "4xH100", "--for", "2h",
    ]);
    assert_eq!(lease["id"], "L-1");
    let ended = daemon.until("L-1", "ended");
    assert_eq!(ended["reason"], "its time is over");
    let month = ended["requested_at"].as_str().expect("a time")[..7].to_owned();
    let dollars = daemon.charged("vision");
    // 4 GPUs × 2 h × 2.50 USD, and the seconds in which it ended: an hour of them is a second of this machine.
    assert!((20.0..21.0).contains(&dollars), "{dollars}");
    let mut focus = daemon.command(&["statement", "vision", "--month", &month]);
    let focus = focus.args(["--format", "focus"]).output().expect("runs");
    let focus = String::from_utf8(focus.stdout).expect("UTF-8");
    assert!(
        focus.lines().next().expect("a head").contains("BilledCost"),
        "{focus}"
    );
    assert_eq!(focus.lines().count(), 2, "{focus}");
}

#[test]
fn who_waits_is_told_why_and_what_would_help() {
    let daemon = Daemon::start(&["--speed", "600"]);
    daemon.json(&["tenant", "create", "vision"]);
    for _ in 0..2 {
        daemon.json(&[
            "lease", "request", "--tenant", "vision", "--gpu", "8xH100", "--for", "10d",
        ]);
    }
    let third = daemon.json(&["lease", "request", "--tenant", "vision", "--gpu", "8xH100"]);
    assert_eq!(third["state"], "requested");
    let why = daemon.json(&["lease", "explain", "L-3"]);
    let reason = why["reason"].as_str().expect("a reason");
    assert!(reason.contains("needs 8"), "{why}");
    assert!(
        !why["fixes"].as_array().expect("a list").is_empty(),
        "{why}"
    );
    let top = daemon.json(&["top"]);
    assert_eq!((&top["gpus"], &top["held"]), (&16.into(), &16.into()));
    daemon.json(&["lease", "release", "L-1"]);
    daemon.until("L-3", "active");
}

#[test]
fn who_may_be_stopped_needs_no_end_and_says_how_often_it_saves() {
    let daemon = Daemon::start(&["--speed", "600", "--preempt"]);
    daemon.json(&["tenant", "create", "vision"]);
    let spot = [
        "lease",
        "request",
        "--tenant",
        "vision",
        "--gpu",
        "8xH100",
        "--preemptible",
    ];
    daemon.json(&spot);
    daemon.json(&[&spot[..], &["--checkpoint", "10min"]].concat());
    daemon.until("L-2", "active");
    // Of two, the one that loses less is stopped.
    let firm = [
        "lease",
        "request",
        "--tenant",
        "vision",
        "--gpu",
        "8xH100",
        "--priority",
        "5",
    ];
    daemon.json(&[&firm[..], &["--for", "1h"]].concat());
    daemon.until("L-3", "active");
    assert_eq!(daemon.json(&["lease", "show", "L-1"])["state"], "active");
    assert_ne!(daemon.json(&["lease", "show", "L-2"])["state"], "active");
    for wrong in ["often", "0s", "-1h"] {
        let flag = format!("--checkpoint={wrong}");
        let said = daemon.refused(&[&spot[..], &[&flag]].concat());
        assert!(said.contains("preemptible"), "{said}");
    }
    // Without it nothing would read the time.
    let body = r#"{"tenant":"vision","gpu":"8xH100","for":"1h","checkpoint":"-1h"}"#;
    let answer = daemon.ask("POST", "/v1/leases", body);
    assert_eq!(answer.status, 422, "{}", answer.text);
    assert_eq!(answer.json()["field"], "checkpoint");
}

#[test]
fn what_is_wrong_is_refused_and_named() {
    let daemon = Daemon::start(&[]);
    daemon.json(&["tenant", "create", "poor", "--budget", "10usd"]);
    for (arguments, wanted) in [
        (
            &["lease", "request", "--tenant", "poor", "--gpu", "9xH100"][..],
            "larger than the fleet",
        ),
        (
            &[
                "lease", "request", "--tenant", "poor", "--gpu", "H100", "--for", "9h",
            ],
            "10.00 USD left of 10.00 USD",
        ),
        (
            &["lease", "request", "--tenant", "poor", "--gpu", "A100"],
            "the fleet has no",
        ),
        (
            &[
                "lease", "request", "--tenant", "poor", "--gpu", "H100", "--for", "2",
            ],
            "for:",
        ),
        (
            &["lease", "request", "--tenant", "poor"],
            "gpu: say which GPU",
        ),
        (
            &["lease", "request", "--tenant", "rich", "--gpu", "H100"],
            "there is no tenant \"rich\"",
        ),
        (
            &[
                "lease",
                "request",
                "--tenant",
                "poor",
                "--model",
                "llama-3.1-8b",
                "--workers",
                "2",
            ],
            "how many workers a model needs is sized",
        ),
        (
            &[
                "lease", "request", "--tenant", "poor", "--gpu", "H100", "--env", "A=1",
            ],
            "no command is there",
        ),
        (
            &[
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--executor",
                "local",
                "--start-fails",
                "0.5",
            ],
            "are of simulated starts",
        ),
        (&["lease", "show", "L-9"], "there is no lease L-9"),
        (&["lease", "show", "../../etc"], "is no lease"),
        (
            &["tenant", "create", "poor"],
            "there is a tenant \"poor\" already",
        ),
        (&["tenant", "create", "no name"], "cannot be a name"),
        (
            &["tenant", "create", "b", "--budget", "10usd/week"],
            "a budget is for a month",
        ),
        (
            &["statement", "poor", "--month", "2026-13"],
            "expected a month",
        ),
        (
            &["token", "create", "t", "--role", "member"],
            "is for a tenant",
        ),
    ] {
        let said = daemon.refused(arguments);
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
}

#[test]
fn a_file_says_what_flags_do_not() {
    let place = Place::new();
    place.write("fleet.toml", FLEET);
    place.write(
        "broker.toml",
        "listen = \"127.0.0.1:0\"\nfleet = \"fleet.toml\"\nstore = \"sqlite://other.db\"\nspeed = 600\n",
    );
    let mut child = place
        .command(&["serve", "--config", "broker.toml"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let said = lines.find_map(|line| line.ok().filter(|line| line.contains("Broker at")));
    child.kill().expect("is killed");
    child.wait().expect("ends");
    assert!(
        said.as_deref()
            .is_some_and(|said| said.contains("sqlite://other.db")),
        "{said:?}"
    );
    place.write("broker.toml", "sped = 600\n");
    let ran = place.run(&["serve", "--config", "broker.toml"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("sped"), "{}", ran.err);
}

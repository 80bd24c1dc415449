//! Processes of this machine end with their lease, and are found by a broker that starts again.

use super::{Daemon, descendants};
use crate::support::Place;
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path, thread};

/// A lease of one GPU that runs a shell's text.
pub(super) fn lease(daemon: &Daemon, text: &str) -> String {
    let mut request = daemon.command(&["lease", "request", "--tenant", "vision", "--gpu", "H100"]);
    request.args(["--format", "json", "--", "sh", "-c", text]);
    let output = request.output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let lease: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    lease["id"].as_str().expect("an id").to_owned()
}

/// A number that a command has written.
fn written(path: &Path) -> u64 {
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => break text.trim().parse().expect("a number"),
            _ => thread::yield_now(),
        }
    }
}

fn runs(pid: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn what_a_lease_has_started_ends_with_it_and_its_gpu_waits_for_that() {
    let daemon = Daemon::start(&["--executor", "local"]);
    daemon.json(&["tenant", "create", "vision"]);
    let number = daemon.place.path("left");
    let shown = number.display();
    // It does not listen, and lives until it is ended by force, some seconds later.
    let stubborn = format!(
        "setsid sh -c 'trap \"\" TERM HUP; echo $$ > {shown}.new; mv {shown}.new {shown}; while :; do sleep 1; done' & \
         until [ -e {shown} ]; do sleep 0.01; done; echo hi"
    );
    let id = lease(&daemon, &stubborn);
    let left = written(&number);
    let waits = loop {
        let seen = daemon.json(&["lease", "show", &id]);
        if let Some(waits) = seen["waits_for"].as_str() {
            assert_ne!(seen["state"], "ended");
            break waits.to_owned();
        }
        assert_ne!(
            seen["state"], "ended",
            "before it was said what it waits for"
        );
    };
    assert!(waits.contains(&format!("({left})")), "{waits}");
    let over = daemon.until(&id, "ended");
    assert!(!runs(left), "{left} runs when {id} has ended");
    assert_eq!(over["exit_code"], 0);
    assert!(over.get("waits_for").is_none(), "{over}");
    assert_eq!(daemon.log(&id), "hi\n");
}

#[test]
fn another_spelling_of_its_database_finds_what_runs() {
    let mut daemon = Daemon::start(&["--executor", "local"]);
    daemon.json(&["tenant", "create", "vision"]);
    let number = daemon.place.path("runs");
    let id = lease(
        &daemon,
        &format!("echo $$ > {}; exec sleep 600", number.display()),
    );
    daemon.until(&id, "active");
    let pid = written(&number);
    let store = format!("sqlite://{}", daemon.place.path("log.db").display());
    daemon.crash(&["--executor", "local", "--store", &store]);
    let seen = daemon.json(&["lease", "show", &id]);
    assert_eq!(seen["state"], "active", "{seen}");
    let mut supervisors = BTreeSet::new();
    for folder in daemon.kept() {
        let text = fs::read_to_string(folder.join("runs.json")).expect("is noted");
        let runs: Value = serde_json::from_str(&text).expect("JSON");
        supervisors.insert(runs["processes"][0]["pid"].as_u64().expect("a number"));
    }
    assert_eq!(descendants(&supervisors), BTreeSet::from([pid]));
    daemon.json(&["lease", "release", &id]);
    daemon.until(&id, "ended");
    assert!(!runs(pid), "{pid} runs when {id} has ended");
}

#[test]
fn a_copy_of_a_log_with_another_state_directory_leaves_what_runs_alone() {
    let daemon = Daemon::start(&["--executor", "local"]);
    daemon.json(&["tenant", "create", "vision"]);
    let number = daemon.place.path("runs");
    let text = format!("echo $$ > {}; exec sleep 600", number.display());
    let id = lease(&daemon, &text);
    daemon.until(&id, "active");
    let pid = written(&number);
    let copy = Place::new();
    for name in ["log.db", "log.db-wal"] {
        fs::copy(daemon.place.path(name), copy.path(name)).expect("is copied");
    }
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--executor",
        "local",
        "--same-account",
    ];
    let refused = copy.run(&[&serve[..], &["--store", "sqlite://log.db"]].concat());
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(
        refused
            .err
            .contains("another broker runs, of a copy of this log"),
        "{}",
        refused.err
    );
    assert!(
        refused
            .err
            .contains(&daemon.place.path(".local").display().to_string()),
        "{}",
        refused.err
    );
    assert!(runs(pid), "{pid} was ended");
    assert_eq!(daemon.json(&["lease", "show", &id])["state"], "active");
}

#[test]
fn what_runs_is_compared_with_the_leases_of_a_log() {
    let mut daemon = Daemon::start(&["--executor", "local"]);
    daemon.json(&["tenant", "create", "vision"]);
    let number = daemon.place.path("runs");
    let id = lease(
        &daemon,
        &format!("echo $$ > {}; exec sleep 600", number.display()),
    );
    daemon.until(&id, "active");
    let pid = written(&number);
    daemon.stop();
    let check = [
        "store",
        "check",
        "--executor",
        "local",
        "--store",
        "sqlite://log.db",
    ];
    let problems = |said: &Value| said["problems"].to_string();
    assert_eq!(problems(&daemon.json(&check)), "[]");
    // A process that carries its mark, of a lease that the log does not know.
    let marks = fs::read(format!("/proc/{pid}/environ")).expect("is there");
    let marks = String::from_utf8(marks).expect("UTF-8");
    let log = marks
        .split('\0')
        .find_map(|one| one.strip_prefix("GPUWISE_BROKER="));
    let mut stray = std::process::Command::new("sleep")
        .arg("600")
        .env("GPUWISE_BROKER", log.expect("a mark"))
        .env("GPUWISE_LEASE", "L-77")
        .spawn()
        .expect("starts");
    // The command ends, and its supervisor with it.
    let kill = std::process::Command::new("kill")
        .arg(pid.to_string())
        .status();
    assert!(kill.expect("runs").success());
    let said = loop {
        let said = daemon.json_of(&check, 1);
        if said["problems"]
            .as_array()
            .is_some_and(|all| all.len() == 2)
        {
            break problems(&said);
        }
        thread::yield_now();
    };
    stray.kill().expect("is killed");
    stray.wait().expect("ends");
    assert!(
        said.contains(&format!("{id} is active by the log")),
        "{said}"
    );
    assert!(said.contains("L-77, which the log does not know"), "{said}");
    // The broker finds out, too.
    daemon.again(&["--executor", "local"]);
    daemon.until(&id, "failed");
    assert_eq!(problems(&daemon.json(&check)), "[]");
}

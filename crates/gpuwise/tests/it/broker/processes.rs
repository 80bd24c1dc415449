//! Daemons that are killed, and real processes.

use super::Daemon;
use crate::support::Place;
use serde_json::Value;
use std::{sync::mpsc::Sender, thread};

#[test]
fn killed_again_and_again_it_loses_and_doubles_nothing() {
    let arguments = ["--speed", "3600"];
    let mut daemon = Daemon::start(&arguments);
    daemon.json(&["tenant", "create", "vision", "--budget", "100000 USD"]);
    let mut answered = Vec::new();
    for round in 0..6 {
        // Leases are asked for while it is killed: what was answered is there; what was not may be.
        let (wanted, mut asked) = (answered.len() + 3, Vec::new());
        thread::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::channel();
            let (place, url, token) = (&daemon.place, daemon.url.clone(), daemon.token.clone());
            scope.spawn(move || ask_until_gone(place, (&url, &token), round, &sender));
            while answered.len() + asked.len() < wanted {
                asked.push(receiver.recv().expect("an answer"));
            }
            daemon.child.kill().expect("is killed");
            asked.extend(receiver.iter());
        });
        answered.append(&mut asked);
        daemon.crash(&arguments);
        let list = daemon.json(&["lease", "list", "--all"]);
        let list = list["items"].as_array().expect("a list");
        for id in &answered {
            let found = list
                .iter()
                .filter(|lease| lease["id"] == *id.as_str())
                .count();
            assert_eq!(found, 1, "{id} after crash {round}");
        }
        let mut names: Vec<&str> = list
            .iter()
            .filter_map(|lease| lease["name"].as_str())
            .collect();
        names.sort_unstable();
        let many = names.len();
        names.dedup();
        assert_eq!(names.len(), many, "a lease is there twice");
    }
}

/// Asks for leases until nobody answers; sends ids of those that were answered.
fn ask_until_gone(place: &Place, (url, token): (&str, &str), round: usize, ids: &Sender<String>) {
    for number in 0.. {
        let name = format!("r{round}-{number}");
        let mut command =
            place.command(&["lease", "request", "--tenant", "vision", "--gpu", "H100"]);
        command.args([
            "--for", "1h", "--name", &name, "--key", &name, "--format", "json",
        ]);
        let output = command
            .env("GPUWISE_URL", url)
            .env("GPUWISE_TOKEN", token)
            .output();
        let output = output.expect("runs");
        if !output.status.success() {
            return;
        }
        let lease: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        // Whoever listens may have enough.
        let _ = ids.send(lease["id"].as_str().expect("an id").to_owned());
    }
}

#[test]
fn real_processes_run_on_declared_devices() {
    let daemon = Daemon::start(&["--executor", "local"]);
    daemon.json(&["tenant", "create", "vision"]);
    let run = |command: &str| {
        let mut arguments = vec!["lease", "request", "--tenant", "vision", "--gpu", "2xH100"];
        arguments.extend([
            "--env",
            "GREETING=hello",
            "--format",
            "json",
            "--",
            "sh",
            "-c",
            command,
        ]);
        let output = daemon.command(&arguments).output().expect("runs");
        let lease: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        lease["id"].as_str().expect("an id").to_owned()
    };
    let log = |id: &str| daemon.log(id);
    let good = run("echo $GREETING $GPUWISE_LEASE $CUDA_VISIBLE_DEVICES");
    daemon.until(&good, "ended");
    assert_eq!(log(&good), format!("hello {good} n1/0,n1/1\n"));
    let bad = run("echo one; echo two; echo three >&2; exit 3");
    assert_eq!(daemon.until(&bad, "failed")["exit_code"], 3);
    let shown = |arguments: &[&str]| {
        let output = daemon.command(arguments).output().expect("runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert_eq!(shown(&["lease", "logs", &bad]), "one\ntwo\nthree\n");
    let last = ["lease", "logs", &bad, "--tail", "2", "--follow"];
    assert_eq!(shown(&last), "two\nthree\n");
    let piece = daemon.json(&["lease", "logs", &bad]);
    assert_eq!(crate::schemas::held(&piece), "lease-log");
    assert_eq!((&piece["next"], &piece["over"]), (&14.into(), &true.into()));
    let long =
        run("trap 'echo asked to end; exit 0' TERM; echo here; while :; do sleep 0.05; done");
    daemon.until(&long, "active");
    while !log(&long).contains("here") {
        thread::yield_now();
    }
    daemon.json(&["lease", "release", &long]);
    assert_eq!(daemon.until(&long, "ended")["reason"], "released");
    // The shell says of its own child that it was told, too.
    assert!(log(&long).ends_with("asked to end\n"), "{}", log(&long));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let daemon = Daemon::start(&["--executor", "local"]);
    daemon.json(&["tenant", "create", "vision"]);
    let lease = daemon.json(&["lease", "request", "--tenant", "vision", "--gpu", "H100"]);
    let nothing = lease["id"].as_str().expect("an id");
    // Nothing runs on it, and nothing was written.
    daemon.until(nothing, "active");
    let piece = daemon.json(&["lease", "logs", nothing]);
    assert_eq!((&piece["text"], &piece["size"]), (&"".into(), &0.into()));
    let mut request = daemon.command(&["lease", "request", "--tenant", "vision"]);
    request.args(["--gpu", "H100", "--format", "json", "--", "no-such-program"]);
    let output = request.output().expect("runs");
    let lease: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let id = lease["id"].as_str().expect("an id");
    let why = loop {
        let why = daemon.json(&["lease", "explain", id]);
        let why = why["reason"].as_str().expect("a reason").to_owned();
        if why.contains("failed") {
            break why;
        }
        thread::yield_now();
    };
    assert!(why.contains("there is no such program"), "{why}");
    let simulated = Daemon::start(&[]);
    simulated.json(&["tenant", "create", "vision"]);
    simulated.json(&["lease", "request", "--tenant", "vision", "--gpu", "H100"]);
    let refused = simulated.refused(&["lease", "logs", "L-1"]);
    assert!(
        refused.contains("simulated executor keeps nothing"),
        "{refused}"
    );
}

#[test]
fn what_fails_is_started_again_until_its_lease_has_enough_of_it() {
    let daemon = Daemon::start(&["--executor", "local"]);
    daemon.json(&["tenant", "create", "vision"]);
    let refused = daemon.refused(&[
        "lease",
        "request",
        "--tenant",
        "vision",
        "--gpu",
        "1xH100",
        "--restart",
        "sometimes",
        "--",
        "true",
    ]);
    assert!(refused.contains("expected never, on-failure"), "{refused}");
    let words = [
        "lease", "request", "--tenant", "vision", "--gpu", "1xH100", "--cpu", "1",
    ];
    let output = daemon
        .command(&words)
        .args(["--restart", "on-failure:2", "--format", "json", "--"])
        .args(["sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exit 3"])
        .output()
        .expect("runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // After one second, and then after two.
    let over = daemon.until("L-1", "failed");
    assert_eq!(over["exit_code"], 3);
    let log = daemon.log("L-1");
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| !line.starts_with("gpuwise:"))
        .collect();
    assert_eq!(lines.len(), 3, "{log}");
    assert!(
        lines.iter().all(|line| *line == lines[0]),
        "on the same GPU: {log}"
    );
    let jobs = daemon.ask("GET", "/v1/jobs", "").json();
    assert_eq!(jobs["items"][0]["restarts"], 2);
    // Cores are held, or it is said in its log and by the doctor why not.
    let doctor = daemon
        .command(&["doctor", "--format", "json"])
        .output()
        .expect("runs");
    let doctor: Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
    let checks = doctor["checks"].as_array().expect("checks");
    let limits = checks
        .iter()
        .find(|one| one["what"] == "Cores and memory")
        .expect("is looked at");
    let held = limits["state"] == "well";
    assert_eq!(
        log.contains("cores and memory are not held"),
        !held,
        "{log} {limits}"
    );
}

//! `gpuwise serve` and what asks it, as people use them: one daemon, several commands.

use crate::{schemas, support::Place};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, Stdio},
    sync::mpsc::Sender,
    thread,
    time::{Duration, Instant},
};

const FLEET: &str = r#"
name = "test"
[[gpu_kind]]
name = "H100"
price = "2.50 USD"
[[node]]
name = "n{1..2}"
gpus = "8xH100"
cpu = 64
memory = "1TiB"
"#;

/// A daemon in a folder of its own.
pub(super) struct Daemon {
    pub(super) place: Place,
    child: Child,
    pub(super) url: String,
    /// The administrator's.
    pub(super) token: String,
}

impl Daemon {
    pub(super) fn start(arguments: &[&str]) -> Self {
        Self::start_on(FLEET, arguments)
    }

    /// On a fleet of its own.
    pub(super) fn start_on(fleet: &str, arguments: &[&str]) -> Self {
        let place = Place::new();
        place.write("fleet.toml", fleet);
        let (child, url) = spawn(&place, arguments);
        let token = token(&place);
        Self {
            place,
            child,
            url,
            token,
        }
    }

    /// Ends it at once, as a power cut would, and starts it again.
    pub(super) fn crash(&mut self, arguments: &[&str]) {
        self.stop();
        self.again(arguments);
    }

    /// Kills it.
    pub(super) fn stop(&mut self) {
        self.child.kill().expect("is killed");
        self.child.wait().expect("ends");
    }

    /// Starts it again.
    pub(super) fn again(&mut self, arguments: &[&str]) {
        (self.child, self.url) = spawn(&self.place, arguments);
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        command
            .env("GPUWISE_URL", &self.url)
            .env("GPUWISE_TOKEN", &self.token);
        command
    }

    /// What a command says, as JSON.
    pub(super) fn json(&self, arguments: &[&str]) -> Value {
        let output = self
            .command(arguments)
            .args(["--format", "json"])
            .output()
            .expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {errors}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// What a lease's command has written.
    pub(super) fn log(&self, lease: &str) -> String {
        let state = fs::read_dir(self.place.path(".local/state/gpuwise")).expect("is there");
        let mut folders = state.map(|entry| entry.expect("reads").path());
        let folder = folders.find(|path| path.is_dir()).expect("a broker's");
        fs::read_to_string(folder.join(format!("logs/{lease}.log"))).expect("a log")
    }

    pub(super) fn refused(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).expect("UTF-8")
    }

    /// Waits until a lease is in a state; what it is then.
    pub(super) fn until(&self, lease: &str, state: &str) -> Value {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let seen = self.json(&["lease", "show", lease]);
            if seen["state"] == state {
                return seen;
            }
            assert!(Instant::now() < end, "{lease} never became {state}: {seen}");
            thread::yield_now();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What it started goes on without it, by design.
        let state = self.place.path(".local/state/gpuwise");
        let within = |path: std::path::PathBuf| {
            let entries = fs::read_dir(path).into_iter().flatten();
            entries.filter_map(|entry| Some(entry.ok()?.path()))
        };
        let folders = within(state).flat_map(|broker| within(broker.join("leases")));
        for folder in folders {
            let text = fs::read_to_string(folder.join("runs.json")).unwrap_or_default();
            let runs: Value = serde_json::from_str(&text).unwrap_or_default();
            for process in runs["processes"].as_array().into_iter().flatten() {
                let group = format!("-{}", process["pid"]);
                let _ = Command::new("kill").args(["-9", "--", &group]).status();
            }
        }
    }
}

fn spawn(place: &Place, arguments: &[&str]) -> (Child, String) {
    let mut child = place
        .command(&["serve", "--listen", "127.0.0.1:0", "--fleet", "fleet.toml"])
        .args(["--store", "sqlite://log.db"])
        .args(arguments)
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut said = String::new();
    for line in lines {
        let line = line.expect("UTF-8");
        if let Some(rest) = line.split("Broker at ").nth(1) {
            let url = rest.split(',').next().expect("an address").to_owned();
            return (child, url);
        }
        said += &line;
    }
    child.wait().expect("ends");
    panic!("the daemon said: {said}");
}

/// The token that a daemon wrote when it first started.
fn token(place: &Place) -> String {
    let entries = fs::read_dir(place.path(".local/state/gpuwise")).expect("is there");
    let mut files = entries.map(|entry| entry.expect("reads").path());
    let file = files.find(|path| path.extension().is_some_and(|end| end == "token"));
    let file = file.expect("a token");
    let mode = fs::metadata(&file).expect("is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others cannot read it");
    fs::read_to_string(file).expect("reads").trim().to_owned()
}

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
    let statement = daemon.json(&["statement", "vision", "--month", &month]);
    let charge = statement["totals"][0]["charge"]
        .as_str()
        .expect("an amount");
    let dollars: f64 = charge.trim_end_matches(" USD").parse().expect("a number");
    // 4 GPUs × 2 h × 2.50 USD, and the seconds in which it ended: an hour of them is a second of this machine.
    assert!((20.0..21.0).contains(&dollars), "{charge}");
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
fn answers_are_as_their_schemas_say() {
    let daemon = Daemon::start(&["--speed", "600"]);
    let mut held = BTreeSet::new();
    for arguments in [
        &[
            "tenant", "create", "vision", "--budget", "100usd", "--quota", "8xH100", "--borrow",
            "4",
        ][..],
        &["tenant", "list"],
        &[
            "token", "create", "ann", "--role", "member", "--tenant", "vision", "--for", "1d",
        ],
        &["token", "list"],
        &[
            "lease", "request", "--tenant", "vision", "--gpu", "2xH100", "--for", "1h",
        ],
        &[
            "lease",
            "request",
            "--tenant",
            "vision",
            "--model",
            "llama-3.1-8b",
            "--rate",
            "1",
            "--for",
            "1h",
        ],
        &["lease", "list"],
        &["lease", "explain", "L-1"],
        &["statement", "vision"],
        &["top"],
        &["store", "check", "--store", "sqlite://log.db"],
        &[
            "store",
            "backup",
            "copy.jsonl",
            "--store",
            "sqlite://log.db",
        ],
    ] {
        held.insert(schemas::held(&daemon.json(arguments)));
    }
    assert_eq!(held.len(), 11, "{held:?}");
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

#[test]
fn tenants_do_not_see_each_other() {
    let daemon = Daemon::start(&["--speed", "600"]);
    for tenant in ["a", "b"] {
        daemon.json(&["tenant", "create", tenant]);
        daemon.json(&["lease", "request", "--tenant", tenant, "--gpu", "H100"]);
    }
    let made = daemon.json(&[
        "token", "create", "ann", "--role", "member", "--tenant", "a",
    ]);
    let token = made["token"].as_str().expect("is said").to_owned();
    let as_ann = |arguments: &[&str]| {
        let mut command = daemon.command(arguments);
        let output = command
            .env("GPUWISE_TOKEN", &token)
            .args(["--format", "json"])
            .output()
            .expect("runs");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (good, leases) = as_ann(&["lease", "list"]);
    assert!(
        good && leases.contains("L-1") && !leases.contains("L-2"),
        "{leases}"
    );
    for arguments in [
        &["lease", "show", "L-2"][..],
        &["lease", "explain", "L-2"],
        &["lease", "release", "L-2"],
        &["statement", "b"],
        &["lease", "request", "--tenant", "b", "--gpu", "H100"],
    ] {
        let (good, said) = as_ann(arguments);
        assert!(
            !good && said.contains("there is no"),
            "{arguments:?}: {said}"
        );
    }
    for arguments in [
        &["tenant", "create", "c"][..],
        &["token", "list"],
        &["token", "create", "x", "--role", "administrator"],
    ] {
        let (good, said) = as_ann(arguments);
        assert!(
            !good && said.contains("a token of role member may not do this"),
            "{arguments:?}: {said}"
        );
    }
    let (_, top) = as_ann(&["top"]);
    assert!(!top.contains("\"b\"") && !top.contains("L-2"), "{top}");
    let mut revoke = daemon.command(&["token", "revoke", "ann", "--tenant", "a"]);
    assert!(revoke.status().expect("runs").success());
    let (good, said) = as_ann(&["lease", "list"]);
    assert!(!good && said.contains("no such token"), "{said}");
}

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
    let bad = run("exit 3");
    assert_eq!(daemon.until(&bad, "failed")["exit_code"], 3);
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

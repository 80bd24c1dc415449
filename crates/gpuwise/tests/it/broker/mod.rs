//! `gpuwise serve` and what asks it, as people use them: one daemon, several commands.

mod access;
mod answers;
mod api;
mod every_route;
mod http;
mod leases;
mod mig;
mod monitored;
mod months;
mod operated;
mod processes;
mod retained;
mod shared;
mod strangers;

use crate::support::Place;
use serde_json::Value;
use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, Stdio},
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
    environment: Vec<(&'static str, String)>,
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
        Self::start_in(place, arguments, Vec::new())
    }

    /// In a folder, with more in its environment.
    pub(super) fn start_in(
        place: Place,
        arguments: &[&str],
        environment: Vec<(&'static str, String)>,
    ) -> Self {
        let (child, url) = spawn(&place, arguments, &environment);
        let token = token(&place);
        Self {
            place,
            child,
            environment,
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
        (self.child, self.url) = spawn(&self.place, arguments, &self.environment);
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

fn spawn(
    place: &Place,
    arguments: &[&str],
    environment: &[(&'static str, String)],
) -> (Child, String) {
    let fleet = ["--fleet", "fleet.toml"];
    let fleet = fleet.iter().filter(|_| place.path("fleet.toml").exists());
    let mut child = place
        .command(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--store",
            "sqlite://log.db",
        ])
        .args(fleet)
        .args(arguments)
        .envs(environment.iter().cloned())
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

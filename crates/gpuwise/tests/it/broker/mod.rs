//! `gpuwise serve` and what asks it, as people use them: one daemon, several commands.

mod access;
mod answers;
mod api;
mod connections;
mod door;
mod every_route;
mod fleet_file;
mod http;
mod isolated;
mod leases;
mod left;
mod mig;
mod monitored;
mod months;
mod operated;
mod pages;
mod parts;
mod processes;
mod retained;
mod shared;
mod strangers;
mod tenant_bounds;

use crate::support::Place;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
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

    /// With no more open files than these.
    fn start_with_files(files: u32, arguments: &[&str]) -> Self {
        let place = Place::new();
        place.write("fleet.toml", FLEET);
        let (child, url) = listening(with_files(&serving(&place, arguments), files));
        let token = token(&place);
        Self {
            place,
            child,
            environment: Vec::new(),
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
        self.json_of(arguments, 0)
    }

    /// What a tenant was charged this month and the month before, in USD: what a clock that runs fast measures may lie
    /// on both sides of a month's end.
    pub(super) fn charged(&self, tenant: &str) -> f64 {
        let now = self.json(&["top"])["now"]
            .as_str()
            .expect("a time")
            .to_owned();
        let year: u32 = now[..4].parse().expect("a year");
        let month: u32 = now[5..7].parse().expect("a month");
        let before = match month {
            1 => (year - 1, 12),
            _ => (year, month - 1),
        };
        let months = [before, (year, month)].into_iter();
        let charges = months.filter_map(|(year, month)| {
            let month = format!("{year}-{month:02}");
            let statement = self.json(&["statement", tenant, "--month", &month]);
            let charge = statement["totals"][0]["charge"].as_str()?;
            charge.strip_suffix(" USD")?.parse::<f64>().ok()
        });
        charges.sum()
    }

    /// What a command says that ends with this code.
    pub(super) fn json_of(&self, arguments: &[&str], code: i32) -> Value {
        let output = self
            .command(arguments)
            .args(["--format", "json"])
            .output()
            .expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// What a lease's command has written.
    pub(super) fn log(&self, lease: &str) -> String {
        let state = fs::read_dir(self.place.path(".local/state/gpuwise")).expect("is there");
        let mut folders = state.map(|entry| entry.expect("reads").path());
        let of_log = |path: &PathBuf| path.display().to_string().contains("/log-");
        let folder = folders.find(of_log).expect("a log's");
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
        self.end_what_it_started();
    }
}

/// How often is looked for what a daemon has started, until nothing of it is left.
const LOOKS: usize = 1000;

impl Daemon {
    /// Folders of what it keeps of leases.
    fn kept(&self) -> Vec<PathBuf> {
        let within = |path: PathBuf| {
            let entries = fs::read_dir(path).into_iter().flatten();
            entries.filter_map(|entry| Some(entry.ok()?.path()))
        };
        let brokers = within(self.place.path(".local/state/gpuwise"));
        brokers.flat_map(|one| within(one.join("leases"))).collect()
    }

    /// What it started goes on without it, by design: all that descends from supervisors ends here, and each of them
    /// with the last of what it started.
    fn end_what_it_started(&self) {
        let mut roots = BTreeSet::new();
        for folder in self.kept() {
            let text = fs::read_to_string(folder.join("runs.json")).unwrap_or_default();
            let runs: Value = serde_json::from_str(&text).unwrap_or_default();
            let processes = runs["processes"].as_array().into_iter().flatten();
            roots.extend(processes.filter_map(|one| one["pid"].as_u64()));
        }
        for _ in 0..LOOKS {
            let left = descendants(&roots);
            if left.is_empty() {
                return;
            }
            let pids: Vec<String> = left.iter().map(u64::to_string).collect();
            // One that has ended meanwhile is what is wanted.
            let mut kill = Command::new("kill");
            let _ = kill.arg("-9").args(pids).stderr(Stdio::null()).status();
        }
    }
}

/// Processes that descend from these and run.
pub(super) fn descendants(roots: &BTreeSet<u64>) -> BTreeSet<u64> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc").expect("is there").flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields: Vec<&str> = match stat.rsplit_once(')') {
            Some((_, rest)) => rest.split_whitespace().take(2).collect(),
            None => continue,
        };
        if let (Some(pid), [state, parent]) = (pid, fields.as_slice())
            && !matches!(*state, "Z" | "X")
        {
            parents.insert(pid, parent.parse().expect("a number"));
        }
    }
    let (mut found, mut open) = (BTreeSet::<u64>::new(), roots.clone());
    while !open.is_empty() {
        let below = parents.iter().filter(|(_, parent)| open.contains(parent));
        let below: BTreeSet<u64> = below.map(|(pid, _): (&u64, &u64)| *pid).collect();
        open = below.difference(&found).copied().collect();
        found.extend(&open);
    }
    found
}

fn spawn(
    place: &Place,
    arguments: &[&str],
    environment: &[(&'static str, String)],
) -> (Child, String) {
    let mut command = serving(place, arguments);
    command.envs(environment.iter().cloned());
    listening(command)
}

fn serving(place: &Place, arguments: &[&str]) -> Command {
    let fleet = ["--fleet", "fleet.toml"];
    let fleet = fleet.iter().filter(|_| place.path("fleet.toml").exists());
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.args(fleet).args(arguments);
    if !arguments.contains(&"--store") {
        command.args(["--store", "sqlite://log.db"]);
    }
    if arguments.contains(&"local") && !arguments.contains(&"--run-as") {
        // Containers run tests as root, and what these lease is their own.
        command.arg("--same-account");
    }
    command
}

/// The same command with a limit of open files.
fn with_files(command: &Command, files: u32) -> Command {
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &files.to_string()])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        limited.current_dir(folder);
    }
    limited
}

/// Starts it, and waits until it says where it listens.
fn listening(mut command: Command) -> (Child, String) {
    let mut child = command
        .stdin(Stdio::null())
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

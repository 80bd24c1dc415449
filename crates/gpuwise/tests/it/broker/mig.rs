//! Leases of MIG instances, with real processes: on GPUs that are only declared, and on those of a stand-in for the
//! driver's library.

use super::Daemon;
use crate::support::Place;
use gpuwise_needs::nvml::{GPUS, STATE, fault, stub};
use serde_json::Value;
use std::{
    thread,
    time::{Duration, Instant},
};

const SHOW: &str = "echo $CUDA_VISIBLE_DEVICES; exec sleep 600";

/// Asks for a slice on which a command runs; its lease.
fn lease(daemon: &Daemon, gpu: &str, command: &str) -> String {
    let words = ["lease", "request", "--tenant", "vision", "--gpu", gpu];
    let output = daemon
        .command(&words)
        .args(["--format", "json", "--", "sh", "-c", command])
        .output()
        .expect("runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    let lease: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    lease["id"].as_str().expect("an id").to_owned()
}

/// What a command has written, as soon as it has.
fn sees(daemon: &Daemon, lease: &str) -> String {
    daemon.until(lease, "active");
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let log = daemon.json(&["lease", "logs", lease]);
        let text = log["text"].as_str().expect("text");
        if text.ends_with('\n') {
            return text.trim().to_owned();
        }
        assert!(Instant::now() < end, "{lease} wrote nothing");
        thread::yield_now();
    }
}

#[test]
fn declared_gpus_are_cut_for_leases() {
    let fleet = super::FLEET.replace("name = \"H100\"", "name = \"H100 SXM5 80GB\"");
    let fleet = fleet
        .replace("8xH100", "1xH100 SXM5 80GB")
        .replace("n{1..2}", "n1");
    let mut daemon = Daemon::start_on(&fleet, &["--executor", "local"]);
    daemon.json(&["tenant", "create", "vision"]);
    let one = lease(&daemon, "1g.10gb", SHOW);
    let two = lease(&daemon, "3g.40gb", SHOW);
    let (first, second) = (sees(&daemon, &one), sees(&daemon, &two));
    assert!(
        first.starts_with("MIG-") && second.starts_with("MIG-"),
        "{first} {second}"
    );
    assert_ne!(first, second);
    // The next broker goes on with them: who comes back to an idle instance is told the same.
    daemon.crash(&["--executor", "local"]);
    daemon.json(&["lease", "release", &one]);
    daemon.until(&one, "ended");
    let again = lease(&daemon, "1g.10gb", SHOW);
    assert_eq!(sees(&daemon, &again), first);
    // Where the whole is wanted, idle instances make room.
    daemon.json(&["lease", "release", &again]);
    daemon.json(&["lease", "release", &two]);
    let whole = lease(&daemon, "1xH100 SXM5 80GB", SHOW);
    assert_eq!(sees(&daemon, &whole), "n1/0");
}

/// A machine of two GPUs, of which the second has MIG on; `None`: there is no C compiler.
fn machine(place: &Place) -> Option<Vec<(&'static str, String)>> {
    let library = stub(&place.path(""), false)?;
    let shown = |path: std::path::PathBuf| path.display().to_string();
    Some(vec![
        (STATE, shown(place.path("gpus"))),
        ("GPUWISE_NVML", shown(library)),
    ])
}

#[test]
fn gpus_of_this_machine_are_cut_by_its_driver() {
    let place = Place::new();
    let Some(environment) = machine(&place) else {
        return;
    };
    let arguments = ["--executor", "local"];
    let mut daemon = Daemon::start_in(place, &arguments, environment.clone());
    let fleet = daemon.json(&["lease", "list"]);
    assert_eq!(fleet["items"].as_array().map(Vec::len), Some(0));
    daemon.json(&["tenant", "create", "vision"]);
    let doctor = daemon
        .command(&["doctor", "--machine-only", "--format", "json"])
        .envs(environment)
        .output()
        .expect("runs");
    let doctor: Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
    let checks = doctor["checks"].as_array().expect("checks");
    let mig = checks
        .iter()
        .find(|one| one["what"] == "MIG instances")
        .expect("is looked at");
    assert!(
        mig["found"]
            .as_str()
            .expect("text")
            .starts_with("of 2 GPUs 1 with MIG on"),
        "{mig}"
    );
    let one = lease(&daemon, "1g.10gb", SHOW);
    let first = sees(&daemon, &one);
    assert!(
        first.starts_with("MIG-00000001-"),
        "on the GPU that has MIG on: {first}"
    );
    let whole = lease(&daemon, "1xH100 SXM5 80GB", SHOW);
    assert_eq!(sees(&daemon, &whole), GPUS[0]);
    daemon.json(&["lease", "release", &whole]);
    daemon.until(&whole, "ended");
    // The machine was restarted, and its instances are gone: they are made again.
    daemon.stop();
    std::fs::remove_file(daemon.place.path("gpus")).expect("was there");
    daemon.again(&arguments);
    daemon.json(&["lease", "release", &one]);
    daemon.until(&one, "ended");
    let again = lease(&daemon, "1g.10gb", SHOW);
    assert!(sees(&daemon, &again).starts_with("MIG-00000001-"));
    // A driver that refuses is named, with what to do.
    let gpus = daemon.place.path("gpus");
    fault(&gpus, Some(("nvmlDeviceCreateGpuInstanceWithPlacement", 4)));
    let refused = lease(&daemon, "3g.40gb", SHOW);
    let end = Instant::now() + Duration::from_secs(20);
    let reason = loop {
        let seen = daemon.json(&["lease", "show", &refused]);
        let reason = seen["reason"].as_str().unwrap_or_default().to_owned();
        if reason.contains("no-permission") {
            break reason;
        }
        assert!(Instant::now() < end, "{seen}");
        thread::yield_now();
    };
    assert!(reason.contains("run the broker as root"), "{reason}");
    daemon.json(&["lease", "release", &refused]);
    fault(&gpus, None);
    let works = lease(&daemon, "3g.40gb", SHOW);
    assert!(sees(&daemon, &works).starts_with("MIG-0000000"));
}

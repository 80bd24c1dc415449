//! What commands of leases on this machine get of the broker: what is named, and nothing else.

use super::{Daemon, left::lease};
use crate::support::Place;
use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    process::Command,
};

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("runs");
    id.stdout == b"0\n"
}

/// Lines that a command has written, once its lease has ended.
fn says(daemon: &Daemon, text: &str) -> String {
    let id = lease(daemon, text);
    daemon.until(&id, "ended");
    daemon.log(&id)
}

#[test]
fn commands_get_no_variable_of_the_broker_that_is_not_named() {
    let place = Place::new();
    place.write("fleet.toml", super::FLEET);
    let secrets = vec![
        ("PGPASSWORD", "hidden".to_owned()),
        ("GPUWISE_TOKEN", "hidden".to_owned()),
        ("LICENSE_SERVER", "27000@license".to_owned()),
    ];
    let flags = ["--executor", "local", "--pass-env", "LICENSE_SERVER"];
    let daemon = Daemon::start_in(place, &flags, secrets);
    daemon.json(&["tenant", "create", "vision"]);
    let seen = says(&daemon, "env; umask");
    assert!(!seen.contains("hidden"), "{seen}");
    assert!(seen.contains("LICENSE_SERVER=27000@license\n"), "{seen}");
    assert!(seen.contains("GPUWISE_LEASE=L-1\n"), "{seen}");
    let own = Command::new("sh").args(["-c", "umask"]).output();
    let own = String::from_utf8(own.expect("runs").stdout).expect("UTF-8");
    assert!(seen.ends_with(&own), "as the broker was started: {seen}");
}

/// Sets a secret from a file.
fn keep(daemon: &Daemon, name: &str, tenant: &str, value: &str) {
    daemon.place.write("value", value);
    daemon.json(&[
        "secret",
        "set",
        name,
        "--tenant",
        tenant,
        "--from-file",
        "value",
    ]);
}

#[test]
fn a_secret_reaches_the_command_and_nobody_else() {
    const VALUE: &str = "x1-hidden-value";
    let place = Place::new();
    place.write("fleet.toml", super::FLEET);
    let mut daemon = Daemon::start_in(place, &["--executor", "local"], Vec::new());
    for tenant in ["vision", "other"] {
        daemon.json(&["tenant", "create", tenant]);
    }
    let ask = |daemon: &Daemon, tenant: &str, secret: &str| {
        let mut request = daemon.command(&["lease", "request", "--gpu", "H100"]);
        request.args(["--tenant", tenant, "--secret", secret, "--format", "json"]);
        let text = "printf %s \"$HF_TOKEN$K\" | sha256sum; echo ${#K}";
        request.args(["--", "sh", "-c", text]);
        request.output().expect("runs")
    };
    let run = |daemon: &Daemon, tenant: &str, secret: &str| {
        let output = ask(daemon, tenant, secret);
        let lease: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        lease["id"].as_str().expect("an id").to_owned()
    };
    let refused = |daemon: &Daemon, tenant: &str, secret: &str| {
        let output = ask(daemon, tenant, secret);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    assert!(refused(&daemon, "vision", "hf-token").contains("has no secret"));
    keep(&daemon, "hf-token", "vision", &format!("{VALUE}\n"));
    assert!(refused(&daemon, "other", "hf-token").contains("has no secret"));
    assert!(refused(&daemon, "vision", "hf-token=GPUWISE_X").contains("GPUWISE_X"));
    let first = run(&daemon, "vision", "hf-token");
    daemon.until(&first, "ended");
    // sha256 of the value, without the line break of its file.
    let sum = Command::new("sh")
        .args(["-c", &format!("printf %s {VALUE} | sha256sum")])
        .output()
        .expect("runs");
    let sum = String::from_utf8(sum.stdout).expect("UTF-8");
    assert_eq!(daemon.log(&first), format!("{sum}0\n"));
    // It outlives the broker, and another value counts from the next start on.
    daemon.crash(&["--executor", "local"]);
    keep(&daemon, "hf-token", "vision", "12345");
    let second = run(&daemon, "vision", "hf-token=K");
    daemon.until(&second, "ended");
    assert!(daemon.log(&second).ends_with("\n5\n"));
    // A refusal does not repeat what may be the value.
    for body in [
        format!("{{\"secret\":[\"{VALUE}\"]}}"),
        format!("{{\"{VALUE}\":1}}"),
        format!("\"{VALUE}\""),
        format!("{{\"secret\":\"{VALUE}\\u0000\"}}"),
        VALUE.to_owned(),
    ] {
        let answer = daemon.ask("PUT", "/v1/tenants/vision/secrets/hf-token", &body);
        assert_eq!(answer.status, 422, "{}", answer.text);
        assert!(!answer.text.contains(VALUE), "{}", answer.text);
    }
    // Neither the log, nor an answer, nor a file but its own has it.
    keep(&daemon, "hf-token", "vision", VALUE);
    let events = daemon.json(&["secret", "list"]).to_string();
    let lease = daemon.json(&["lease", "show", &first]).to_string();
    let audit = daemon.json(&["token", "audit"]).to_string();
    for answer in [&events, &lease, &audit] {
        assert!(
            answer.contains("hf-token") && !answer.contains(VALUE),
            "{answer}"
        );
    }
    let mut kept = Vec::new();
    all(&daemon.place.path("."), &mut kept);
    let has_it = |path: &&std::path::PathBuf| {
        let read = fs::read(path).unwrap_or_default();
        read.windows(VALUE.len())
            .any(|part| part == VALUE.as_bytes())
    };
    let holders: Vec<_> = kept.iter().filter(has_it).collect();
    let own =
        |path: &std::path::PathBuf| path.ends_with("vision/hf-token") || path.ends_with("value");
    assert!(
        holders.len() == 2 && holders.iter().all(|path| own(path)),
        "{holders:?}"
    );
    // One that is removed is no longer given, and says so.
    daemon.json(&["secret", "remove", "hf-token", "--tenant", "vision"]);
    assert!(refused(&daemon, "vision", "hf-token").contains("has no secret"));
    let why = daemon.refused(&["secret", "remove", "hf-token", "--tenant", "vision"]);
    assert!(why.contains("has no secret"), "{why}");
}

/// All files and folders below one.
fn all(folder: &Path, into: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).expect("is there") {
        let entry = entry.expect("reads");
        if entry.file_type().expect("has one").is_dir() {
            all(&entry.path(), into);
        }
        into.push(entry.path());
    }
}

#[test]
fn what_a_broker_keeps_is_for_its_account_alone() {
    let place = Place::new();
    place.write("fleet.toml", super::FLEET);
    // As an earlier release left them.
    let state = place.path(".local/state/gpuwise");
    fs::create_dir_all(&state).expect("is made");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o755)).expect("is set");
    let daemon = Daemon::start_in(place, &["--executor", "local"], Vec::new());
    daemon.json(&["tenant", "create", "vision"]);
    says(&daemon, "echo hi");
    let mut kept = vec![state.clone()];
    all(&state, &mut kept);
    for file in ["log.db", "log.db-wal", "log.db-shm"] {
        kept.extend(Some(daemon.place.path(file)).filter(|path| path.exists()));
    }
    assert!(kept.len() > 5, "{kept:?}");
    for path in kept {
        let about = fs::symlink_metadata(&path).expect("is there");
        let open = about.mode() & 0o077;
        assert!(
            about.is_symlink() || open == 0,
            "{}: {open:o}",
            path.display()
        );
    }
}

#[test]
fn as_root_commands_run_under_another_account_or_not_at_all() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    place.write("fleet.toml", super::FLEET);
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--executor",
        "local",
        "--fleet",
        "fleet.toml",
    ];
    let refusals = [
        (&[][..], "would run as root"),
        (
            &["--run-as", "gpuwise-no-such-account"],
            "there is no account",
        ),
        (&["--run-as", "root"], "root"),
    ];
    for (flags, expect) in refusals {
        let ran = place.run(&[&serve, flags, &["--store", "sqlite://log.db"]].concat());
        assert_eq!(ran.code, 2, "{flags:?}");
        assert!(ran.err.contains(expect), "{flags:?}: {}", ran.err);
    }
    let daemon = Daemon::start_in(
        place,
        &["--executor", "local", "--run-as", "nobody"],
        Vec::new(),
    );
    daemon.json(&["tenant", "create", "vision"]);
    let state = daemon.place.path(".local/state/gpuwise");
    let read = format!("id -un; ls {} || echo cannot; umask", state.display());
    let seen = says(&daemon, &read);
    assert!(seen.starts_with("nobody\n"), "{seen}");
    assert!(seen.contains("\ncannot\n"), "the token lies there: {seen}");
}

#[test]
fn of_what_a_worker_writes_so_much_is_kept() {
    let flags = ["--executor", "local", "--log-size", "64KiB"];
    let daemon = Daemon::start(&flags);
    daemon.json(&["tenant", "create", "vision"]);
    let id = lease(&daemon, "seq 100000 200000");
    daemon.until(&id, "ended");
    let piece = daemon.json(&["lease", "logs", &id]);
    let (size, dropped) = (&piece["size"], &piece["dropped"]);
    let (size, dropped) = size.as_u64().zip(dropped.as_u64()).expect("are told");
    assert_eq!(size, 7 * 100_001);
    assert!(size - dropped <= 64 << 10, "{dropped} of {size}");
    assert!(
        piece["text"]
            .as_str()
            .expect("a text")
            .ends_with("200000\n")
    );
    let mut kept = Vec::new();
    all(&daemon.place.path(".local/state/gpuwise"), &mut kept);
    let logs = kept
        .iter()
        .filter(|path| path.to_string_lossy().contains("/logs/"));
    let bytes = logs.map(|path| fs::metadata(path).expect("is there"));
    let bytes: u64 = bytes
        .filter(fs::Metadata::is_file)
        .map(|about| about.len())
        .sum();
    assert!(bytes <= 64 << 10, "{bytes}");
    let shown = daemon
        .command(&["lease", "logs", &id])
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(said.contains("not kept any more"), "{said}");
}

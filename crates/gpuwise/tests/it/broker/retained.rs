//! Snapshots and archives: a start reads little, and what was is still there.

use super::Daemon;
use std::process::Output;

const STORE: [&str; 2] = ["--store", "sqlite://log.db"];

impl Daemon {
    fn store(&self, arguments: &[&str]) -> Output {
        let all = [&["store"][..], arguments, &STORE, &["--format", "json"]].concat();
        self.command(&all).output().expect("runs")
    }
}

fn lines(output: &Output) -> usize {
    String::from_utf8_lossy(&output.stdout).lines().count()
}

#[test]
fn a_broker_starts_from_a_snapshot_and_old_events_may_go() {
    let mut daemon = Daemon::start(&["--speed", "600"]);
    daemon.json(&["tenant", "create", "vision", "--budget", "1000usd"]);
    for _ in 0..3 {
        daemon.json(&[
            "lease", "request", "--tenant", "vision", "--gpu", "2xH100", "--for", "1h",
        ]);
    }
    for lease in ["L-1", "L-2", "L-3"] {
        daemon.until(lease, "ended");
    }
    let made = daemon.store(&["snapshot"]);
    assert!(made.status.success(), "{made:?}");
    let check = daemon.json(&[&["store", "check"][..], &STORE].concat());
    assert_eq!(check["snapshot_holds"], true, "{check}");
    let before = daemon.json(&["lease", "list", "--all"]);
    let statement = daemon.json(&["statement", "vision"])["lines"].clone();
    daemon.crash(&["--speed", "600"]);
    assert_eq!(daemon.json(&["lease", "list", "--all"]), before);
    assert_eq!(daemon.json(&["statement", "vision"])["lines"], statement);

    // All but the last event goes into a file, also while it runs.
    let whole = lines(&daemon.store(&["export"]));
    let archived = daemon.store(&["archive", "old.log", "--before", "2200-01"]);
    assert!(archived.status.success(), "{archived:?}");
    daemon.json(&[
        "lease", "request", "--tenant", "vision", "--gpu", "H100", "--for", "1h",
    ]);
    daemon.until("L-4", "ended");
    daemon.crash(&["--speed", "600"]);
    assert_eq!(
        daemon.json(&["statement", "vision"])["lines"][0],
        statement[0]
    );
    let named = daemon.store(&["export"]);
    let said = String::from_utf8_lossy(&named.stderr).into_owned();
    assert!(
        !named.status.success() && said.contains("old.log") && said.contains("--archive"),
        "{said}"
    );
    let all = daemon.store(&["export", "--archive", "old.log"]);
    assert!(lines(&all) > whole, "{} of {whole}", lines(&all));
    for arguments in [&["check"][..], &["check", "--archive", "old.log"]] {
        let checked = daemon.store(arguments);
        assert!(checked.status.success(), "{checked:?}");
    }

    // Without a snapshot nothing can start, until one is made from the file.
    let anew = daemon.store(&["snapshot", "--anew"]);
    assert!(!anew.status.success() && String::from_utf8_lossy(&anew.stderr).contains("old.log"));
    let anew = daemon.store(&["snapshot", "--archive", "old.log"]);
    assert!(anew.status.success(), "{anew:?}");
    daemon.crash(&["--speed", "600"]);
    assert_eq!(daemon.json(&["lease", "show", "L-1"])["state"], "ended");

    // The file and a backup make the whole log again, elsewhere.
    let backup = daemon.store(&["backup", "new.log"]);
    assert!(backup.status.success(), "{backup:?}");
    for file in ["old.log", "new.log"] {
        let arguments = ["store", "restore", file, "--store", "sqlite://other.db"];
        let restored = daemon.command(&arguments).output().expect("runs");
        assert!(restored.status.success(), "{restored:?}");
    }
    let arguments = ["store", "export", "--store", "sqlite://other.db"];
    let other = daemon.command(&arguments).output().expect("runs");
    assert_eq!(
        lines(&other),
        lines(&daemon.store(&["export", "--archive", "old.log"]))
    );
}

//! Processes of this machine: nothing of a lease outlives it, and nothing is started twice, wherever a broker is killed.

use super::{
    rig::Rig,
    subjects::{Processes, Subject as _},
};
use crate::executor::local::tests::Stop;
use gpuwise_broker::LeaseState;
use std::fs;

/// Whether a process runs.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Ways to leave a process behind; each notes its number.
const LEFT: &[(&str, &str)] = &[
    ("in the background", "sleep 6666 & echo $! > STATE/L.left;"),
    (
        "a session of its own",
        "setsid sh -c 'echo $$ > STATE/L.left; exec sleep 6666' &",
    ),
    (
        "twice forked, without an environment",
        "(env -i PATH=$PATH setsid sh -c 'echo $$ > STATE/L.left; exec sleep 6666' &) &",
    ),
    (
        "that does not listen",
        "setsid sh -c 'trap \"\" TERM HUP; echo $$ > STATE/L.left; while :; do sleep 1; done' &",
    ),
];

/// How the lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    ByItself,
    Released,
    /// It is released, and the broker starts again in between.
    Restarted,
}

#[test]
fn nothing_that_a_lease_has_started_outlives_it() {
    for (what, script) in LEFT {
        for end in [End::ByItself, End::Released, End::Restarted] {
            left(what, script, end);
        }
    }
}

fn left(what: &str, script: &str, end: End) {
    let subject = Processes::new();
    let mut rig = Rig::new(&subject);
    let wait = "until [ -s STATE/L.left ]; do sleep 0.01; done; echo > STATE/L-1.begun";
    let then = match end {
        End::ByItself => "exit 0",
        End::Released | End::Restarted => "exec sleep 600",
    };
    let lease = rig.lease(subject.script(&format!("{script} {wait}; {then}")));
    if end == End::ByItself {
        rig.until(lease, LeaseState::Ended);
    } else {
        rig.until(lease, LeaseState::Active);
        subject.wait(lease, "begun");
        if end == End::Restarted {
            rig.starts_again(&subject);
        }
        rig.release(lease);
        rig.until(lease, LeaseState::Ended);
    }
    let pid = fs::read_to_string(subject.state.path().join("L.left")).expect("a number");
    assert!(
        !runs(&pid),
        "{what} {end:?}: {pid} runs when its lease has ended"
    );
}

#[test]
fn a_broker_that_is_killed_while_it_starts_a_lease_starts_it_once() {
    for stop in Stop::ALL {
        let subject = Processes::new();
        subject.stops.set(Some(stop));
        let mut rig = Rig::new(&subject);
        let lease = rig.lease(subject.stays());
        rig.decide();
        rig.tell_again();
        rig.goes();
        rig.starts_again(&subject);
        rig.until(lease, LeaseState::Active);
        super::begun(&subject, lease);
        let starts = || fs::read_to_string(subject.file(lease, "runs")).unwrap_or_default();
        assert_eq!(starts().lines().count(), 1, "{stop:?}: {}", starts());
        // And once more, before its orders are told.
        rig.goes();
        rig.starts_again(&subject);
        rig.rest();
        assert_eq!(starts().lines().count(), 1, "{stop:?}: {}", starts());
        rig.end(lease);
        assert_eq!(subject.runs(lease), Some(0), "{stop:?}");
    }
}

/// Its supervisor is ended by force: what it had started is known by its mark.
#[test]
fn what_nothing_watches_any_more_is_found_by_its_mark() {
    let subject = Processes::new();
    let mut rig = Rig::new(&subject);
    let script = "setsid sh -c 'echo $$ > STATE/L.left; exec sleep 6666' & exec sleep 600";
    let lease = rig.lease(subject.script(script));
    rig.until(lease, LeaseState::Active);
    let pid = loop {
        match fs::read_to_string(subject.state.path().join("L.left")) {
            Ok(pid) if pid.ends_with('\n') => break pid,
            _ => std::thread::yield_now(),
        }
    };
    rig.goes();
    let note = fs::read_to_string(subject.state.path().join("log/leases/L-1/runs.json"));
    let note: serde_json::Value = serde_json::from_str(&note.expect("is noted")).expect("JSON");
    let supervisor = note["processes"][0]["pid"].as_i64().expect("a number");
    let supervisor = i32::try_from(supervisor)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(supervisor.expect("a number"), rustix::process::Signal::KILL)
        .expect("is ended");
    rig.starts_again(&subject);
    rig.until(lease, LeaseState::Failed);
    assert!(!runs(&pid), "{pid} runs when its lease is over");
}

/// Another broker of the log has a folder of its own, such as one that waited for its turn.
#[test]
fn a_broker_with_another_folder_goes_on_with_what_runs() {
    let subject = Processes::new();
    let mut rig = Rig::new(&subject);
    let lease = rig.lease(subject.stays());
    rig.until(lease, LeaseState::Active);
    super::begun(&subject, lease);
    rig.goes();
    let other = tempfile::tempdir().expect("a folder");
    subject.elsewhere.set(Some(other.path().to_owned()));
    rig.starts_again(&subject);
    rig.rest();
    assert_eq!(rig.state(lease), LeaseState::Active);
    assert_eq!(subject.runs(lease), Some(1));
    rig.end(lease);
    assert_eq!(subject.runs(lease), Some(0));
}

/// A new log, such as after its database was lost, knows nothing of what runs: its GPUs are not given to others.
#[test]
fn nothing_starts_on_a_gpu_on_which_processes_of_another_log_run() {
    let subject = Processes::new();
    let mut before = Rig::new(&subject);
    let lease = before.lease(subject.stays());
    before.until(lease, LeaseState::Active);
    super::begun(&subject, lease);
    subject.log.set("another");
    let mut after = Rig::new(&subject);
    let late = after.lease(subject.stays());
    after.until(late, LeaseState::Failed);
    let over = after.broker.lease(late).expect("is there").over.clone();
    let reason = over.expect("is over").reason;
    assert!(
        reason.contains("in use by a process that this broker does not know"),
        "{reason}"
    );
    assert_eq!(subject.runs(lease), Some(1));
    before.end(lease);
    let later = after.lease(subject.stays());
    after.until(later, LeaseState::Active);
    after.end(later);
}

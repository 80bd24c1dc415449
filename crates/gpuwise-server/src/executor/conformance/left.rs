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

/// What somebody says of itself in its environment, and writes in a folder of its own, is not believed: it would have
/// files read and processes ended that are not its own.
#[test]
fn a_process_that_says_it_is_of_a_lease_is_no_supervisor() {
    let subject = Processes::new();
    let mut rig = Rig::new(&subject);
    let log = crate::token::hash(&subject.state.path().join("log").display().to_string());
    let lease = rig.lease(Vec::new());
    rig.until(lease, LeaseState::Active);
    let forged = tempfile::tempdir().expect("a folder");
    let secret = forged.path().join("secret");
    fs::write(&secret, "hidden").expect("writes");
    for folder in ["logs", "leases/L-1"] {
        fs::create_dir_all(forged.path().join(folder)).expect("is made");
    }
    std::os::unix::fs::symlink(&secret, forged.path().join("logs/L-1.log")).expect("is made");
    let sleeps = || {
        let mut command = std::process::Command::new("sleep");
        command.arg("6666");
        command
    };
    let mut victim = sleeps().spawn().expect("starts");
    let stat = fs::read_to_string(format!("/proc/{}/stat", victim.id())).expect("is there");
    let started = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.split(' ').nth(19));
    let note = format!(
        r#"{{"order":1,"processes":[{{"pid":{},"started":{},"worker":0}}]}}"#,
        victim.id(),
        started.expect("a number")
    );
    fs::write(forged.path().join("leases/L-1/runs.json"), note).expect("writes");
    let mut says = sleeps()
        .env("GPUWISE_BROKER", log)
        .env("GPUWISE_LEASE", "L-1")
        .env("GPUWISE_WORKER", "0")
        .env("GPUWISE_STATE", forged.path())
        .spawn()
        .expect("starts");
    rig.goes();
    rig.starts_again(&subject);
    let logs = rig.logs().expect("are kept");
    assert_eq!(logs.read(lease, 0, 0, 100).expect("reads"), None);
    rig.end(lease);
    assert_eq!(victim.try_wait().expect("is ours"), None, "it was ended");
    for one in [&mut victim, &mut says] {
        // It may have been ended as one that nobody has noted.
        let _ = one.kill();
        one.wait().expect("ends");
    }
}

/// Its first thread ends, and another one goes on: all of it runs, and holds its GPU.
const WITHOUT_FIRST_THREAD: &str = r"
import ctypes, os, signal, subprocess, sys, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(['sleep', '6666'], start_new_session=True)
def note():
    while open('/proc/self/stat').read().rsplit(') ')[1][0] != 'Z': pass
    with open(sys.argv[1] + '.new', 'w') as file: file.write('%d\n%d\n' % (os.getpid(), child.pid))
    os.rename(sys.argv[1] + '.new', sys.argv[1])
    while True: time.sleep(1)
threading.Thread(target=note).start()
number = {'x86_64': 60, 'aarch64': 93}[os.uname().machine]
ctypes.CDLL(None).syscall(number, 0)
";

#[test]
fn a_process_whose_first_thread_has_ended_ends_with_its_lease() {
    let python = std::process::Command::new("python3")
        .arg("--version")
        .output();
    if !python.is_ok_and(|output| output.status.success()) {
        gpuwise_needs::skipped("there is no python3");
        return;
    }
    for end in [End::ByItself, End::Released, End::Restarted] {
        let subject = Processes::new();
        fs::write(subject.state.path().join("lead.py"), WITHOUT_FIRST_THREAD).expect("writes");
        let mut rig = Rig::new(&subject);
        let then = match end {
            End::ByItself => "exit 0",
            End::Released | End::Restarted => "exec sleep 600",
        };
        let script = format!(
            "setsid python3 STATE/lead.py STATE/L.left & until [ -s STATE/L.left ]; do sleep 0.01; done; \
             echo > STATE/L-1.begun; {then}"
        );
        let lease = rig.lease(subject.script(&script));
        if end == End::ByItself {
            rig.until(lease, LeaseState::Ended);
        } else {
            rig.until(lease, LeaseState::Active);
            subject.wait(lease, "begun");
            if end == End::Restarted {
                rig.starts_again(&subject);
            }
            rig.end(lease);
        }
        let pids = fs::read_to_string(subject.state.path().join("L.left")).expect("numbers");
        for pid in pids.lines() {
            assert!(
                !has_threads(pid),
                "{end:?}: {pid} runs when its lease has ended"
            );
        }
    }
}

/// Whether a thread of a process runs.
fn has_threads(pid: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let files = tasks.filter_map(|one| fs::read_to_string(one.ok()?.path().join("stat")).ok());
    let mut states = files.filter_map(|stat| stat.rsplit_once(") ")?.1.chars().next());
    states.any(|state| !matches!(state, 'Z' | 'X'))
}

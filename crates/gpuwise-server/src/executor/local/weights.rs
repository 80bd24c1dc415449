//! Weights are read into the memory of this machine before what needs them starts.
//!
//! What is read lies in the page cache: the next start reads it from there. The system drops what it needs the memory
//! for; nothing is pinned. What gives way is told to it as no longer needed. All of that is done by commands under the
//! tenant's account, below a supervisor as commands of leases are.

use super::{
    account::Account,
    guarded,
    kept::{self, Place},
    process::{Group, Owner, reap},
    supervisor::{Supervisor, Task},
    tree,
};
use crate::message::Incoming;
use gpuwise_broker::{Lease, Observation, OrderId};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    thread,
    time::{Duration, Instant},
};

/// Reads files of a folder, `$1`, and no more than `$2` bytes; each of them must be readable.
const READ: &str = r#"
case $1 in /*) ;; *) set -- "./$1" "$2" ;; esac
files() { find -L "$path" -maxdepth 8 -type f "$@"; }
path=$1
[ -n "$(files | head -n 1)" ] || { echo "$path: there is no file" >&2; exit 1; }
files -exec sh -c 'for one; do : <"$one" || exit 1; done' sh {} + || exit 1
files -exec cat -- {} + 2>/dev/null | head -c "$2" >/dev/null
"#;

/// Tells the system that these files are no longer needed.
const FORGET: &str = r#"
case $1 in /*) ;; *) set -- "./$1" ;; esac
find -L "$1" -maxdepth 8 -type f -exec sh -c \
    'for one; do dd if="$one" iflag=nocache count=0 status=none || exit 1; done' sh {} +
"#;

/// How long a command that puts weights somewhere may take.
const LIMIT: Duration = Duration::from_hours(1);

/// How long one that is ended has to save what it did.
const GRACE: Duration = Duration::from_secs(5);

/// How often is looked whether it is still wanted.
const LOOK: Duration = Duration::from_millis(200);

/// Bytes of what it writes that are kept, and of its last line that are told.
const LOG: u64 = 64 << 10;
const LINE: usize = 200;

/// By this number of a worker its processes are known.
const WORKER: usize = usize::MAX;

/// How a command of a tenant runs.
#[derive(Debug, Clone)]
pub(super) struct CommandSettings {
    /// `None`: the broker's own.
    pub(super) account: Option<Account>,
    /// All of it.
    pub(super) environment: BTreeMap<String, String>,
    pub(super) umask: u32,
    pub(super) supervisor: Supervisor,
    pub(super) place: Place,
    pub(super) owner: Owner,
}

/// What is under way for a lease, and whether it is no longer wanted.
#[derive(Debug)]
struct UnderWay {
    lease: u32,
    over: Arc<AtomicBool>,
}

/// Orders that are under way.
#[derive(Debug, Clone, Default)]
pub(super) struct Weights(Arc<Mutex<BTreeMap<OrderId, UnderWay>>>);

impl Weights {
    /// Puts the weights of a lease there, or lets go of them, beside all else; told twice it is done once.
    pub(super) fn take(
        &self,
        order: OrderId,
        lease: &Lease,
        keep: bool,
        how: Result<CommandSettings, String>,
        inbox: &Sender<Incoming>,
    ) -> Option<Observation> {
        if !keep {
            // What was to put them there is no longer wanted.
            self.stop(|number| number == lease.number);
        }
        let over = Arc::new(AtomicBool::new(false));
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if own.contains_key(&order) {
            return None;
        }
        let under_way = UnderWay {
            lease: lease.number,
            over: Arc::clone(&over),
        };
        own.insert(order, under_way);
        drop(own);
        let words = words(lease, keep);
        let (inbox, all) = (inbox.clone(), self.clone());
        let work = move || {
            let done = match words {
                Ok(Some(words)) => how.and_then(|how| run(order, words, &how, &over, LIMIT)),
                // What a command has put there is its own business.
                Ok(None) => Ok(()),
                Err(reason) => Err(reason),
            };
            let seen = match done {
                Ok(()) => Observation::Done(order),
                Err(reason) => Observation::failed(order, reason),
            };
            let mut own = all.0.lock().unwrap_or_else(PoisonError::into_inner);
            own.remove(&order);
            drop(own);
            // The writer may be gone already.
            let _ = inbox.send(Incoming::Observed(seen));
        };
        let spawned = thread::Builder::new().name("weights".into()).spawn(work);
        let reason = spawned.err()?.to_string();
        Some(Observation::failed(order, reason))
    }

    /// Ends what is under way for leases.
    pub(super) fn stop(&self, of: impl Fn(u32) -> bool) {
        let own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for one in own.values().filter(|one| of(one.lease)) {
            one.over.store(true, Ordering::SeqCst);
        }
    }
}

/// What is run for the weights of a lease; `None`: nothing.
fn words(lease: &Lease, keep: bool) -> Result<Option<Vec<String>>, String> {
    let service = lease.ask.service.as_ref();
    let path = service.and_then(|one| one.weights.as_deref());
    let command = service.and_then(|one| one.prefetch.as_deref());
    let bytes = service.and_then(|one| one.weights_bytes);
    match (keep, command, path) {
        (true, Some(command), _) => Ok(Some(shell(command, &[]))),
        (true, None, Some(path)) => {
            let bytes = bytes.ok_or("it is not said how many bytes its weights have")?;
            Ok(Some(shell(READ, &[path, &bytes.to_string()])))
        }
        (true, None, None) => Err("its weights have no path and no command".into()),
        (false, None, Some(path)) => Ok(Some(shell(FORGET, &[path]))),
        (false, _, _) => Ok(None),
    }
}

fn shell(text: &str, arguments: &[&str]) -> Vec<String> {
    let words = ["/bin/sh", "-c", text, "gpuwise"];
    words
        .iter()
        .chain(arguments)
        .map(|one| (*one).to_owned())
        .collect()
}

/// Runs it until nothing of it is left.
fn run(
    order: OrderId,
    words: Vec<String>,
    how: &CommandSettings,
    over: &AtomicBool,
    limit: Duration,
) -> Result<(), String> {
    let wrong = |error: io::Error| format!("its weights cannot be put there: {error}");
    let folder = how.place.0.join("weights").join(order.0.to_string());
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(wrong(error)),
        _ => {}
    }
    fs::create_dir_all(&folder).map_err(wrong)?;
    let (end, log) = (folder.join("0.end"), folder.join("0.log"));
    let marks = super::environment::marks(
        &how.owner.broker,
        &gpuwise_broker::lease_id(how.owner.job.0),
        WORKER,
    );
    let mut environment = how.environment.clone();
    environment.extend(marks.clone());
    let task = Task {
        words,
        environment,
        account: how.account.clone(),
        procs: None,
        begun: folder.join("0.begun"),
        end: end.clone(),
        log: log.clone(),
        log_size: LOG,
        umask: how.umask,
        notes: Vec::new(),
    };
    let group = begun(&task, marks, how).map_err(wrong)?;
    let until = Instant::now() + limit;
    let why = loop {
        if group.has_ended_in(LOOK) {
            break None;
        }
        if over.load(Ordering::SeqCst) {
            break Some("it was ended, as its weights are no longer wanted".to_owned());
        }
        if Instant::now() >= until {
            let seconds = limit.as_secs();
            break Some(format!(
                "it was ended, as it took more than {seconds} seconds"
            ));
        }
    };
    group.end(GRACE);
    let code: Option<i32> = guarded::read(&end)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let said = guarded::read(&log).unwrap_or_default();
    // Where it stays, the next order of this number removes it.
    let _ = fs::remove_dir_all(&folder);
    match (why, code) {
        (Some(why), _) => Err(why),
        (None, Some(0)) => Ok(()),
        (None, code) => {
            let (_, reason) = gpuwise_broker::ended_by(code);
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            let last: String = last.unwrap_or_default().chars().take(LINE).collect();
            Err(format!("what puts its weights there: {reason} {last}")
                .trim_end()
                .to_owned())
        }
    }
}

/// Starts its supervisor, and tells it its task.
fn begun(task: &Task, marks: [(String, String); 3], how: &CommandSettings) -> io::Result<Group> {
    let text = serde_json::to_vec(task)?;
    let mut child = how.supervisor.start(marks, &how.place.0, "")?;
    let told = child.stdin.take();
    let pid = i32::try_from(child.id()).unwrap_or(0);
    let started = tree::Process::of(pid).map_or(0, |one| one.started);
    reap(child);
    let process = kept::Process {
        pid,
        started,
        worker: WORKER,
        port: None,
        devices: String::new(),
        supervised: true,
        group: None,
    };
    told.ok_or(io::ErrorKind::BrokenPipe)?.write_all(&text)?;
    Ok(Group::new(how.owner.clone(), process))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwise_domain::placement::JobId;
    use std::path::Path;

    fn how(state: &Path) -> CommandSettings {
        CommandSettings {
            account: None,
            environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            umask: 0o022,
            supervisor: super::super::supervisor::tests::of_tests(),
            place: Place(state.to_owned()),
            owner: Owner {
                broker: crate::token::hash(&state.display().to_string()),
                job: JobId(1),
                remains: crate::executor::Remains::default(),
            },
        }
    }

    fn ran(state: &Path, words: Vec<String>) -> Result<(), String> {
        let over = AtomicBool::new(false);
        run(OrderId(1), words, &how(state), &over, LIMIT)
    }

    #[test]
    fn all_files_of_a_folder_are_read_and_let_go_of_and_what_is_not_there_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let weights = folder.path().join("weights of it");
        fs::create_dir_all(weights.join("snapshot")).expect("a folder");
        for name in ["model-1.safetensors", "snapshot/model-2.safetensors"] {
            fs::write(weights.join(name), vec![7; 3 << 20]).expect("writes");
        }
        // A pipe would be waited for.
        let pipe = std::process::Command::new("mkfifo")
            .arg(weights.join("pipe"))
            .status();
        assert!(pipe.expect("runs").success());
        let path = weights.display().to_string();
        let state = folder.path().join("state");
        assert_eq!(ran(&state, shell(READ, &[&path, "6000000"])), Ok(()));
        assert_eq!(ran(&state, shell(FORGET, &[&path])), Ok(()));
        let gone = ran(&state, shell(READ, &[&format!("{path}/nowhere"), "1"]));
        assert!(gone.is_err_and(|error| error.contains("nowhere: there is no file")));
        let failed = ran(&state, shell("echo why; exit 3", &[]));
        assert!(
            failed
                .as_ref()
                .is_err_and(|error| error.contains('3') && error.ends_with("why")),
            "{failed:?}"
        );
        let only = "test $GPUWISE_LEASE = L-1 && ! env | grep -q CARGO";
        assert_eq!(ran(&state, shell(only, &[])), Ok(()));
    }

    /// It does not listen, carries no mark, and is another process before a look at all of them is over.
    const REPLACES_ITSELF: &str = r"
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], 'w').close()
end = time.monotonic() + 60
while time.monotonic() < end:
    if os.fork(): os._exit(0)
";

    #[test]
    fn what_replaces_itself_faster_than_is_looked_ends_too() {
        let python = std::process::Command::new("python3")
            .arg("--version")
            .output();
        if !python.is_ok_and(|output| output.status.success()) {
            gpuwise_needs::skipped("there is no python3");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let begun = folder.path().join("begun");
        fs::write(folder.path().join("chain.py"), REPLACES_ITSELF).expect("writes");
        let text = format!(
            "exec env -i PATH=$PATH python3 {0}/chain.py {0}/begun",
            folder.path().display()
        );
        let over = AtomicBool::new(false);
        let ended = thread::scope(|scope| {
            let state = folder.path().join("state");
            let words = shell(&text, &[]);
            let over = &over;
            let runs = scope.spawn(move || run(OrderId(1), words, &how(&state), over, LIMIT));
            while !begun.exists() {
                thread::yield_now();
            }
            over.store(true, Ordering::SeqCst);
            runs.join().expect("ends")
        });
        assert!(ended.is_err(), "{ended:?}");
        let chain = folder.path().join("chain.py").display().to_string();
        for _ in 0..50 {
            let all = fs::read_dir("/proc").expect("is there").flatten();
            let words = all.filter_map(|one| fs::read(one.path().join("cmdline")).ok());
            let mut own = words.filter(|words| String::from_utf8_lossy(words).contains(&chain));
            assert_eq!(own.next(), None, "it runs");
        }
    }

    #[test]
    fn what_a_command_for_weights_has_started_ends_with_it_and_when_it_takes_too_long() {
        let folder = tempfile::tempdir().expect("a folder");
        let left = folder.path().join("left");
        let text = format!(
            "(env -i PATH=$PATH setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 6666' &) & \
             until [ -e {0} ]; do sleep 0.01; done",
            left.display()
        );
        let runs = || {
            let pid = fs::read_to_string(&left).expect("a number");
            fs::remove_file(&left).expect("is there");
            tree::Process::of(pid.trim().parse().expect("a number"))
        };
        let state = folder.path().join("state");
        assert_eq!(ran(&state, shell(&text, &[])), Ok(()));
        assert_eq!(runs(), None);
        let stays = shell(&format!("{text}; exec sleep 6666"), &[]);
        let waits = || {
            while !left.exists() {
                thread::yield_now();
            }
        };
        let over = AtomicBool::new(false);
        let ended = thread::scope(|scope| {
            let runs = scope.spawn(|| run(OrderId(2), stays.clone(), &how(&state), &over, LIMIT));
            waits();
            over.store(true, Ordering::SeqCst);
            runs.join().expect("ends")
        });
        assert!(ended.is_err_and(|why| why.contains("no longer wanted")));
        assert_eq!(runs(), None);
        let over = AtomicBool::new(false);
        let ended = run(OrderId(3), stays, &how(&state), &over, Duration::ZERO);
        assert!(ended.is_err_and(|why| why.contains("more than 0 seconds")));
    }
}

//! A process that starts a worker of a lease and stays until nothing of it is left.
//!
//! What a command starts has it as an ancestor for ever, however it detaches itself: orphans become its children. It is
//! told what to start on its standard input, when the broker has noted it; a broker that is gone before leaves nothing
//! behind. It outlives the broker, as the command does.

use super::{
    account::{self, Account},
    environment, guarded,
    logs::BoundedLog,
    tree::{self, Mark, Tree},
};
use rustix::{
    fs::Mode,
    process::{
        Pid, Signal, WaitOptions, WaitStatus, geteuid, getpid, set_child_subreaper, setsid, umask,
        wait,
    },
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    io::{self, PipeReader, Read as _},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

/// How long what a command leaves behind has to end by itself.
const LEFT: Duration = Duration::from_secs(5);

/// Between two looks whether something is left.
const STEP: Duration = Duration::from_millis(20);

/// How long is read on where a process of somebody else keeps the output open.
const OUTPUT: Duration = Duration::from_secs(2);

/// The program that is started as a supervisor: this one, in another role.
#[derive(Debug, Clone)]
pub(crate) struct Supervisor {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    /// Variables that say that it is one.
    pub(crate) environment: BTreeMap<String, String>,
}

impl Supervisor {
    /// This program, as its command line knows the role.
    pub(crate) fn own() -> Self {
        Self {
            // The very program that runs, though a newer one was installed meanwhile.
            program: "/proc/self/exe".into(),
            arguments: vec![super::SUPERVISOR.into()],
            environment: BTreeMap::new(),
        }
    }

    /// Starts one that waits to be told its task; `devices` are the GPUs that it is given.
    pub(super) fn start(
        &self,
        marks: [(String, String); 3],
        state: &Path,
        devices: &str,
    ) -> io::Result<Child> {
        Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .envs(&self.environment)
            .envs(marks)
            .env(tree::STATE, state)
            // By it other brokers of this machine know which GPUs are in use.
            .env(environment::VISIBLE, devices)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }

    /// Whether a process is a supervisor that a broker of this account started. What other processes say in their
    /// environment is the word of whoever started them.
    pub(super) fn is(&self, pid: i32) -> bool {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        // A program that takes its owner's rights keeps the environment of whoever starts it.
        let plain = fs::metadata(folder.join("exe")).is_ok_and(|exe| exe.mode() & SET_ID == 0);
        let own = geteuid().as_raw().to_string();
        let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
        let accounts = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let ours = accounts.is_some_and(|all| all.split_whitespace().all(|one| one == own));
        let words = fs::read(folder.join("cmdline")).unwrap_or_default();
        let mut words = words
            .strip_suffix(b"\0")
            .unwrap_or_default()
            .split(|byte| *byte == 0)
            .skip(1);
        let role = words
            .by_ref()
            .eq(self.arguments.iter().map(|one| one.as_bytes()));
        plain && ours && role
    }
}

impl Supervisor {
    /// Supervisors of a log's leases that run, and what they were told.
    pub(super) fn of_log<'a>(
        &'a self,
        tree: &'a Tree,
        log: &'a str,
    ) -> impl Iterator<Item = (&'a tree::Process, Mark)> {
        let marked = tree.marked();
        marked.filter(move |(one, mark)| mark.broker == log && self.is(one.pid))
    }
}

/// Bits of a program's mode by which it runs as its owner, or its group.
const SET_ID: u32 = 0o6000;

/// What a supervisor starts, and where it says what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) words: Vec<String>,
    /// All of it: nothing is added.
    pub(super) environment: BTreeMap<String, String>,
    /// `None`: our own.
    pub(super) account: Option<Account>,
    /// Where its group of processes takes new members; `None`: it has none.
    pub(super) procs: Option<PathBuf>,
    /// A file that is there as soon as something was started.
    pub(super) begun: PathBuf,
    /// A file that holds how it ended.
    pub(super) end: PathBuf,
    pub(super) log: PathBuf,
    /// Bytes of the log at most.
    pub(super) log_size: u64,
    /// The mask with which the command makes files.
    pub(super) umask: u32,
    /// What is said in the log first.
    pub(super) notes: Vec<String>,
}

/// Does what is told on standard input, until nothing of it is left.
///
/// # Errors
/// When what it finds out cannot be noted.
pub fn supervise() -> io::Result<()> {
    // Its signals are its own; where it leads a session already that is so.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    let mut told = Vec::new();
    io::stdin().lock().read_to_end(&mut told)?;
    // Half of it: the broker is gone, and nothing was noted as started.
    let Ok(task) = serde_json::from_slice::<Task>(&told) else {
        return Ok(());
    };
    drop(told);
    let mut log = BoundedLog::open(&task.log, task.log_size)?;
    for note in &task.notes {
        log.write(format!("gpuwise: {note}\n").as_bytes())?;
    }
    if let Some(procs) = &task.procs
        && let Err(error) = fs::write(procs, std::process::id().to_string())
    {
        let held = format!(
            "gpuwise: cores and memory are not held: {}: {error}\n",
            procs.display()
        );
        log.write(held.as_bytes())?;
    }
    guarded::write(&task.begun, b"")?;
    let (pid, output) = match started(&task) {
        Ok(started) => started,
        Err(error) => {
            let program = task.words.first().map_or("", String::as_str);
            log.write(format!("gpuwise: {program:?} cannot be started: {error}\n").as_bytes())?;
            return ended(&task.end, 127);
        }
    };
    let written = keep_output(output, log);
    until_nothing_is_left(pid, &task.end, &written)?;
    // Where it is still open, somebody else has it.
    let _ = written.recv_timeout(OUTPUT);
    Ok(())
}

fn started(task: &Task) -> io::Result<(Pid, PipeReader)> {
    let (program, arguments) = task
        .words
        .split_first()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(&task.environment)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        // What is sent to all of its group does not reach us.
        .process_group(0);
    if let Some(account) = &task.account {
        // Where we are may not be for it to see.
        let home = Some(account.home.as_path()).filter(|home| home.is_dir());
        command.current_dir(home.unwrap_or(Path::new("/")));
    }
    // What it notes itself is for its account alone, as what the broker keeps.
    let own = umask(Mode::from_bits_truncate(task.umask));
    let child = account::spawn(&mut command, task.account.as_ref());
    umask(own);
    let child = child?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok((pid.ok_or(io::ErrorKind::InvalidData)?, reader))
}

/// How long is waited for what a command that has ended wrote last.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Keeps what is written; whoever waits hears when there will be no more.
fn keep_output(mut output: PipeReader, mut log: BoundedLog) -> Receiver<()> {
    let (over, waits) = channel();
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let read = match output.read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            // On a disk that is full the command goes on, and what it writes is lost.
            let _ = log.write(bytes.get(..read).unwrap_or_default());
        }
        let _ = over.send(());
    });
    waits
}

/// Waits for the command, says how it ended, and ends what it has left behind.
fn until_nothing_is_left(command: Pid, end: &Path, written: &Receiver<()>) -> io::Result<()> {
    let own = getpid().as_raw_nonzero().get();
    let left = || Tree::now().below(own);
    let mut over: Option<Instant> = None;
    loop {
        let how = match over {
            None => WaitOptions::empty(),
            Some(_) => WaitOptions::NOHANG,
        };
        match wait(how) {
            Ok(Some((pid, status))) if pid == command => {
                // Its last words are kept before it is said to have ended, unless what it left has them, too.
                let _ = written.recv_timeout(LAST_WORDS);
                ended(end, code(status))?;
                over = Some(Instant::now());
                tree::signal(&left(), Signal::TERM);
            }
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => thread::sleep(STEP),
            // There is no child any more.
            Err(_) => return Ok(()),
        }
        // Also where one follows upon another, so that there is always one to wait for.
        if over.is_some_and(|over| over.elapsed() > LEFT) {
            tree::kill(left);
            tree::hunt(own);
        }
    }
}

/// As a shell says it: signals are above 128.
fn code(status: WaitStatus) -> i32 {
    let signal = || status.terminating_signal().map(|signal| 128 + signal);
    status.exit_status().or_else(signal).unwrap_or(127)
}

fn ended(end: &Path, code: i32) -> io::Result<()> {
    let new = end.with_extension("end.new");
    guarded::write(&new, code.to_string().as_bytes())?;
    let new = guarded::real(&new)?;
    // A link at the name itself is replaced.
    fs::rename(&new, new.with_extension(""))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Says to this very program, which runs tests, that it is a supervisor.
    const ROLE: &str = "GPUWISE_TEST_SUPERVISOR";

    /// This program, which runs one test, the one below.
    pub(crate) fn of_tests() -> Supervisor {
        let name =
            "executor::local::supervisor::tests::a_program_of_tests_is_one_where_it_is_told_so";
        Supervisor {
            program: std::env::current_exe().expect("has a name"),
            arguments: ["--exact", name, "--nocapture"]
                .map(OsString::from)
                .to_vec(),
            environment: BTreeMap::from([(ROLE.into(), "1".into())]),
        }
    }

    #[test]
    fn a_program_of_tests_is_one_where_it_is_told_so() {
        if std::env::var_os(ROLE).is_some() {
            supervise().expect("supervises");
        }
    }

    #[test]
    fn a_supervisor_is_known_by_its_account_and_its_words_and_not_by_what_it_says() {
        let supervisor = of_tests();
        let state = tempfile::tempdir().expect("a folder");
        let marks = environment::marks("log", "L-1", 0);
        let mut waits = supervisor
            .start(marks.clone(), state.path(), "")
            .expect("starts");
        let mut says = Command::new("sleep")
            .arg("6666")
            .envs(marks)
            .env(tree::STATE, state.path())
            .spawn()
            .expect("starts");
        let [waits_pid, says_pid] =
            [&waits, &says].map(|one| i32::try_from(one.id()).expect("a number"));
        let tree = Tree::now();
        let of_log: Vec<i32> = supervisor
            .of_log(&tree, "log")
            .map(|(one, _)| one.pid)
            .collect();
        assert!(
            of_log.contains(&waits_pid) && !of_log.contains(&says_pid),
            "{of_log:?}"
        );
        says.kill().expect("is ended");
        says.wait().expect("ends");
        // Nothing was told: it ends by itself.
        drop(waits.stdin.take());
        assert!(waits.wait().expect("ends").success());
        assert!(!supervisor.is(waits_pid));
    }
}

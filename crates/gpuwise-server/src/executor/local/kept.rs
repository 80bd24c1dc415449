//! What is known of processes when the broker is not: a directory for each lease, with a file that says what
//! runs, and files for each worker that say whether it began and how it ended.

use super::{
    account::Account,
    environment, guarded, limits,
    supervisor::{Supervisor, Task},
    tree,
};
use gpuwise_broker::{Launch, lease_id};
use gpuwise_domain::placement::JobId;
use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ChildStdin,
};

/// What runs of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The order that started it.
    pub(super) order: u64,
    pub(super) processes: Vec<Process>,
    /// The GPUs that it was started on, as it was told them.
    #[serde(default)]
    pub(super) devices: String,
    /// Whether it has given them up and lives on.
    #[serde(default)]
    pub(super) asleep: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    /// What all of it descends from.
    pub(super) pid: i32,
    /// When that was started, in the kernel's ticks since the machine was: numbers of processes come again.
    pub(super) started: u64,
    pub(super) worker: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<u16>,
    /// The GPUs that it was started on, as it was told them.
    #[serde(default)]
    pub(super) devices: String,
    /// Whether it is a supervisor, which stays until nothing is left; an earlier release started a shell, which is the
    /// leader of a group.
    #[serde(default)]
    pub(super) supervised: bool,
    /// The kernel's group of processes that holds its limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<PathBuf>,
}

impl Process {
    /// Whether it runs: another process may have its number by now.
    pub(super) fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

/// When a process was started, in ticks since the machine was; `None`: there is none.
fn start_time(pid: i32) -> Option<u64> {
    Some(tree::Process::of(pid)?.started)
}

/// Where it is kept.
#[derive(Debug, Clone)]
pub(in crate::executor) struct Place(pub(in crate::executor) PathBuf);

/// What is started of a worker.
pub(super) struct Begin<'a> {
    pub(super) job: JobId,
    pub(super) worker: usize,
    pub(super) port: Option<u16>,
    pub(super) launch: &'a Launch,
    /// `None`: the broker's own.
    pub(super) account: Option<&'a Account>,
    /// The group of processes that holds its limits; an error: why there is none. `None`: none is asked for.
    pub(super) group: Option<Result<PathBuf, String>>,
    pub(super) log_size: u64,
    pub(super) umask: u32,
    pub(super) broker: &'a str,
}

/// A supervisor that waits until it is noted. Dropped, it ends and has started nothing.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) process: Process,
    told: ChildStdin,
    task: Vec<u8>,
}

impl Waiting {
    /// Lets it start the command.
    pub(super) fn go(mut self) -> Result<(), String> {
        let written = self.told.write_all(&self.task);
        written.map_err(|error| format!("what is to be started cannot be told: {error}"))
    }
}

impl Place {
    pub(in crate::executor) fn folder(&self, job: JobId) -> PathBuf {
        self.0.join("leases").join(lease_id(job.0))
    }

    pub(in crate::executor) fn end_file(&self, job: JobId, worker: usize) -> PathBuf {
        self.folder(job).join(format!("{worker}.end"))
    }

    /// Whether it was said how a worker ended.
    pub(super) fn has_ended(&self, job: JobId, worker: usize) -> bool {
        guarded::about(&self.end_file(job, worker)).is_ok()
    }

    fn begun_file(&self, job: JobId, worker: usize) -> PathBuf {
        self.folder(job).join(format!("{worker}.begun"))
    }

    /// Whether the command of a worker was ever started.
    pub(super) fn has_begun(&self, job: JobId, process: &Process) -> bool {
        !process.supervised || guarded::about(&self.begun_file(job, process.worker)).is_ok()
    }

    /// Makes ready what starts a worker; nothing of the command runs before it is told to go.
    pub(super) fn ready(
        &self,
        supervisor: &Supervisor,
        begin: Begin<'_>,
    ) -> Result<Waiting, String> {
        let Begin {
            job,
            worker,
            launch,
            ..
        } = begin;
        let program = launch.words.first().cloned().unwrap_or_default();
        if !is_there(&program, launch) {
            return Err(format!(
                "{program:?} cannot be started: there is no such program"
            ));
        }
        let wrong = |error: io::Error| format!("{program:?} cannot be started: {error}");
        fs::create_dir_all(self.folder(job)).map_err(wrong)?;
        let files = [self.begun_file(job, worker), self.end_file(job, worker)];
        for before in &files {
            // What became of one before it says nothing of this one.
            let before = guarded::real(before).map_err(wrong)?;
            match fs::remove_file(before) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(wrong(error)),
                _ => {}
            }
        }
        self.supervisor(supervisor, begin, files).map_err(wrong)
    }

    /// A supervisor that waits to be told its task.
    fn supervisor(
        &self,
        supervisor: &Supervisor,
        begin: Begin<'_>,
        [started, end]: [PathBuf; 2],
    ) -> io::Result<Waiting> {
        let (job, worker, launch) = (begin.job, begin.worker, begin.launch);
        let marks = environment::marks(begin.broker, &lease_id(job.0), worker);
        let mut own = launch.environment.clone();
        own.extend(marks.clone());
        let (group, note) = match begin.group {
            Some(Ok(group)) => (Some(group), None),
            // Whoever asked for limits reads in the log that there are none.
            Some(Err(why)) => (None, Some(format!("cores and memory are not held: {why}"))),
            None => (None, None),
        };
        let task = serde_json::to_vec(&Task {
            words: launch.words.clone(),
            environment: own,
            account: begin.account.cloned(),
            procs: group.as_ref().map(|group| group.join("cgroup.procs")),
            begun: started,
            end,
            log: self.log_file(job.0, u32::try_from(worker).unwrap_or(u32::MAX)),
            log_size: begin.log_size,
            umask: begin.umask,
            notes: note.into_iter().collect(),
        })?;
        let mut child = supervisor.start(marks, &self.0, environment::devices(launch))?;
        let told = child.stdin.take();
        let pid = i32::try_from(child.id()).unwrap_or(0);
        let since = start_time(pid).unwrap_or(0);
        super::process::reap(child);
        Ok(Waiting {
            process: Process {
                pid,
                started: since,
                worker,
                port: begin.port,
                devices: environment::devices(launch).to_owned(),
                supervised: true,
                group,
            },
            told: told.ok_or(io::ErrorKind::BrokenPipe)?,
            task,
        })
    }

    pub(super) fn keep(&self, job: JobId, kept: &Kept) -> io::Result<()> {
        let folder = self.folder(job);
        let text = serde_json::to_string(kept)?;
        let new = folder.join("runs.new");
        guarded::write(&new, text.as_bytes())?.sync_all()?;
        // A link at the name itself is replaced.
        let new = guarded::real(&new)?;
        fs::rename(&new, new.with_extension("json"))
    }

    pub(super) fn kept(&self, job: JobId) -> Option<Kept> {
        let text = guarded::read(&self.folder(job).join("runs.json")).ok()?;
        let kept: Kept = serde_json::from_str(&text).ok()?;
        let mut groups = kept
            .processes
            .iter()
            .filter_map(|one| Some((one.worker, one.group.as_ref()?)));
        // A broker notes no group that is not the worker's own.
        let own = groups.all(|(worker, group)| limits::is_of(group, job, worker));
        own.then_some(kept)
    }

    /// All that was noted.
    pub(super) fn all(&self) -> Vec<(JobId, Kept)> {
        let folders = fs::read_dir(self.0.join("leases")).into_iter().flatten();
        let mut found: Vec<(JobId, Kept)> = folders
            .filter_map(|entry| {
                let name = entry.ok()?.file_name();
                let job = JobId(gpuwise_broker::lease_number(name.to_str()?)?);
                Some((job, self.kept(job)?))
            })
            .collect();
        found.sort_by_key(|(job, _)| *job);
        found
    }

    pub(super) fn forget(&self, job: JobId) {
        // Where it cannot be removed, it is found again and is over.
        let _ = fs::remove_dir_all(self.folder(job));
    }

    /// How a worker ended: its exit code.
    pub(in crate::executor) fn end(&self, job: JobId, worker: usize) -> Option<i32> {
        let text = guarded::read(&self.end_file(job, worker)).ok()?;
        text.trim().parse().ok()
    }

    /// How long ago the first of its workers that ended did, by the file that says how.
    pub(super) fn ended_ago(&self, job: JobId, kept: &Kept) -> Option<Nanoseconds> {
        let gone = kept.processes.iter().filter(|one| !one.is_alive());
        let ends = gone.filter_map(|one| {
            let written = guarded::about(&self.end_file(job, one.worker))
                .ok()?
                .modified();
            let ago = written.ok()?.elapsed().ok()?;
            u64::try_from(ago.as_nanos()).ok().map(Nanoseconds)
        });
        ends.max()
    }

    /// How what does not run any more ended: the worst of its workers.
    pub(super) fn ends(&self, job: JobId, kept: &Kept) -> (Option<i32>, String) {
        let gone = kept.processes.iter().filter(|one| !one.is_alive());
        let ends = gone.map(|one| self.end(job, one.worker));
        let worst = ends.max_by_key(|end| end.map_or(i32::MAX, i32::abs));
        gpuwise_broker::ended_by(worst.flatten())
    }
}

/// Whether a program can be found, where its command looks for it.
fn is_there(program: &str, launch: &Launch) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let paths = launch.environment.get("PATH").map_or("", String::as_str);
    std::env::split_paths(paths).any(|path| path.join(program).is_file())
}

//! What is known of processes when the broker is not: a directory for each lease, with a file that says what
//! runs, and one for each worker that says how it ended.

use super::{
    environment,
    process::{Group, start_time},
};
use gpuwise_broker::{Launch, lease_id};
use gpuwise_domain::placement::JobId;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
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
    /// The leader of its group.
    pub(super) pid: i32,
    /// When that was started, in the kernel's ticks since the machine was: numbers of processes come again.
    pub(super) started: u64,
    pub(super) worker: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<u16>,
    /// The GPUs that it was started on, as it was told them.
    #[serde(default)]
    pub(super) devices: String,
}

impl Process {
    pub(super) fn group(&self) -> Group {
        Group::new(self.pid, self.started, self.worker)
    }
}

/// Where it is kept.
#[derive(Debug, Clone)]
pub(in crate::executor) struct Place(pub(in crate::executor) PathBuf);

/// Runs the command, and keeps how it ended in the file that is its first word. That it is told to end goes to
/// the command, and it still says how that ended.
const SHELL: &str = r#"[ -z "$GPUWISE_CGROUP" ] || echo $$ > "$GPUWISE_CGROUP"; unset GPUWISE_CGROUP
trap : TERM INT HUP; "$@"; code=$?; echo $code > "$0.new" && mv "$0.new" "$0"; exit $code"#;

impl Place {
    pub(in crate::executor) fn folder(&self, job: JobId) -> PathBuf {
        self.0.join("leases").join(lease_id(job.0))
    }

    pub(in crate::executor) fn end_file(&self, job: JobId, worker: usize) -> PathBuf {
        self.folder(job).join(format!("{worker}.end"))
    }

    pub(super) fn start(
        &self,
        job: JobId,
        worker: usize,
        port: Option<u16>,
        launch: &Launch,
        group: Option<Result<PathBuf, String>>,
    ) -> Result<Process, String> {
        let program = launch.words.first().cloned().unwrap_or_default();
        if !is_there(&program) {
            return Err(format!(
                "{program:?} cannot be started: there is no such program"
            ));
        }
        let wrong = |error: io::Error| format!("{program:?} cannot be started: {error}");
        let log = self.log_file(job.0, u32::try_from(worker).unwrap_or(u32::MAX));
        fs::create_dir_all(log.parent().unwrap_or(&self.0)).map_err(wrong)?;
        fs::create_dir_all(self.folder(job)).map_err(wrong)?;
        let end = self.end_file(job, worker);
        // How one before it ended says nothing of this one.
        let _ = fs::remove_file(&end);
        let log = File::options().create(true).append(true).open(log);
        let mut log = log.map_err(wrong)?;
        let procs = match group {
            Some(Ok(group)) => Some(group.join("cgroup.procs")),
            Some(Err(why)) => {
                // Whoever asked for limits reads here that there are none.
                let _ = writeln!(log, "gpuwise: cores and memory are not held: {why}");
                None
            }
            None => None,
        };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SHELL]).arg(&end).args(&launch.words);
        command
            .envs(&launch.environment)
            // It joins its group by itself, before anything else of it runs.
            .env("GPUWISE_CGROUP", procs.unwrap_or_default())
            .stdin(Stdio::null())
            .process_group(0);
        command.stdout(log.try_clone().map_err(wrong)?).stderr(log);
        let child = command.spawn().map_err(wrong)?;
        let pid = i32::try_from(child.id()).unwrap_or(0);
        super::process::reap(child);
        Ok(Process {
            pid,
            started: start_time(pid).unwrap_or(0),
            worker,
            port,
            devices: environment::devices(launch).to_owned(),
        })
    }

    pub(super) fn keep(&self, job: JobId, kept: &Kept) -> io::Result<()> {
        let folder = self.folder(job);
        let text = serde_json::to_string(kept)?;
        let (new, path) = (folder.join("runs.new"), folder.join("runs.json"));
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(new, path)
    }

    pub(super) fn kept(&self, job: JobId) -> Option<Kept> {
        let text = fs::read_to_string(self.folder(job).join("runs.json")).ok()?;
        serde_json::from_str(&text).ok()
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
        let text = fs::read_to_string(self.end_file(job, worker)).ok()?;
        text.trim().parse().ok()
    }

    /// How what does not run any more ended: the worst of its workers.
    pub(super) fn ends(&self, job: JobId, kept: &Kept) -> (Option<i32>, String) {
        let gone = kept.processes.iter().filter(|one| !one.group().is_alive());
        let ends = gone.map(|one| self.end(job, one.worker));
        let worst = ends.max_by_key(|end| end.map_or(i32::MAX, i32::abs));
        gpuwise_broker::ended_by(worst.flatten())
    }
}

/// Whether a program can be found.
fn is_there(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|path| path.join(program).is_file())
}

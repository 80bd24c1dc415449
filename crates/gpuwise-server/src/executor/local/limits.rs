//! Cores and memory of leases, held by cgroups (version 2) where the broker was given a part of the tree:
//! under systemd by `Delegate=cpu memory`. Elsewhere commands run without, and `gpuwise doctor` says why.

use gpuwise_broker::lease_id;
use gpuwise_domain::placement::JobId;
use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

/// Where the tree is.
const ROOT: &str = "/sys/fs/cgroup";

/// The period of a limit of cores, in microseconds.
const PERIOD: u64 = 100_000;

/// The part of the tree that is ours; why there is none.
#[derive(Debug, Clone)]
pub(super) struct Limits(Result<PathBuf, String>);

/// Whether cores and memory of leases can be held here, without changing anything: where, or why not.
///
/// # Errors
/// Why not.
pub fn delegation() -> Result<PathBuf, String> {
    let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let own = own.ok_or("there is no cgroup of version 2")?;
    delegated(&Path::new(ROOT).join(own))
}

fn delegated(folder: &Path) -> Result<PathBuf, String> {
    // A broker that was started before is in a leaf of its part.
    let folder = match folder.file_name() {
        Some(name) if name == "broker" => folder.parent().unwrap_or(folder),
        _ => folder,
    };
    let shown = folder.display();
    let controllers = fs::read_to_string(folder.join("cgroup.controllers"))
        .map_err(|_| format!("{shown} is no cgroup of version 2"))?;
    for wanted in ["cpu", "memory"] {
        if !controllers.split_whitespace().any(|one| one == wanted) {
            return Err(format!("{shown}: the controller {wanted} is not delegated"));
        }
    }
    let writable = |file: &str| {
        let file = folder.join(file);
        rustix::fs::access(file, rustix::fs::Access::WRITE_OK).is_ok()
    };
    // The root is nobody's part.
    let root = folder == Path::new(ROOT);
    if root || !writable("cgroup.subtree_control") || !writable("cgroup.procs") {
        return Err(format!("{shown} is not delegated to this user"));
    }
    Ok(folder.to_owned())
}

impl Limits {
    /// Takes the part that was delegated: the broker moves into a leaf of it, since only leaves hold processes.
    pub(super) fn take() -> Self {
        Self(delegation().and_then(|folder| match taken(&folder) {
            Ok(()) => Ok(folder),
            Err(error) => Err(format!("{}: {error}", folder.display())),
        }))
    }

    /// A group for a worker with its limits, by which all of it is ended at once, too; an error: why it runs without.
    /// `None`: it asks for no limits, and there are no groups here.
    pub(super) fn group(
        &self,
        job: JobId,
        worker: usize,
        cpu_milli: u64,
        memory_mib: u64,
    ) -> Option<Result<PathBuf, String>> {
        if cpu_milli == 0 && memory_mib == 0 && self.0.is_err() {
            return None;
        }
        Some(self.0.clone().and_then(|folder| {
            let group = of(&folder, job).join(worker.to_string());
            let made = limited(&group, cpu_milli, memory_mib);
            made.map(|()| group).map_err(|error| error.to_string())
        }))
    }

    /// Nothing of a lease is left.
    pub(super) fn forget(&self, job: JobId) {
        let Ok(folder) = &self.0 else { return };
        let own = of(folder, job);
        let workers = fs::read_dir(&own).into_iter().flatten().flatten();
        // One in which something still runs cannot be removed, and stays.
        for worker in workers.filter(|one| one.path().is_dir()) {
            let _ = fs::remove_dir(worker.path());
        }
        let _ = fs::remove_dir(own);
    }
}

fn of(folder: &Path, job: JobId) -> PathBuf {
    folder.join("leases").join(lease_id(job.0))
}

/// Whether a group is that of a worker, below where the kernel shows its groups.
pub(super) fn is_of(group: &Path, job: JobId, worker: usize) -> bool {
    let own = Path::new("leases")
        .join(lease_id(job.0))
        .join(worker.to_string());
    let plain = |one| matches!(one, Component::RootDir | Component::Normal(_));
    group.starts_with(ROOT) && group.ends_with(own) && group.components().all(plain)
}

fn taken(folder: &Path) -> io::Result<()> {
    let leaf = folder.join("broker");
    fs::create_dir_all(&leaf)?;
    fs::write(leaf.join("cgroup.procs"), std::process::id().to_string())?;
    fs::write(folder.join("cgroup.subtree_control"), "+cpu +memory")?;
    let leases = folder.join("leases");
    fs::create_dir_all(&leases)?;
    fs::write(leases.join("cgroup.subtree_control"), "+cpu +memory")
}

fn limited(group: &Path, cpu_milli: u64, memory_mib: u64) -> io::Result<()> {
    let own = group.parent().unwrap_or(group);
    fs::create_dir_all(own)?;
    fs::write(own.join("cgroup.subtree_control"), "+cpu +memory")?;
    fs::create_dir_all(group)?;
    if cpu_milli > 0 {
        let quota = cpu_milli.saturating_mul(PERIOD / 1000).max(1000);
        fs::write(group.join("cpu.max"), format!("{quota} {PERIOD}"))?;
    }
    if memory_mib > 0 {
        let bytes = memory_mib.saturating_mul(1 << 20);
        fs::write(group.join("memory.max"), bytes.to_string())?;
        // What is swapped out is not held by it; a kernel without swap has no such file.
        let _ = fs::write(group.join("memory.swap.max"), "0");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree as the kernel shows it, of plain files.
    fn tree(controllers: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("cgroup.controllers"), controllers).expect("writes");
        for file in ["cgroup.subtree_control", "cgroup.procs"] {
            fs::write(folder.path().join(file), "").expect("writes");
        }
        folder
    }

    #[test]
    fn cores_and_memory_are_written_as_the_kernel_takes_them() {
        let folder = tree("cpuset cpu io memory pids");
        let found = delegated(folder.path()).expect("is delegated");
        taken(&found).expect("is taken");
        let limits = Limits(Ok(found.clone()));
        let group = limits.group(JobId(7), 1, 2500, 4096);
        let group = group.expect("asks").expect("is made");
        assert_eq!(group, found.join("leases/L-7/1"));
        let read = |name: &str| fs::read_to_string(group.join(name)).expect("is there");
        assert_eq!(read("cpu.max"), "250000 100000");
        assert_eq!(read("memory.max"), "4294967296");
        let told = fs::read_to_string(found.join("broker/cgroup.procs")).expect("is there");
        assert_eq!(told, std::process::id().to_string());
        let without = limits.group(JobId(7), 0, 0, 0);
        let without = without.expect("it is ended by it").expect("is made");
        assert!(!without.join("cpu.max").exists());
        let nowhere = Limits(Err("is not delegated".into()));
        assert!(nowhere.group(JobId(7), 0, 0, 0).is_none());
    }

    #[test]
    fn a_group_is_a_workers_own_below_the_tree_or_none() {
        let of = |text: &str| is_of(Path::new(text), JobId(7), 1);
        assert!(of(
            "/sys/fs/cgroup/system.slice/gpuwise.service/leases/L-7/1"
        ));
        for other in [
            "/tmp/evil/leases/L-7/1",
            "/sys/fs/cgroup/../../../tmp/leases/L-7/1",
            "/sys/fs/cgroup/gpuwise.service/leases/L-8/1",
            "/sys/fs/cgroup/system.slice/sshd.service",
        ] {
            assert!(!of(other), "{other}");
        }
    }

    #[test]
    fn what_is_not_delegated_is_named() {
        let why = delegated(tree("cpu pids").path()).expect_err("has no memory");
        assert!(
            why.contains("the controller memory is not delegated"),
            "{why}"
        );
        let nowhere = delegated(Path::new("/nowhere")).expect_err("is not there");
        assert_eq!(nowhere, "/nowhere is no cgroup of version 2");
    }
}

//! What is found of an earlier broker of this log, before anything is told.

use super::{
    Local, Running, Supervisor, guarded,
    kept::{self, Kept, Place, Process},
    process::{self, Group},
    tree::{self, Mark, Tree},
};
use crate::message::Incoming;
use gpuwise_broker::{Broker, Observation, OrderId, lease_number};
use gpuwise_domain::placement::JobId;
use rustix::process::Signal;
use std::{
    collections::BTreeSet,
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// How long what is not known any more has to save what it did.
const GRACE: Duration = Duration::from_secs(5);

/// How long a supervisor that was noted may take to say that it has started its command, or to end.
const BEGINS: Duration = Duration::from_secs(2);

const STEP: Duration = Duration::from_millis(5);

/// Folders but this one in which what runs of a log is noted, as its supervisors say.
pub(crate) fn kept_elsewhere(log: &str, own: &Path, supervisor: &Supervisor) -> BTreeSet<PathBuf> {
    let tree = Tree::now();
    let own = own.canonicalize().ok();
    let said = supervisor.of_log(&tree, log);
    let folders = said.filter_map(|(_, mark)| PathBuf::from(mark.state?).canonicalize().ok());
    folders.filter(|one| Some(one) != own.as_ref()).collect()
}

impl Local {
    /// Goes on with all that is noted and wanted, ends what is noted and not wanted, and tells of what is wanted and not
    /// there.
    pub(super) fn adopt_all(&mut self, broker: &Broker) {
        for (job, kept) in self.place.all() {
            let order = OrderId(kept.order);
            let current = broker.started_by(job.0) == Some(order);
            if current && broker.wants(order) {
                // It is told again, and found then.
                continue;
            }
            if current {
                self.adopt_one(job, &kept, broker);
            } else if self.ended(job, &kept).is_err() {
                // What does not end holds what it holds; it is ended as soon as it can be.
                let groups = kept.processes.iter().map(|one| self.group(job, one));
                let (groups, place) = (groups.collect::<Vec<_>>(), self.place.clone());
                thread::spawn(move || {
                    process::end_all(&groups, Duration::ZERO);
                    place.forget(job);
                });
            }
        }
        for lease in broker.open() {
            let job = lease.job();
            let order = broker
                .started_by(lease.number)
                .filter(|order| !broker.wants(*order));
            let holds = broker.state(lease).0.holds();
            let Some(order) = order.filter(|_| holds && !self.running.contains_key(&job)) else {
                continue;
            };
            if lease.ask.command.is_empty() {
                self.running.insert(job, Running::default());
            } else if self.place.kept(job).is_none() {
                self.seen.push(Observation::Exited {
                    job,
                    order,
                    code: None,
                    reason: "nothing is known of its processes any more".into(),
                    ago: None,
                });
            }
        }
    }

    /// Goes on with what an earlier broker of this log had started.
    pub(super) fn adopt_one(&mut self, job: JobId, kept: &Kept, broker: &Broker) {
        let Some(lease) = broker.lease(job.0) else {
            return;
        };
        let order = OrderId(kept.order);
        let known = !broker.wants(order);
        if kept.processes.iter().all(kept::Process::is_alive) {
            self.run(job, kept, lease, known);
            return;
        }
        let over = self.place.ends(job, kept);
        let ago = self.place.ended_ago(job, kept);
        // Noted until its end is in the log.
        self.running.insert(job, Running::default());
        if !known {
            // As if its end had followed its start at once.
            self.seen.push(Observation::Done(order));
        }
        let (code, reason) = over;
        let groups: Vec<Arc<Group>> = kept
            .processes
            .iter()
            .map(|one| self.group(job, one))
            .collect();
        let exited = Observation::Exited {
            job,
            order,
            code,
            reason,
            ago,
        };
        if groups
            .iter()
            .all(|one| !one.is_alive() && one.left().is_empty())
        {
            self.seen.push(exited);
            return;
        }
        let inbox = self.inbox.clone();
        thread::spawn(move || {
            process::end_all(&groups, Duration::from_secs(10));
            // The writer may be gone already.
            let _ = inbox.send(Incoming::Observed(exited));
        });
    }

    /// Whether what was noted was ever started. Where the broker ended between the two that is not known for a moment:
    /// the supervisor ends then, and leaves nothing behind.
    pub(super) fn has_begun(&self, job: JobId, kept: &Kept) -> bool {
        let until = Instant::now() + BEGINS;
        loop {
            let begun = |one: &Process| self.place.has_begun(job, one);
            if kept.processes.iter().all(begun) {
                return true;
            }
            let waits = |one: &Process| !begun(one) && one.is_alive();
            if !kept.processes.iter().any(waits) || Instant::now() >= until {
                return false;
            }
            thread::sleep(STEP);
        }
    }

    /// Finds processes of this log that are not noted here: those that are noted in another folder are gone on with,
    /// others are ended before anything is started.
    pub(super) fn find_strays(&self) {
        self.take_over();
        let strays = || self.strays(&Tree::now());
        let found = strays();
        if found.is_empty() {
            return;
        }
        tree::signal(&found, Signal::TERM);
        let end = Instant::now() + GRACE;
        while Instant::now() < end && !strays().is_empty() {
            thread::sleep(STEP * 10);
        }
        tree::kill(strays);
    }

    /// Processes that carry the mark of this log and belong to nothing that is noted.
    fn strays(&self, tree: &Tree) -> Vec<tree::Process> {
        let known = self.known(tree);
        tree.marked()
            .filter(|(one, mark)| mark.broker == self.broker && !known.contains(&one.pid))
            .map(|(one, _)| one.clone())
            .collect()
    }

    /// What is noted here, and descends from that.
    pub(super) fn known(&self, tree: &Tree) -> BTreeSet<i32> {
        let mut known = BTreeSet::new();
        for (_, kept) in self.place.all() {
            for one in kept.processes.iter().filter(|one| one.is_alive()) {
                known.insert(one.pid);
                known.extend(tree.below(one.pid).iter().map(|one| one.pid));
            }
        }
        known
    }

    /// Goes on with what another broker of this log has noted in a folder of its own.
    fn take_over(&self) {
        let tree = Tree::now();
        for (one, mark) in self.supervisor.of_log(&tree, &self.broker) {
            let job = lease_number(&mark.lease).map(JobId);
            let other = mark.state.as_deref().map(Path::new);
            if let Some((job, other)) = job.zip(other)
                && self.place.kept(job).is_none()
                && let Ok(other) = guarded::trusted(other)
                && self.place.0.canonicalize().ok().as_ref() != Some(&other)
                && self.is_noted(job, &Place(other.clone()), one, &mark)
            {
                // Where it cannot be read it is ended, as what nobody has noted.
                let _ = self.link(job, &other, &mark);
            }
        }
    }

    /// Whether the note of a lease in another folder is of this supervisor, and of supervisors alone.
    fn is_noted(&self, job: JobId, other: &Place, one: &tree::Process, mark: &Mark) -> bool {
        let kept = other.kept(job);
        let processes = || kept.iter().flat_map(|kept| &kept.processes);
        let same = |noted: &Process| {
            let worker = mark.worker == Some(noted.worker);
            worker && (noted.pid, noted.started) == (one.pid, one.started)
        };
        let runs = |noted: &Process| !noted.is_alive() || self.supervisor.is(noted.pid);
        processes().any(same) && processes().all(runs)
    }

    /// The folder of a lease and its logs, where they are.
    fn link(&self, job: JobId, other: &Path, mark: &Mark) -> io::Result<()> {
        let own = &self.place.0;
        std::fs::create_dir_all(own.join("leases"))?;
        std::fs::create_dir_all(own.join("logs"))?;
        // A folder without a note says nothing.
        self.place.forget(job);
        symlink(
            other.join("leases").join(&mark.lease),
            self.place.folder(job),
        )?;
        let beside = |name: &str| {
            let rest = name.strip_prefix(&mark.lease);
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        for entry in std::fs::read_dir(other.join("logs"))? {
            let name = entry?.file_name();
            if name.to_str().is_some_and(beside) {
                let log = own.join("logs").join(&name);
                match symlink(other.join("logs").join(&name), log) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(error);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

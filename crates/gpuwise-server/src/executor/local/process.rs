//! Processes of a worker: whether they run, how all of them end.

use super::{
    kept::{Place, Process},
    tree::{self, Tree},
};
use crate::{endpoints::Endpoints, executor::remains::Remains, message::Incoming};
use gpuwise_broker::{Observation, OrderId, ended_by, lease_id};
use gpuwise_domain::placement::JobId;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open},
};
use std::{
    collections::BTreeMap,
    fs,
    process::Child,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::Sender,
    },
    thread,
    time::{Duration, Instant},
};

/// Between two looks whether something is left, at first and at last.
const SOON: Duration = Duration::from_millis(5);
const STEP: Duration = Duration::from_millis(200);

/// How often is looked whether a command has ended and left something behind.
const LOOK: Duration = Duration::from_secs(1);

/// How long what a command leaves behind has to end where its supervisor is gone.
const LEFT: Duration = Duration::from_secs(5);

/// How long a supervisor may stay when nothing of its command is left.
const LINGERS: Duration = Duration::from_secs(3);

/// Whose processes they are.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    /// The id of the log.
    pub(super) broker: String,
    pub(super) job: JobId,
    pub(super) remains: Remains,
}

/// All processes of a worker.
#[derive(Debug)]
pub(super) struct Group {
    owner: Owner,
    process: Process,
    /// Whether it was told to end: then its end is no news.
    told: AtomicBool,
    /// Whether it has ended while its service was to get ready.
    pub(super) gone: AtomicBool,
}

impl Group {
    pub(super) const fn new(owner: Owner, process: Process) -> Self {
        Self {
            owner,
            process,
            told: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }
    }

    pub(super) const fn worker(&self) -> usize {
        self.process.worker
    }

    /// Whether what all of it descends from runs.
    pub(super) fn is_alive(&self) -> bool {
        self.process.is_alive()
    }

    pub(super) fn is_told(&self) {
        self.told.store(true, Ordering::SeqCst);
    }

    /// It was to end, and does not: its end is news again.
    pub(super) fn goes_on(&self) {
        self.told.store(false, Ordering::SeqCst);
    }

    fn was_told(&self) -> bool {
        self.told.load(Ordering::SeqCst)
    }

    /// What runs of the command, and of all that it has started. Where its supervisor is gone it is known by its mark.
    pub(super) fn left(&self) -> Vec<tree::Process> {
        let own = &self.process;
        let tree = Tree::now();
        let root = tree.get(own.pid);
        let root = root.filter(|root| root.started == own.started);
        let mut found = BTreeMap::new();
        let mut add = |one: &tree::Process| {
            found.insert(one.pid, one.clone());
        };
        if let Some(root) = root {
            for one in &tree.below(own.pid) {
                add(one);
            }
            if !own.supervised {
                add(root);
            }
        } else {
            let lease = lease_id(self.owner.job.0);
            for (one, mark) in tree.marked() {
                let ours = mark.broker == self.owner.broker && mark.lease == lease;
                if ours && mark.worker == Some(own.worker) {
                    add(one);
                }
            }
        }
        if !own.supervised && (root.is_some() || tree.get(own.pid).is_none()) {
            for one in tree.of_group(own.pid) {
                add(one);
            }
        }
        if let Some(group) = &own.group {
            let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            let members = members.lines().filter_map(|pid| pid.parse().ok());
            for one in members.filter_map(|pid| tree.get(pid)) {
                add(one);
            }
            if own.supervised {
                found.remove(&own.pid);
            }
        }
        found.into_values().collect()
    }

    /// The process that was started, without what it started itself.
    pub(super) fn leader(&self) -> Option<tree::Process> {
        let left = self.left();
        let first = |one: &&tree::Process| one.parent == self.process.pid && one.group == one.pid;
        left.iter().find(first).cloned()
    }

    /// Sends a signal to the command and to what is of its group.
    pub(super) fn signal(&self, signal: Signal) {
        let mut left = self.left();
        if let Some(leader) = self.leader() {
            left.retain(|one| one.group == leader.group);
        }
        tree::signal(&left, signal);
    }

    /// Asks all of it to end, and ends it when its grace is over; returns when nothing is left.
    pub(super) fn end(&self, grace: Duration) {
        self.end_within(grace, None);
    }

    /// The same, and no longer than for so long after its grace.
    ///
    /// # Errors
    /// When something is left: what.
    pub(super) fn end_in(&self, grace: Duration, patience: Duration) -> Result<(), String> {
        let left = self.end_within(grace, Some(patience));
        match left {
            None => Ok(()),
            Some(left) => Err(format!("what ran before does not end: {left}")),
        }
    }

    fn end_within(&self, grace: Duration, patience: Option<Duration>) -> Option<String> {
        self.is_told();
        let begun = Instant::now();
        let (mut asked, mut step) = (false, SOON);
        loop {
            let (alive, left) = (self.is_alive(), self.left());
            if !alive && left.is_empty() {
                self.says(None);
                return None;
            }
            if !asked && !left.is_empty() {
                tree::signal(&left, Signal::TERM);
                asked = true;
            }
            let late = begun.elapsed().checked_sub(grace);
            if let Some(late) = late {
                self.kill(&left, late);
            }
            if patience.is_some_and(|patience| late > Some(patience)) {
                return Some(tree::words(&left));
            }
            self.says((step == STEP).then(|| tree::words(&left)));
            thread::sleep(match grace.checked_sub(begun.elapsed()) {
                Some(rest) => step.min(rest.max(SOON)),
                None => step,
            });
            step = (step * 2).min(STEP);
        }
    }

    /// Ends all of it at once.
    fn kill(&self, left: &[tree::Process], late: Duration) {
        if let Some(group) = &self.process.group {
            // An old kernel has no such file: then each is ended.
            let _ = fs::write(group.join("cgroup.kill"), "1");
        }
        if !left.is_empty() {
            tree::kill(|| self.left());
        } else if late > LINGERS
            && let Some(root) = tree::Process::of(self.process.pid)
                .filter(|root| root.started == self.process.started)
        {
            match tree::children(root.pid) {
                // What replaces itself faster than a look takes is below it still. One that was stopped goes on waiting.
                Some(children) if !children.is_empty() => {
                    tree::signal(std::slice::from_ref(&root), Signal::CONT);
                    tree::hunt(root.pid);
                }
                _ => tree::signal(&[root], Signal::KILL),
            }
        }
    }

    fn says(&self, left: Option<String>) {
        let Owner { job, remains, .. } = &self.owner;
        remains.set(
            job.0,
            self.process.worker,
            left.filter(|left| !left.is_empty()),
        );
    }

    /// Waits until its supervisor has ended, for so long at most; whether it has.
    pub(super) fn has_ended_in(&self, time: Duration) -> bool {
        let handle = Pid::from_raw(self.process.pid)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        if !self.is_alive() {
            return true;
        }
        let Some(handle) = handle else {
            // Without such a handle it is looked for.
            thread::sleep(STEP.min(time));
            return !self.is_alive();
        };
        let mut asked = [PollFd::new(&handle, PollFlags::IN)];
        let time = Timespec::try_from(time).ok();
        poll(&mut asked, time.as_ref()).is_ok_and(|ready| ready > 0) || !self.is_alive()
    }
}

/// Ends groups side by side; returns when nothing of them is left.
pub(super) fn end_all(groups: &[Arc<Group>], grace: Duration) {
    thread::scope(|scope| {
        for group in groups {
            scope.spawn(|| group.end(grace));
        }
    });
}

/// Takes note of a child's end, so that nothing of it is left.
pub(super) fn reap(mut child: Child) {
    thread::spawn(move || {
        let _ = child.wait();
    });
}

/// Tells the writer when processes end.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    pub(super) job: JobId,
    /// The order that started it, or woke it last.
    pub(super) order: Arc<AtomicU64>,
    /// Whether it is a service that is still to get ready: its end is a start that failed.
    pub(super) starting: Arc<AtomicBool>,
    pub(super) place: Place,
    pub(super) inbox: Sender<Incoming>,
    pub(super) endpoints: Endpoints,
}

impl Watch {
    pub(super) fn order(&self) -> OrderId {
        OrderId(self.order.load(Ordering::SeqCst))
    }

    /// Watches one of the groups of a job.
    pub(super) fn watch(self, group: Arc<Group>, all: Vec<Arc<Group>>) {
        thread::spawn(move || {
            self.wait(&group);
            group.gone.store(true, Ordering::SeqCst);
            if group.was_told() {
                return;
            }
            self.endpoints.remove(self.job.0);
            // A supervisor that was ended by force has ended nothing.
            group.end(LEFT);
            let (code, reason) = ended_by(self.place.end(self.job, group.worker()));
            let reason = match all.len() {
                0 | 1 => reason,
                _ => format!("worker {}: {reason}", group.worker()),
            };
            let others = all.iter().filter(|one| one.worker() != group.worker());
            let others: Vec<Arc<Group>> = others.cloned().collect();
            end_all(&others, Duration::from_secs(10));
            // How it ended stays noted until the broker has heard of it.
            self.tell(Observation::Exited {
                job: self.job,
                order: self.order(),
                code,
                reason,
                ago: None,
            });
        });
    }

    /// Until nothing of a group is left; meanwhile it is said what a command that has ended left behind.
    fn wait(&self, group: &Group) {
        while !group.has_ended_in(LOOK) {
            let over = self.place.has_ended(self.job, group.worker());
            if over && !group.was_told() {
                self.endpoints.remove(self.job.0);
                group.says(Some(tree::words(&group.left())));
            }
        }
        if !group.was_told() {
            group.says(None);
        }
    }

    /// Of a service that is not ready yet, an end is a start that has failed.
    pub(super) fn tell(&self, observation: Observation) {
        let observation = match observation {
            Observation::Exited { reason, .. } if self.starting.load(Ordering::SeqCst) => {
                Observation::failed(self.order(), format!("{reason} before it was ready"))
            }
            other => other,
        };
        // The writer may be gone already.
        let _ = self.inbox.send(Incoming::Observed(observation));
    }
}

//! Groups of processes: whether they run, how they end.

use super::kept::Place;
use crate::{endpoints::Endpoints, message::Incoming};
use gpuwise_broker::{Observation, OrderId, ended_by};
use gpuwise_domain::placement::JobId;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, test_kill_process_group,
};
use std::{
    fs,
    process::Child,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::Sender,
    },
    thread,
    time::Duration,
};

/// How often is looked whether a group is gone.
const STEP: Duration = Duration::from_millis(50);

/// A group of processes, by its leader.
#[derive(Debug)]
pub(super) struct Group {
    pid: i32,
    started: u64,
    pub(super) worker: usize,
    /// Whether it was told to end: then its end is no news.
    told: AtomicBool,
    /// Whether it has ended while its service was to get ready.
    pub(super) gone: AtomicBool,
}

impl Group {
    pub(super) const fn new(pid: i32, started: u64, worker: usize) -> Self {
        Self {
            pid,
            started,
            worker,
            told: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }
    }

    /// Whether its leader runs: another process may have its number by now.
    pub(super) fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }

    pub(super) fn is_told(&self) {
        self.told.store(true, Ordering::SeqCst);
    }

    /// It was to end, and does not: its end is news again.
    pub(super) fn goes_on(&self) {
        self.told.store(false, Ordering::SeqCst);
    }

    /// Sends a signal to all of it.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.pid > 1) {
            // That there is nobody any more is seen by whoever waits.
            let _ = kill_process_group(pid, signal);
        }
    }

    fn was_told(&self) -> bool {
        self.told.load(Ordering::SeqCst)
    }

    /// Whether somebody of it runs, its leader or not.
    fn somebody(&self, pid: Pid) -> bool {
        self.is_alive() || start_time(self.pid).is_none() && test_kill_process_group(pid).is_ok()
    }

    /// Asks it to end, and ends it when its grace is over.
    pub(super) fn end(&self, grace: Duration) {
        self.is_told();
        let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.pid > 1) else {
            return;
        };
        if !self.somebody(pid) {
            return;
        }
        // That there is nobody any more is what is wanted.
        let mut there = kill_process_group(pid, Signal::TERM).is_ok();
        let mut left = grace;
        while there && left > Duration::ZERO {
            thread::sleep(STEP.min(left));
            left = left.saturating_sub(STEP);
            there = self.somebody(pid);
        }
        if there {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }

    /// Until its leader has ended.
    fn wait(&self) {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return;
        };
        if let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) {
            let mut asked = [rustix::event::PollFd::new(
                &handle,
                rustix::event::PollFlags::IN,
            )];
            while self.is_alive() {
                if rustix::event::poll(&mut asked, None).is_ok() {
                    return;
                }
            }
        }
        // Without such a handle it is looked for.
        while self.is_alive() {
            thread::sleep(STEP * 4);
        }
    }
}

/// Ends groups side by side.
pub(super) fn end_all(groups: &[Arc<Group>], grace: Duration) {
    thread::scope(|scope| {
        for group in groups {
            scope.spawn(|| group.end(grace));
        }
    });
}

/// When a process was started, in ticks since the machine was; `None`: there is none, or only what is left of
/// one that has ended.
pub(super) fn start_time(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Its name, in brackets, may hold anything.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
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
            group.wait();
            group.gone.store(true, Ordering::SeqCst);
            if group.was_told() {
                return;
            }
            self.endpoints.remove(self.job.0);
            let (code, reason) = ended_by(self.place.end(self.job, group.worker));
            let reason = match all.len() {
                0 | 1 => reason,
                _ => format!("worker {}: {reason}", group.worker),
            };
            let others = all.iter().filter(|one| one.worker != group.worker);
            let others: Vec<Arc<Group>> = others.cloned().collect();
            end_all(&others, Duration::from_secs(10));
            // How it ended stays noted until the broker has heard of it.
            self.tell(Observation::Exited {
                job: self.job,
                order: self.order(),
                code,
                reason,
            });
        });
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

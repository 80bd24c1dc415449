//! This machine: what is leased runs as processes, each in a group of its own.

use super::Executor;
use crate::message::Incoming;
use gpuwise_broker::{Broker, Observation, Order, OrderId, Work, lease_id};
use gpuwise_domain::placement::{Action, Assignment, JobId, Part};
use gpuwise_units::Nanoseconds;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::Sender,
    thread,
    time::Duration,
};

/// Processes of this machine.
#[derive(Debug)]
pub struct Local {
    /// Where logs go.
    state: PathBuf,
    inbox: Sender<Incoming>,
    /// What runs, by job: its process group; `None`: nothing runs, the GPUs are held.
    running: BTreeMap<JobId, Option<Pid>>,
    /// What is told when it is next asked.
    seen: Vec<Observation>,
}

impl Local {
    pub(crate) const fn new(state: PathBuf, inbox: Sender<Incoming>) -> Self {
        Self {
            state,
            inbox,
            running: BTreeMap::new(),
            seen: Vec::new(),
        }
    }

    fn start(&mut self, order: OrderId, job: JobId, assignments: &[Assignment], broker: &Broker) {
        if let Some(before) = self.running.get(&job).copied() {
            // It moves: what ran elsewhere ends first.
            end(before, Duration::ZERO);
        }
        let Some(lease) = broker.lease(job.0) else {
            return;
        };
        let Some((program, arguments)) = lease.ask.command.split_first() else {
            self.running.insert(job, None);
            self.seen.push(Observation::Done(order));
            return;
        };
        let mut command = Command::new(program);
        command.args(arguments).envs(&lease.ask.env);
        command.env("CUDA_VISIBLE_DEVICES", devices(broker, assignments));
        command.env("GPUWISE_LEASE", lease_id(job.0));
        command.env("GPUWISE_TENANT", &lease.ask.tenant);
        command.stdin(Stdio::null()).process_group(0);
        match self.spawn(job, command) {
            Ok(child) => {
                let group = Pid::from_child(&child);
                self.running.insert(job, Some(group));
                self.seen.push(Observation::Done(order));
                watch(child, job, order, self.inbox.clone());
            }
            Err(error) => self.seen.push(Observation::Failed {
                order,
                reason: format!("{program:?} cannot be started: {error}"),
            }),
        }
    }

    fn spawn(&self, job: JobId, mut command: Command) -> io::Result<Child> {
        let folder = self.state.join("logs");
        fs::create_dir_all(&folder)?;
        let log = File::options()
            .create(true)
            .append(true)
            .open(folder.join(format!("{}.log", lease_id(job.0))))?;
        command.stdout(log.try_clone()?).stderr(log).spawn()
    }

    fn stop(&mut self, order: OrderId, job: JobId, grace: Duration) {
        match self.running.remove(&job) {
            Some(Some(group)) => {
                let inbox = self.inbox.clone();
                thread::spawn(move || {
                    end(Some(group), grace);
                    // The writer may be gone already.
                    let _ = inbox.send(Incoming::Observed(Observation::Done(order)));
                });
            }
            Some(None) | None => self.seen.push(Observation::Done(order)),
        }
    }
}

/// The GPUs of assignments as CUDA is told: their lasting ids.
fn devices(broker: &Broker, assignments: &[Assignment]) -> String {
    let shares = assignments.iter().flat_map(|one| &one.gpus);
    let ids = shares.filter_map(|share| {
        let state = broker.world().gpu(share.gpu)?;
        Some(match share.part {
            Part::Whole | Part::Fraction { .. } => state.gpu.uid.to_string(),
            Part::Slice { start, .. } => format!("{}/{start}", state.gpu.uid),
        })
    });
    ids.collect::<Vec<_>>().join(",")
}

/// Asks a group to end, and ends it when its grace is over.
fn end(group: Option<Pid>, grace: Duration) {
    const STEP: Duration = Duration::from_millis(50);
    let Some(group) = group else {
        return;
    };
    let mut left = grace;
    // That there is nobody any more is what is wanted.
    let mut there = kill_process_group(group, Signal::TERM).is_ok();
    while there && left > Duration::ZERO {
        thread::sleep(STEP.min(left));
        left = left.saturating_sub(STEP);
        there = rustix::process::test_kill_process_group(group).is_ok();
    }
    if there {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Tells the writer when a process ends.
fn watch(mut child: Child, job: JobId, order: OrderId, inbox: Sender<Incoming>) {
    thread::spawn(move || {
        let (code, reason) = match child.wait() {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(0), _) => (Some(0), "its command ended".to_owned()),
                (Some(code), _) => (Some(code), format!("its command ended with code {code}")),
                (None, signal) => {
                    let signal = signal.unwrap_or_default();
                    (None, format!("its command was ended by signal {signal}"))
                }
            },
            Err(error) => (None, format!("its command cannot be waited for: {error}")),
        };
        let _ = inbox.send(Incoming::Observed(Observation::Exited {
            job,
            order,
            code,
            reason,
        }));
    });
}

impl Executor for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn take(&mut self, _now: Nanoseconds, order: &Order, broker: &Broker) {
        match &order.work {
            Work::Stop { job, grace } => {
                self.stop(order.id, *job, Duration::from_nanos(grace.0));
            }
            Work::Act { action, .. } => match action {
                Action::Place { job, assignments }
                | Action::Move {
                    job, assignments, ..
                }
                | Action::Resize { job, assignments }
                | Action::Restore { job, assignments } => {
                    self.start(order.id, *job, assignments, broker);
                }
                Action::Preempt { job, .. } | Action::Reclaim { job } => {
                    self.stop(order.id, *job, Duration::from_secs(30));
                }
                // Devices that are only declared have no mode to switch.
                Action::SetMig { .. }
                | Action::CreateInstance { .. }
                | Action::DestroyInstance { .. }
                | Action::Attach { .. }
                | Action::Detach { .. } => self.seen.push(Observation::Done(order.id)),
            },
        }
    }

    fn observe(&mut self, _now: Nanoseconds) -> Vec<Observation> {
        std::mem::take(&mut self.seen)
    }

    fn wake_at(&self) -> Option<Nanoseconds> {
        // What has been seen is to be told at once.
        (!self.seen.is_empty()).then_some(Nanoseconds(0))
    }
}
